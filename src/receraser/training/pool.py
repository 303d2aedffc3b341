"""Threads that are kept: to start them takes as long as a small matrix product."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache

__all__ = ["pool"]


@cache
def pool(n: int) -> ThreadPoolExecutor:
    """Return so many threads, the same ones every time; torch computes with one thread in each of them."""
    return ThreadPoolExecutor(n, thread_name_prefix="receraser", initializer=_alone)


def _alone() -> None:
    import torch

    torch.set_num_threads(1)


os.register_at_fork(after_in_child=pool.cache_clear)  # a forked process has none of its parent's threads
