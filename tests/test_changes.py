from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from receraser import changes
from receraser.changes import Change, Tables, joined, without
from receraser.erasure.plan import Plan
from receraser.erasure.request import ForgetRequest
from receraser.errors import TrainingError
from receraser.execution.task import Result, Task
from receraser.protocols import Progress
from receraser.state import State
from tests.contracts.worlds import random_rows
from tests.forgetting.engines import Combination, Here, planned_for, rows_of

ROWS = random_rows(30, 12, 0.3, seed=3)
HELD = random_rows(30, 12, 0.1, seed=4)
COMBINATIONS = [
    Combination("hash", "mean", "wmf", shards=4),
    Combination("random", "mean", "wmf", shards=4),
    Combination("whole", "alone", "wmf"),
    Combination("inbp", "mean", "wmf"),
]
REQUESTS = {
    "a user": ForgetRequest.of(users=["u003"]),
    "an item": ForgetRequest.of(items=["i002"]),
    "one row": ForgetRequest.of(interactions=[next(iter(ROWS.pairs()))]),
    "many": ForgetRequest.of(users=ROWS.users.ids[::2], items=ROWS.items.ids[:3]),
    "everybody": ForgetRequest.of(users=ROWS.users.ids),
    "a row of validation": ForgetRequest.of(interactions=[next(iter(HELD.without(ROWS).pairs()))]),
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


def test_shards_do_not_wait_for_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    state = state_with(COMBINATIONS[0], held=False)

    def never(*_: object) -> Tables:
        raise AssertionError("nobody needs the tables yet")

    monkeypatch.setattr("receraser.changes._tables_without", never)
    assert len(without(state, planned_for(state, REQUESTS["a user"])).shards) == 1


def test_either_is_made_once() -> None:
    state = state_with(COMBINATIONS[0], held=False)
    change = without(state, planned_for(state, REQUESTS["a user"]))
    assert change.tables is change.tables
    assert change.shards is change.shards


class Watching(Here):
    """Notes which kinds of tasks had begun when the tables were made, and waits for that while a given one runs."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.made = threading.Event()
        self.begun: list[str] = []
        self.when: list[str] = []
        self._kind = kind

    def compute(self, task: Task, progress: Progress | None) -> Result:
        self.begun.append(task.kind)
        if task.kind == self._kind:
            assert self.made.wait(30), "the tables are not made while this runs"
        return super().compute(task, progress)


@pytest.mark.parametrize(
    ("aggregation", "kind"), [("mean", "submodel"), ("attention", "submodel"), ("spectral", "aggregation")]
)
def test_the_tables_are_made_while_workers_compute(
    aggregation: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the submodels; or, where no row is needed to put these together, beside that."""
    engine = Combination("hash", aggregation, "wmf", shards=4).engine().fit(ROWS)
    watching = Watching(kind)
    original = changes._tables_without

    def noted(state: State, planned: Plan) -> Tables:
        watching.when = list(watching.begun)
        try:
            return original(state, planned)
        finally:
            watching.made.set()

    monkeypatch.setattr("receraser.changes._tables_without", noted)
    engine._executor = watching
    engine.forget(users=["u003"])
    assert watching.made.is_set()
    assert watching.begun[-1] == ("submodel" if aggregation == "mean" else "aggregation")


@pytest.mark.parametrize("aggregation", ["mean", "attention", "spectral"])
@pytest.mark.parametrize("held", [False, True])
def test_a_table_that_keeps_what_its_shards_have_lost_is_refused(
    aggregation: str, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Combination("hash", aggregation, "wmf", shards=4).engine().fit(ROWS, valid=HELD if held else None)
    before = engine.state
    original = changes._tables_without

    def kept(state: State, planned: Plan) -> Tables:
        """With validation rows: these alone are kept."""
        made = original(state, planned)
        if not held:
            return Tables(state.train, state.valid, state.partition)
        return Tables(made.train, state.valid, replace(made.partition, valid=state.partition.valid))

    monkeypatch.setattr("receraser.changes._tables_without", kept)
    with pytest.raises(TrainingError, match=r"the table of all rows has \d+ in shard \d, which holds \d+"):
        engine.forget(users=[next(iter(HELD.users)) if held else "u003"])
    assert engine.state is before
