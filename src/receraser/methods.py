"""The methods: names for combinations of a partition and an aggregation, nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from receraser.aggregation.alone import Alone
from receraser.errors import UsageError, nearest
from receraser.partition.whole import Whole
from receraser.protocols import Aggregator, Partitioner

__all__ = ["METHODS", "Method", "find_method"]


@dataclass(frozen=True)
class Method:
    """A preset.

    Attributes
    ----------
    level
        What holds after a fit and a forget with this method (L0 to L3, see `docs/store.md`).
    """

    name: str
    partitioner: Partitioner
    aggregator: Aggregator
    level: str
    summary: str


METHODS: dict[str, Method] = {
    "retrain": Method(
        "retrain",
        Whole(),
        Alone(),
        "L3",
        "one model on all rows; forgetting fits it again on the survivors",
    ),
}


def find_method(name: str) -> Method:
    """Return the method of that name."""
    if name not in METHODS:
        raise UsageError(f"unknown method {name!r}: {nearest(name, METHODS)}")
    return METHODS[name]
