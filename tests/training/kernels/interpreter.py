"""Triton's kernels without a GPU, by its interpreter: slow, and as exact as numpy. `make kernels` runs what is marked.

Triton is none of our dependencies: elsewhere these tests are skipped, and say why. Without `TRITON_INTERPRET=1` it
would compile for a GPU, and the variable has to be set before triton is imported.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest

from receraser.training.kernels import attention_cuda, pairs_cuda

__all__ = ["HERE", "by_the_interpreter", "prepare"]

HERE = find_spec("triton") is not None and os.environ.get("TRITON_INTERPRET") == "1"

by_the_interpreter = pytest.mark.skipif(not HERE, reason="needs triton and TRITON_INTERPRET=1: make kernels")


def prepare() -> None:
    """Let kernels find the functions that they share: the interpreter looks among the names of the module alone."""
    vars(attention_cuda)["moved_and_ahead"] = attention_cuda._kernels().moved_and_ahead
    for name in ("draw", "one_lacking"):
        vars(pairs_cuda)[name] = vars(pairs_cuda._kernels())[name]
