"""The paper's balanced partitions: one algorithm, three keys. `UBP` divides users, `IBP` items, `InBP` interactions.

Algorithms 1 and 2, Equations 1 to 4 of "Recommendation Unlearning" (Chen et al. 2022). As in the paper, and unlike its
published code: anchors move to mean vectors, distances are not squared. Ours: capacity counted in interactions, for
balance is about what a shard costs to train (`capacity="users"` counts as the published code does).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from receraser import settings
from receraser.data.interactions import Interactions
from receraser.partition.clustered import Clustered
from receraser.partition.hashed import draw_rows, shard_of_ids
from receraser.partition.newcomers import Side, distances_of_rows, folded_distances, join, nearest, place_rows
from receraser.partition.partition import Embeddings, Landmarks, Partition
from receraser.partition.space import Pairs, Points
from receraser.protocols import Progress
from receraser.seeds import derive, draw, id_counters

__all__ = ["IBP", "UBP", "InBP"]


@dataclass(kw_only=True)
class UBP(Clustered):
    """User-based: a user is a point, and all rows of a user live in one shard.

    Parameters
    ----------
    capacity
        What the size of a shard is counted in: "interactions", or "users" as in the published code.

    Examples
    --------
    >>> rows = Interactions.from_pairs([("u1", "a"), ("u2", "a"), ("u3", "b"), ("u4", "b")])
    >>> UBP(n_shards=2, dim=2, slack=1.0).assign(rows, valid=None, seed=1).train.tolist()
    [1, 1, 0, 0]
    """

    name: ClassVar[str] = "ubp"
    user_atomic: ClassVar[bool] = True
    divides: ClassVar[str] = "users"

    capacity: str = "interactions"

    def __post_init__(self) -> None:
        super().__post_init__()
        settings.check(self, choices={"capacity": ("interactions", self.divides)})

    def assign(
        self,
        interactions: Interactions,
        *,
        valid: Interactions | None,
        seed: int,
        embeddings: Embeddings | None = None,
        progress: Progress | None = None,
    ) -> Partition:
        """Cluster the ids; a row lives where its id does, a validation row without such an id by its keyed hash."""
        of_users, of_items = self._vectors(interactions, valid, seed, embeddings, progress)
        vectors, marks = (of_users, of_items) if self.divides == "users" else (of_items, of_users)
        side = self._side(interactions)
        shards, anchors = self._cluster(
            Points(vectors),
            draw(derive(seed, "partition", "anchors"), id_counters(side.ids)),
            weights=side.n_rows if self._by_rows else np.ones(len(side.ids), dtype=np.int64),
            rows=side.n_rows,
            progress=progress,
        )
        of_valid = None
        if valid is not None:
            other = self._side(valid)
            at = side.ids.indices(other.ids)
            by_hash = shard_of_ids(other.ids, self.divides.removesuffix("s"), self.n_shards, seed)
            of_valid = np.where(at >= 0, np.append(shards, np.int32(0))[at], by_hash)[other.index]
        return Partition(self.n_shards, shards[side.index], of_valid, Landmarks(anchors, side.others, marks))

    def place(
        self,
        newcomers: Interactions,
        *,
        held: Interactions,
        partition: Partition,
        seed: int,  # noqa: ARG002
    ) -> NDArray[np.int32]:
        """Return the shard of an id's other rows; a new id goes to the nearest anchor with room."""
        marks, side = partition.landmarks, self._side(newcomers)
        assert marks is not None, "a data-driven partition has landmarks"
        return join(
            side,
            self._side(held),
            partition,
            lambda: folded_distances(side, marks, marks.anchors),
            self._limit,
            by_rows=self._by_rows,
        )

    @property
    def _by_rows(self) -> bool:
        return self.capacity == "interactions"

    def _side(self, rows: Interactions) -> Side:
        return Side.users(rows) if self.divides == "users" else Side.items(rows)


@dataclass(kw_only=True)
class IBP(UBP):
    """Item-based: an item is a point, and all rows of an item live in one shard.

    Parameters
    ----------
    capacity
        "interactions" or "items".
    """

    name: ClassVar[str] = "ibp"
    user_atomic: ClassVar[bool] = False
    divides: ClassVar[str] = "items"
    landmarks_of: ClassVar[str] = "users"


@dataclass(kw_only=True)
class InBP(Clustered):
    """Interaction-based: every row is a point, near to those of similar users and similar items."""

    name: ClassVar[str] = "inbp"
    user_atomic: ClassVar[bool] = False

    def assign(
        self,
        interactions: Interactions,
        *,
        valid: Interactions | None,
        seed: int,
        embeddings: Embeddings | None = None,
        progress: Progress | None = None,
    ) -> Partition:
        """Cluster the rows; a validation row goes to the nearest anchor, by whichever of its two ids is known."""
        of_users, of_items = self._vectors(interactions, valid, seed, embeddings, progress)
        space = Pairs(of_users, of_items, interactions)
        ones = np.ones(len(interactions), dtype=np.int64)
        draws = draw_rows(interactions, seed, "anchors")
        shards, anchors = self._cluster(space, draws, weights=ones, rows=ones, progress=progress)
        of_valid = None
        if valid is not None:
            users, items = space.tables(anchors)
            user_index = interactions.users.indices(valid.users)[valid.user_index]
            item_index = interactions.items.indices(valid.items)[valid.item_index]
            distances = distances_of_rows(users, user_index, items, item_index, np.multiply)
            by_hash = shard_of_ids(valid.users, "user", self.n_shards, seed)[valid.user_index]
            of_valid = nearest(distances, by_hash)
        return Partition(self.n_shards, shards, of_valid, Landmarks(anchors, interactions.items, of_items))

    def place(
        self,
        newcomers: Interactions,
        *,
        held: Interactions,
        partition: Partition,
        seed: int,  # noqa: ARG002
    ) -> NDArray[np.int32]:
        """Return the nearest anchor with room for every row, by its user's vector and its item's."""
        assert partition.landmarks is not None, "a data-driven partition has landmarks"
        for_users, for_items = np.hsplit(partition.landmarks.anchors, 2)
        return place_rows(newcomers, held, partition, (for_users, for_items), np.multiply, self._limit)
