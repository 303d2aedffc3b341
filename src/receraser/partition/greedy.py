"""The capacity-bound assignment in the heart of Algorithms 1 and 2, exactly, without sorting all pairs.

The paper sorts all (point, shard) pairs by distance and walks through them: a point goes to a shard unless it is taken
already or the shard is full. Here the points claim instead (deferred acceptance, Gale & Shapley 1962): each its nearest
shard; a shard keeps the claims that come first in the walk's order until it is full and refuses the rest, who claim
their next nearest. Why this ends where the walk does: whom a shard refuses, those before them fill it, and further
claims can only fill it sooner; so a refusal is final in whatever order the claims come in, and nobody is refused who
would have been taken in by the walk. A handful of rounds does, and only those refused look again.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from receraser.training.kernels import on_cpu

__all__ = ["Distances", "Floats", "Ints", "assign_greedily"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Distances(NamedTuple):
    """How far every point is from every shard: the product of two tables' rows, looked up point by point.

    Point p is left[left_index[p]] * right[right_index[p]] away, one number for each shard.
    """

    left: Floats  # (n_left, n_shards)
    left_index: NDArray[np.int32]  # (n,)
    right: Floats  # (n_right, n_shards)
    right_index: NDArray[np.int32]  # (n,)

    @classmethod
    def of_table(cls, table: Floats) -> Self:
        """Return the distances that a table, (n, n_shards), holds as they are."""
        n, n_shards = table.shape
        index, zeros = np.arange(n, dtype=np.int32), np.zeros(n, dtype=np.int32)
        index.flags.writeable = zeros.flags.writeable = False  # as those of a table of rows are: one kernel for both
        return cls(np.ascontiguousarray(table), index, np.ones((1, n_shards)), zeros)


def assign_greedily(distances: Distances, weights: Ints, room: Ints) -> NDArray[np.int32]:
    """Walk through the (point, shard) pairs by (distance, point, shard) and give away what is free.

    Parameters
    ----------
    distances
        Of n points to the shards. A pair at infinite distance is never made.
    weights
        (n,): what a point adds to the load of its shard.
    room
        (n_shards,): a shard takes points until its load has reached this. Tested before adding: the last one may
        overshoot it.

    Returns
    -------
    (n,) int32, the shard of every point; -1 for those who found all shards full.

    Examples
    --------
    >>> near_0 = Distances.of_table(np.array([[1.0, 5.0], [2.0, 9.0], [3.0, 4.0]]))
    >>> assign_greedily(near_0, np.ones(3, dtype=np.int64), np.array([2, 2])).tolist()
    [0, 0, 1]
    """
    kernels = on_cpu()
    shards = [_Claims(int(limit)) for limit in room]
    units = bool((weights == 1).all())
    movers = np.arange(len(weights))
    while len(movers):
        claimed, nearest = np.empty(len(movers), dtype=np.int32), np.empty(len(movers))
        ends = np.array([shard.end for shard in shards])  # distances up to which, and
        last = np.array([shard.last for shard in shards])  # at that distance the point up to which, they take
        kernels.claim(*distances, movers, ends, last, claimed, nearest)
        order, bounds = kernels.grouped(claimed, len(shards))
        refused = [movers[:0]]
        for k in np.flatnonzero(np.diff(bounds)).tolist():
            new = order[bounds[k] : bounds[k + 1]]
            shards[k].add(movers[new], nearest[new])
            refused.append(shards[k].refuse(None if units else weights))
        movers = np.concatenate(refused)
    given = np.full(len(weights), -1, dtype=np.int32)
    for k, shard in enumerate(shards):
        given[shard.points] = k
    return given


class _Claims:
    """The claims on one shard, and how far they may reach: up to (`end`, `last`) in the order (distance, point)."""

    def __init__(self, room: int) -> None:
        self._room = room
        self.points: Ints = np.empty(0, dtype=np.int64)
        self._distances: Floats = np.empty(0)
        self.end = np.inf if room > 0 else -np.inf
        self.last = -1

    def add(self, points: Ints, distances: Floats) -> None:
        """Take in claims that reach no further than allowed."""
        self.points = np.concatenate([self.points, points])
        self._distances = np.concatenate([self._distances, distances])

    def refuse(self, weights: Ints | None) -> Ints:
        """Return the points whose claims come after the one that fills the shard; `None` for weights of one."""
        filled = self._filled(weights)
        if filled is None:
            return self.points[:0]
        self.end, self.last = filled
        kept = (self._distances < self.end) | ((self._distances == self.end) & (self.points <= self.last))
        refused: Ints = self.points[~kept]
        self.points, self._distances = self.points[kept], self._distances[kept]
        return refused

    def _filled(self, weights: Ints | None) -> tuple[float, int] | None:
        """Return the (distance, point) of the claim that fills the shard; None where it is not full."""
        if weights is None:  # the room-th claim: found by selection, in linear time
            if len(self.points) < self._room:
                return None
            end = np.partition(self._distances, self._room - 1)[self._room - 1]
            left = self._room - np.count_nonzero(self._distances < end)
            tied = self.points[self._distances == end]
            return float(end), int(np.partition(tied, left - 1)[left - 1])
        order = np.lexsort((self.points, self._distances))
        load = np.cumsum(weights[self.points[order]])
        if load[-1] < self._room:
            return None
        at = order[np.searchsorted(load, self._room)]  # the first at which the load has reached the room
        return float(self._distances[at]), int(self.points[at])
