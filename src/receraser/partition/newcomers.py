"""Rows that come later, and how they find a shard in a partition made without them.

What is held stays. A newcomer is folded in from the landmarks among its own rows, as a recommender folds in a stranger,
and goes to the nearest anchor whose shard has room; who finds no room, or is known by nothing, goes where least is.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.partition.greedy import Distances, Floats, Ints, assign_greedily
from receraser.partition.partition import Landmarks, Partition
from receraser.partition.space import Shards, distance_table

__all__ = ["Side", "distances_of_rows", "folded_distances", "join", "nearest", "place_rows", "settle"]


@dataclass(frozen=True, eq=False)
class Side:
    """The rows seen from one side: the ids that are divided, and the others they are known by."""

    ids: IdMap
    index: NDArray[np.int32]
    others: IdMap
    other_index: NDArray[np.int32]

    @classmethod
    def users(cls, rows: Interactions) -> Side:
        """Users, known by their items."""
        return cls(rows.users, rows.user_index, rows.items, rows.item_index)

    @classmethod
    def items(cls, rows: Interactions) -> Side:
        """Items, known by their users."""
        return cls(rows.items, rows.item_index, rows.users, rows.user_index)

    @property
    def n_rows(self) -> Ints:
        """(len(ids),): the rows of each id."""
        return np.bincount(self.index, minlength=len(self.ids))

    def shards(self, of_rows: Shards) -> Shards:
        """Return the shard of every id, where all rows of an id are in one."""
        found = np.zeros(len(self.ids), dtype=np.int32)
        found[self.index] = of_rows
        return found


def join(
    new: Side,
    old: Side,
    partition: Partition,
    look: Callable[[], Floats],
    limit: Callable[[int], int],
    *,
    by_rows: bool,
) -> Shards:
    """Return the shard of every new row: that of its id where some of its rows are held, else where the id fits in.

    Parameters
    ----------
    new, old, partition
        The rows that come, those held, and where the latter are.
    look
        Gives the distances of all ids of `new` to the shards; called only if somebody is a stranger.
    limit
        What a shard may hold, given the total.
    by_rows
        Whether the load of a shard is counted in rows, or else in ids.
    """
    held = old.shards(partition.train)
    at = old.ids.indices(new.ids)
    found = np.append(held, np.int32(-1))[at]  # -1: a stranger
    strangers = np.flatnonzero(at < 0)
    if len(strangers):
        if by_rows:  # the new rows of those held are there before any stranger
            of_held = found[new.index]
            load = partition.sizes + np.bincount(of_held[of_held >= 0], minlength=partition.n_shards)
            weights = new.n_rows[strangers]
        else:
            load = np.bincount(held, minlength=partition.n_shards)
            weights = np.ones(len(strangers), dtype=np.int64)
        found[strangers] = settle(look()[strangers], weights, load, limit(int(load.sum() + weights.sum())))
    return found[new.index]


def settle(distances: Floats, weights: Ints, load: Ints, limit: int) -> Shards:
    """Give each newcomer the nearest shard with room; the others, one after the other, the one that holds least.

    Examples
    --------
    >>> near_0 = np.array([[1.0, 2.0, 9.0], [1.0, 3.0, 9.0], [np.inf, np.inf, np.inf]])
    >>> settle(near_0, np.array([2, 1, 1]), load=np.array([4, 5, 5]), limit=5).tolist()
    [0, 1, 2]
    """
    shards = assign_greedily(Distances.of_table(distances), weights, np.maximum(limit - load, 0))
    settled = shards >= 0
    load = load.copy()
    np.add.at(load, shards[settled], weights[settled])
    least = [(int(amount), k) for k, amount in enumerate(load)]
    heapq.heapify(least)
    for one in np.flatnonzero(~settled).tolist():
        amount, k = least[0]
        shards[one] = k
        heapq.heapreplace(least, (amount + int(weights[one]), k))
    return shards


def folded_distances(side: Side, landmarks: Landmarks, anchors: Floats) -> Floats:
    """Return the distances of the ids to the anchors, (len(ids), n_shards), infinite without a landmark among its rows.

    The vector of an id is the least-squares one of WMF, given the landmarks'.
    """
    from receraser.models.wmf import WMF  # brings torch
    from receraser.training.least_squares import fold_in

    marks = landmarks.ids.indices(side.others)[side.other_index]
    seen = np.flatnonzero(marks >= 0)
    seen = seen[np.argsort(side.index[seen], kind="stable")]
    counts = np.bincount(side.index[seen], minlength=len(side.ids))
    known = np.flatnonzero(counts)
    table = np.full((len(side.ids), len(anchors)), np.inf)
    if len(known):
        vectors = fold_in(
            np.append(0, np.cumsum(counts[known])).astype(np.int64),
            marks[seen],
            landmarks.vectors,
            missing_weight=WMF.missing_weight,
            regularization=WMF.regularization,
        )
        table[known] = distance_table(vectors, anchors)
    return table


def place_rows(
    newcomers: Interactions,
    held: Interactions,
    partition: Partition,
    anchors: tuple[Floats, Floats],
    combine: np.ufunc,
    limit: Callable[[int], int],
) -> Shards:
    """Return the shard of every new row where rows are divided one by one, by its user's distances and its item's.

    A user is folded in from all rows there are, held and new; `anchors` are those for users and those for items.
    """
    landmarks = partition.landmarks
    assert landmarks is not None, "a data-driven partition has landmarks"
    theirs = held.take(np.isin(held.user_index, held.users.indices(newcomers.users)))
    users = folded_distances(Side.users(Interactions.union([theirs, newcomers])), landmarks, anchors[0])
    known = users.min(axis=1) < np.inf
    distances = distances_of_rows(
        users,
        np.where(known, np.arange(len(known)), -1)[newcomers.user_index],
        distance_table(landmarks.vectors, anchors[1]),
        landmarks.ids.indices(newcomers.items)[newcomers.item_index],
        combine,
    )
    total = len(held) + len(newcomers)
    return settle(distances, np.ones(len(newcomers), dtype=np.int64), partition.sizes, limit(total))


def distances_of_rows(users: Floats, user_index: Ints, items: Floats, item_index: Ints, combine: np.ufunc) -> Floats:
    """Return the distances of rows whose two sides may be unknown (index -1): the known ones combined, else infinite.

    `combine` is `np.multiply`, as in Equation 3, or `np.minimum`.
    """
    neutral = np.full((1, users.shape[1]), 1.0 if combine is np.multiply else np.inf)  # what -1 finds
    distances: Floats = combine(np.vstack([users, neutral])[user_index], np.vstack([items, neutral])[item_index])
    distances[(user_index < 0) & (item_index < 0)] = np.inf
    return distances


def nearest(distances: Floats, otherwise: Shards) -> Shards:
    """Return the nearest shard of every row, however full, and `otherwise` where none is at a finite distance."""
    best = distances.argmin(axis=1).astype(np.int32)
    return np.where(distances.min(axis=1) < np.inf, best, otherwise)
