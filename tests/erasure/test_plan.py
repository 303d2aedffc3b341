from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from receraser.data.interactions import Interactions
from receraser.erasure.plan import (
    DOWNDATE,
    NOTHING,
    REFIT,
    SHARDS,
    cheapest,
    estimated_seconds,
    plan,
    share_of_pairs,
)
from receraser.erasure.request import ForgetRequest
from receraser.partition.partition import Partition

USERS = st.sampled_from(["u1", "u2", "u3", "u4"])
ITEMS = st.sampled_from(["a", "b", "c", "d"])
PAIRS = st.tuples(USERS, ITEMS)
REQUESTS = st.builds(
    ForgetRequest.of, st.lists(USERS, max_size=2), st.lists(ITEMS, max_size=1), st.lists(PAIRS, max_size=4)
)
TRAIN = Interactions.from_pairs([("u", "a"), ("u", "b"), ("v", "b"), ("w", "c")])
VALID = Interactions.from_pairs([("u", "c"), ("x", "a")])


def shards(*numbers: int) -> NDArray[np.int32]:
    return np.array(numbers, dtype=np.int32)


# ---------------------------------------------------------------------- the plan


def test_a_shard_is_affected_by_a_training_row_or_a_validation_row() -> None:
    partition = Partition(4, shards(3, 0, 0, 1), shards(0, 2))
    found = plan(ForgetRequest.of(["w", "x"], interactions=[("u", "a")]), TRAIN, VALID, partition)
    assert found.train_rows.tolist() == [True, False, False, True]
    assert found.valid_rows is not None
    assert found.valid_rows.tolist() == [False, True]
    assert found.shards == (1, 2, 3)
    assert all(type(k) is int for k in found.shards), "plain integers, ready for JSON"
    assert (found.rows_removed, found.valid_rows_removed) == (2, 1)
    assert (found.users_left_empty, found.items_left_empty) == (1, 2)
    assert not found.unknown


def test_validation_rows_alone_affect_a_shard() -> None:
    found = plan(ForgetRequest.of(["x"]), TRAIN, VALID, Partition(3, shards(0, 0, 1, 1), shards(0, 2)))
    assert (found.shards, found.rows_removed, found.valid_rows_removed) == ((2,), 0, 1)
    assert (found.users_left_empty, found.items_left_empty) == (0, 0)


def test_nothing_held_means_nothing_to_do() -> None:
    request = ForgetRequest.of(["nobody"], ["nothing"], [("u", "c"), ("v", "a")])
    found = plan(request, TRAIN, None, Partition(1, shards(0, 0, 0, 0)))
    assert (found.shards, found.rows_removed, found.valid_rows, found.valid_rows_removed) == ((), 0, None, 0)
    assert found.unknown == request


def test_forgetting_everything() -> None:
    request = ForgetRequest.of(TRAIN.users, VALID.items)
    found = plan(request, TRAIN, VALID, Partition(2, shards(0, 0, 1, 1), shards(1, 0)))
    assert found.train_rows.all()
    assert (found.shards, found.rows_removed, found.valid_rows_removed) == ((0, 1), 4, 2)
    assert (found.users_left_empty, found.items_left_empty) == (3, 3)


def test_no_rows_at_all() -> None:
    found = plan(ForgetRequest.of(["u"]), Interactions.empty(), None, Partition(2, shards()))
    assert (found.shards, found.rows_removed, found.users_left_empty, found.unknown.users) == ((), 0, 0, ("u",))


def test_a_plan_shows_no_ids() -> None:
    found = plan(ForgetRequest.of(["secret"]), TRAIN, None, Partition(1, shards(0, 0, 0, 0)))
    assert "secret" not in repr(found)


@given(st.lists(PAIRS, max_size=12), st.none() | st.lists(PAIRS, max_size=6), REQUESTS, st.data())
def test_a_plan_is_what_sets_say(
    pairs: list[tuple[str, str]], held: list[tuple[str, str]] | None, request: ForgetRequest, data: st.DataObject
) -> None:
    train = Interactions.from_pairs(pairs)
    valid = None if held is None else Interactions.from_pairs(held)
    tables = [table for table in (train, valid) if table is not None]
    homes = [
        data.draw(st.lists(st.integers(0, 3), min_size=len(table), max_size=len(table)), label="shards")
        for table in tables
    ]
    partition = Partition(4, shards(*homes[0]), None if valid is None else shards(*homes[1]))
    found = plan(request, train, valid, partition)

    gone = [
        {
            row
            for row in table.pairs()
            if row[0] in request.users or row[1] in request.items or row in request.interactions
        }
        for table in tables
    ]
    where = [dict(zip(table.pairs(), home, strict=True)) for table, home in zip(tables, homes, strict=True)]
    assert set(train.take(found.train_rows).pairs()) == gone[0]
    assert found.shards == tuple(sorted({home[row] for home, rows in zip(where, gone, strict=True) for row in rows}))
    assert found.rows_removed == len(gone[0])
    assert found.valid_rows_removed == (len(gone[1]) if valid is not None else 0)
    assert found.unknown == request.unknown(train, valid)
    survivors = train.take(~found.train_rows)
    assert found.users_left_empty == len(train.users) - len(survivors.users)
    assert found.items_left_empty == len(train.items) - len(survivors.items)
    for k in set(range(4)) - set(found.shards):
        untouched = partition.shard(k, train, valid)
        assert not request.cells(untouched.train).any()
        assert untouched.valid is None or not request.cells(untouched.valid).any()


@pytest.mark.parametrize(
    ("partition", "valid"),
    [
        (Partition(1, shards(0, 0, 0)), None),
        (Partition(1, shards(0, 0, 0, 0)), VALID),
        (Partition(1, shards(0, 0, 0, 0), shards(0, 0)), None),
        (Partition(1, shards(0, 0, 0, 0), shards(0)), VALID),
    ],
)
def test_other_tables_than_those_partitioned_are_refused(partition: Partition, valid: Interactions | None) -> None:
    with pytest.raises(ValueError, match="not the tables that were partitioned"):
        plan(ForgetRequest.of(["u"]), TRAIN, valid, partition)


# ---------------------------------------------------------------------- the path


@pytest.mark.parametrize(
    ("affected", "n_shards", "share", "expected"),
    [
        (0, 32, None, NOTHING),
        (0, 1, 0.0, NOTHING),
        (1, 32, None, SHARDS),
        (16, 32, None, SHARDS),
        (17, 32, None, REFIT),
        (32, 32, None, REFIT),
        (2, 3, None, REFIT),
        (1, 2, None, SHARDS),
        (1, 1, None, REFIT),
        (1, 1, 0.0, DOWNDATE),
        (1, 1, 0.49, DOWNDATE),
        (1, 1, 0.5, REFIT),
        (1, 1, 1.0, REFIT),
    ],
)
def test_the_cheapest_path(affected: int, n_shards: int, share: float | None, expected: str) -> None:
    """To take half of the sums away and to add what is left costs what it costs to take them all anew."""
    assert cheapest(range(affected), n_shards, share) == expected


@given(st.sets(PAIRS), st.data())
def test_the_share_of_pairs_is_what_sets_say(pairs: set[tuple[str, str]], data: st.DataObject) -> None:
    rows = Interactions.from_pairs(pairs)
    touched = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    users = {user for (user, _), gone in zip(rows.pairs(), touched, strict=True) if gone}
    together = [(user, one, other) for user, one in pairs for name, other in pairs if name == user]
    of_users = sum(user in users for user, _, _ in together)
    assert share_of_pairs(rows, np.array(touched, dtype=bool)) == (of_users / len(together) if together else 0.0)


# ---------------------------------------------------------------------- the time


@pytest.mark.parametrize(
    ("affected", "seconds", "aggregate", "n_workers", "expected"),
    [
        ((0, 1, 2), [1.0, 2.0, 3.0], 0.5, 1, 6.5),
        ((0, 1, 2), [1.0, 2.0, 3.0], 0.5, 2, 3.5),
        ((0, 1, 2), [1.0, 2.0, 3.0], 0.5, 99, 3.5),
        ((1,), [1.0, 2.0, 3.0], 0.0, 2, 2.0),
        ((0, 1, 2, 3, 4), [2.0, 2.0, 2.0, 3.0, 3.0], 0.0, 2, 7.0),  # longest first: 3 + 2 + 2 beside 3 + 2
        ((0, 2), [1.0, 5.0, None], 1.0, 1, 5.0),  # the one not measured is taken for an average one, 3 s
        ((1,), [4.0, None], 0.0, 1, 4.0),
        ((), [1.0], 1.0, 1, 0.0),
        ((), [None], None, 1, 0.0),
        ((0,), [None, None], 1.0, 1, None),
        ((0,), [1.0], None, 1, None),
        ((0,), [0.0], 0.0, 1, 0.0),
    ],
)
def test_estimates(
    affected: tuple[int, ...],
    seconds: list[float | None],
    aggregate: float | None,
    n_workers: int,
    expected: float | None,
) -> None:
    assert estimated_seconds(affected, seconds, aggregate, n_workers) == expected


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 3))
def test_the_estimate_is_near_the_best_there_is(seconds: list[int], n_workers: int) -> None:
    """Longest first takes at most 4/3 of the best schedule (Graham 1969), and no schedule beats the best."""
    shard_ids = range(len(seconds))
    found = estimated_seconds(shard_ids, [float(one) for one in seconds], 0.0, n_workers)
    best = min(
        max(sum(one for one, at in zip(seconds, places, strict=True) if at == worker) for worker in range(n_workers))
        for places in product(range(n_workers), repeat=len(seconds))
    )
    assert found is not None
    assert best <= found <= best * 4 / 3
    assert found == estimated_seconds(list(shard_ids)[::-1], [float(one) for one in seconds], 0.0, n_workers)


def test_without_workers_nothing_gets_done() -> None:
    with pytest.raises(ValueError, match="0 workers; expected at least 1"):
        estimated_seconds((0,), [1.0], 0.0, 0)
