"""Threads that are kept: to start them takes as long as a small matrix product."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from threading import Barrier
from typing import TypeVar

__all__ = ["pool", "spread"]

Piece = TypeVar("Piece")
Made = TypeVar("Made")


@cache
def pool(n: int) -> ThreadPoolExecutor:
    """Return so many threads, the same ones every time; torch computes with one thread in each of them."""
    import torch

    made = ThreadPoolExecutor(n, thread_name_prefix="receraser", initializer=torch.set_num_threads, initargs=(1,))
    everybody = Barrier(n)
    list(made.map(lambda _: everybody.wait(), range(n)))  # all of them have started
    torch.set_num_threads(torch.get_num_threads())  # torch let theirs be that of every thread to come, too
    return made


def spread(function: Callable[[Piece], Made], pieces: Sequence[Piece], n: int) -> list[Made]:
    """Return the function's value of every piece, in order, computed by n threads, each with a run of pieces.

    One of them is the caller, which would only wait: for work of a millisecond, to hand it over and to be woken is a
    good part. So the function is one that does not care which thread it is in (torch computes with one thread in those
    of a pool, in the caller's with as many as it is told to), and the caller is in no pool: it would wait for itself.

    Examples
    --------
    >>> spread(abs, [-1, 2, -3, 4, -5], 2)
    [1, 2, 3, 4, 5]
    """
    n = min(n, len(pieces))
    if n < 2:
        return [function(one) for one in pieces]
    edges = [len(pieces) * i // n for i in range(n + 1)]
    runs = [pieces[edges[i] : edges[i + 1]] for i in range(n)]
    others = [pool(n - 1).submit(lambda own: [function(one) for one in own], run) for run in runs[:-1]]
    try:
        last = [function(one) for one in runs[-1]]
    finally:
        wait(others)  # whoever is told of an error here may take away what they compute with
    return [one for run in others for one in run.result()] + last


os.register_at_fork(after_in_child=pool.cache_clear)  # a forked process has none of its parent's threads
