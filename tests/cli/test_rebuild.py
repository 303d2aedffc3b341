from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from receraser.data.interactions import Interactions
from receraser.engine import Engine
from receraser.execution.local import LocalExecutor
from receraser.store.directory import DirectoryStore
from tests.cli.conftest import Cli, Files
from tests.cli.sharded import DRIVEN, SHARDS, WORLD, content, fitted, make_stores, said_to_be_computed_elsewhere


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory, worker: LocalExecutor) -> Path:
    folder = make_stores(tmp_path_factory.mktemp("stores"), worker)
    for kind in ("independent", "driven"):
        with Engine.changing(folder / kind, executor=worker) as engine:
            engine.forget(users=["u03"], items=["i04"])
    return folder


@pytest.fixture(params=["independent", "driven"])
def kind(request: pytest.FixtureRequest) -> str:
    assert isinstance(request.param, str)
    return request.param


@pytest.fixture
def store(stores: Path, tmp_path: Path, kind: str) -> Path:
    shutil.copytree(stores / kind, tmp_path / "s")
    return tmp_path / "s"


def left(rows: Interactions) -> Interactions:
    return Interactions.from_pairs((user, item) for user, item in rows.pairs() if user != "u03" and item != "i04")


def test_the_document(cli: Cli, store: Path, kind: str, worker: LocalExecutor) -> None:
    """The state is that of a fit which never saw anything but the survivors."""
    before = Engine.load(store)
    assert before.level == ("L3" if kind == "independent" else "L1")
    done = cli("rebuild", "--store", store, "--json")
    assert (done.code, done.err) == (0, "")
    found = done.json
    assert list(found) == ["digest", "level", "shards", "balance", "seconds", "certificate"]
    assert Path(str(found["certificate"])).is_file()
    fresh = fitted(kind, worker)
    fresh.fit(left(WORLD.train), valid=left(WORLD.held_out))
    engine = Engine.load(store)
    assert found["digest"] == engine.digest == fresh.digest
    assert (engine.digest == before.digest) == (kind == "independent")
    assert found["level"] == engine.level == "L3"
    assert found["shards"] == [vars(shard) for shard in fresh.shards]
    seconds = found["seconds"]
    assert isinstance(seconds, dict)
    assert list(seconds) == ["read", "partition", "submodels", "aggregate", "certificate", "publish", "total"]
    assert engine.titles == before.titles


def test_what_people_see(cli: Cli, store: Path, kind: str) -> None:
    level = "L3" if kind == "independent" else "L1"
    done = cli("rebuild", "--store", store)
    assert (done.code, done.out) == (0, "")
    was, certificate, published = done.err.splitlines()[-3:]
    assert (was, published) == (f"the level was {level}", f"published in {store}, level L3")
    assert Path(certificate.removeprefix("certificate: ")).is_file()


def test_dry_run(cli: Cli, store: Path, kind: str) -> None:
    level = "L3" if kind == "independent" else "L1"
    before = content(store)
    done = cli("rebuild", "--store", store, "--dry-run")
    assert (done.code, done.out) == (0, "")
    assert done.err == f"would fit {SHARDS} shards again; the level is {level}\n"
    found = cli("rebuild", "--store", store, "--dry-run", "--json").json
    assert list(found)[:3] == ["dry_run", "digest", "level"]
    assert (found["digest"], found["level"]) == (Engine.load(store).digest, level)
    assert content(store) == before


def test_it_moves_a_store_to_the_environment_of_today(cli: Cli, store: Path) -> None:
    said_to_be_computed_elsewhere(store)
    assert cli("forget", "--store", store, "--user", "u05").code == 1
    assert cli("rebuild", "--store", store).code == 0
    assert cli("forget", "--store", store, "--user", "u05").code == 0


def test_it_destroys_what_was_kept(cli: Cli, store: Path) -> None:
    assert cli("forget", "--store", store, "--user", "u05", "--keep-old").code == 0
    assert cli("rebuild", "--store", store, "--json").json["level"] == "L3"
    place = DirectoryStore(store)
    manifest = place.manifest()
    assert manifest["previous"] is None
    assert place.strays(manifest) == []


def test_vectors_from_a_file(cli: Cli, files: Files, tmp_path: Path) -> None:
    """They go by the users' own names, as for fit."""
    rng = np.random.default_rng(1)
    users, items = list(WORLD.train.users), list(WORLD.train.items)
    np.savez(
        tmp_path / "vectors.npz",
        users=np.array(users),
        user_vectors=rng.random((len(users), 3)),
        items=np.array(items),
        item_vectors=rng.random((len(items), 3)),
    )
    store = tmp_path / "s"
    fit = cli("fit", files.train, "--store", store, *DRIVEN, "--embeddings", tmp_path / "vectors.npz", "--json")
    assert fit.code == 0, fit.err
    assert fit.json["level"] == "L1", "nobody knows which rows the vectors were learned from"
    before = content(store)
    done = cli("rebuild", "--store", store)
    assert done.code == 2
    assert "no vectors were handed in" in done.message
    assert content(store) == before
    done = cli("rebuild", "--store", store, "--embeddings", tmp_path / "vectors.npz", "--json")
    assert (done.code, done.json["digest"], done.json["level"]) == (0, fit.json["digest"], "L1")
    done = cli("rebuild", "--store", store, "--embeddings", files.train)
    assert done.code == 2
    assert "this is no .npz archive of plain arrays" in done.message


def test_the_keys_that_sign_are_needed(cli: Cli, files: Files, tmp_path: Path) -> None:
    """Nobody is asked for by name; but what signs is needed, and names are where vectors come from a file."""
    store, keys = tmp_path / "s", tmp_path / "keys"
    digest = cli("fit", files.train, "--store", store, "--keys", keys, *DRIVEN, "--json").json["digest"]
    done = cli("rebuild", "--store", store)
    assert done.code == 2
    assert "none of the keys that signed for this store" in done.message, "its changes are signed"
    assert cli("rebuild", "--store", store, "--keys", keys, "--json").json["digest"] == digest
    assert Engine.load(store, key=bytes.fromhex((keys / "pseudonym.key").read_text())).knows("u00")


def test_what_is_refused(cli: Cli, store: Path, tmp_path: Path) -> None:
    with DirectoryStore(store).writing():
        done = cli("rebuild", "--store", store)
    assert (done.code, done.message) == (
        1, f"the store in {store} is being written by another process; try again later"
    )  # fmt: skip
    done = cli("rebuild", "--store", tmp_path / "none")
    assert done.code == 2
    assert not (tmp_path / "none").exists()
