"""The inner loops, for the CPU (numba) and for CUDA (torch, Triton). Each is held to a plain version by a test.

Parallelism is over output rows, each summed by one thread in a fixed order, without fast-math: the bits do not depend
on the number of threads.
"""

from __future__ import annotations

from types import ModuleType

__all__ = ["on_cpu"]


def on_cpu() -> ModuleType:
    """Return the CPU kernels: numba's, or the plain ones where numba is not installed."""
    try:
        from receraser.training.kernels import cpu
    except ImportError:
        from receraser.training.kernels import plain

        return plain
    return cpu
