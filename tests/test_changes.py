from __future__ import annotations

import numpy as np
import pytest

from receraser.changes import Change, joined, without
from receraser.erasure.request import ForgetRequest
from receraser.partition.partition import Shard
from receraser.state import State
from tests.contracts.worlds import random_rows
from tests.forgetting.engines import Combination, planned_for, rows_of

ROWS = random_rows(30, 12, 0.3, seed=3)
HELD = random_rows(30, 12, 0.1, seed=4)
COMBINATIONS = [
    Combination("hash", "mean", "wmf", shards=4),
    Combination("random", "mean", "wmf", shards=4),
    Combination("whole", "alone", "wmf"),
]
REQUESTS = {
    "a user": ForgetRequest.of(users=["u003"]),
    "an item": ForgetRequest.of(items=["i002"]),
    "one row": ForgetRequest.of(interactions=[next(iter(ROWS.pairs()))]),
    "many": ForgetRequest.of(users=ROWS.users.ids[::2], items=ROWS.items.ids[:3]),
    "everybody": ForgetRequest.of(users=ROWS.users.ids),
    "nobody": ForgetRequest.of(users=["a stranger"]),
}


def state_with(combination: Combination, *, held: bool) -> State:
    engine = combination.engine().fit(ROWS, valid=HELD if held else None)
    return engine.state


def are_cut_from_the_tables(change: Change) -> bool:
    """What a shard is to be fitted on is what the next state says it holds."""
    train, valid, partition = change.tables
    cut = partition.shards(train, valid)
    return [(one.id, one.train, one.valid) for one in change.shards] == [
        (k, cut[k].train, cut[k].valid) for k in change.affected
    ]


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("combination", COMBINATIONS, ids=str)
def test_shards_that_lose_rows(combination: Combination, held: bool, request_: ForgetRequest) -> None:
    state = state_with(combination, held=held)
    planned = planned_for(state, request_)
    change = without(state, planned)
    assert are_cut_from_the_tables(change)
    assert len(change.tables.train) == len(state.train) - planned.rows_removed
    before = sum(len(state.shards[one.id].shard.train) for one in change.shards)
    assert before - sum(len(one.train) for one in change.shards) == planned.rows_removed


@pytest.mark.parametrize("held", [False, True])
def test_shards_that_gain_rows(held: bool) -> None:
    state = state_with(COMBINATIONS[0], held=held)
    new = rows_of([("u003", "i999"), ("somebody new", "i001")]).without(state.train)
    assert are_cut_from_the_tables(joined(state, new, np.array([2, 0], dtype=np.int32)))


def test_shards_do_not_wait_for_the_tables() -> None:
    """They are fitted while the tables are made; and either is made once."""
    state = state_with(COMBINATIONS[0], held=False)
    asked: list[str] = []
    change = without(state, planned_for(state, REQUESTS["a user"]))

    def noted(what: str, made: object) -> object:
        asked.append(what)
        return made

    watched = Change(
        change.affected,
        lambda: noted("shards", change.shards),  # type: ignore[arg-type,return-value]
        lambda: noted("tables", change.tables),  # type: ignore[arg-type,return-value]
    )
    assert all(isinstance(one, Shard) for one in watched.shards)
    assert asked == ["shards"]
    assert watched.tables is watched.tables
    assert watched.shards is watched.shards
    assert asked == ["shards", "tables"]
