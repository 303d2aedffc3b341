"""The tool that fills a GPU with cells, tried on the CPU: cells that are timed, several processes, an archive."""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from receraser.errors import TrainingError
from receraser.reproduce.cell import Cell
from receraser.reproduce.measuring import Workshop
from receraser.reproduce.settings import additive, chosen
from tests.reproduce.conftest import WORLD

TOOL = Path(__file__).parents[2] / "tools" / "cells_on_gpu.py"
BATCHES = [
    Cell("batch", WORLD, chosen(WORLD, "wmf", "spectral", shards=3).config, {"who": "random", "size": size})
    for size in (1, 2)
]


def computed(folder: Path, *arguments: str) -> list[str]:
    """What it says, line by line."""
    chosen = [*arguments, "--models", "wmf", "--dataset", WORLD, "--device", "cpu"]
    places = ["--data", str(folder), "--cells", str(folder / "cells"), "--archive", str(folder / "cells.tar")]
    return subprocess.check_output([sys.executable, str(TOOL), *chosen, *places], text=True).splitlines()


def test_cells_are_computed_once_and_packed(tmp_path: Path) -> None:
    asked = "figure4", "first", "gradual", "--methods", "spectral", "gram", "--forgets", "1"
    said = computed(tmp_path, *asked, "--jobs", "2")
    n = int(said[0].split()[0])
    begun = [at for at, line in enumerate(said) if line.endswith("; to be ranked")]
    assert n == len(said) - 1 - len(begun) > 1, said
    assert begun == list(range(begun[0], begun[-1] + 1)), "nothing is ranked beside what is timed"
    timed, after = (sorted(line.split(": ", 1)[0].split("left, ")[1] for line in part) for part in _around(said, begun))
    assert timed == after, "what was timed is ranked afterwards, and nothing else is computed then"
    cells = sorted(tmp_path.glob("cells/*.json"))
    assert len(cells) == n
    with tarfile.open(tmp_path / "cells.tar") as archive:
        assert sorted(archive.getnames()) == sorted(path.name for path in (tmp_path / "cells").iterdir())
    for one in map(_read, cells):
        inputs = one["inputs"]
        alone = inputs["kind"] == "first" or (inputs["kind"] == "fit" and inputs["config"]["shards"] == 1)
        assert bool(one["seconds"]) is alone, "of what was fitted beside others there are none"
    assert computed(tmp_path, *asked) == ["0 cells in 0 groups"]


def _around(said: list[str], begun: list[int]) -> tuple[list[str], list[str]]:
    return said[begun[0] : begun[-1] + 1], said[begun[-1] + 1 :]


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_orders_are_timed_one_after_the_other(tmp_path: Path) -> None:
    first = "table4", "--methods", "gram", "--forgets", "1", "--models", "wmf"
    said = computed(tmp_path, *first, "+", "levels", "--methods", "gram", "--forgets", "2", "--jobs", "2")
    begun = [line for line in said if line.endswith("; to be ranked")]
    assert [("n=1" in line, "n=2" in line) for line in begun] == [(True, False)] * 4 + [(False, True)] * 6
    assert len(list(tmp_path.glob("cells/*.json"))) == len(begun)


def test_one_process_alone_keeps_the_seconds_of_fits(tmp_path: Path) -> None:
    computed(tmp_path, "batch", "--methods", "spectral", "--jobs", "1")
    assert all(_read(path)["seconds"] for path in tmp_path.glob("cells/*.json"))


def test_no_cell_begins_when_time_is_up(tmp_path: Path) -> None:
    assert computed(tmp_path, "first", "--methods", "spectral", "--limit", "0") == ["1 cells in 1 groups"]
    assert not list(tmp_path.glob("cells/*.json"))


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("cells_on_gpu", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def process(tool: ModuleType, tmp_path: Path, kept_workers: None) -> Iterator[Any]:
    options = argparse.Namespace(
        data=None,
        dataset=WORLD,
        device="cpu",
        jobs=2,
        cells=tmp_path,
        archive=None,
        until=time.time() + 60,
        turns={one.digest("", "cpu"): 0 for one in BATCHES},
    )
    one = tool.Process(options, threading.RLock(), threading.Lock())
    yield one
    one.close()


def test_a_cell_that_fails_leaves_the_others_alone(
    process: Any, tool: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    real = tool.begun

    def begun(shop: Workshop, cell: Cell) -> Any:
        if cell.extras["size"] == 1:
            raise TrainingError("no luck")
        return real(shop, cell)

    monkeypatch.setattr(tool, "begun", begun)
    process.fit(BATCHES)
    process.forget(SimpleNamespace(broken=False))
    process.rank()
    said = capsys.readouterr().out
    assert "size=1: 0.0 s failed: no luck" in said
    assert len(list(tmp_path.glob("*.json"))) == 1


def test_a_fit_that_fails_is_told_and_so_are_its_cells(
    process: Any, tool: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fitted(*_: Any) -> None:
        raise TrainingError("the GPU is full")

    monkeypatch.setattr(Workshop, "fitted", fitted)
    process.fit(BATCHES)
    process.forget(SimpleNamespace(broken=False))
    process.rank()
    assert capsys.readouterr().out.count("failed: the GPU is full") == 1 + len(BATCHES)
    assert not list(tmp_path.glob("*.json"))


def test_nothing_is_timed_when_somebody_is_gone(process: Any, tool: ModuleType, tmp_path: Path) -> None:
    everybody = threading.Barrier(2)
    everybody.abort()
    assert not tool._wait(everybody, process._options)
    process.fit(BATCHES)
    process.forget(everybody)
    process.wait_for_whoever_is_timed()
    process.rank()
    assert not list(tmp_path.glob("*.json")), "they may still be at work, so that seconds would not be alone"


def test_models_without_shards_are_left_out_where_nothing_compiles(
    process: Any, tool: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    gram = Cell("fit", WORLD, additive(WORLD, "gram").config)
    asked = process._data, process._kept, "cuda"
    assert tool._wanted(gram, *asked)
    monkeypatch.setattr(tool, "compiles", lambda: False)
    assert not tool._wanted(gram, *asked)
    assert tool._wanted(BATCHES[0], *asked)
