"""The methods: names for combinations of a partition and an aggregation, nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from receraser.errors import UsageError, nearest

__all__ = ["CUSTOM", "METHODS", "Method", "find_method", "method_of"]

CUSTOM = "custom"  # what a combination without a name of its own is called


@dataclass(frozen=True)
class Method:
    """A preset: a partition, an aggregation, and the number of shards where none is given."""

    name: str
    partition: str
    aggregation: str
    shards: int
    summary: str


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("retrain", "whole", "alone", 1, "one model on all rows; forgetting fits it again on the survivors"),
        Method("sisa", "random", "mean", 10, "rows dealt out at random, scores averaged (Bourtoule et al. 2021)"),
        Method(
            "grapheraser", "bekm", "static", 10, "balanced k-means of the graph, static weights (Chen et al. 2022a)"
        ),
        Method("receraser", "inbp", "attention", 10, "balanced by interactions, attention (Chen et al. 2022b)"),
        Method("spectral", "hash", "spectral", 32, "by keyed hash of the user, merged by SVD: remembers nothing"),
    )
}


def find_method(name: str) -> Method:
    """Return the method of that name."""
    if name not in METHODS:
        raise UsageError(f"unknown method {name!r}: {nearest(name, METHODS)}")
    return METHODS[name]


def method_of(partition: str, aggregation: str) -> str:
    """Return the name of a combination; "custom" where it has none.

    Examples
    --------
    >>> method_of("random", "mean"), method_of("ubp", "attention")
    ('sisa', 'custom')
    """
    names = [one.name for one in METHODS.values() if (one.partition, one.aggregation) == (partition, aggregation)]
    return names[0] if names else CUSTOM
