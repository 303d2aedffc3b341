from __future__ import annotations

from pathlib import Path

import pytest

from receraser.engine import Engine
from receraser.errors import PurityError
from receraser.models.foreign import SOURCE
from receraser.models.source import find
from receraser.purity import ROWS
from tests.cli.conftest import Cli, Files

MODEL = """
import os
import numpy as np


def draws(rows, seed, dim=2, leaky=False):
    draw = np.random.default_rng(seed + (hash(rows.users[0]) % 1000 if leaky else 0))
    return tuple(draw.normal(size=(len(ids), dim)) for ids in (rows.users, rows.items))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where one works."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_cli.py").write_text(MODEL)
    return tmp_path


def test_a_pure_model(cli: Cli) -> None:
    done = cli("check-purity", "own_cli:draws", "--set", "dim=3", "--rows", 60)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].split("┃")[0].strip() == "check"
    assert len(lines) == 14
    assert all(line.split("│")[1].strip() == "ok" for line in lines[2:])
    assert done.err.startswith("own_cli:draws: no leak was found, in ")


def test_a_leak(cli: Cli) -> None:
    done = cli("check-purity", "own_cli:draws", "--set", "leaky=true", "--json")
    assert (done.code, done.err) == (1, "")
    assert set(done.json) == {"model", "ok", "checks", "seconds"}
    assert (done.json["model"], done.json["ok"]) == ("own_cli:draws", False)
    checks = done.json["checks"]
    assert isinstance(checks, list)
    assert [set(one) for one in checks] == [{"name", "ok", "detail"}] * 12
    assert [one["name"] for one in checks if not one["ok"]] == ["another hash seed"]
    assert "numbers differ" in next(one["detail"] for one in checks if not one["ok"])


def test_sums_that_threads_change(cli: Cli) -> None:
    done = cli("check-purity", "tests.models.leaky:SumsByThread")
    assert done.code == 1
    found = [line.split("│")[0].strip() for line in done.out.splitlines() if "│ LEAK │" in line]
    assert found == ["2 threads", "4 threads"]
    assert "it leaks, and cannot be used" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere:Model"], "there is no module 'nowhere'"),
        (["wmf"], "the model 'wmf': expected"),
        (["own_cli:nothing"], "has no 'nothing'"),
        (["own_cli:draws", "--set", "depth=3"], r"cannot be called with (rows, seed, depth=3)"),
        (["own_cli:draws", "--set", "depth"], "expected KEY=VALUE"),
        (["own_cli:draws", "--rows", "7"], "7 rows: expected 50"),
    ],
)
def test_wrong_usage(cli: Cli, arguments: list[str], message: str) -> None:
    done = cli("check-purity", *arguments)
    assert done.code == 2
    assert message in done.message


def test_the_number_of_rows_is_the_librarys(cli: Cli) -> None:
    assert f"[default: {ROWS}]" in cli("check-purity", "--help").out


# ---------------------------------------------------------------------- before a fit


def test_a_model_of_ones_own_is_fitted_and_forgotten_from(
    cli: Cli, files: Files, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr("receraser.fitting.require_pure", lambda *one, **_: asked.append(one))
    given = ("--model", "own_cli:draws", "--dim", 3, "--set", "leaky=false", "--method", "spectral", "--shards", 3)
    done = cli("fit", files.train, "--store", "s", *given, "--device", "cpu", "--json")
    assert done.code == 0, done.err
    assert done.json["model"] == "own_cli:draws"
    seconds = done.json["seconds"]
    assert isinstance(seconds, dict)
    assert list(seconds)[:2] == ["read", "purity"]
    source = find("own_cli:draws").sha256
    config = Engine.load("s").config
    assert config.hyperparameters == {"dim": 3, "leaky": False, SOURCE: source}
    assert asked == [("own_cli:draws", {**config.hyperparameters, "device": "cpu"})]
    assert cli("forget", "--store", "s", "--user", "u03", "--json").json["rows_removed"] == 8
    assert cli("recommend", "--store", "s", "--user", "u04").code == 0
    assert cli("export", "--store", "s", "--out", "e").code == 0
    fresh = cli("fit", "--from-export", "e", "--store", "fresh", "--json")
    assert fresh.json["digest"] == Engine.load("s").digest

    (folder / "own_cli.py").write_text(MODEL + "# changed\n")
    done = cli("forget", "--store", "s", "--user", "u04")
    assert done.code == 1
    assert "the source of the model own_cli:draws has changed" in done.message
    assert "receraser rebuild" in done.message
    assert cli("rebuild", "--store", "s").code == 0
    assert not Engine.load("s").knows("u04"), "what was written down is done"


def test_a_model_that_leaks_is_refused(cli: Cli, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(model: str, *_: object, **__: object) -> None:
        raise PurityError(f"{model} leaks")

    monkeypatch.setattr("receraser.fitting.require_pure", refuse)
    given = ("--model", "own_cli:draws", "--partition", "hash", "--aggregation", "attention")
    done = cli("fit", files.train, "--store", "s", *given)
    assert (done.code, done.message) == (1, "own_cli:draws leaks")
    assert "attention is learned by the loss of bpr: of the loss of own_cli:draws nothing is known" in done.err
    assert not Path("s").exists()
    assert cli("fit", files.train, "--store", "s", *given, "--dry-run").code == 0, "nothing is fitted"
