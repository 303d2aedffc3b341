from __future__ import annotations

import numpy as np
import pytest

from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.partition.newcomers import Side, distances_of_rows, folded_distances, join, nearest, place_rows, settle
from receraser.partition.partition import Landmarks, Partition
from receraser.partition.space import distance_table

RNG = np.random.default_rng(1)
MARKS = Landmarks(RNG.normal(size=(3, 4)), IdMap("abcdef"), RNG.normal(size=(6, 4)).astype(np.float32))
ROWS = Interactions.from_pairs([("u", "a"), ("u", "c"), ("u", "new"), ("v", "new"), ("w", "f"), ("w", "b")])


def folded(marks: list[int]) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """The normal equations of WMF's default weights, solved plainly."""
    items = MARKS.vectors.astype(np.float64)
    own = items[marks]
    penalty = 0.01 * (len(marks) + 0.2 * 6)
    left = 0.2 * items.T @ items + own.T @ own + penalty * np.eye(4)
    return np.linalg.solve(left, own.sum(axis=0)).astype(np.float32)


def test_folded_in_from_the_landmarks_among_its_rows() -> None:
    table = folded_distances(Side.users(ROWS), MARKS, MARKS.anchors)
    expected = distance_table(np.array([folded([0, 2]), folded([1, 5])]), MARKS.anchors)
    assert np.allclose(table[[0, 2]], expected, atol=1e-6)
    assert np.isinf(table[1]).all(), "known by nothing"


def test_items_are_folded_in_the_same_way() -> None:
    turned = Interactions.from_pairs([(item, user) for user, item in ROWS.pairs()])
    by_item = folded_distances(Side.items(turned), MARKS, MARKS.anchors)
    assert np.allclose(by_item, folded_distances(Side.users(ROWS), MARKS, MARKS.anchors))


@pytest.mark.parametrize(
    ("combine", "expected"), [(np.multiply, [6.0, 2.0, 3.0, np.inf]), (np.minimum, [2.0, 2.0, 3.0, np.inf])]
)
def test_a_side_that_is_unknown_is_left_out(combine: np.ufunc, expected: list[float]) -> None:
    users, items = np.array([[2.0]]), np.array([[3.0]])
    index = np.array([0, 0, -1, -1]), np.array([0, -1, 0, -1])
    assert distances_of_rows(users, index[0], items, index[1], combine)[:, 0].tolist() == expected


def test_the_nearest_however_full() -> None:
    distances = np.array([[2.0, 1.0, 1.0], [np.inf, np.inf, np.inf], [np.inf, np.inf, 4.0]])
    assert nearest(distances, np.array([0, 1, 0], dtype=np.int32)).tolist() == [1, 1, 2]


def test_a_shard_that_is_over_its_limit_takes_nobody() -> None:
    shards = settle(np.array([[0.0, 1.0]]), np.array([1]), load=np.array([9, 0]), limit=3)
    assert shards.tolist() == [1]


@pytest.mark.parametrize(("limit", "expected"), [(4, 1), (5, 0)])
def test_load_is_what_is_held_and_what_joins_it(limit: int, expected: int) -> None:
    """Two rows held and two new ones of u fill a shard of four: the stranger who is near to it goes elsewhere."""
    held = Interactions.from_pairs([("u", "a"), ("u", "b"), ("v", "a")])
    partition = Partition(2, np.array([0, 0, 1], dtype=np.int32))
    new = Interactions.from_pairs([("u", "c"), ("u", "d"), ("x", "a")])
    near_0 = np.array([[0.0, 0.0], [1.0, 9.0]])
    shards = join(Side.users(new), Side.users(held), partition, lambda: near_0, lambda _: limit, by_rows=True)
    assert shards.tolist() == [0, 0, expected]


def test_nobody_is_folded_in_who_is_held() -> None:
    def look() -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        raise AssertionError("not needed")

    partition = Partition(2, np.ones(len(ROWS), dtype=np.int32))
    more = Interactions.from_pairs([("u", "x"), ("w", "y")])
    assert join(Side.users(more), Side.users(ROWS), partition, look, int, by_rows=True).tolist() == [1, 1]


def test_a_user_of_new_rows_is_known_by_the_rows_held_too() -> None:
    """Of u only an item without a landmark is new; what is held says where u is."""
    held = Interactions.from_pairs([("u", "a"), ("u", "c"), ("z", "b")])
    partition = Partition(3, np.array([1, 2, 0], dtype=np.int32), landmarks=MARKS)
    expected = distance_table(folded([0, 2])[None], MARKS.anchors).argmin()
    new = Interactions.from_pairs([("u", "new")])
    shards = place_rows(new, held, partition, (MARKS.anchors, MARKS.anchors), np.multiply, lambda _: 100)
    assert shards.tolist() == [expected]
