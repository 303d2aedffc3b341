from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from receraser.config import EngineConfig
from receraser.data.interactions import Interactions
from receraser.engine import Engine
from receraser.errors import DataError, TrainingError, UsageError
from receraser.execution.local import LocalExecutor
from receraser.execution.task import Result, Task
from receraser.protocols import Progress
from receraser.tuning import Budget, Choice, Problem, Range, Trial, tune
from receraser.tuning.search import Found
from receraser.tuning.space import Axis
from tests.cli.conftest import KeptWorkers
from tests.tuning.worlds import WMF, spectral_problem, tastes, wmf_problem


class Watched(KeptWorkers):
    """The one worker of all tests; `before` is called before every piece of work."""

    def __init__(self, executor: LocalExecutor, before: Callable[[Task], None] = lambda _: None) -> None:
        super().__init__(executor)
        self.kinds: list[str] = []

        def run(tasks: Iterable[Task], *, progress: Progress | None = None) -> list[Result]:
            todo = list(tasks)
            for task in todo:
                self.kinds.append(task.kind)
                before(task)
            return executor.run(todo, progress=progress)

        self.run = run


def outcomes(found: Found) -> list[tuple[object, ...]]:
    """All of the trials but how long they took."""
    return [(one.number, dict(one.settings), one.value, one.reason, dict(one.metrics)) for one in found.trials]


@pytest.fixture(scope="module")
def whole(worker: LocalExecutor) -> Found:
    """Fourteen trials in one go: more than are by lot."""
    return tune(wmf_problem(), Budget(trials=14), executor=worker)


def test_the_same_search_tries_the_same(whole: Found, worker: LocalExecutor) -> None:
    assert outcomes(tune(wmf_problem(), Budget(trials=14), executor=worker)) == outcomes(whole)
    other = tune(wmf_problem(), Budget(trials=3), executor=worker)
    assert outcomes(other) == outcomes(whole)[:3], "a smaller budget is the beginning of a larger one"
    rows = tastes()
    reseeded = Problem.of(
        rows.train, rows.valid, dataclasses.replace(WMF, seed=8), space=wmf_problem().space, metric="ndcg@5"
    )
    assert tune(reseeded, Budget(trials=2), executor=worker).trials[1].settings != whole.trials[1].settings


def test_the_first_trial_is_where_it_starts_and_it_gets_better(whole: Found) -> None:
    start = whole.trials[0]
    assert start.settings == {"missing_weight": 0.2, "n_sweeps": 2}
    assert start.value is not None
    assert whole.best.value is not None
    assert whole.best.value > start.value
    assert whole.best.value == max(one.value or 0 for one in whole.trials)
    assert whole.config.hyperparameters["n_sweeps"] == whole.best.settings["n_sweeps"]
    assert whole.failed == 0
    assert not whole.interrupted


def test_a_fit_with_the_best_settings_reaches_that_value_to_the_bit(whole: Found, worker: LocalExecutor) -> None:
    rows = tastes()
    engine = Engine.from_config(whole.config, executor=worker).fit(rows.train, valid=rows.valid)
    assert engine.evaluate(rows.valid, at=(5, 20)).metrics["ndcg@5"] == whole.best.value


def test_a_search_is_taken_up_again(whole: Found, worker: LocalExecutor, tmp_path: Path) -> None:
    study = tmp_path / "deep" / "wmf.study"
    first = tune(wmf_problem(), Budget(trials=5), study=study, executor=worker)
    assert outcomes(first) == outcomes(whole)[:5]
    with study.open("ab") as stream:
        stream.write(b'{"op_code":5,"worker')  # killed in the middle of a line
    watched = Watched(worker)
    assert outcomes(tune(wmf_problem(), Budget(trials=14), study=study, executor=watched)) == outcomes(whole)
    assert len(watched.kinds) <= 9, "what was done is not done again"
    watched = Watched(worker)
    again = tune(wmf_problem(), Budget(trials=14), study=study, executor=watched)
    assert (outcomes(again), watched.kinds) == (outcomes(whole), [])


def test_an_interrupt_keeps_what_is_done(whole: Found, worker: LocalExecutor, tmp_path: Path) -> None:
    def interrupt(_: Task) -> None:
        if len(watched.kinds) == 4:
            raise KeyboardInterrupt

    watched = Watched(worker, interrupt)
    study = tmp_path / "wmf.study"
    found = tune(wmf_problem(), Budget(trials=14), study=study, seeds=3, executor=watched)
    assert found.interrupted
    assert outcomes(found) == outcomes(whole)[:3]
    assert found.spread is None
    resumed = tune(wmf_problem(), Budget(trials=14), study=study, executor=worker)
    assert outcomes(resumed) == outcomes(whole), "the trial that was cut short is tried again"


def test_a_process_that_died_leaves_nothing_running(whole: Found, worker: LocalExecutor, tmp_path: Path) -> None:
    def die(_: Task) -> None:
        if len(watched.kinds) == 3:
            raise SystemExit

    watched = Watched(worker, die)
    study = tmp_path / "wmf.study"
    with pytest.raises(SystemExit):
        tune(wmf_problem(), Budget(trials=14), study=study, executor=watched)
    assert outcomes(tune(wmf_problem(), Budget(trials=5), study=study, executor=worker)) == outcomes(whole)[:5]


def test_a_failed_trial_is_written_down_and_the_search_goes_on(worker: LocalExecutor, tmp_path: Path) -> None:
    def diverge(task: Task) -> None:
        hyperparameters = task.settings["hyperparameters"]
        assert isinstance(hyperparameters, dict)
        if hyperparameters["n_sweeps"] == 4:
            raise TrainingError("wmf: a learned vector is no number")

    study = tmp_path / "wmf.study"
    problem = wmf_problem()
    found = tune(problem, Budget(trials=8), study=study, executor=Watched(worker, diverge))
    failed = [one for one in found.trials if one.value is None]
    assert 0 < len(failed) == found.failed < 8
    assert {one.reason for one in failed} == {"wmf: a learned vector is no number"}
    assert {one.settings["n_sweeps"] for one in failed} == {4}
    assert found.best.settings["n_sweeps"] != 4
    again = tune(problem, Budget(trials=8), study=study, executor=Watched(worker, diverge))
    assert outcomes(again) == outcomes(found), "failed trials are not tried again"


def test_where_everything_fails_it_says_so(worker: LocalExecutor) -> None:
    def diverge(_: Task) -> None:
        raise TrainingError("it diverged")

    found = tune(wmf_problem(), Budget(trials=2), seeds=2, executor=Watched(worker, diverge))
    assert found.failed == 2
    with pytest.raises(TrainingError, match="all of 2 trials failed; the first: it diverged"):
        _ = found.best
    with pytest.raises(TrainingError, match="no trial was finished"):
        _ = dataclasses.replace(found, trials=()).best


def test_what_trials_share_is_computed_once(worker: LocalExecutor) -> None:
    watched = Watched(worker)
    found = tune(spectral_problem(), Budget(trials=6), executor=watched)
    assert watched.kinds.count("submodel") == 2, "two shards, whatever becomes of the aggregation"
    assert watched.kinds.count("aggregation") == 6
    assert len({one.value for one in found.trials}) > 1
    start = found.trials[0].settings
    assert start == {"aggregation.merge": "auto", "aggregation.missing_weight": 0, "aggregation.regularization": 0}


def test_the_partition_is_computed_once(worker: LocalExecutor) -> None:
    rows, watched = tastes(), Watched(worker)
    base = EngineConfig(
        partition="ubp", aggregation="mean", model="wmf", shards=2, device="cpu", partition_settings={"dim": 4}
    )
    space = {"missing_weight": Range(0.01, 1.0, log=True)}
    tune(Problem.of(rows.train, rows.valid, base, space=space), Budget(trials=3), executor=watched)
    assert (watched.kinds.count("partition"), watched.kinds.count("submodel")) == (1, 6)


def test_what_was_tried_is_not_fitted_again(worker: LocalExecutor) -> None:
    watched = Watched(worker)
    problem = wmf_problem(space={"n_sweeps": Choice((1, 2))})
    found = tune(problem, Budget(trials=6), executor=watched)
    assert len(found.trials) == 6
    assert len(watched.kinds) == 2
    repeated = [one for one in found.trials if one.facts]
    assert all(one.value == found.trials[int(str(one.facts["the same as"]))].value for one in repeated)


def test_the_spread_over_seeds(worker: LocalExecutor) -> None:
    found = tune(wmf_problem(), Budget(trials=3), seeds=3, executor=worker)
    assert found.spread is not None
    assert found.spread.seeds == (7, 8, 9)
    assert found.spread.best[0] == found.best.value
    assert found.spread.start[0] == found.trials[0].value
    rows = tastes()
    other = Engine.from_config(dataclasses.replace(found.config, seed=9), executor=worker).fit(rows.train)
    assert found.spread.best[2] == other.evaluate(rows.valid, at=(5,)).metrics["ndcg@5"]


def test_somebody_elses_model_is_searched_by_what_it_takes(worker: LocalExecutor) -> None:
    rows = tastes()
    base = EngineConfig(method="retrain", model="tests.models.pure:ALS", device="cpu")
    with pytest.raises(UsageError, match="nothing is left to search"):
        Problem.of(rows.train, rows.valid, base)
    space: dict[str, Axis] = {"penalty": Range(0.01, 10.0, log=True), "dim": Choice((2, 4))}
    found = tune(Problem.of(rows.train, rows.valid, base, space=space), Budget(trials=3), executor=worker)
    assert found.trials[0].settings == {"penalty": None, "dim": None}, "its own defaults, which nobody knows"
    assert found.failed == 0
    assert found.trials[1].settings.keys() == space.keys()


def test_told_after_every_trial(worker: LocalExecutor) -> None:
    told: list[tuple[int, float]] = []
    tune(wmf_problem(), Budget(trials=3), executor=worker, told=lambda trials, took: told.append((len(trials), took)))
    assert [n for n, _ in told] == [1, 2, 3]


# ---------------------------------------------------------------------- what is refused


def test_a_study_of_another_search_is_refused(worker: LocalExecutor, tmp_path: Path) -> None:
    study = tmp_path / "wmf.study"
    tune(wmf_problem(), Budget(trials=1), study=study, executor=worker)
    with pytest.raises(UsageError, match="is of another search: its metric differ"):
        tune(wmf_problem(metric="recall@5"), Budget(trials=1), study=study, executor=worker)
    rows = tastes()
    fewer = Problem.of(rows.test, rows.valid, WMF, space=wmf_problem().space, metric="ndcg@5")
    with pytest.raises(UsageError, match="its data differ"):
        tune(fewer, Budget(trials=1), study=study, executor=worker)


def test_what_is_no_study_is_refused_and_left_alone(worker: LocalExecutor, tmp_path: Path) -> None:
    file = tmp_path / "letter.txt"
    for text in ("Dear all,", '{"a": 1}', '{"a": 1}\n', "[]\n"):
        file.write_text(text)
        with pytest.raises(UsageError, match=r"letter.txt is no study"):
            tune(wmf_problem(), Budget(trials=1), study=file, executor=worker)
        assert file.read_text() == text
    with pytest.raises(UsageError, match="cannot be written: Is a directory"):
        tune(wmf_problem(), Budget(trials=1), study=tmp_path, executor=worker)


def test_a_damaged_study_is_refused(worker: LocalExecutor, tmp_path: Path) -> None:
    study = tmp_path / "wmf.study"
    tune(wmf_problem(), Budget(trials=1), study=study, executor=worker)
    first, *others = study.read_text().splitlines()
    study.write_text("\n".join([first, "gone", *others, ""]))
    with pytest.raises(UsageError, match=r"wmf\.study is damaged"):
        tune(wmf_problem(), Budget(trials=1), study=study, executor=worker)


def test_two_searches_do_not_write_to_one_study(worker: LocalExecutor, tmp_path: Path) -> None:
    study = tmp_path / "wmf.study"

    def another(_: Task) -> None:
        with pytest.raises(UsageError, match="another search is writing to the study"):
            tune(wmf_problem(), Budget(trials=1), study=study, executor=worker)

    tune(wmf_problem(), Budget(trials=1), study=study, executor=Watched(worker, another))


def test_without_optuna_it_says_what_to_install(worker: LocalExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UsageError, match=r"pip install 'receraser\[tune\]'"):
        tune(wmf_problem(), Budget(trials=1), executor=worker)


def test_a_problem_is_checked() -> None:
    rows = tastes()
    with pytest.raises(UsageError, match="unknown metric 'ndgc': did you mean 'ndcg'"):
        wmf_problem(metric="ndgc@20")
    with pytest.raises(UsageError, match="n_sweeps is to be searched, and was also given a value"):
        wmf_problem(fixed=["n_sweeps"])
    assert "n_sweeps" not in wmf_problem(space=None, fixed=["n_sweeps"]).space
    with pytest.raises(UsageError, match="nothing is left to search of wmf with whole and alone"):
        wmf_problem(space=None, parts=["aggregation"])
    base = EngineConfig(partition="ubp", partition_settings={"embeddings": "file"}, device="cpu")
    with pytest.raises(UsageError, match="takes no vectors from a file"):
        Problem.of(rows.train, rows.valid, base)
    with pytest.raises(DataError, match="none of the 1 users of the validation rows has training rows"):
        Problem.of(rows.train, Interactions.from_pairs([("nobody", "i01")]), WMF)


def test_a_row_in_both_stays_in_train() -> None:
    rows = tastes()
    both = Interactions.union([rows.valid, rows.train.take(np.arange(3))])
    assert len(Problem.of(rows.train, both, WMF).valid) == len(rows.valid)


def test_a_budget_is_checked_and_spent() -> None:
    for wrong in ({"trials": None}, {"trials": 0}, {"minutes": 0.0}, {"minutes": float("nan")}):
        with pytest.raises(UsageError):
            Budget(**wrong)
    assert Budget(trials=None, minutes=1).spent(1000, 60.0)
    assert not Budget(trials=None, minutes=1).spent(1000, 59.0)
    assert Budget(trials=3).spent(3, 0.0)


def test_the_digest_of_the_data_depends_on_the_key() -> None:
    """Whoever lacks the key cannot test guesses about a row against it."""
    assert wmf_problem().data_digest == wmf_problem().data_digest
    assert wmf_problem(key=b"k" * 32).data_digest != wmf_problem().data_digest


def test_a_trial_is_plain_values() -> None:
    assert dataclasses.asdict(Trial(0, {"dim": 4}, 0.5))["metrics"] == {}
