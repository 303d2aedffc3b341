from __future__ import annotations

from random import Random
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from receraser.data.ids import IdMap
from receraser.data.interactions import Histories, Interactions, kept_of
from receraser.errors import DataError
from tests.contracts.worlds import random_rows

NAMES = st.sampled_from(["a", "b", "c", "9", "10", "09", "é", "\U0001f600", "\uff41"])
PAIRS = st.lists(st.tuples(NAMES, NAMES), max_size=30)


def index(*values: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    return np.array(values, dtype=np.int32)


@given(PAIRS, st.randoms(use_true_random=False))
def test_the_order_of_the_input_and_duplicates_leave_no_trace(pairs: list[tuple[str, str]], random: Random) -> None:
    shuffled = [*pairs, *pairs[:5]]
    random.shuffle(shuffled)
    one, other = Interactions.from_pairs(pairs), Interactions.from_pairs(shuffled)
    assert one == other
    assert one.user_index.tobytes() == other.user_index.tobytes()
    assert one.item_index.tobytes() == other.item_index.tobytes()
    assert list(one.pairs()) == sorted(set(pairs), key=lambda pair: (pair[0].encode(), pair[1].encode()))


@given(PAIRS)
def test_vocabularies_are_exactly_what_occurs(pairs: list[tuple[str, str]]) -> None:
    rows = Interactions.from_pairs(pairs)
    assert set(rows.users) == {user for user, _ in pairs}
    assert set(rows.items) == {item for _, item in pairs}
    assert rows.user_index.dtype == rows.item_index.dtype == np.int32


@given(PAIRS, PAIRS)
def test_without_is_the_difference_of_sets(some: list[tuple[str, str]], others: list[tuple[str, str]]) -> None:
    rows, gone = Interactions.from_pairs(some), Interactions.from_pairs(others)
    assert rows.without(gone) == Interactions.from_pairs(set(some) - set(others))
    assert rows.holds(gone).tolist() == [pair in set(others) for pair in rows.pairs()]
    assert rows.without(gone).without(gone) == rows.without(gone)
    assert len(rows.without(rows)) == 0
    assert rows.without(Interactions.empty()) == rows


@given(PAIRS, st.data())
def test_take_by_mask_and_by_position_agree(pairs: list[tuple[str, str]], data: st.DataObject) -> None:
    rows = Interactions.from_pairs(pairs)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), dtype=bool)
    taken = rows.take(mask)
    assert taken == rows.take(np.flatnonzero(mask)[::-1])
    assert list(taken.pairs()) == [pair for pair, wanted in zip(rows.pairs(), mask, strict=True) if wanted]
    assert set(taken.items) == {item for _, item in taken.pairs()}


@given(PAIRS)
def test_the_matrix_and_the_row_bounds_hold_the_same_rows(pairs: list[tuple[str, str]]) -> None:
    rows = Interactions.from_pairs(pairs)
    dense = rows.matrix().toarray()
    assert dense.shape == (len(rows.users), len(rows.items))
    assert dense.sum() == len(rows)
    assert all(dense[u, i] == 1 for u, i in zip(rows.user_index, rows.item_index, strict=True))
    assert [list(rows.user_index[a:b]) for a, b in zip(rows.indptr[:-1], rows.indptr[1:], strict=True)] == [
        [u] * n for u, n in enumerate(np.diff(rows.indptr))
    ]


def test_the_latest_timestamp_of_merged_rows_is_kept() -> None:
    rows = Interactions.from_columns("uuvu", "abaa", timestamps=[5, 1, 2, 9])
    assert rows.timestamps is not None
    assert dict(zip(rows.pairs(), rows.timestamps, strict=True)) == {("u", "a"): 9, ("u", "b"): 1, ("v", "a"): 2}
    assert rows == Interactions.from_pairs(rows.pairs()), "timestamps are no part of equality"
    assert rows.take(rows.timestamps > 1).timestamps is not None


def test_no_rows_are_a_table_too() -> None:
    rows = Interactions.empty()
    assert len(rows) == len(rows.users) == len(rows.items) == 0
    assert rows.matrix().shape == (0, 0)
    assert rows.indptr.tolist() == [0]
    timed = Interactions.from_columns([], [], timestamps=[])
    assert timed == rows
    assert timed.timestamps is not None
    assert repr(rows) == "Interactions(0 rows, 0 users, 0 items)"


def test_from_indices_joins_ids_that_stand_twice_and_drops_unused_ones() -> None:
    rows = Interactions.from_indices(["b", "a", "b", "never"], ["x"], np.array([0, 1, 2]), np.array([0, 0, 0]))
    assert list(rows.pairs()) == [("a", "x"), ("b", "x")]


def test_integers_and_their_digits_are_the_same_ids() -> None:
    assert Interactions.from_pairs([(1, 10)]) == Interactions.from_pairs([("1", "10")])


@pytest.mark.parametrize(("user", "item"), [("", "a"), ("a", "x,y"), (1.5, "a"), ("a", None)])
def test_bad_ids_are_refused(user: str, item: str) -> None:
    with pytest.raises(DataError):
        Interactions.from_pairs([(user, item)])


def test_columns_must_be_equally_long() -> None:
    with pytest.raises(DataError, match="2 users but 1 items"):
        Interactions.from_columns(["a", "b"], ["x"])
    for times in ([1.0], [1.0, 2.0, 3.0]):
        with pytest.raises(ValueError, match="differ in length"):
            Interactions.from_columns(["a", "b"], ["x", "y"], timestamps=times)
    with pytest.raises(ValueError, match="differ in length"):
        Interactions.from_indices(["a"], ["x"], np.array([0, 0]), np.array([0]))


@pytest.mark.parametrize(
    ("users", "items", "user_index", "item_index", "why"),
    [
        (["u"], ["a", "b"], index(0, 0), index(1, 0), "canonical order"),
        (["u"], ["a"], index(0, 0), index(0, 0), "stands twice"),
        (["u", "v"], ["a"], index(0), index(0), "user vocabulary"),
        (["u"], ["a", "b"], index(0), index(0), "item vocabulary"),
        (["u"], ["a"], index(0), index(1), "item vocabulary"),
        (["u"], ["a"], index(-1), index(0), "user vocabulary"),
        (["u"], ["a"], index(0), index(0, 0), "differ in length"),
    ],
)
def test_a_table_is_checked_when_made(
    users: list[str],
    items: list[str],
    user_index: np.ndarray[tuple[int, ...], np.dtype[np.int32]],
    item_index: np.ndarray[tuple[int, ...], np.dtype[np.int32]],
    why: str,
) -> None:
    with pytest.raises(ValueError, match=why):
        Interactions(IdMap(users), IdMap(items), user_index, item_index)


def test_indices_are_int32_and_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="not int32"):
        Interactions(IdMap(["u"]), IdMap(["a"]), np.array([0]), index(0))
    rows = Interactions.from_pairs([("u", "a")])
    with pytest.raises(ValueError, match="read-only"):
        rows.user_index[0] = 5


def test_tables_cannot_be_hashed_and_differ_from_other_things() -> None:
    rows = Interactions.from_pairs([("u", "a")])
    with pytest.raises(TypeError):
        hash(rows)
    assert rows != [("u", "a")]
    assert rows != Interactions.from_pairs([("u", "b")])


def test_users_are_renamed_row_by_row() -> None:
    rows = Interactions.from_columns(["u", "v"], ["a", "b"], timestamps=[1, 2])
    renamed = rows.rename_users(["z", "y"])
    assert list(renamed.pairs()) == [("y", "b"), ("z", "a")]
    assert renamed.timestamps is not None
    assert renamed.timestamps.tolist() == [2, 1]
    with pytest.raises(ValueError, match="distinct"):
        rows.rename_users(["z", "z"])


def test_histories_look_up_users_in_a_vocabulary_of_choice() -> None:
    rows = Interactions.from_pairs([("u", "a"), ("u", "c"), ("v", "b")])
    histories = Histories.of(["v", "nobody", "u"], rows, IdMap(["0", "b", "c"]))
    assert len(histories) == 3
    assert histories.users == ("v", "nobody", "u")
    assert histories.indptr.tolist() == [0, 1, 1, 2], "item a is unknown to the vocabulary"
    assert histories.item_index.tolist() == [1, 2]


def test_histories_from_lists_are_sorted_without_duplicates() -> None:
    histories = Histories.from_lists([""], [np.array([3, -1, 1, 3])])
    assert histories.item_index.tolist() == [1, 3]
    assert Histories.from_lists([], []).indptr.tolist() == [0]


def test_tables_that_share_no_row_are_joined_and_every_row_knows_its_table() -> None:
    tables = [
        Interactions.from_pairs([("b", "x"), ("a", "y")]),
        Interactions.empty(),
        Interactions.from_pairs([("a", "x")]),
    ]
    rows, places = Interactions.joined(tables)
    assert rows == Interactions.union(tables)
    assert dict(zip(rows.pairs(), places.tolist(), strict=True)) == {("b", "x"): 0, ("a", "y"): 0, ("a", "x"): 2}
    assert [len(part) for part in Interactions.joined([])] == [0, 0]
    with pytest.raises(ValueError, match="a row stands twice"):
        Interactions.joined([tables[0], tables[0]])


@pytest.mark.parametrize("most", [1, 1000])
@pytest.mark.parametrize("shape", [(40, 12, 0.9), (300, 12, 0.12)], ids=["long histories", "users vanish"])
@given(n=st.integers(0, 6), gone=st.lists(st.tuples(st.integers(0, 400), st.integers(1, 3)), max_size=4))
def test_what_a_mask_keeps_is_the_same_whichever_way_it_is_cut(
    most: int, shape: tuple[int, int, float], n: int, gone: list[tuple[int, int]]
) -> None:
    """Few stretches go and are cut out, or too many for that, or too many rows; the reference looks at every row."""
    rows = random_rows(*shape, seed=n)
    stay = np.ones(len(rows), dtype=bool)
    for first, length in gone:
        stay[first : first + length] = False
    with mock.patch("receraser.data.interactions._MOST_PIECES", most):
        found = rows.take(stay)
    expected = Interactions.from_pairs([pair for pair, there in zip(rows.pairs(), stay, strict=True) if there])
    assert found == expected
    assert found.users == expected.users
    assert found.items == expected.items
    assert np.array_equal(found.indptr, expected.indptr)
    assert np.array_equal(found.item_counts, expected.item_counts)
    assert np.array_equal(kept_of(rows.user_index, stay), rows.user_index[stay])
