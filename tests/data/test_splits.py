from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from receraser.data.interactions import Interactions
from receraser.data.splits import Split, leave_last_split, per_user_split, random_split, time_split
from receraser.errors import DataError, UsageError

ROWS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 30), st.integers(0, 6)), max_size=60)


def table(rows: list[tuple[int, int, int]]) -> Interactions:
    return Interactions.from_columns([u for u, _, _ in rows], [i for _, i, _ in rows], [float(t) for _, _, t in rows])


def grid(n_users: int, n_items: int) -> Interactions:
    return Interactions.from_pairs((u, i) for u in range(n_users) for i in range(n_items))


SPLITTERS: dict[str, Callable[[Interactions], Split]] = {
    "random": lambda rows: random_split(rows, test=0.3, valid=0.2, seed=1),
    "per user": lambda rows: per_user_split(rows, test=0.3, valid=0.2, seed=1),
    "leave last": lambda rows: leave_last_split(rows, 2, 1),
    "time": lambda rows: time_split(rows, test=0.3, valid=0.2),
}


@pytest.mark.parametrize("name", SPLITTERS)
@settings(max_examples=50, deadline=None)
@given(ROWS)
def test_every_row_is_in_one_part_and_the_input_order_does_not_matter(
    name: str, rows: list[tuple[int, int, int]]
) -> None:
    whole = table(rows)
    split = SPLITTERS[name](whole)
    parts = [split.train, split.valid, split.test]
    assert sum(len(part) for part in parts) == len(whole)
    assert sorted(pair for part in parts for pair in part.pairs()) == sorted(whole.pairs())
    again = SPLITTERS[name](table(rows[::-1]))
    assert [again.train, again.valid, again.test] == parts
    assert whole.timestamps is not None
    times = dict(zip(whole.pairs(), whole.timestamps, strict=True))
    for part in parts:
        assert part.timestamps is not None
        assert [times[pair] for pair in part.pairs()] == part.timestamps.tolist()


def test_random_sizes_are_exact_as_in_the_paper() -> None:
    split = random_split(grid(100, 101), test=0.2, valid=0.1, seed=7)
    assert (len(split.test), len(split.valid), len(split.train)) == (2020, 808, 7272)
    assert len(random_split(grid(10, 10), test=0.29, seed=7).test) == 29, "not the 28.999... of binary fractions"
    assert len(random_split(grid(10, 10), test=0, seed=7).train) == 100


def test_random_depends_on_the_seed_and_is_fair() -> None:
    rows = grid(100, 100)
    one, other = (random_split(rows, test=0.5, seed=seed).test for seed in (1, 2))
    common = np.count_nonzero(one.holds(other))
    assert 2300 < common < 2700, "two independent halves of 10,000 share about 2,500 rows"
    per_user = np.diff(one.indptr)
    assert 25 < per_user.min() <= per_user.max() < 75
    per_item = np.bincount(one.item_index)
    assert 25 < per_item.min() <= per_item.max() < 75


def test_a_rows_draw_does_not_depend_on_other_rows() -> None:
    """Without the users 0 to 4, the order of the draws of the others is the same: test rows stay test rows."""
    rows = grid(10, 50)
    few = rows.take(rows.user_index >= 5)
    whole_test = random_split(rows, test=0.4, seed=3).test
    for share in (0.1, 0.9):
        part_test = random_split(few, test=share, seed=3).test
        mine = few.holds(whole_test)
        theirs = few.holds(part_test)
        assert (mine <= theirs).all() or (theirs <= mine).all(), "sets cut from one order are nested"


def test_per_user_fractions_round_and_leave_one_row_in_train() -> None:
    sizes = {"one": 1, "two": 2, "three": 3, "ten": 10}
    rows = Interactions.from_pairs((user, i) for user, n in sizes.items() for i in range(n))
    split = per_user_split(rows, test=0.2, valid=0.5, seed=5)

    def counts(part: Interactions) -> dict[str, int]:
        return {user: int(n) for user, n in zip(part.users, np.diff(part.indptr), strict=True)}

    assert counts(split.test) == {"ten": 2, "three": 1}
    assert counts(split.valid) == {"ten": 4, "three": 1, "two": 1}
    assert counts(split.train) == {"ten": 4, "three": 1, "two": 1, "one": 1}
    greedy = per_user_split(rows, test=0.99, valid=0.99, seed=5)
    assert counts(greedy.train) == dict.fromkeys(sizes, 1)


def test_a_users_split_does_not_depend_on_other_users() -> None:
    rows = grid(10, 20)
    alone = rows.take(rows.user_index == 4)
    assert list(per_user_split(alone, test=0.3, seed=2).test.pairs()) == [
        pair for pair in per_user_split(rows, test=0.3, seed=2).test.pairs() if pair[0] == "4"
    ]


def test_the_last_rows_by_time_then_by_item_bytes() -> None:
    rows = Interactions.from_columns(
        ["u", "u", "u", "u", "v", "w", "w"],
        ["9", "10", "a", "b", "a", "a", "b"],
        timestamps=[5, 5, 1, 2, 1, 2, 1],
    )
    split = leave_last_split(rows, n_test=1, n_valid=1)
    assert list(split.test.pairs()) == [("u", "9"), ("w", "a")], "of equal times '9' is later than '10', by its bytes"
    assert list(split.valid.pairs()) == [("u", "10")]
    assert set(split.train.users) == {"u", "v", "w"}, "nobody loses the last row they have"


def test_time_borders_never_part_rows_of_one_time() -> None:
    rows = Interactions.from_columns("uuuuuuuuuu", "abcdefghij", timestamps=[1, 2, 3, 4, 5, 5, 5, 5, 9, 10])
    split = time_split(rows, test=0.2, valid=0.25)
    assert "".join(split.test.items) == "ij"
    assert "".join(split.valid.items) == "", "the border falls among the fives, which stay with the earlier rows"
    assert "".join(split.train.items) == "abcdefgh"
    assert "".join(time_split(rows, test=0.2, valid=0.5).valid.items) == "efgh"
    assert len(time_split(rows.take(np.arange(4, 8)), test=0.5).train) == 4, "all at one time: all in train"


@given(ROWS)
def test_time_parts_follow_each_other(rows: list[tuple[int, int, int]]) -> None:
    split = time_split(table(rows), test=0.4, valid=0.4)
    spans = [part.timestamps for part in (split.train, split.valid, split.test) if len(part)]
    for earlier, later in pairwise(spans):
        assert earlier is not None
        assert later is not None
        assert earlier.max() < later.min()


@pytest.mark.parametrize("fraction", [-0.1, 1, 1.5, float("nan"), float("inf")])
def test_fractions_are_checked(fraction: float) -> None:
    rows = table([(1, 2, 3)])
    calls: list[Callable[[], Split]] = [
        lambda: random_split(rows, test=fraction, seed=1),
        lambda: random_split(rows, test=0.1, valid=fraction, seed=1),
        lambda: per_user_split(rows, test=fraction, seed=1),
        lambda: time_split(rows, test=fraction),
    ]
    for split in calls:
        with pytest.raises(UsageError, match="fraction"):
            split()


def test_counts_are_checked() -> None:
    with pytest.raises(UsageError, match="n_test is -1"):
        leave_last_split(table([(1, 2, 3)]), -1)
    with pytest.raises(UsageError, match="n_valid is -2"):
        leave_last_split(table([(1, 2, 3)]), 1, -2)


def test_splits_by_time_say_how_to_keep_timestamps() -> None:
    rows = grid(2, 2)
    calls: list[Callable[[], Split]] = [lambda: leave_last_split(rows), lambda: time_split(rows, test=0.1)]
    for split in calls:
        with pytest.raises(DataError, match="keep_timestamps=True"):
            split()
    with pytest.raises(DataError, match="finite"):
        time_split(Interactions.from_columns(["u"], ["a"], timestamps=[float("nan")]), test=0.5)
