"""What takes longer and is left to the nightly run (`tools/nightly.py`): the variable RECERASER_NIGHTLY asks for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import pytest
from _pytest.mark.structures import ParameterSet

F = TypeVar("F", bound=Callable[..., None])

NIGHT = "RECERASER_NIGHTLY" in os.environ
_SKIPPED = pytest.mark.skipif(not NIGHT, reason="takes longer: RECERASER_NIGHTLY=1")


def nightly(test: F) -> F:
    """Leave a test to the nightly run."""
    marked: F = pytest.mark.nightly(_SKIPPED(test))
    return marked


def at_night(*values: object) -> list[ParameterSet]:
    """Leave some of a test's cases to the nightly run."""
    return [pytest.param(value, marks=[pytest.mark.nightly, _SKIPPED]) for value in values]


def examples(by_day: int, at_night: int) -> int:
    """Return how many examples are to be drawn."""
    return at_night if NIGHT else by_day
