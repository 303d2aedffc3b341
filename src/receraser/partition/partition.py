"""`Partition`: the frozen table row -> shard, for training and for validation rows.

A partition made by looking at the data also keeps `Landmarks`, by which rows that come later find their shard. They
are what such a partition remembers of rows long forgotten: the reason why its level is L1 until it is rebuilt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from receraser import fingerprint
from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.fingerprint import Tensors

__all__ = ["Embeddings", "Landmarks", "Partition", "Shard"]


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Vectors of users and items from elsewhere, by which rows are told apart."""

    users: IdMap
    user_vectors: NDArray[np.float32]
    items: IdMap
    item_vectors: NDArray[np.float32]

    def renamed(self, names: Mapping[str, str]) -> Embeddings:
        """Return the same vectors with users by other names (how pseudonyms come in)."""
        new = IdMap(names[user] for user in self.users)
        order = self.users.indices(sorted(self.users, key=names.__getitem__))
        return Embeddings(new, self.user_vectors[order], self.items, self.item_vectors)


@dataclass(frozen=True, eq=False)
class Shard:
    """The rows of one shard: what its submodel may see, and nothing else.

    Attributes
    ----------
    files
        The tables as files, by name, where somebody has encoded them ahead (`store.snapshot`).
    """

    id: int
    train: Interactions
    valid: Interactions | None
    files: dict[str, bytes] = field(default_factory=dict, repr=False)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the canonical content of its rows."""
        valid = "none" if self.valid is None else fingerprint.of_rows(self.valid)
        return fingerprint.combine({"train": fingerprint.of_rows(self.train), "valid": valid})


@dataclass(frozen=True, eq=False)
class Landmarks:
    """What a data-driven partition keeps so that newcomers find their shard.

    Attributes
    ----------
    anchors
        (n_shards, width) float64: where the shards are; infinite for a shard without rows.
    ids, vectors
        Some items (or, where items are what is divided, users) and (n, dim) float32, one row each: newcomers are
        folded in from them. Which and how is the partitioner's affair.
    """

    anchors: NDArray[np.float64]
    ids: IdMap
    vectors: NDArray[np.float32]

    def among(self, alive: IdMap) -> Landmarks:
        """Return the landmarks without the ids that are not alive: what has vanished leaves no vector behind."""
        kept = np.array([name in alive for name in self.ids], dtype=bool)
        if kept.all():
            return self
        return Landmarks(self.anchors, IdMap(self.ids.take(np.flatnonzero(kept))), self.vectors[kept])

    def without_anchors_of(self, shards: NDArray[np.bool_]) -> Landmarks:
        """Return the landmarks with no anchor, infinitely far away, for some shards."""
        return Landmarks(np.where(shards[:, None], np.inf, self.anchors), self.ids, self.vectors)

    def tensors(self) -> Tensors:
        """Return the arrays, for storing and digesting."""
        return {"anchors": self.anchors, "vectors": self.vectors}


@dataclass(frozen=True, eq=False)
class Partition:
    """Which shard each row lives in.

    Attributes
    ----------
    n_shards
        A constant of the configuration, never of the data; shards may be empty.
    train, valid
        The shard of every row, aligned with the tables that were partitioned; `valid` is None without such rows.
    landmarks
        None where the partition looked at no data. A shard without rows has no anchor: that of a shard with a single
        user is that user's own vector, and goes with their last row.
    """

    n_shards: int
    train: NDArray[np.int32]
    valid: NDArray[np.int32] | None = None
    landmarks: Landmarks | None = None

    def __post_init__(self) -> None:
        for shards in (self.train, self.valid):
            if shards is None:
                continue
            if shards.dtype != np.int32:
                raise ValueError(f"the shards are {shards.dtype}, not int32")
            if len(shards) and shards.view(np.uint32).max() >= self.n_shards:  # negative ones too, in one look
                raise ValueError(f"a row is assigned to a shard outside 0 to {self.n_shards - 1}")
            shards.flags.writeable = False
        if self.landmarks is not None:
            kept = self.landmarks.without_anchors_of(self.sizes == 0)
            object.__setattr__(self, "landmarks", kept)

    def shards(self, train: Interactions, valid: Interactions | None) -> list[Shard]:
        """Cut the tables into shards, each with vocabularies of its own."""
        sizes = [None if one is None else len(one) for one in (train, valid, self.train, self.valid)]
        if sizes[:2] != sizes[2:]:
            raise ValueError("these are not the tables that were partitioned")
        return [self.shard(k, train, valid) for k in range(self.n_shards)]

    def shard(self, k: int, train: Interactions, valid: Interactions | None) -> Shard:
        """Cut one shard out of the tables."""
        if self.n_shards == 1:
            return Shard(k, train, valid)
        of_valid = None if valid is None or self.valid is None else valid.take(self.valid == k)
        return Shard(k, train.take(self.train == k), of_valid)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """(n_shards,): the training rows of each shard."""
        return np.bincount(self.train, minlength=self.n_shards)

    @property
    def balance(self) -> float:
        """The largest shard over the mean: 1 is perfect; 1 for no rows at all."""
        return float(self.sizes.max() / self.sizes.mean()) if len(self.train) else 1.0
