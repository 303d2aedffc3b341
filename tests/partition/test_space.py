from __future__ import annotations

import numpy as np

from receraser.partition.space import Pairs, Points, distance_table
from tests.contracts.worlds import random_rows

RNG = np.random.default_rng(1)
ROWS = random_rows(40, 30, 0.2, seed=2)
USERS, ITEMS = (RNG.normal(size=(len(ids), 5)).astype(np.float32) for ids in (ROWS.users, ROWS.items))
ANCHORS = RNG.normal(size=(4, 5))


def test_euclidean_distances() -> None:
    many = RNG.normal(size=(5000, 5))
    expected = np.linalg.norm(many[:, None, :] - ANCHORS[None], axis=2)
    assert np.allclose(distance_table(many, ANCHORS), expected, rtol=1e-14)
    assert distance_table(ANCHORS, ANCHORS).diagonal().tolist() == [0.0] * 4


def test_a_distance_does_not_depend_on_who_else_is_measured() -> None:
    many = RNG.normal(size=(5000, 5))
    table = distance_table(many, ANCHORS)
    some = np.array([4999, 3, 2048, 77])
    assert np.array_equal(distance_table(many[some], ANCHORS[[2, 0]]), table[some][:, [2, 0]])


def test_points() -> None:
    space = Points(USERS)
    shards = np.arange(len(USERS), dtype=np.int32) % 3  # shard 3 is empty
    means = space.means(shards, ANCHORS)
    assert np.allclose(means[:3], [USERS[shards == k].mean(axis=0, dtype=np.float64) for k in range(3)])
    assert np.array_equal(means[3], ANCHORS[3])
    assert np.array_equal(space.at(np.array([3, 1])), USERS[[3, 1]])
    some = np.array([5, 0])
    table, index, ones, _ = space.distances(ANCHORS)
    assert np.array_equal(table[index[some]], distance_table(USERS[some], ANCHORS))
    assert (ones == 1).all()


def test_pairs() -> None:
    """Equations 3 and 4, row by row."""
    space = Pairs(USERS, ITEMS, ROWS)
    anchors = np.hstack([ANCHORS, ANCHORS[::-1]])
    rows = np.array([7, 100, 3])
    users, items = USERS[ROWS.user_index].astype(np.float64), ITEMS[ROWS.item_index].astype(np.float64)
    far = np.linalg.norm(users[rows, None] - ANCHORS, axis=2) * np.linalg.norm(
        items[rows, None] - ANCHORS[::-1], axis=2
    )
    left, left_index, right, right_index = space.distances(anchors)
    assert np.allclose(left[left_index[rows]] * right[right_index[rows]], far)
    assert np.array_equal(space.at(rows), np.hstack([users[rows], items[rows]]))
    shards = (np.arange(len(ROWS)) % 3 + 1).astype(np.int32)  # shard 0 is empty
    means = space.means(shards, anchors)
    both = np.hstack([users, items])
    assert np.allclose(means[1:], [both[shards == k].mean(axis=0) for k in (1, 2, 3)])
    assert np.array_equal(means[0], anchors[0])
