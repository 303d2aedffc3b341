from __future__ import annotations

from pathlib import Path

import pytest

from receraser.engine import Engine
from tests.cli.conftest import Cli


def test_the_whole_story(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    done = cli("demo", "--dir", folder, "--json")
    assert done.code == 0
    found = done.json
    assert found["refit_equal"] is True
    ours, popular = found["metrics"], found["popularity"]
    assert isinstance(ours, dict)
    assert isinstance(popular, dict)
    assert ours["recall@20"] > 1.5 * popular["recall@20"]
    engine = Engine.load(folder / "store")
    assert engine.digest == found["digest"]
    user = str(found["user"])
    listing = [{"item": one.item, "title": engine.titles[one.item]} for one in engine.recommend([user], k=8)[user]]
    assert found["recommendations"] == listing
    assert sorted(path.name for path in folder.iterdir()) == [
        "items.csv",
        "store",
        "test.csv",
        "train.csv",
        "valid.csv",
    ]
    assert "the same bits? yes." in done.err

    done = cli("demo", "--dir", folder)
    assert done.code == 1
    assert done.message == f"there is a store in {folder / 'store'} already; choose another folder"
    assert Engine.load(folder / "store").digest == engine.digest


def test_for_people_and_without_a_folder(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    done = cli("demo")
    assert done.code == 0
    assert "┃ title" in done.out
    assert "popularity" in done.out
    assert [line[:2] for line in done.err.splitlines() if line[:1].isdecimal()] == ["1.", "2.", "3.", "4.", "5."]
    assert list(tmp_path.iterdir()) == []
