"""What balanced clustering divides: single points with a vector each, or pairs of a user and an item.

Everything is float64, by elementwise arithmetic and by sums in one fixed order: the bits do not depend on threads, on
vector widths or on which other points are there.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from receraser.data.interactions import Interactions
from receraser.partition.greedy import Distances, Floats, Ints

__all__ = ["Pairs", "Points", "Shards", "Space", "distance_table"]

Shards = NDArray[np.int32]
Vectors = NDArray[np.float32]

_BLOCK = 2_048  # points whose distances are added up at a time: the sums stay in the cache


class Space(Protocol):
    """Points that are near to each other or far. A shard without an anchor has an infinite one, far from everything."""

    def at(self, points: Ints) -> Floats:
        """Return the anchors that lie on these points, one row each."""
        ...

    def distances(self, anchors: Floats) -> Distances:
        """Return the distances of the points to the anchors."""
        ...

    def means(self, shards: Shards, anchors: Floats) -> Floats:
        """Return the mean of every shard's points; a shard that is empty keeps its anchor."""
        ...


class Points:
    """Single points: users, items, nodes of a graph. Equations 1 and 2."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors.astype(np.float64)  # (n, dim)

    def at(self, points: Ints) -> Floats:
        """Return the points' own vectors."""
        return self._vectors[points]

    def distances(self, anchors: Floats) -> Distances:
        """Return the Euclidean distances."""
        return Distances.of_table(distance_table(self._vectors, anchors))

    def means(self, shards: Shards, anchors: Floats) -> Floats:
        """Return the plain mean of the vectors, however many rows a point has."""
        return _means(self._vectors, np.arange(len(shards)), shards, anchors)


class Pairs:
    """Interactions: an anchor is a user's vector and an item's, side by side. Equations 3 and 4."""

    def __init__(self, users: Vectors, items: Vectors, rows: Interactions) -> None:
        self._users, self._items = users.astype(np.float64), items.astype(np.float64)
        self._rows = rows

    def at(self, points: Ints) -> Floats:
        """Return the vectors of the two, side by side."""
        rows = self._rows
        return np.hstack([self._users[rows.user_index[points]], self._items[rows.item_index[points]]])

    def distances(self, anchors: Floats) -> Distances:
        """Return products of two Euclidean distances, each computed once per id, not once per row."""
        of_users, of_items = self.tables(anchors)
        return Distances(of_users, self._rows.user_index, of_items, self._rows.item_index)

    def tables(self, anchors: Floats) -> tuple[Floats, Floats]:
        """Return the distances of the users and those of the items, (n, n_shards) each."""
        for_users, for_items = self._halves(anchors)
        return distance_table(self._users, for_users), distance_table(self._items, for_items)

    def means(self, shards: Shards, anchors: Floats) -> Floats:
        """Return the means over the rows of both vectors; as many terms as ids, not as many as rows."""
        for_users, for_items = self._halves(anchors)
        users = _means(self._users, self._rows.user_index, shards, for_users)
        items = _means(self._items, self._rows.item_index, shards, for_items)
        return np.hstack([users, items])

    def _halves(self, anchors: Floats) -> tuple[Floats, Floats]:
        width = self._users.shape[1]
        return anchors[:, :width], anchors[:, width:]


def distance_table(vectors: NDArray[np.floating], anchors: Floats) -> Floats:
    """Return the Euclidean distances, (n, n_shards); squares are added up coordinate by coordinate.

    Examples
    --------
    >>> distance_table(np.array([[3.0, 4.0]]), np.array([[0.0, 0.0], [3.0, 4.0], [np.inf, np.inf]])).tolist()
    [[5.0, 0.0, inf]]
    """
    table = np.empty((len(vectors), len(anchors)))
    for start in range(0, len(vectors), _BLOCK):
        columns = np.ascontiguousarray(vectors[start : start + _BLOCK].T, dtype=np.float64)  # (dim, b)
        total = np.zeros((len(anchors), columns.shape[1]))  # (n_shards, b)
        for column, coordinates in zip(columns, anchors.T, strict=True):
            apart = column - coordinates[:, None]
            apart *= apart
            total += apart
        table[start : start + _BLOCK] = np.sqrt(total).T
    return table


def _means(vectors: Floats, index: NDArray[np.integer], shards: Shards, anchors: Floats) -> Floats:
    """Return the mean of vectors[index] over the rows of each shard: counts times vectors, in one fixed order."""
    n_shards, n = len(anchors), len(vectors)
    cells = shards.astype(np.int64)
    cells *= n
    cells += index
    counts = np.bincount(cells, minlength=n_shards * n).reshape(n_shards, n)
    sizes = counts.sum(axis=1)
    sums = sp.csr_matrix(counts.astype(np.float64)) @ vectors  # scipy's product of a sparse matrix: no BLAS, no threads
    return np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], anchors)
