"""What takes longer and is left to the nightly run (`tools/nightly.py`): the variable RECERASER_NIGHTLY asks for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import pytest

F = TypeVar("F", bound=Callable[..., None])

NIGHT = "RECERASER_NIGHTLY" in os.environ


def nightly(test: F) -> F:
    """Leave a test to the nightly run."""
    skipped = pytest.mark.skipif(not NIGHT, reason="takes longer: RECERASER_NIGHTLY=1")
    marked: F = pytest.mark.nightly(skipped(test))
    return marked


def examples(by_day: int, at_night: int) -> int:
    """Return how many examples are to be drawn."""
    return at_night if NIGHT else by_day
