"""The partitions by name. A partition is looked up here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping

from receraser import settings
from receraser.partition.balanced import IBP, UBP, InBP
from receraser.partition.graph import BEKM, BLPA
from receraser.partition.hashed import Hashed, Random
from receraser.partition.whole import Whole
from receraser.protocols import Partitioner

__all__ = ["PARTITIONS", "make_partitioner"]

PARTITIONS: dict[str, type[Partitioner]] = {
    partition.name: partition for partition in (Whole, Hashed, Random, UBP, IBP, InBP, BEKM, BLPA)
}


def make_partitioner(name: str, values: Mapping[str, object]) -> Partitioner:
    """Return the partition of that name with its settings.

    Examples
    --------
    >>> make_partitioner("hash", {"n_shards": 4})
    Hashed(n_shards=4)
    """
    return settings.make(PARTITIONS, "partition", name, values)
