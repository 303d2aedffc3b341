from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from receraser.engine import Engine
from receraser.execution.local import LocalExecutor
from receraser.keys import load_key
from receraser.models.wmf import WMF
from receraser.proof.keyring import Keyring
from tests.cli.conftest import Cli, Files
from tests.cli.sharded import SHARDS, fitted
from tests.contracts.worlds import checkerboard


@pytest.fixture
def store(files: Files, tmp_path: Path) -> Path:
    shutil.copytree(files.store, tmp_path / "s")
    return tmp_path / "s"


def test_the_document_is_the_manifest(cli: Cli, files: Files) -> None:
    done = cli("inspect", "--store", files.store, "--json")
    assert (done.code, done.err) == (0, "")
    manifest = json.loads((files.store / "manifest.json").read_text())
    del manifest["checksum"]
    found = done.json
    keys = found.pop("keys")
    assert isinstance(keys, dict)
    assert {**keys, "folder": ""} == {"folder": "", "pseudonyms": False, "signing": [], "ledger": False}
    assert found == manifest | {"balance": 1.0, "pending": 0, "strays": []}
    assert {"config", "digest", "level", "shards", "files", "environment", "format"} <= set(manifest)


def test_what_people_see(cli: Cli, files: Files) -> None:
    done = cli("inspect", "--store", files.store)
    assert (done.code, done.err) == (0, "")
    engine = Engine.load(files.store)
    lines = dict(line.split(maxsplit=1) for line in done.out.splitlines() if line[:1].isalpha())
    assert lines["method"] == "retrain: whole + alone"
    assert lines["level"] == "L3"
    assert lines["partition"] == "shards=1"
    assert lines["aggregation"] == "nothing to set"
    assert lines["model"] == "wmf on cpu, seed 7"
    assert "dim=4" in lines["settings"]
    assert lines["digest"] == engine.digest
    assert lines["pseudonyms"] == "made with a public key: whoever guesses an id can recognise it"
    assert lines["validation"] == "no rows"
    assert lines["size"].endswith(" bytes in 3 files, all intact")
    assert [cell.strip() for cell in done.out.splitlines()[-1].split("│")] == [
        "0", "192", "24", "20", engine.shards[0].digest[:16]
    ]  # fmt: skip


def test_which_keys_are_the_stores(cli: Cli, tmp_path: Path, worker: LocalExecutor) -> None:
    keys, store = tmp_path / "keys", tmp_path / "signed"
    secret = load_key(keys, create=True)
    engine = Engine(model=WMF(dim=4, n_sweeps=2), key=secret, executor=worker).fit(checkerboard().train)
    engine.save(store, keyring=Keyring(keys))
    signer = Keyring(keys).signing().public.id
    told = cli("inspect", "--store", store, "--keys", keys)
    assert f"in {keys}: that of its pseudonyms; {signer} that signed for it; that of its ledger" in told.out
    found = cli("inspect", "--store", store, "--keys", keys, "--json").json["keys"]
    assert found == {"folder": str(keys), "pseudonyms": True, "signing": [signer], "ledger": True}
    others = tmp_path / "others"
    load_key(others, create=True)
    Keyring(others).signing()
    assert f"none of this store's in {others}" in cli("inspect", "--store", store, "--keys", others).out
    refused = cli("inspect", "--store", store, "--keys", tmp_path / "none")
    assert (refused.code, refused.message) == (2, f"--keys {tmp_path / 'none'}: there is no such folder")


def test_a_store_in_shards(cli: Cli, files: Files, tmp_path: Path, worker: LocalExecutor) -> None:
    store = tmp_path / "driven"
    fitted("driven", worker).save(store)
    engine = Engine.load(store)

    def seen() -> tuple[dict[str, str], list[str]]:
        done = cli("inspect", "--store", store)
        assert (done.code, done.err) == (0, "")
        text = done.out.splitlines()
        return dict(line.split(maxsplit=1) for line in text if line[:1].isalpha()), text

    lines, text = seen()
    assert lines["method"] == "custom: ubp + attention"
    assert lines["level"] == "L3"
    assert lines["partition"].startswith(f"shards={SHARDS}, capacity=interactions, dim=3")
    assert "attention_dim=3" in lines["aggregation"]
    assert lines["validation"] == f"{len(checkerboard().held_out)} rows"
    rows = [[cell.strip() for cell in line.split("│")] for line in text if "│" in line]
    assert rows == [
        [str(one.id), str(one.rows), str(one.users), str(one.items), one.digest[:16]] for one in engine.shards
    ]
    assert text[-1] == f"largest shard: {engine.balance:.2f} x the mean"
    with Engine.changing(store, executor=worker) as opened:
        opened.forget(users=["u03"])
    assert seen()[0]["level"] == (
        "L1 (the assignment to shards dates from before the last change; receraser rebuild makes it L3)"
    )
    with Engine.changing(store, executor=worker, keep_old=True) as opened:
        opened.forget(users=["u05"])
    assert seen()[0]["level"].endswith("makes it L3); the state before the last change is kept")
    document = cli("inspect", "--store", store, "--json").json
    assert (document["level"], document["digest"]) == ("L1", opened.digest)
    previous = document["previous"]
    assert isinstance(previous, dict)
    assert set(previous) == {"manifest", "files"}


def test_every_file_of_a_store_in_shards_is_checked(cli: Cli, tmp_path: Path, worker: LocalExecutor) -> None:
    """Also those of a state that was kept."""
    store = tmp_path / "s"
    fitted("driven", worker).save(store)
    with Engine.changing(store, executor=worker, keep_old=True) as opened:
        opened.forget(users=["u03"])
    for path in sorted((store / "files").iterdir()):
        whole = path.read_bytes()
        path.write_bytes(whole[:-1])
        done = cli("inspect", "--store", store)
        assert done.code == 1
        assert done.message == f"the store is damaged: the content of {path} is not what it was written with"
        path.write_bytes(whole)


def test_every_file_is_checked(cli: Cli, store: Path) -> None:
    for path in sorted((store / "files").iterdir()):
        whole = path.read_bytes()
        path.write_bytes(whole[:-1])
        done = cli("inspect", "--store", store)
        assert done.code == 1
        assert done.message == f"the store is damaged: the content of {path} is not what it was written with"
        path.write_bytes(whole)
    (store / "manifest.json").write_text("{}")
    done = cli("inspect", "--store", store, "--json")
    assert (done.code, done.message) == (1, f"{store / 'manifest.json'} is damaged: it is no manifest of a store")


def test_strays_are_told(cli: Cli, store: Path) -> None:
    (store / "files" / "left").write_text("")
    done = cli("inspect", "--store", store)
    assert done.code == 0
    assert f"note: files/left in {store}: no part of the store" in done.err
    assert "L2 (files of another state are still there)" in done.out, "what was superseded may lie there still"
    (store / "notes.txt").write_text("")
    assert f"note: files/left and 1 more file in {store}" in cli("inspect", "--store", store).err
    assert cli("inspect", "--store", store, "--json").json["strays"] == ["files/left", "notes.txt"]


def test_half_written(cli: Cli, store: Path) -> None:
    (store / "manifest.json").unlink()
    done = cli("inspect", "--store", store)
    assert done.code == 1
    assert "half-written: a fit did not finish there; run it again with --replace" in done.message


def test_no_store(cli: Cli, tmp_path: Path) -> None:
    assert cli("inspect", "--store", tmp_path).code == 2
    (tmp_path / "file").write_text("")
    done = cli("inspect", "--store", tmp_path / "file")
    assert (done.code, done.message) == (2, f"there is no store in {tmp_path / 'file'}: a store is a directory")
