"""The tool that fills a GPU with cells, tried on the CPU: cells that are timed, several processes, an archive."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.reproduce.conftest import WORLD

TOOL = Path(__file__).parents[2] / "tools" / "cells_on_gpu.py"


def computed(folder: Path, *arguments: str) -> list[str]:
    """What it says, line by line."""
    chosen = ["--models", "wmf", "--methods", "spectral", "--dataset", WORLD, "--device", "cpu", *arguments]
    places = ["--data", str(folder), "--cells", str(folder / "cells"), "--archive", str(folder / "cells.tar")]
    return subprocess.check_output([sys.executable, str(TOOL), *chosen, *places], text=True).splitlines()


def test_cells_are_computed_once_and_packed(tmp_path: Path) -> None:
    studies = "figure4", "first", "--forgets", "1"
    said = computed(tmp_path, *studies, "--jobs", "2")
    n = int(said[0].split()[0])
    begun = [at for at, line in enumerate(said) if line.endswith("; to be ranked")]
    assert n == len(said) - 1 - len(begun) > 1, said
    assert begun == list(range(begun[0], begun[0] + len(begun))), "nothing is ranked beside what is timed"
    assert sum("forgets: " in line for line in said[begun[-1] + 1 :]) == len(begun) - 2, "a first fit, a retrain"
    cells = sorted(tmp_path.glob("cells/*.json"))
    assert len(cells) == n
    with tarfile.open(tmp_path / "cells.tar") as archive:
        assert sorted(archive.getnames()) == sorted(path.name for path in (tmp_path / "cells").iterdir())
    kinds = {json.loads(path.read_text())["inputs"]["kind"]: json.loads(path.read_text()) for path in cells}
    assert kinds["first"]["seconds"], "computed alone, so its seconds count"
    assert not kinds["forgets"]["seconds"], "fitted beside others"
    assert computed(tmp_path, *studies) == ["0 cells in 0 groups"]


def test_no_cell_begins_when_time_is_up(tmp_path: Path) -> None:
    assert computed(tmp_path, "first", "--limit", "0") == ["1 cells in 1 groups"]
    assert not list(tmp_path.glob("cells/*.json"))
