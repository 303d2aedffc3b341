"""`Partition`: the frozen table row -> shard, for training and for validation rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from receraser.data.interactions import Interactions

__all__ = ["Partition", "Shard"]


@dataclass(frozen=True, eq=False)
class Shard:
    """The rows of one shard: what its submodel may see, and nothing else."""

    id: int
    train: Interactions
    valid: Interactions | None


@dataclass(frozen=True, eq=False)
class Partition:
    """Which shard each row lives in.

    Attributes
    ----------
    n_shards
        A constant of the configuration, never of the data; shards may be empty.
    train, valid
        The shard of every row, aligned with the tables that were partitioned; `valid` is None without such rows.
    """

    n_shards: int
    train: NDArray[np.int32]
    valid: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        for shards in (self.train, self.valid):
            if shards is None:
                continue
            if shards.dtype != np.int32:
                raise ValueError(f"the shards are {shards.dtype}, not int32")
            if len(shards) and (shards.min() < 0 or shards.max() >= self.n_shards):
                raise ValueError(f"a row is assigned to a shard outside 0 to {self.n_shards - 1}")
            shards.flags.writeable = False

    def shards(self, train: Interactions, valid: Interactions | None) -> list[Shard]:
        """Cut the tables into shards, each with vocabularies of its own."""
        sizes = [None if one is None else len(one) for one in (train, valid, self.train, self.valid)]
        if sizes[:2] != sizes[2:]:
            raise ValueError("these are not the tables that were partitioned")
        return [
            Shard(
                k,
                train.take(self.train == k),
                None if valid is None or self.valid is None else valid.take(self.valid == k),
            )
            for k in range(self.n_shards)
        ]
