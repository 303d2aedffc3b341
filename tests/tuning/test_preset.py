from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from receraser.config import TUNED, EngineConfig, is_tuned, load_config, resolve
from receraser.engine import Engine
from receraser.execution.local import LocalExecutor
from receraser.tuning import Budget, Found, Problem, Range, Spread, Trial, tune
from receraser.tuning.preset import preset, spread_text
from receraser.tuning.record import record, record_page, write_record
from tests.tuning.worlds import spectral_problem, tastes, wmf_problem

HOW = {"command": "receraser tune --data 'my\ndata'", "date": "2026-01-31"}


def found_for(problem: Problem, **settings: object) -> Found:
    """Two trials that nobody fitted, the second one better."""
    start = Trial(0, problem.start, 0.25)
    return Found(problem, Budget(), [start, Trial(1, settings, 0.5)], interrupted=False, seconds=1.0)


def read_back(found: Found, folder: Path) -> EngineConfig:
    file = folder / "best.toml"
    file.write_text(preset(found, **HOW))
    assert is_tuned(str(file))
    return resolve(dataclasses.replace(load_config(str(file)), device="cpu"))


def test_the_file_is_the_best_configuration_and_reaches_its_value(worker: LocalExecutor, tmp_path: Path) -> None:
    found = tune(spectral_problem(), Budget(trials=6), executor=worker)
    config = read_back(found, tmp_path)
    assert config == found.config
    rows = tastes()
    engine = Engine.from_config(config, executor=worker).fit(rows.train, valid=rows.valid)
    assert engine.evaluate(rows.valid, at=(5,)).metrics["ndcg@5"] == found.best.value
    first = (tmp_path / "best.toml").read_text().splitlines()[0]
    assert first.startswith(f"{TUNED}, 2026-01-31: ndcg@5 {found.best.value!r} on the validation rows")


@pytest.mark.parametrize(
    "base",
    [
        EngineConfig(method="retrain", model="wmf", seed=3, hyperparameters={"solver": "adagrad"}),
        EngineConfig(partition="ubp", aggregation="attention", model="bpr", shards=3),
        EngineConfig(partition="hash", aggregation="mean", model="wmf", shards=1),
        EngineConfig(method="retrain", model="gram"),
    ],
)
def test_any_configuration_can_be_written_and_read(base: EngineConfig, tmp_path: Path) -> None:
    rows = tastes()
    base = dataclasses.replace(base, device="cpu")
    missing = {"missing_weight": 0.05} if base.model != "bpr" else {"weight_decay": 1e-05}
    (name,) = missing
    problem = Problem.of(rows.train, rows.valid, base, space={name: Range(0.00001, 0.9)})
    found = found_for(problem, **missing)
    assert read_back(found, tmp_path) == found.config


def test_what_is_said_above(tmp_path: Path) -> None:
    found = found_for(wmf_problem(), missing_weight=0.05, n_sweeps=4)
    text = preset(dataclasses.replace(found, spread=Spread((7, 8), (0.5, 0.4), (0.25, None))), **HOW)
    assert "# It started from 0.25.\n# Command: receraser tune --data 'my data'\n" in text, "one line each"
    assert f"# Data: sha256 {found.problem.data_digest}, 162 training and 40 validation rows.\n" in text
    assert "# Seeds 7 to 8: 0.4500 ± 0.0500; where it started: 0.2500 ± 0.0000, 1 failed" in text
    assert 'method = "retrain"\nmodel = "wmf"\nseed = 7\n\n[hyperparameters]\ndim = 8\nmissing_weight = 0.05\n' in text
    assert "device" not in text.partition("[hyperparameters]")[2]
    assert "none could be fitted" in spread_text(Spread((0, 1), (0.1, 0.2), (None, None)))[0]


def test_the_record_has_every_trial(worker: LocalExecutor, tmp_path: Path) -> None:
    found = tune(wmf_problem(), Budget(trials=3), seeds=2, executor=worker)
    failed = Trial(3, found.trials[0].settings, None, reason="it | diverged")
    found = dataclasses.replace(found, trials=[*found.trials, failed])
    page, document = write_record(found, tmp_path / "new", name="wmf", **HOW)
    assert (page.name, document.name) == ("tune-wmf.md", "tune-wmf.json")
    written = json.loads(document.read_text())
    assert written == json.loads(json.dumps(record(found, **HOW)))
    assert [one["number"] for one in written["trials"]] == [0, 1, 2, 3]
    assert written["trials"][3]["reason"] == "it | diverged"
    assert written["space"]["missing_weight"] == {"low": 0.01, "high": 1.0, "log": True}
    assert (written["metric"], written["data"]) == ("ndcg@5", found.problem.data_digest)
    assert written["best_configuration"] == found.config.as_dict()
    assert len(written["spread"]["best"]) == 2
    lines = page.read_text().splitlines()
    assert "| `missing_weight` | 0.01 to 1.0, by decades |" in lines
    assert lines[-1].startswith("| 3 | failed | 0.00 | 0.2 | 2 | it \\| diverged")
    assert not [one for one in (page, document) if "u01" in one.read_text()], "no ids"


def test_a_record_of_nothing_but_failures() -> None:
    problem = wmf_problem()
    found = Found(problem, Budget(), [Trial(0, problem.start, None, "no")], interrupted=True, seconds=1.0)
    assert record(found, **HOW)["best"] is None
    assert "1 trials\n(1 failed; ended by hand)" in record_page(found, name="x", **HOW)
