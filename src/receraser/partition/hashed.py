"""Partitions that look at no data: a keyed hash says where a row lives.

The shard of a row depends on its own ids and on the seed, never on another row: what is forgotten leaves no trace in
where the others are, and what comes later goes where it would have gone at first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from receraser import settings
from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.partition.partition import Embeddings, Partition
from receraser.protocols import Progress
from receraser.seeds import Counters, below, derive, draw, id_counters

__all__ = ["Hashed", "Random", "draw_rows", "shard_of_ids"]


def shard_of_ids(ids: IdMap, what: str, n_shards: int, seed: int) -> NDArray[np.int32]:
    """Return the shard of every id (`what`: "user" or "item") by its keyed hash.

    Examples
    --------
    >>> shard_of_ids(IdMap(["u1", "u2", "u3"]), "user", 10, seed=7).tolist()
    [3, 6, 7]
    """
    return below(derive(seed, "partition", what), id_counters(ids), n_shards).astype(np.int32)


def draw_rows(rows: Interactions, seed: int, purpose: str) -> Counters:
    """Return one uniform 64-bit integer per row, a function of its two ids and the seed."""
    of_users = draw(derive(seed, "partition", purpose, "user"), id_counters(rows.users))[rows.user_index]
    # Hashed once more after the item is added: rows that share a user or an item have nothing else in common.
    return draw(derive(seed, "partition", purpose, "row"), of_users + id_counters(rows.items)[rows.item_index])


@dataclass(kw_only=True)
class Hashed:
    """All rows of a user in one shard, by the keyed hash of the user's id."""

    name: ClassVar[str] = "hash"
    remembers_data: ClassVar[bool] = False
    landmarks_of: ClassVar[str] = ""
    user_atomic: ClassVar[bool] = True

    n_shards: int = 10

    def __post_init__(self) -> None:
        settings.check(self, at_least_one=["n_shards"])

    def assign(
        self,
        interactions: Interactions,
        *,
        valid: Interactions | None,
        seed: int,
        embeddings: Embeddings | None = None,  # noqa: ARG002
        progress: Progress | None = None,  # noqa: ARG002
    ) -> Partition:
        """Return the shard of each row's user."""
        of_valid = None if valid is None else self._shards(valid, seed)
        return Partition(self.n_shards, self._shards(interactions, seed), of_valid)

    def place(
        self,
        newcomers: Interactions,
        *,
        held: Interactions,  # noqa: ARG002
        partition: Partition,  # noqa: ARG002
        seed: int,
    ) -> NDArray[np.int32]:
        """Return the shard they would have had from the beginning."""
        return self._shards(newcomers, seed)

    def _shards(self, rows: Interactions, seed: int) -> NDArray[np.int32]:
        return shard_of_ids(rows.users, "user", self.n_shards, seed)[rows.user_index]


@dataclass(kw_only=True)
class Random(Hashed):
    """Every row for itself, by the keyed hash of its user and item: the random shards of SISA."""

    name: ClassVar[str] = "random"
    user_atomic: ClassVar[bool] = False

    def _shards(self, rows: Interactions, seed: int) -> NDArray[np.int32]:
        return below(derive(seed, "partition", "row"), draw_rows(rows, seed, "row"), self.n_shards).astype(np.int32)
