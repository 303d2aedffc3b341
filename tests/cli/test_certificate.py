from __future__ import annotations

import base64
import dataclasses
import json
from pathlib import Path

import pytest

from receraser.errors import StoreError
from receraser.fingerprint import canonical_json, of_bytes
from receraser.proof.certificate import PAYLOAD_TYPE
from receraser.proof.keyring import Keyring
from receraser.proof.ledger import frontier_of
from receraser.proof.signing import sealed
from receraser.store.directory import DirectoryStore
from tests.cli.conftest import Cli, Files
from tests.cli.sharded import content
from tests.cli.signed import Signed


def newest(signed: Signed) -> Path:
    name = signed.history.entries[-1].certificate
    assert name is not None
    return signed.place.certificate_path(name)


# ---------------------------------------------------------------------- show


def test_the_newest_of_a_store(cli: Cli, signed: Signed) -> None:
    done = cli("certificate", "show", "--store", signed.store, "--keys", signed.keys)
    assert done.code == 0
    assert done.out.startswith("CERTIFICATE OF FORGETTING\n")
    assert "What it does NOT cover" in done.out
    key = signed.keyring.signing(create=False).public.id
    assert f"Signed with key      {key}\n" in done.out
    assert done.err == f"signed with key {key}, which is known here ({signed.keys / 'public'}); the signature fits\n"


def test_any_of_a_store(cli: Cli, signed: Signed) -> None:
    done = cli("certificate", "show", "--store", signed.store, "--number", 0, "--keys", signed.keys)
    assert done.out.startswith("CERTIFICATE OF A FIT\n")
    document = cli("certificate", "show", "--store", signed.store, "--number", 0, "--json").json
    assert document["signature_checked"] is True
    assert document["key_known"] is False, "there are no keys in the folder that counts without --keys"
    said = document["certificate"]
    assert isinstance(said, dict)
    assert (said["action"], said["level"], said["parent"]) == ("fit", "L3", None)
    assert document["file"] == str(signed.place.certificate_path(str(document["sha256"])))


def test_a_key_that_only_the_store_names(cli: Cli, signed: Signed, tmp_path: Path) -> None:
    done = cli("certificate", "show", "--store", signed.store)
    assert done.code == 0
    assert (
        f"is named by the store and not in {tmp_path / 'own' / 'public'}: the signature fits, but whose key" in done.err
    )
    assert not (tmp_path / "own").exists(), "whoever looks makes no keys"


def test_a_file(cli: Cli, signed: Signed, tmp_path: Path) -> None:
    file = tmp_path / "handed over.json"
    file.write_bytes(newest(signed).read_bytes())
    known = cli("certificate", "show", file, "--keys", signed.keys)
    assert known.code == 0
    assert "; the signature fits\n" in known.err
    assert known.err.endswith("receraser verify --store DIR --certificate FILE\n")
    assert known.out == cli("certificate", "show", "--store", signed.store).out
    unknown = cli("certificate", "show", file)
    assert unknown.code == 0
    assert "the signature was not checked" in unknown.err
    assert "which is not known here: the signature" in unknown.out, "whoever saves the text can see it there too"
    document = cli("certificate", "show", file, "--json").json
    assert (document["key_known"], document["signature_checked"]) == (False, False)
    assert document["sha256"] == of_bytes(file.read_bytes())


def test_a_page(cli: Cli, signed: Signed, tmp_path: Path) -> None:
    page = tmp_path / "certificate.html"
    arguments = ("certificate", "show", "--store", signed.store, "--keys", signed.keys, "--html", page)
    done = cli(*arguments)
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith(f"{page} is for reading; what counts is the file {newest(signed)}\n")
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert cli(*arguments, "--json").json["html"] == str(page), "the same again does no harm"
    refused = cli(*arguments, "--number", 0)
    assert (refused.code, refused.message) == (2, f"{page} exists already; choose another name")
    unchecked = tmp_path / "unchecked.html"
    assert cli("certificate", "show", newest(signed), "--html", unchecked).code == 0
    assert "the signature was not checked" in unchecked.read_text()


def test_a_forged_file_is_refused(cli: Cli, signed: Signed, tmp_path: Path) -> None:
    envelope = json.loads(newest(signed).read_bytes())
    payload = base64.b64decode(envelope["payload"])
    file = tmp_path / "forged.json"
    forged = payload.replace(b'"rows_removed":8', b'"rows_removed":9')
    assert forged != payload
    file.write_bytes(canonical_json({**envelope, "payload": base64.b64encode(forged).decode()}) + b"\n")
    done = cli("certificate", "show", file, "--keys", signed.keys)
    assert done.code == 1
    assert done.message.startswith(f"{file}: the signature of key ")
    assert "does not fit the content" in done.message


@pytest.mark.parametrize("text", ["", "{}", "[]", "\xff", '{"a": 1}'])
def test_what_is_no_certificate(cli: Cli, signed: Signed, tmp_path: Path, text: str) -> None:
    file = tmp_path / "file.json"
    file.write_bytes(text.encode("latin-1"))
    done = cli("certificate", "show", file, "--keys", signed.keys)
    assert done.code == 1
    assert str(file) in done.message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a certificate's file, or a store with --store: one of the two"),
        (["x.json", "--store", "STORE"], "name a certificate's file, or a store with --store: one of the two"),
        (["x.json", "--number", "1"], "--number is a place in the ledger of a store; name it with --store"),
        (["x.json"], "x.json cannot be read: No such file or directory"),
        (["--store", "STORE", "--number", "2"], "the ledger has no entry 2: expected a number from 0 to 1"),
        (["--store", "STORE", "--number", "-1"], "the ledger has no entry -1: expected a number from 0 to 1"),
        (["--store", "nowhere"], "there is no store in nowhere; make one with: receraser fit DATA --store nowhere"),
    ],
)
def test_wrong_usage(cli: Cli, signed: Signed, arguments: list[str], message: str) -> None:
    done = cli("certificate", "show", *(str(signed.store) if one == "STORE" else one for one in arguments))
    assert (done.code, done.message) == (2, message)


def test_a_damaged_certificate(cli: Cli, signed: Signed) -> None:
    path = newest(signed)
    path.write_bytes(path.read_bytes()[:-1])
    for command in (["show"], ["list"]):
        done = cli("certificate", *command, "--store", signed.store)
        assert done.code == 1
        assert done.message == f"the store is damaged: the content of {path} is not what it was written with"


def test_a_certificate_of_somewhere_else(cli: Cli, signed: Signed, signed_once: Signed, tmp_path: Path) -> None:
    """In the place of another, signed by a key that the store does not name."""
    stranger = Keyring(tmp_path / "stranger").signing()
    payload = base64.b64decode(json.loads(newest(signed).read_bytes())["payload"])
    for key, why in ((stranger, "none of the store's"), (signed.keyring.signing(), "another store or another entry")):
        one = signed_once.copied(tmp_path / key.public.id)
        wrong = payload.replace(b'"index":1,"root"', b'"index":7,"root"').replace(b'"size":1}', b'"size":7}')
        name = one.place.put_certificate(canonical_json(sealed(PAYLOAD_TYPE, wrong, key)) + b"\n")
        replace_last_certificate(one, name)
        done = cli("certificate", "list", "--store", one.store)
        assert done.code == 1
        assert why in done.message


def replace_last_certificate(signed: Signed, name: str) -> None:
    """Write the ledger anew with another certificate in its last entry."""
    history = signed.history
    entries = [*history.entries[:-1], dataclasses.replace(history.entries[-1], certificate=name)]
    data = b"".join(one.line() for one in entries)
    (signed.store / "ledger").write_bytes(data)
    hashes = tuple(one.hex() for one in frontier_of(entries).hashes)
    record = dataclasses.replace(history.record, frontier=hashes, length=len(data))
    signed.place.swap({**signed.place.manifest(), "record": record.as_dict()})


# ---------------------------------------------------------------------- list


def test_list(cli: Cli, signed: Signed) -> None:
    done = cli("certificate", "list", "--store", signed.store, "--keys", signed.keys)
    assert done.code == 0
    assert done.err.endswith(f"which is known here ({signed.keys / 'public'}); the signature fits\n")
    rows = [[cell.strip() for cell in line.split("│")] for line in done.out.splitlines() if "│" in line]
    assert [row[:1] + row[2:6] for row in rows] == [["0", "fit", "L3", "0", "0"], ["1", "forget", "L3", "8", "0"]]
    assert rows[1][6] == str(newest(signed))
    listed = cli("certificate", "list", "--store", signed.store, "--json").json["certificates"]
    assert isinstance(listed, list)
    assert [one["rows_removed"] for one in listed] == [0, 8]
    assert [one["certificate"] for one in listed] == [row[6] for row in rows]
    assert [one["key_known"] for one in listed] == [False, False], "the folder of keys was not named"
    assert "must be asked elsewhere" in cli("certificate", "list", "--store", signed.store).err


def test_a_page_that_is_only_tried(cli: Cli, signed: Signed, tmp_path: Path) -> None:
    arguments = ("certificate", "show", "--store", signed.store, "--html", tmp_path / "page.html", "--dry-run")
    assert cli(*arguments).err.startswith(f"would write {tmp_path / 'page.html'}, which is for reading; ")
    assert cli(*arguments, "--json").json["dry_run"] is True
    assert not (tmp_path / "page.html").exists()


def test_a_store_that_nobody_signed(cli: Cli, files: Files) -> None:
    done = cli("certificate", "list", "--store", files.store)
    assert (done.code, done.out) == (0, "")
    assert f"there is no certificate in {files.store}" in done.err
    assert cli("certificate", "list", "--store", files.store, "--json").json == {"certificates": []}
    done = cli("certificate", "show", "--store", files.store)
    assert done.code == 1
    assert done.message == "there is no certificate in this store: no change of it was signed (see --keys)"


# ---------------------------------------------------------------------- give


def test_give(cli: Cli, signed: Signed, tmp_path: Path) -> None:
    out = tmp_path / "for them.json"
    arguments = ("certificate", "give", "--store", signed.store, "--number", 1, "--out", out, "--keys", signed.keys)
    before, version, path = content(signed.store), signed.place.version(), newest(signed)
    tried = cli(*arguments, "--to", "the office", "--dry-run", "--json")
    assert tried.json["dry_run"] is True
    assert content(signed.store) == before
    assert not out.exists()
    done = cli(*arguments, "--to", "the office")
    assert (done.code, done.out) == (0, "")
    assert f"written to {out}, SHA-256 {path.stem}; on record as given to the office" in done.err
    assert out.read_bytes() == path.read_bytes()
    assert signed.actions == ["fit", "forget", "certificate"]
    assert signed.history.record.certificate == path.stem, "the newest is the one it was"
    (recipient,) = signed.history.record.recipients
    assert (recipient["what"], recipient["to"]) == ("certificate", "the office")
    assert signed.place.version() == version, "the state is untouched"
    assert cli("inspect", "--store", signed.store).err == ""
    again = cli("certificate", "give", "--store", signed.store, "--number", 2, "--out", "x", "--to", "them",
                "--keys", signed.keys)  # fmt: skip
    assert again.message == "entry 2 of the ledger (certificate) has no certificate; those with one: 0, 1"


@pytest.mark.parametrize("dry_run", [[], ["--dry-run"]], ids=["done", "tried"])
def test_giving_that_is_refused(cli: Cli, signed: Signed, tmp_path: Path, dry_run: list[str]) -> None:
    before = content(signed.store)
    arguments = ("certificate", "give", "--store", signed.store, "--number", 1, "--keys", signed.keys, *dry_run)
    (tmp_path / "there").write_text("")
    there = cli(*arguments, "--out", tmp_path / "there", "--to", "them")
    assert (there.code, there.message) == (2, f"{tmp_path / 'there'} exists already; choose another name")
    for to in ("", " ", "x\n", "x" * 201):
        done = cli(*arguments, "--out", tmp_path / "new", "--to", to)
        assert done.code == 2
        assert "expected a name in at most 200 printable characters" in done.message
    assert content(signed.store) == before


def test_giving_needs_the_keys_of_the_store(cli: Cli, signed: Signed, tmp_path: Path) -> None:
    """A ledger that went on unsigned, or signed by a stranger, would not verify any more."""
    before = content(signed.store)
    Keyring(tmp_path / "own").signing()
    done = cli("certificate", "give", "--store", signed.store, "--number", 1, "--out", tmp_path / "new", "--to", "them")
    assert done.code == 2
    assert done.message.startswith("none of the keys that signed for this store (")
    assert f"is in {tmp_path / 'own'}; name their folder with --keys" in done.message
    assert content(signed.store) == before


def test_nobody_gets_what_is_not_on_record(
    cli: Cli, signed: Signed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StoreError("the disk is full")

    arguments = ("certificate", "give", "--store", signed.store, "--number", 1, "--to", "them", "--keys", signed.keys)
    with monkeypatch.context() as disk:
        disk.setattr(DirectoryStore, "swap", fail)
        assert cli(*arguments, "--out", tmp_path / "new").message == "the disk is full"
    assert not (tmp_path / "new").exists()
    assert signed.actions == ["fit", "forget"]
    done = cli(*arguments, "--out", tmp_path / "no folder" / "new")
    assert (done.code, done.message) == (
        2, f"{tmp_path / 'no folder' / 'new'} cannot be written: No such file or directory"
    )  # fmt: skip
    with signed.place.writing():
        assert cli(*arguments, "--out", tmp_path / "new").code == 1
    assert cli(*arguments, "--out", tmp_path / "new").code == 0
