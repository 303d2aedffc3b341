"""A run does what is missing and no more, keeps each cell when it is done, and shares what can be shared."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from receraser.config import EngineConfig
from receraser.data.interactions import Interactions
from receraser.errors import TrainingError
from receraser.execution.local import LocalExecutor
from receraser.execution.task import Task, submodel_task
from receraser.protocols import Executor
from receraser.reproduce import forgetting, measuring
from receraser.reproduce.cell import Cell, Result
from receraser.reproduce.datasets import load
from receraser.reproduce.drawn import batch_of, gone_in, requests, without
from receraser.reproduce.kept import Kept
from receraser.reproduce.measuring import FITS, Workshop
from receraser.reproduce.runner import in_groups, run
from receraser.reproduce.settings import Chosen, chosen, on_device
from receraser.state import State
from receraser.work import Work
from tests.reproduce.conftest import WORLD

DATA = load(None, WORLD)


def settings(method: str, seed: int = 0) -> Chosen:
    return chosen(WORLD, "wmf", method, shards=3, seed=seed)


MEAN, ATTENTION = settings("receraser").under(settings("sisa")), settings("receraser")
CELLS = [Cell("rows", WORLD)] + [Cell("fit", WORLD, one.config) for one in (settings("sisa"), ATTENTION, MEAN)]


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch, kept_workers: None) -> list[str]:
    """The cells that were computed, in words."""
    seen: list[str] = []
    real: Callable[[Workshop, Cell], Result] = forgetting.compute

    def compute(shop: Workshop, cell: Cell) -> Result:
        seen.append(cell.label)
        return real(shop, cell)

    monkeypatch.setattr(forgetting, "compute", compute)
    return seen


def test_a_second_run_has_nothing_to_do(tmp_path: Path, computed: list[str]) -> None:
    told: list[str] = []
    assert run(CELLS, DATA, Kept(tmp_path), "cpu", told.append).done == 4
    assert told[0] == "4 of 4 cells to compute"
    assert told[1].startswith(f"[1/4] rows: {WORLD}: done, ")
    assert "left, fit: wmf, sisa, K=3, seed 0: R@20 " in told[2]
    assert len(computed) == 4
    assert run(CELLS, DATA, Kept(tmp_path), "cpu", told.append).done == 0
    assert len(computed) == 4
    more = [*CELLS, Cell("fit", WORLD, settings("sisa", seed=1).config)]
    assert run(more, DATA, Kept(tmp_path), "cpu", told.append).done == 1
    assert computed[4:] == ["fit: wmf, sisa, K=3, seed 1"]


def test_who_is_interrupted_loses_the_cell_under_way(
    tmp_path: Path, computed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = forgetting.compute

    def interrupted(shop: Workshop, cell: Cell) -> Result:
        if len(computed) == 2:
            raise KeyboardInterrupt
        return counting(shop, cell)

    monkeypatch.setattr(forgetting, "compute", interrupted)
    told: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        run(CELLS, DATA, Kept(tmp_path), "cpu", told.append)
    assert told[-1] == "interrupted; 2 of 4 cells were done and are kept; the same command goes on from there"
    assert not list(tmp_path.glob("*.part"))
    monkeypatch.setattr(forgetting, "compute", counting)
    assert run(CELLS, DATA, Kept(tmp_path), "cpu", told.append).done == 2
    assert len(computed) == len(set(computed)) == 4, "nothing was done twice"


def test_a_cell_that_fails_is_told_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_workers: None
) -> None:
    def failing(shop: Workshop, cell: Cell) -> Result:
        if cell.kind == "rows":
            raise TrainingError("no such luck")
        return Result(metrics={"recall@20": 0.5, "ndcg@20": 0.5})

    monkeypatch.setattr(forgetting, "compute", failing)
    ran = run(CELLS, DATA, Kept(tmp_path), "cpu", lambda _: None)
    assert (ran.done, ran.failed) == (3, [f"rows: {WORLD}: no such luck"])


def test_cells_of_the_same_submodels_are_a_group() -> None:
    """In it those of one configuration are neighbours; first fits, which leave nothing to share, come last."""
    spectral = Cell("fit", WORLD, settings("spectral").config)
    mixed = [
        Cell("first", WORLD, ATTENTION.config),
        CELLS[2],
        spectral,
        CELLS[3],
        CELLS[2],
        Cell("forgets", WORLD, ATTENTION.config, {"level": "users", "n": 1}),
    ]
    labels = [[one.label for one in group] for group in in_groups(mixed, "cpu")]
    assert labels == [
        [
            "fit: wmf, receraser, K=3, seed 0",
            "forgets: wmf, receraser, K=3, seed 0, level=users, n=1",
            "fit: wmf, inbp + mean, K=3, seed 0",
            "first: wmf, receraser, K=3, seed 0",
        ],
        ["fit: wmf, spectral, K=3, seed 0"],
    ]


def test_shared_submodels_give_what_a_fit_from_nothing_gives(worker: LocalExecutor) -> None:
    shop = Workshop(DATA.pseudonymous(), worker, "cpu")
    shop.fitted(MEAN.config)
    again = shop.fitted(ATTENTION.config)
    fresh = Work(ATTENTION.config, worker).fit(shop.data.full, shop.data.held)
    assert again.state.digest == fresh.digest
    assert set(again.seconds) == {"partition", "submodels", "aggregate"}


def test_forgetting_leaves_what_a_fit_of_the_survivors_gives(worker: LocalExecutor) -> None:
    """Users one after another, the same ones at once, and a fit that never saw them: the same quality for everybody."""
    shop = Workshop(DATA.pseudonymous(), worker, "cpu")
    config = settings("spectral").config
    one_by_one = forgetting.compute(shop, Cell("forgets", WORLD, config, {"level": "users", "n": 6}))
    at_once = forgetting.compute(shop, Cell("batch", WORLD, config, {"who": "random", "size": 6}))
    never = forgetting.compute(shop, Cell("fit", WORLD, config, {"who": "random", "size": 0.1}))
    assert at_once.numbers["forgotten"] == 6
    assert len(one_by_one.series["total"]) == 6
    for other in (at_once, never):
        assert other.notes["users"] == one_by_one.notes["users"]
        assert np.array_equal(other.per_user["ndcg@20"], one_by_one.per_user["ndcg@20"])


@pytest.mark.parametrize("level", ["users", "interactions"])
@pytest.mark.parametrize("method", ["spectral", "receraser", "sisa"])
def test_requests_that_begin_too_late_are_forgotten_at_once(method: str, level: str, worker: LocalExecutor) -> None:
    """One is timed at least; what is left is the same, and so is the quality for everybody."""
    shop = Workshop(DATA.pseudonymous(), worker, "cpu")
    config = settings(method).config
    found = [
        forgetting.compute(shop, Cell("forgets", WORLD, config, {"level": level, "n": 6, **more}))
        for more in ({}, {"within": 1e-9}, {"within": 600.0})
    ]
    assert [one.numbers["timed"] for one in found] == [6, 1, 6]
    assert [len(one.series["total"]) for one in found] == [6, 1, 6]
    assert [one.numbers["requests"] for one in found] == [6, 6, 6]
    for other in found[1:]:
        assert other.notes["users"] == found[0].notes["users"]
        assert np.array_equal(other.per_user["ndcg@20"], found[0].per_user["ndcg@20"])


TIMED = [
    Cell("forgets", WORLD, MEAN.config, {"level": "users", "n": 2}),
    Cell("batch", WORLD, ATTENTION.config, {"who": "random", "size": 3}),
    Cell("fit", WORLD, settings("retrain").config, {"who": "random", "size": 3}),
]


@pytest.mark.parametrize("cell", TIMED, ids=lambda one: one.kind)
def test_what_is_begun_is_timed_and_not_ranked(
    cell: Cell, monkeypatch: pytest.MonkeyPatch, worker: LocalExecutor
) -> None:
    """Ranking is the rest. After `prepare` nothing is fitted but what is timed."""
    shop = Workshop(DATA.pseudonymous(), worker, "cpu")
    steps: list[str] = []

    def noted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **more: Any) -> Any:
            steps.append(name)
            return real(*given, **more)

        return called

    monkeypatch.setattr(Work, "fit", noted("fit", Work.fit))
    monkeypatch.setattr(Work, "forget", noted("forget", Work.forget))
    monkeypatch.setattr(Workshop, "_combined_anew", noted("combine", Workshop._combined_anew))
    monkeypatch.setattr(Workshop, "measured", noted("rank", Workshop.measured))
    if cell.kind != "fit":
        forgetting.prepare(shop, cell)
        assert steps == ["fit", "forget"], "somebody is forgotten for nothing"
        steps.clear()
    rest = forgetting.begun(shop, cell)
    assert steps == {"forgets": ["forget"] * 2, "batch": ["forget"], "fit": ["fit"] * FITS}[cell.kind]
    steps.clear()
    found = rest()
    assert steps.count("rank") == 1
    assert "forget" not in steps
    again = forgetting.compute(Workshop(DATA.pseudonymous(), worker, "cpu"), cell)
    assert found.metrics == again.metrics


def test_pretraining_is_timed_once(monkeypatch: pytest.MonkeyPatch, worker: LocalExecutor) -> None:
    seen: list[int] = []
    real = submodel_task

    def noted(model: str, own: Mapping[str, object], seed: int, *rows: Interactions) -> Task:
        seen.append(seed)
        return real(model, own, seed, *rows)

    monkeypatch.setattr(measuring, "submodel_task", noted)
    shop = Workshop(DATA.pseudonymous(), worker, "cpu")
    found = [
        forgetting.compute(shop, Cell("forgets", WORLD, one.config, {"level": level, "n": 1}))
        for one, level in ((MEAN, "users"), (ATTENTION, "items"))
    ]
    assert len(seen) == 1
    assert found[0].seconds["pretrain"] == found[1].seconds["pretrain"] > 0
    forgetting.compute(shop, Cell("forgets", WORLD, settings("receraser", seed=1).config, {"level": "users", "n": 1}))
    assert len(seen) == len(set(seen)) == 2


@pytest.mark.parametrize(("quick", "runs"), [(60.0, 3), (1e-9, 1)])
def test_a_first_fit_is_timed_stage_by_stage(
    quick: float, runs: int, monkeypatch: pytest.MonkeyPatch, worker: LocalExecutor
) -> None:
    """From nothing, also where the same thing has been fitted; with the state that a fit comes to."""
    monkeypatch.setattr(measuring, "QUICK", quick)
    shop = Workshop(DATA.pseudonymous(), worker, "cpu")
    config = settings("receraser").config
    fitted = shop.fitted(shop.config(Cell("fit", WORLD, config)))
    found = forgetting.compute(shop, Cell("first", WORLD, config))
    assert found.seconds.keys() == {"pretrain", "partition", "submodels", "aggregate"}
    assert all(one > 0 for one in found.seconds.values())
    assert found.numbers["fits timed"] == runs
    assert found.notes["digest"] == fitted.state.digest
    assert not found.metrics


def test_submodels_that_are_put_together_in_another_way_are_kept(worker: LocalExecutor) -> None:
    """In every other way; until others are fitted."""
    shop = Workshop(DATA.pseudonymous(), worker, "cpu")
    receraser = settings("receraser").config
    mean = dataclasses.replace(receraser, method="", aggregation="mean", aggregation_settings={})
    static = dataclasses.replace(receraser, method="", aggregation="static", aggregation_settings={"n_epochs": 1})
    first = shop.fitted(receraser)
    other, third = shop.fitted(mean), shop.fitted(static)
    assert shop.fitted(mean) is other
    assert shop.fitted(static) is third
    assert other.state.shards[0].model is first.state.shards[0].model
    assert shop.fitted(receraser) is first
    assert shop.fitted(settings("receraser", seed=1).config).state.digest != first.state.digest
    assert shop.fitted(mean) is not other


@pytest.mark.parametrize(("quick", "seconds"), [(5.0, 2.0), (1.0, 3.0)])
def test_a_quick_retrain_is_timed_three_times(
    quick: float, seconds: float, monkeypatch: pytest.MonkeyPatch, worker: LocalExecutor
) -> None:
    took = iter([3.0, 1.0, 2.0])
    real = Work.fit

    def fit(self: Work, train: Interactions, valid: Interactions | None) -> State:
        state = real(self, train, valid)
        self.seconds = {"submodels": next(took)}
        return state

    monkeypatch.setattr(Work, "fit", fit)
    monkeypatch.setattr(measuring, "QUICK", quick)
    shop = Workshop(DATA.pseudonymous(), worker, "cpu")
    found = forgetting.compute(shop, Cell("fit", WORLD, settings("retrain").config, {"who": "random", "size": 1}))
    assert found.seconds == {"submodels": seconds}
    assert found.numbers["fits timed"] == (3 if quick > 3 else 1)


def test_epochs_are_chosen_on_rows_that_no_final_figure_is_measured_on(worker: LocalExecutor) -> None:
    data = dataclasses.replace(DATA, full=type(DATA.full).union([DATA.train, DATA.valid])).pseudonymous()
    assert data.refits
    assert data.held is None
    shop = Workshop(data, worker, "cpu")
    asked = Cell("fit", WORLD, ATTENTION.config, {"epochs": "chosen"})
    config = shop.config(asked)
    n = int(str(config.aggregation_settings["n_epochs"]))
    assert 1 <= n <= int(str(ATTENTION.config.aggregation_settings["n_epochs"]))
    trial = Work(ATTENTION.config, worker).fit(data.train, data.valid)
    assert trial.aggregate_facts["best_epoch"] == n
    found = forgetting.compute(shop, asked)
    assert found.notes["epochs of the aggregation"] == str(n), "all of them: nothing is left to stop by"


def test_a_gpu_is_warmed_up_once_for_each_configuration(monkeypatch: pytest.MonkeyPatch, worker: LocalExecutor) -> None:
    seen: list[tuple[int, int]] = []

    class Noted:
        def __init__(self, config: EngineConfig, _: object) -> None:
            self.seed = config.seed

        def fit(self, rows: Interactions, _: Interactions | None) -> None:
            seen.append((self.seed, len(rows.users)))
            if len(rows.users) > 5:
                raise StopIteration

    monkeypatch.setattr(measuring, "Work", Noted)
    monkeypatch.setattr(measuring, "_FEW", 5)
    shop = Workshop(DATA.pseudonymous(), worker, "cuda")
    everybody = len(DATA.full.users)
    for seed in (1, 2):
        with pytest.raises(StopIteration):
            shop.fitted(on_device(settings("spectral", seed=seed).config, "cuda"))
    with pytest.raises(StopIteration):
        shop.fitted(settings("spectral").config)
    assert seen == [(0, 5), (1, everybody), (2, everybody), (0, everybody)], "few first, once, and not on a CPU"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_somebody_is_forgotten_for_nothing_out_of_few_rows_on_a_gpu(
    device: str, monkeypatch: pytest.MonkeyPatch, worker: LocalExecutor
) -> None:
    seen: list[int] = []

    def noted(_: object, __: object, state: State, ___: object) -> None:
        seen.append(len(state.train.users))

    everybody = Work(MEAN.config, worker).fit(DATA.full, None)
    few = DATA.full.take(DATA.full.user_index < 20)

    class OnTheCpu(Work):
        def __init__(self, config: EngineConfig, executor: Executor) -> None:
            super().__init__(on_device(config, "cpu"), executor)

    planned: list[int] = []

    def plan(_: object, train: Interactions, *__: object) -> None:
        planned.append(len(train.users))

    monkeypatch.setattr(forgetting, "plan", plan)
    monkeypatch.setattr(forgetting, "forgotten", noted)
    monkeypatch.setattr(measuring, "Work", OnTheCpu)
    monkeypatch.setattr(measuring, "_FEW", 20)
    shop = Workshop(DATA.pseudonymous(), worker, device)
    for _ in range(2):
        forgetting._warm_up(shop, on_device(MEAN.config, device), everybody)
    assert seen == [len(everybody.train.users) if device == "cpu" else len(few.users)], "once"
    assert planned == ([len(everybody.train.users)] if device == "cuda" else []), "what all rows are looked up by"


@pytest.mark.parametrize("level", ["interactions", "users", "items"])
def test_whoever_is_drawn_is_gone(level: str) -> None:
    rows = DATA.full
    several = requests(rows, level, 5, seed=3)
    assert len(several) == 5
    assert several == requests(rows, level, 5, seed=3) != requests(rows, level, 5, seed=4)
    cell = Cell("fit", WORLD, settings("retrain", seed=3).config, {"level": level, "n": 5})
    left = without(rows, gone_in(DATA, cell))
    assert len(rows) - len(left) == sum(int(one.cells(rows).sum()) for one in several)


def test_sets_of_users_grow() -> None:
    few, many = (set(batch_of(DATA, "random", size, seed=1).users) for size in (0.1, 0.3))
    assert few < many
    assert len(many) == round(0.3 * len(DATA.full.users))
