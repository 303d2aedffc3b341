"""`Clustered`: what the balanced partitions share: settings, pre-trained vectors, and the loop of Algorithms 1 and 2.

Anchors are drawn, points assigned to them within the capacity (`greedy`), anchors moved to the means (`space`), and
again until they rest. Which points, and what that means for rows, is for `balanced` and `graph` to say.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from receraser import settings
from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.errors import DataError, UsageError
from receraser.partition.greedy import Floats, Ints, assign_greedily
from receraser.partition.partition import Embeddings
from receraser.partition.space import Shards, Space, Vectors
from receraser.protocols import Progress
from receraser.seeds import Counters, derive

__all__ = ["Clustered", "capacity"]

_RESTING = 0.001  # where a smaller share of the rows changes shard, it is over


def capacity(slack: float, total: int, n_shards: int) -> int:
    """Return what a shard may hold of so much: the mean times the slack, rounded up; 1.1 is taken to be 11/10.

    Examples
    --------
    >>> capacity(1.1, 100, 10), math.ceil(1.1 * 100 / 10)
    (11, 12)
    """
    return math.ceil(Fraction(str(slack)) * total / n_shards)


@dataclass(kw_only=True)
class Clustered:
    """Settings and steps of balanced clustering.

    Parameters
    ----------
    n_shards
        A constant; where there are fewer points than shards, the others stay empty.
    embeddings
        The model whose vectors tell points apart: "wmf", "bpr", "lightgcn"; or "file", for vectors handed to `assign`.
    dim, device
        Length of the vectors, and where the model is trained.
    slack
        How far a shard may be above the mean.
    max_iterations
        After how many the anchors stop where they are.
    """

    name: ClassVar[str]
    remembers_data: ClassVar[bool] = True
    landmarks_of: ClassVar[str] = "items"

    n_shards: int = 10
    embeddings: str = "wmf"
    dim: int = 64
    slack: float = 1.2
    max_iterations: int = 50
    device: str = "cpu"

    def __post_init__(self) -> None:
        settings.check(
            self,
            at_least_one=["n_shards", "dim", "slack", "max_iterations"],
            choices={"embeddings": ("wmf", "bpr", "lightgcn", "file"), "device": ("cpu", "cuda")},
        )

    def _vectors(
        self,
        interactions: Interactions,
        valid: Interactions | None,
        seed: int,
        given: Embeddings | None,
        progress: Progress | None,
    ) -> tuple[Vectors, Vectors]:
        """Return the vectors of the users and of the items, pre-trained on all rows or handed in."""
        if self.embeddings == "file":
            if given is None:
                raise UsageError(f"{self.name}: embeddings is 'file', but no vectors were handed in; name their file")
            return _of_file(given, interactions)
        if given is not None:
            raise UsageError(f"{self.name}: vectors were handed in, but embeddings is {self.embeddings!r}, not 'file'")
        from receraser.models.registry import make_factor_model  # brings torch

        model = make_factor_model(self.embeddings, {"dim": self.dim, "device": self.device})
        model.fit(interactions, valid=valid, seed=derive(seed, "pretrain"), progress=progress)
        return model.user_vectors_, model.item_vectors_

    def _limit(self, total: int) -> int:
        """Return what a shard may hold of so much."""
        return capacity(self.slack, total, self.n_shards)

    def _cluster(
        self, space: Space, draws: Counters, *, weights: Ints, rows: Ints, progress: Progress | None
    ) -> tuple[Shards, Floats]:
        """Return the shard of every point, and the anchors.

        `draws` chooses the first anchors; `weights` is what a point adds to the load, `rows` how many rows it has.
        """
        first = _smallest(draws, self.n_shards)
        on_points = space.at(first)
        anchors = np.full((self.n_shards, on_points.shape[1]), np.inf)
        anchors[: len(first)] = on_points
        room = np.full(self.n_shards, self._limit(int(weights.sum())))
        shards = np.full(len(draws), -1, dtype=np.int32)
        for iteration in range(self.max_iterations):
            before, shards = shards, assign_greedily(space.distances(anchors), weights, room)
            left, anchors = anchors, space.means(shards, anchors)
            if progress is not None:
                progress("rounds of clustering", iteration + 1, self.max_iterations)
            moved = int(rows[shards != before].sum())
            if moved < _RESTING * int(rows.sum()) or np.array_equal(left, anchors):
                break
        return shards, anchors


def _smallest(draws: Counters, n: int) -> Ints:
    """Return the positions of the n smallest draws, smallest first; fewer where there are fewer."""
    if len(draws) <= n:
        return np.argsort(draws, kind="stable")
    candidates = np.flatnonzero(draws <= np.partition(draws, n - 1)[n - 1])
    return candidates[np.argsort(draws[candidates], kind="stable")][:n]


def _of_file(given: Embeddings, rows: Interactions) -> tuple[Vectors, Vectors]:
    """Look up the vectors of the rows' users and items; every one must be there, of one length, and numbers."""
    if given.user_vectors.shape[1] != given.item_vectors.shape[1]:
        lengths = f"{given.user_vectors.shape[1]} numbers, those of items {given.item_vectors.shape[1]}"
        raise DataError(f"the vectors of users have {lengths}; expected one length, from one model")
    of_users = _lookup(rows.users, given.users, given.user_vectors, "users")
    return of_users, _lookup(rows.items, given.items, given.item_vectors, "items")


def _lookup(wanted: IdMap, ids: IdMap, vectors: Vectors, what: str) -> Vectors:
    at = ids.indices(wanted)
    missing = np.flatnonzero(at < 0)
    if len(missing):
        example = wanted.ids[missing[0]]
        raise DataError(
            f"{len(missing)} of the {len(wanted)} {what} of the rows have no vector in the embeddings, such as "
            f"{example!r}; take embeddings of these rows, or let a model make them"
        )
    found = vectors[at].astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(found).all(axis=1))
    if len(bad):
        raise DataError(
            f"the vectors of {len(bad)} {what} hold a value that is no number, such as that of {wanted.ids[bad[0]]!r}"
        )
    return found
