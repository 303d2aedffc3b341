from __future__ import annotations

import json
from pathlib import Path

import pytest

from receraser.engine import Engine
from tests.cli.conftest import Cli

PNG = b"\x89PNG\r\n\x1a\n"


def test_the_whole_story(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    done = cli("demo", "--dir", folder, "--json")
    assert done.code == 0
    found = done.json
    person = str(found["person"])
    engine = Engine.load(folder / "store")
    assert found["refit_equal"] is True
    assert engine.digest == found["digest"]
    assert engine.level == found["level"] == "L3"
    assert not engine.knows(person)
    assert engine.recommend([person])[person] == []
    retrained = found["shards_retrained"]
    assert isinstance(retrained, list)
    assert len(retrained) == 1
    assert 0 <= retrained[0] < len(engine.shards)
    assert len(found["recommendations"]) == 8  # type: ignore[arg-type]
    for moment in ("before", "after"):
        quality = found[moment]
        assert isinstance(quality, dict)
        assert quality["recall@20"] > 2 * quality["recall@20 by popularity"]
    assert found["verified"] is True
    stayed = found["stayed"]
    assert isinstance(stayed, dict)
    assert 0 < stayed["same circle"] < stayed["everybody else"] <= 1
    assert sorted(path.name for path in folder.iterdir()) == [
        "export",
        "forgetting.png",
        "items.csv",
        "keys",
        "store",
        "test.csv",
        "train.csv",
        "valid.csv",
    ]
    assert (folder / "forgetting.png").read_bytes().startswith(PNG)
    assert f"Asked for again, {person} is unknown to the store." in done.err
    assert "the same bits?\n   yes:" in done.err
    assert [line[:2] for line in done.err.splitlines() if line[:1].isdecimal()] == [f"{n}." for n in range(1, 9)]

    done = cli("demo", "--dir", folder)
    assert done.code == 1
    assert done.message == f"there is a store in {folder / 'store'} already; choose another folder"
    assert Engine.load(folder / "store").digest == engine.digest


def test_for_people_and_without_a_folder(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr("receraser.cli.demo._EPOCHS", 1)
    monkeypatch.setattr("receraser.cli.demo._fresh_digest", lambda store, folder: "another")
    done = cli("demo")
    assert done.code == 1, "bits that differ are no success"
    assert "NO: digest" in done.err
    assert "┃ title" in done.out
    assert "before (fit)" in done.out
    with pytest.raises(json.JSONDecodeError):
        json.loads(done.out)
    assert list((tmp_path / "temporary").iterdir()) == []
    assert [path.name for path in Path.cwd().iterdir()] == ["receraser-demo.png"], "the picture is kept"
