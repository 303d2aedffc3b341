"""What the package does on real data, where somebody has it: set RECERASER_DATA to the folder that holds `ml-1m`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from receraser.config import data_folder
from receraser.data.interactions import Interactions
from receraser.data.readers import read, read_titles

pytestmark = pytest.mark.data


@pytest.fixture(scope="module")
def ml_1m() -> Path:
    folder = data_folder()
    if folder is None:
        pytest.skip("RECERASER_DATA names no folder of real data")
    if not (folder / "ml-1m" / "train.txt.gz").is_file():
        pytest.skip(f"there is no ml-1m in {folder}")
    return folder / "ml-1m"


def test_the_counts_of_ml_1m(ml_1m: Path) -> None:
    parts = {name: read(ml_1m / f"{name}.txt.gz").interactions for name in ("train", "valid", "test")}
    assert {name: len(rows) for name, rows in parts.items()} == {"train": 720_152, "valid": 80_016, "test": 200_041}
    whole = Interactions.union(list(parts.values()))
    assert (len(whole), len(whole.users), len(whole.items)) == (1_000_209, 6_040, 3_706)
    titles = read_titles(ml_1m / "items.csv")
    assert all(item in titles for item in whole.items)


def test_wmf_reaches_the_papers_quality_on_ml_1m(ml_1m: Path, tmp_path: Path) -> None:
    """Table 2 of the paper, retrain and WMF: recall@20 .2507, ndcg@20 .3509; within one percent counts as reached."""

    def receraser(*arguments: object) -> dict[str, float]:
        command = [sys.executable, "-m", "receraser", *map(str, arguments), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert isinstance(document, dict)
        return document

    store = tmp_path / "store"
    receraser("fit", ml_1m / "train.txt.gz", "--valid", ml_1m / "valid.txt.gz", "--store", store)
    found = receraser("evaluate", "--store", store, "--test", ml_1m / "test.txt.gz", "--at", "20")
    assert (found["users"], found["users_skipped"]) == (6_034, 0)
    assert found["recall@20"] >= 0.2507 * 0.99
    assert found["ndcg@20"] >= 0.3509 * 0.99
