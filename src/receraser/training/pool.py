"""Threads that are kept: to start them takes as long as a small matrix product."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Barrier

__all__ = ["pool"]


@cache
def pool(n: int) -> ThreadPoolExecutor:
    """Return so many threads, the same ones every time; torch computes with one thread in each of them."""
    import torch

    made = ThreadPoolExecutor(n, thread_name_prefix="receraser", initializer=torch.set_num_threads, initargs=(1,))
    everybody = Barrier(n)
    list(made.map(lambda _: everybody.wait(), range(n)))  # all of them have started
    torch.set_num_threads(torch.get_num_threads())  # torch let theirs be that of every thread to come, too
    return made


os.register_at_fork(after_in_child=pool.cache_clear)  # a forked process has none of its parent's threads
