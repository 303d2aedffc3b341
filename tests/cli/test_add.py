from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from receraser.data.interactions import Interactions
from receraser.data.readers import write_csv
from receraser.engine import Engine
from receraser.execution.local import LocalExecutor
from receraser.store.directory import DirectoryStore
from tests.cli.conftest import Cli, Files
from tests.cli.sharded import INDEPENDENT, WORLD, content, fitted, make_stores, said_to_be_computed_elsewhere, state

NEW = [("u00", "i01"), ("stranger", "i00"), ("stranger", "i02"), ("u02", "a new item")]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory, worker: LocalExecutor) -> Path:
    return make_stores(tmp_path_factory.mktemp("stores"), worker)


@pytest.fixture(params=["independent", "driven"])
def kind(request: pytest.FixtureRequest) -> str:
    assert isinstance(request.param, str)
    return request.param


@pytest.fixture
def store(stores: Path, tmp_path: Path, kind: str) -> Path:
    shutil.copytree(stores / kind, tmp_path / "s")
    return tmp_path / "s"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """New rows, one that is held, and one that is held for validation."""
    rows = [*NEW, next(iter(WORLD.train.pairs())), next(iter(WORLD.held_out.pairs()))]
    write_csv(tmp_path / "new.csv", Interactions.from_pairs(rows))
    return tmp_path / "new.csv"


def test_the_document(cli: Cli, store: Path, data: Path, kind: str, worker: LocalExecutor) -> None:
    done = cli("add", data, "--store", store, "--json")
    assert (done.code, done.err) == (0, "")
    found = done.json
    assert list(found) == [
        "digest", "level", "rows_added", "rows_held", "valid_rows_moved", "shards_retrained", "path", "certificate",
        "seconds", "estimated_seconds", "data",
    ]  # fmt: skip
    engine = Engine.load(store)
    assert (found["digest"], found["level"]) == (engine.digest, engine.level)
    assert engine.level == ("L3" if kind == "independent" else "L1")
    assert (found["rows_added"], found["rows_held"], found["valid_rows_moved"]) == (5, 1, 1)
    seconds = found["seconds"]
    assert isinstance(seconds, dict)
    assert list(seconds) == ["read", "partition", "submodels", "aggregate", "certificate", "publish", "total"]
    assert seconds["total"] == pytest.approx(sum(seconds.values()) - seconds["total"], abs=1e-3)
    assert engine.knows("stranger")
    assert "a new item" in engine.items
    if kind == "independent":
        held = list(WORLD.held_out.pairs())
        fresh = fitted(kind, worker)
        fresh.fit(
            Interactions.from_pairs([*WORLD.train.pairs(), *NEW, held[0]]), valid=Interactions.from_pairs(held[1:])
        )
        assert engine.digest == fresh.digest


def test_adding_and_forgetting_again_is_nothing(cli: Cli, store: Path, tmp_path: Path) -> None:
    before = Engine.load(store).digest
    write_csv(tmp_path / "new.csv", Interactions.from_pairs(NEW))
    assert cli("add", tmp_path / "new.csv", "--store", store, "--json").json["digest"] != before
    done = cli("forget", "--store", store, "--requests", tmp_path / "new.csv", "--json")
    assert (done.json["digest"], done.json["rows_removed"]) == (before, len(NEW))


def test_what_people_see(cli: Cli, store: Path, data: Path, kind: str) -> None:
    done = cli("add", data, "--store", store)
    assert (done.code, done.out) == (0, "")
    lines = done.err.splitlines()
    assert lines[0] == "1 row held already"
    assert lines[-3].startswith("added 5 rows, by re")
    assert lines[-2].startswith(f"certificate: {store / 'certificates'}")
    assert lines[-1].startswith(f"published in {store}, level {Engine.load(store).level}")


def test_rows_held_already(cli: Cli, files: Files, store: Path) -> None:
    before = content(store)
    done = cli("add", files.train, "--store", store)
    assert done.code == 0
    assert done.err.splitlines() == [
        f"{len(WORLD.train)} rows held already",
        f"nothing to add: the store in {store} is as it was",
    ]
    found = cli("add", files.train, "--store", store, "--json").json
    assert (found["rows_added"], found["rows_held"], found["shards_retrained"]) == (0, len(WORLD.train), [])
    assert content(store) == before


def test_dry_run(cli: Cli, store: Path, data: Path) -> None:
    before = content(store)
    done = cli("add", data, "--store", store, "--dry-run")
    assert (done.code, done.out) == (0, "")
    assert done.err.splitlines()[-1].startswith("would add 5 rows, by re")
    assert done.err.splitlines()[-1].endswith(" s by the last fit")
    would = cli("add", data, "--store", store, "--dry-run", "--json").json
    assert next(iter(would)) == "dry_run"
    assert content(store) == before
    did = cli("add", data, "--store", store, "--json").json
    for key in ("rows_added", "rows_held", "valid_rows_moved", "shards_retrained", "path"):
        assert would[key] == did[key]


def test_keep_old(cli: Cli, store: Path, data: Path, kind: str) -> None:
    before = {path.name for path in (store / "files").iterdir()}
    done = cli("add", data, "--store", store, "--keep-old", "--json")
    assert done.json["level"] == ("L2" if kind == "independent" else "L1")
    assert before <= {path.name for path in (store / "files").iterdir()}


def test_the_options_of_reading(cli: Cli, store: Path, tmp_path: Path) -> None:
    data = tmp_path / "new.csv"
    data.write_text("who,what,stars\nx,i00,5\nx,i02,1\ny,i04,4\nx,i00,5\nbad,row\n")
    done = cli(
        "add", data, "--store", store, "--columns", "user=who,item=what,rating=stars", "--min-rating", "3",
        "--skip-bad-rows", "--json",
    )  # fmt: skip
    assert done.code == 0
    assert "1 bad row left out" in done.err
    assert "1 duplicate merged" in done.err
    assert done.json["rows_added"] == 2


def test_wrong_usage(cli: Cli, store: Path, data: Path, tmp_path: Path) -> None:
    before = content(store)
    done = cli("add", tmp_path / "nothing.csv", "--store", store)
    assert (done.code, done.message) == (2, f"{tmp_path / 'nothing.csv'}: there is no such file")
    (tmp_path / "bad.csv").write_text("user,item\nu\n")
    done = cli("add", tmp_path / "bad.csv", "--store", store)
    assert done.code == 2
    assert done.message.startswith(f"{tmp_path / 'bad.csv'}, line 2: ")
    done = cli("add", data, "--store", tmp_path / "none")
    assert done.code == 2
    assert "there is no store" in done.message
    assert not (tmp_path / "none").exists()
    assert cli("add", "--store", store).code == 2
    assert content(store) == before


def test_what_is_refused(cli: Cli, store: Path, data: Path) -> None:
    with DirectoryStore(store).writing():
        done = cli("add", data, "--store", store)
    assert (done.code, done.message) == (
        1, f"the store in {store} is being written by another process; try again later"
    )  # fmt: skip
    said_to_be_computed_elsewhere(store)
    before = state(store)
    done = cli("add", data, "--store", store)
    assert done.code == 1
    assert done.message.endswith("or refit everything here with: receraser rebuild")
    assert state(store) == before
    assert "1 request written down and not done yet" in done.err
    assert cli("rebuild", "--store", store).code == 0, "which does it on the way"
    assert Engine.load(store).knows("stranger")


def test_secret_keys(cli: Cli, files: Files, data: Path, tmp_path: Path) -> None:
    store, keys = tmp_path / "s", tmp_path / "keys"
    assert cli("fit", files.train, "--store", store, "--keys", keys, *INDEPENDENT).code == 0
    assert cli("add", data, "--store", store).code == 1
    done = cli("add", data, "--store", store, "--keys", keys, "--json")
    assert (done.code, done.json["rows_added"]) == (0, 5)
