"""Triton's kernels without a GPU, by its interpreter: slow, and as exact as numpy.

    TRITON_INTERPRET=1 python -m pytest tests/aggregation/test_network.py tests/training/kernels/test_attention_cuda.py

where triton is installed beside torch; it is none of our dependencies. Without the variable it would compile for a GPU,
and it has to be set before triton is imported.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest

from receraser.training.kernels import attention_cuda

__all__ = ["by_the_interpreter", "prepare"]

by_the_interpreter = pytest.mark.skipif(
    find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1",
    reason="needs triton and TRITON_INTERPRET=1 (tests/training/kernels/interpreter.py)",
)


def prepare() -> None:
    """Let kernels find the function that they share: the interpreter looks among the names of the module alone."""
    vars(attention_cuda)["moved_and_ahead"] = attention_cuda._kernels().moved_and_ahead
