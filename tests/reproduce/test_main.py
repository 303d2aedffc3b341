"""`python -m receraser.reproduce`, also where nothing but numpy, scipy and torch is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import receraser
from receraser.reproduce.__main__ import main
from tests.reproduce.conftest import WORLD

MISSING = ["typer", "click", "rich", "matplotlib", "numba", "pyarrow", "safetensors", "cryptography"]
FIRST = f"""
import os, sys
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])  # one worker: each takes seconds to start
for name in {MISSING}:
    sys.modules[name] = None
"""
SMALL = ("--dataset", WORLD, "--models", "wmf", "--methods", "spectral", "--seeds", "1", "--device", "cpu")


def test_where_only_numpy_scipy_and_torch_are_installed(tmp_path: Path) -> None:
    """The workers too: `sitecustomize` is what every interpreter imports first."""
    (tmp_path / "sitecustomize.py").write_text(FIRST)
    paths = [str(tmp_path), str(Path(receraser.__file__).parent.parent)]
    command = [sys.executable, "-m", "receraser.reproduce", "table3", *SMALL, "--out", str(tmp_path / "out")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith(f"cells computed: 1; all are in {tmp_path / 'out' / 'cells'}\n")
    assert len(list((tmp_path / "out" / "cells").glob("*.json"))) == 1


def test_several_names_and_options_between_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["figure2", *SMALL[:-4], "--device", "cpu", "--out", str(tmp_path), "table3", "--methods", "nothing"]
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("error: none of figure2, table3 has a method 'nothing'")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("table5",), "unknown table or figure 'table5': did you mean 'table4'?"),
        (("table3", "--dataset", "ml-2m"), "unknown data set 'ml-2m'"),
        (("table3", "--models", "wmf,als"), "unknown model 'als': known: bpr, lightgcn, wmf"),
        (("table3", "--methods", "sissa", "--dataset", WORLD), "table3 has no method 'sissa': did you mean 'sisa'?"),
        (("table3", "--seeds", "0"), "--seeds is 0; expected at least 1"),
        (("table4", "--forgets", "0"), "--forgets is 0; expected at least 1"),
        (("table4", "--within", "0"), "--within is 0.0; expected more than 0 seconds"),
        (("table4", "--within", "inf"), "--within is inf; expected more than 0 seconds"),
        (("table4", "--within", "nan"), "--within is nan; expected more than 0 seconds"),
        (("table3", "--jobs", "0"), "--jobs is 0; expected at least 1"),
        (("table3", "--device", "tpu"), "unknown device 'tpu'"),
        (("table3", "--data", "nowhere"), "nowhere: there is no such folder"),
        (
            ("table3", "--report", "--extend", "--out", "nowhere"),
            "there is no nowhere/table3-ml-1m.json to be extended",
        ),
    ],
)
def test_errors(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")


def test_a_report_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table3", "--dataset", "ml-1m", "--out", str(tmp_path), "--report"]) == 2
    assert "there are no cells of ml-1m" in capsys.readouterr().err
