from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from receraser.engine import Engine
from receraser.execution.local import LocalExecutor
from receraser.proof.keyring import Keyring, Trust
from receraser.proof.ledger import key_check
from tests.cli.conftest import Cli, Files, Outcome
from tests.cli.sharded import content
from tests.cli.signed import Signed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "keys of mine"


class Answer(io.StringIO):
    """A terminal at which somebody answers."""

    def isatty(self) -> bool:
        return True


# ---------------------------------------------------------------------- show, make, rotate


def test_no_keys(cli: Cli, folder: Path) -> None:
    done = cli("keys", "show", "--keys", folder)
    assert (done.code, done.err) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in done.out.splitlines())
    assert lines["folder"] == str(folder)
    assert lines["signing"] == "none yet: receraser keys make"
    assert cli("keys", "show", "--keys", folder, "--json").json == {
        "folder": str(folder), "current": None, "keys": [], "ledgers": [], "pseudonym_key": False
    }  # fmt: skip
    done = cli("keys", "rotate", "--keys", folder)
    assert done.code == 2
    assert done.message.startswith(f"there is no signing key in {folder} to replace")
    assert not folder.exists()


def test_make(cli: Cli, folder: Path) -> None:
    tried = cli("keys", "make", "--keys", folder, "--dry-run")
    assert (tried.code, tried.err) == (0, f"would make a signing key in {folder}\n")
    assert cli("keys", "make", "--keys", folder, "--dry-run", "--json").json["made"] is False
    assert not folder.exists()
    made = cli("keys", "make", "--keys", folder)
    key = Keyring(folder).signing(create=False).public
    assert made.code == 0
    assert made.err.splitlines()[0].startswith(f"made the signing key {key.id} in {folder}: guard the folder")
    assert made.err.splitlines()[1] == f"for auditors: the folder {folder / 'public'}, and nothing else of {folder}"
    before = content(folder)
    again = cli("keys", "make", "--keys", folder)
    assert (again.code, again.err) == (0, f"there is a signing key in {folder} already: {key.id}\n")
    document = cli("keys", "make", "--keys", folder, "--json").json
    assert (document["made"], document["id"]) == (False, key.id)
    assert str(document["fingerprint"]).startswith(key.id)
    assert content(folder) == before


def test_the_folder_that_counts_where_none_is_named(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECERASER_KEYS", str(folder))
    assert cli("keys", "make", "--json").json["folder"] == str(folder)
    assert (folder / "signing.key").exists()


def test_show_says_no_secret(cli: Cli, signed: Signed) -> None:
    signed.keyring.rotate("2026-01-01T00:00:00Z")
    done = cli("keys", "show", "--keys", signed.keys)
    document = cli("keys", "show", "--keys", signed.keys, "--json")
    assert (done.code, done.err) == (0, "")
    current = signed.keyring.signing().public
    for text in (done.out, document.out):
        assert all(key in text for key in signed.keyring.public())
        assert signed.history.record.store in text
        for path in signed.keys.glob("*.key"):
            for line in path.read_text().splitlines():
                assert line.startswith("--") or line not in text
    rows = {row[1].strip(): row[0].strip() for line in done.out.splitlines() if len(row := line.split("│")) > 1}
    assert rows == {key: "signs now" if key == current.id else "before" for key in signed.keyring.public()}
    assert document.json["current"] == current.id
    assert document.json["ledgers"] == [signed.history.record.store]
    listed = document.json["keys"]
    assert isinstance(listed, list)
    assert {one["id"]: one["rotation"] is not None for one in listed} == {
        key: key == current.id for key in signed.keyring.public()
    }


def test_rotate(cli: Cli, signed: Signed) -> None:
    before, was = content(signed.keys), signed.keyring.signing().public
    tried = cli("keys", "rotate", "--keys", signed.keys, "--dry-run")
    assert tried.err == f"would replace the signing key {was.id} in {signed.keys}, and destroy it\n"
    assert cli("keys", "rotate", "--keys", signed.keys, "--dry-run", "--json").json["old"] == was.id
    assert content(signed.keys) == before
    done = cli("keys", "rotate", "--keys", signed.keys)
    now = signed.keyring.signing().public
    statement = signed.keys / "public" / f"{now.id}.rotation.json"
    assert (done.code, done.out) == (0, "")
    assert f"key {was.id} is replaced by {now.id}; the old private key is destroyed" in done.err
    assert str(statement) in done.err
    assert f"for auditors: the folder {signed.keys / 'public'}, and nothing else" in done.err
    trusted = Trust.from_path(signed.keys / "public", [was]).keys()
    assert now.id in trusted
    assert cli("certificate", "show", "--store", signed.store, "--keys", signed.keys).err.endswith("signature fits\n")
    document = cli("keys", "rotate", "--keys", signed.keys, "--json").json
    assert document["old"] == now.id
    assert Path(str(document["rotation"])).exists()


def test_a_damaged_key(cli: Cli, signed: Signed) -> None:
    (signed.keys / "signing.key").write_text("nothing")
    for command in ("show", "make", "rotate"):
        done = cli("keys", command, "--keys", signed.keys)
        assert done.code == 2
        assert str(signed.keys / "signing.key") in done.message


# ---------------------------------------------------------------------- shred


def shred(cli: Cli, signed: Signed, *options: str) -> Outcome:
    return cli("keys", "shred", "--store", signed.store, "--keys", signed.keys, *options)


def ledger_key(signed: Signed) -> bytes | None:
    return signed.keyring.ledger_key(signed.history.record.store, create=False)


def test_a_store_that_is_replaced_leaves_the_key_of_its_ledger(
    cli: Cli, signed: Signed, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of it may be in use, under the same id: that the key can go is for whoever knows."""
    old = signed.history.record.store
    monkeypatch.setenv("RECERASER_KEYS", str(signed.keys))
    done = cli("fit", files.train, "--store", signed.store, "--model", "wmf", "--set", "dim=4", "--replace")
    assert done.code == 0, done.err
    assert f"if no copy of the store is in use: receraser keys shred --ledger {old}\n" in done.err
    assert signed.history.record.store != old
    shredding = ("keys", "shred", "--ledger", old)
    assert cli(*shredding, "--dry-run").code == 0
    assert signed.keyring.ledger_key(old, create=False) is not None
    assert cli(*shredding).code == 2, "it asks first"
    assert cli(*shredding, "--yes", "--json").json == {"store": old, "folder": str(signed.keys)}
    assert signed.keyring.ledger_key(old, create=False) is None
    assert ledger_key(signed) is not None, "that of the store that is there"
    for again in ("--yes", "--dry-run"):
        assert f"there is no key of the ledger of store {old} in " in cli(*shredding, again).message
    assert cli("keys", "shred", "--yes").code == 2
    assert cli("keys", "shred", "--yes", "--store", signed.store, "--ledger", old).code == 2


def test_shred(cli: Cli, signed: Signed, worker: LocalExecutor) -> None:
    key, entries, version = ledger_key(signed), signed.history.entries, signed.place.version()
    assert key is not None
    before = content(signed.store), content(signed.keys)
    tried = shred(cli, signed, "--dry-run")
    assert tried.code == 0
    assert "its 1 subjects never be recognised" not in tried.err
    assert "who is named in its ledger can never be recognised again" in tried.err
    assert shred(cli, signed, "--dry-run", "--json").json["dry_run"] is True
    assert (content(signed.store), content(signed.keys)) == before
    done = shred(cli, signed, "--yes")
    assert (done.code, done.out) == (0, "")
    assert "copies of the key in backups and snapshots are not covered" in done.err
    assert ledger_key(signed) is None
    assert signed.actions == ["fit", "forget", "shred"]
    assert signed.history.entries[:2] == entries
    assert signed.history.entries[2].key == key_check(key), "which key it was"
    assert signed.place.version() == version
    with Engine.changing(signed.store, executor=worker, keyring=signed.keyring) as engine:
        engine.forget(users=["u05"])
    new = ledger_key(signed)
    assert new not in (None, key)
    assert signed.actions == ["fit", "forget", "shred", "forget"]


def test_shredding_twice(cli: Cli, signed: Signed) -> None:
    assert shred(cli, signed, "--yes", "--json").json["store"] == signed.history.record.store
    before = content(signed.store)
    for options in (["--yes"], ["--dry-run"]):
        done = shred(cli, signed, *options)
        assert done.code == 2
        assert done.message.startswith(f"there is no key of this store's ledger in {signed.keys}")
    assert content(signed.store) == before


def test_shredding_that_was_interrupted_is_finished(cli: Cli, signed: Signed) -> None:
    name = f"ledger-{signed.history.record.store}.key"
    (signed.keys / name).rename(signed.keys / f"{name}.gone")
    assert shred(cli, signed, "--yes").code == 0
    assert not list(signed.keys.glob("ledger-*"))


def test_shredding_is_asked_for(cli: Cli, signed: Signed, monkeypatch: pytest.MonkeyPatch) -> None:
    before = content(signed.store), content(signed.keys)
    for nobody in (None, io.StringIO("y\n")):
        monkeypatch.setattr(sys, "stdin", nobody)
        done = shred(cli, signed)
        assert done.code == 2
        assert done.message.endswith("; if that is meant, say --yes")
    monkeypatch.setattr(sys, "stdin", Answer("n\n"))
    done = shred(cli, signed)
    assert (done.code, done.out) == (1, "")
    assert done.err.endswith("nothing was changed\n")
    monkeypatch.setattr(sys, "stdin", Answer(""))
    assert shred(cli, signed).code == 1, "whoever hangs up has not said yes"
    assert (content(signed.store), content(signed.keys)) == before
    monkeypatch.setattr(sys, "stdin", Answer("y\n"))
    assert shred(cli, signed).code == 0
    assert ledger_key(signed) is None


def test_what_waits_comes_first(cli: Cli, signed: Signed) -> None:
    signed.asked("somebody")
    done = shred(cli, signed, "--yes")
    assert done.code == 1
    assert f"do them first: receraser pending finish --store {signed.store}" in done.message
    assert ledger_key(signed) is not None
    assert signed.actions == ["fit", "forget"]


def test_no_key_of_an_unsigned_store(cli: Cli, files: Files, signed: Signed) -> None:
    done = cli("keys", "shred", "--store", files.store, "--keys", signed.keys, "--yes")
    assert (done.code, "there is no key of this store's ledger" in done.message) == (2, True)
