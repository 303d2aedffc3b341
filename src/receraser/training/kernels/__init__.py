"""The inner loops, for the CPU (numba) and for CUDA (torch, Triton). Each is held to a plain version by a test.

Parallelism is over output rows, each summed by one thread in a fixed order, without fast-math; over chunks that do not
depend on the threads, whose sums are added up in one order (the attention's); or over anything, with sums of whole
numbers (`pairs_cuda`). So the bits do not depend on the number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

from receraser.errors import EnvironmentMismatchError

__all__ = [
    "attention_on_cpu",
    "compiles",
    "draws_on_cpu",
    "non_sampling_on_cpu",
    "on_cpu",
    "one_torch_thread",
    "pairs_on_cpu",
    "threads",
    "use_threads",
]

_threads = 1


def on_cpu() -> ModuleType:
    """Return the CPU kernels: numba's, or the plain ones where numba is not installed."""
    return _compiled("cpu") or import_module(f"{__name__}.plain")


def compiles() -> bool:
    """Say whether the CPU kernels are compiled here."""
    return _compiled("cpu") is not None


def pairs_on_cpu() -> ModuleType:
    """Return the CPU kernels of the pairwise loss: numba's, or the plain ones where numba is not installed."""
    return _compiled("pairs_cpu") or import_module(f"{__name__}.pairs_plain")


def attention_on_cpu() -> ModuleType | None:
    """Return the CPU kernels of the attention; None where torch is to compute it (`_beside_blas`)."""
    return _beside_blas("attention_cpu")


def non_sampling_on_cpu() -> ModuleType | None:
    """Return the CPU kernel of WMF's loss over all pairs; None where torch is to compute it (`_beside_blas`)."""
    return _beside_blas("non_sampling_cpu")


def draws_on_cpu() -> ModuleType | None:
    """Return the CPU kernels that draw numbers for ids; None where numba is not installed: `seeds` draws the same."""
    return _compiled("draws_cpu")


def use_threads(n: int) -> None:
    """Let the CPU kernels use so many threads from now on, as far as the process may; the bits stay the same."""
    global _threads
    numba = _numba()
    if numba is None:
        _threads = max(1, min(n, len(os.sched_getaffinity(0))))
    else:
        numba.set_num_threads(max(1, min(n, int(numba.config.NUMBA_NUM_THREADS))))


def threads() -> int:
    """Return how many threads may compute side by side here."""
    numba = _numba()
    return _threads if numba is None else int(numba.get_num_threads())


def _beside_blas(name: str) -> ModuleType | None:
    """Return kernels that call BLAS from threads of their own, or None.

    There are none where numba is not installed, or BLAS has not been told to use one thread, as it is in workers: the
    kernels use all threads there are, and BLAS's own would come on top.
    """
    return _compiled(name) if os.environ.get("OPENBLAS_NUM_THREADS") == "1" else None


def _compiled(name: str) -> ModuleType | None:
    """Return the kernels of a module that numba compiles; None where it is not installed."""
    return None if _numba() is None else import_module(f"{__name__}.{name}")


def _numba() -> ModuleType | None:
    """Import numba; None where it is not installed.

    One that is installed but broken is told: beside another numpy, or without its library. Without it everything takes
    a hundred times as long, and nobody would know why.
    """
    try:
        return import_module("numba")
    except (ImportError, OSError, AttributeError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "numba":
            return None
        raise EnvironmentMismatchError(
            f"numba is installed but cannot be used here ({error}): install a version that suits the others, or "
            "uninstall it, and everything is computed without it, slowly"
        ) from error


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Let torch compute with one thread meanwhile.

    With two its matrix products sum in another order; and its threads and our kernels' would wait for each other in
    turn, which takes many times as long as what they compute.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
