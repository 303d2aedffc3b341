from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from receraser.fingerprint import canonical_json
from receraser.proof import merkle
from receraser.proof.keyring import Keyring
from receraser.proof.ledger import CHECKPOINT_TYPE
from receraser.proof.signing import sealed
from tests.cli.conftest import Cli, Files
from tests.cli.sharded import content
from tests.cli.signed import Signed


def hashes(texts: object) -> list[bytes]:
    assert isinstance(texts, list)
    return [bytes.fromhex(one) for one in texts]


def go_on(cli: Cli, signed: Signed, times: int = 1) -> None:
    """Add entries to the ledger."""
    for n in range(times):
        out = signed.store.parent / f"given-{len(signed.actions)}-{n}"
        arguments = ("--store", signed.store, "--keys", signed.keys, "--out", out, "--number", 1, "--to", "them")
        assert cli("certificate", "give", *arguments).code == 0


def test_show(cli: Cli, signed: Signed) -> None:
    before = content(signed.store)
    done = cli("ledger", "show", "--store", signed.store, "--keys", signed.keys)
    assert done.code == 0
    assert done.err.endswith(f"which is known here ({signed.keys / 'public'}); the signature fits\n")
    rows = [[cell.strip() for cell in line.split("│")] for line in done.out.splitlines() if "│" in line]
    entries = signed.history.entries
    assert rows == [
        [str(one.index), one.time, one.action, str(len(one.subjects)), str(one.certificate)[:16]] for one in entries
    ]
    assert [row[3] for row in rows] == ["0", "1"]
    key = signed.keyring.signing().public.id
    assert done.out.splitlines()[-1].endswith(f"root {signed.history.root}, signed with key {key}")
    document = cli("ledger", "show", "--store", signed.store, "--json").json
    assert (document["size"], document["root"]) == (2, signed.history.root)
    assert isinstance(document["checkpoint"], dict)
    assert document["checkpoint"]["signed_by"] == key
    assert document["checkpoint"]["key_known"] is False, "the folder of keys was not named"
    assert entries[1].subjects[0] not in json.dumps(document), "not even keyed hashes are shown"
    assert content(signed.store) == before


def test_an_unsigned_ledger(cli: Cli, files: Files) -> None:
    assert cli("ledger", "show", "--store", files.store).out.splitlines()[-1].endswith(", not signed")
    assert cli("ledger", "show", "--store", files.store, "--json").json["checkpoint"] is None
    assert cli("ledger", "prove", "--store", files.store, "--number", 0, "--json").json["checkpoint"] is None
    done = cli("ledger", "checkpoint", "--store", files.store)
    assert done.code == 1
    assert done.message.startswith(f"the ledger in {files.store} is not signed: its last entry was made without keys")


def test_whose_checkpoint_it_is(cli: Cli, signed: Signed, tmp_path: Path) -> None:
    arguments = ("ledger", "checkpoint", "--store", signed.store)
    assert cli(*arguments, "--keys", signed.keys, "--json").json["key_known"] is True
    assert "which is known here" in cli(*arguments, "--keys", signed.keys).err
    Keyring(tmp_path / "others").signing()
    assert cli(*arguments, "--keys", tmp_path / "others", "--json").json["key_known"] is False
    assert "but whose key it is must be asked elsewhere" in cli(*arguments, "--keys", tmp_path / "others").err
    key = signed.keyring.signing().public.id
    other = Keyring(tmp_path / "others").signing().public
    (tmp_path / "passed off" / "public").mkdir(parents=True)
    (tmp_path / "passed off" / "public" / f"{key}.pem").write_bytes(other.to_pem())
    assert cli(*arguments, "--keys", tmp_path / "passed off", "--json").json["key_known"] is False


def test_what_is_only_tried_writes_nothing(cli: Cli, signed: Signed, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    for command in (("checkpoint",), ("prove", "--number", "0")):
        arguments = ("ledger", *command, "--store", signed.store, "--out", out, "--dry-run")
        assert cli(*arguments).err.startswith(f"would write {out}\n")
        assert cli(*arguments, "--json").json["dry_run"] is True
    assert not out.exists()


def test_a_checkpoint(cli: Cli, signed: Signed, tmp_path: Path) -> None:
    out = tmp_path / "checkpoint.json"
    done = cli("ledger", "checkpoint", "--store", signed.store, "--out", out)
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith(f"written to {out}\nthe root over 2 entries, as of ")
    assert cli("ledger", "checkpoint", "--store", signed.store).out.encode() == out.read_bytes(), "for a pipe"
    document = cli("ledger", "checkpoint", "--store", signed.store, "--json").json
    assert (document["size"], document["root"], document["out"]) == (2, signed.history.root, None)
    assert canonical_json(document["checkpoint"]) + b"\n" == out.read_bytes()
    go_on(cli, signed)
    for dry_run in ([], ["--dry-run"]):
        refused = cli("ledger", "checkpoint", "--store", signed.store, "--out", out, *dry_run)
        assert (refused.code, refused.message) == (2, f"{out} exists already; choose another name"), "evidence is kept"
    nowhere = tmp_path / "no folder" / "checkpoint.json"
    refused = cli("ledger", "checkpoint", "--store", signed.store, "--out", nowhere)
    assert (refused.code, refused.message) == (2, f"{nowhere} cannot be written: No such file or directory")


def test_a_checkpoint_that_was_left_behind(cli: Cli, signed: Signed) -> None:
    """The signature of an earlier root under a longer ledger."""
    earlier = signed.history.record.checkpoint
    go_on(cli, signed)
    record = dataclasses.replace(signed.history.record, checkpoint=earlier)
    signed.place.swap({**signed.place.manifest(), "record": record.as_dict()})
    for command in ("show", "checkpoint"):
        done = cli("ledger", command, "--store", signed.store)
        assert (done.code, done.message) == (1, "the checkpoint is of 2 entries; the ledger has 3")


# ---------------------------------------------------------------------- prove


def test_that_an_entry_is_in_it(cli: Cli, signed: Signed, tmp_path: Path) -> None:
    go_on(cli, signed)
    for number in range(3):
        out = tmp_path / f"proof-{number}.json"
        done = cli("ledger", "prove", "--store", signed.store, "--number", number, "--out", out)
        assert (done.code, done.out) == (0, "")
        assert f"entry {number} ({signed.actions[number]}) is in the ledger of 3 entries" in done.err
        proof = json.loads(out.read_text())
        leaf = merkle.leaf_hash(proof["entry"].encode())
        root = bytes.fromhex(proof["root"])
        assert merkle.includes(leaf, proof["index"], proof["size"], hashes(proof["path"]), root)
        assert not merkle.includes(leaf, (number + 1) % 3, proof["size"], hashes(proof["path"]), root)
        assert json.loads(proof["entry"])["index"] == number
        assert proof["checkpoint"] == signed.history.record.checkpoint
        assert cli("ledger", "prove", "--store", signed.store, "--number", number).out.encode() == out.read_bytes()


def test_that_it_only_grew(cli: Cli, signed: Signed, tmp_path: Path) -> None:
    checkpoints = []
    for number in range(2):
        checkpoints.append(tmp_path / f"checkpoint-{number}.json")
        assert cli("ledger", "checkpoint", "--store", signed.store, "--out", checkpoints[-1]).code == 0
        go_on(cli, signed)
    signed.keyring.rotate("2026-01-01T00:00:00Z")  # whoever signed then need not be who signs now
    go_on(cli, signed)
    for number, since in enumerate(checkpoints):
        done = cli("ledger", "prove", "--store", signed.store, "--since", since)
        assert done.code == 0
        assert done.err == f"the ledger of 5 entries began with the {number + 2} of {since}\n"
        proof = done.json
        old, new = (bytes.fromhex(str(proof[name])) for name in ("old_root", "root"))
        assert merkle.consistent(number + 2, old, 5, new, hashes(proof["path"]))
        assert proof["old_checkpoint"] == json.loads(since.read_text())
        assert cli("ledger", "prove", "--store", signed.store, "--since", since, "--json").json == proof


def test_a_ledger_that_was_rewritten(cli: Cli, signed: Signed, signed_once: Signed, tmp_path: Path) -> None:
    """By somebody with all the keys: who kept a checkpoint sees it."""
    since = tmp_path / "checkpoint.json"
    shutil.copytree(signed.store, tmp_path / "as it was")
    go_on(cli, signed, 2)
    assert cli("ledger", "checkpoint", "--store", signed.store, "--out", since).code == 0
    shutil.rmtree(signed.store)
    shutil.copytree(tmp_path / "as it was", signed.store)
    gone = cli("ledger", "prove", "--store", signed.store, "--since", since)
    assert (gone.code, gone.message) == (
        1, f"{since}: the checkpoint is of 4 entries; the ledger has 2: some are gone"
    )  # fmt: skip
    with signed.place.writing():
        pending = signed.asked("nobody")
    assert cli("pending", "withdraw", pending.id, "--store", signed.store, "--keys", signed.keys, "--yes").code == 0
    go_on(cli, signed, 2)
    other = cli("ledger", "prove", "--store", signed.store, "--since", since)
    assert other.code == 1
    assert other.message.startswith(
        f"{since}: the ledger is not the one the checkpoint was made of: the root over its 4"
    )


def test_a_checkpoint_of_somebody_else(cli: Cli, signed: Signed, tmp_path: Path) -> None:
    stranger = Keyring(tmp_path / "stranger")
    since = tmp_path / "checkpoint.json"
    body = {"store": "0" * 32, "size": 1, "root": "0" * 64, "time": "2026-01-01T00:00:00Z", "manifest": "0" * 64}
    since.write_bytes(canonical_json(sealed(CHECKPOINT_TYPE, canonical_json(body), stranger.signing())) + b"\n")
    arguments = ("ledger", "prove", "--store", signed.store, "--since", since)
    done = cli(*arguments)
    assert done.code == 1
    assert "which is not trusted here" in done.message
    done = cli(*arguments, "--keys", stranger.folder)
    assert done.code == 1
    assert "the checkpoint is of another store" in done.message
    for text in ("", "[]", "{}"):
        since.write_text(text)
        assert cli(*arguments).code == 1
    faults: list[object] = [[], {**body, "store": signed.history.record.store, "size": -1}, {**body, "size": True}]
    for wrong in faults:
        since.write_bytes(canonical_json(sealed(CHECKPOINT_TYPE, canonical_json(wrong), stranger.signing())))
        done = cli(*arguments, "--keys", stranger.folder)
        assert (done.code, done.message[: len(str(since))]) == (1, str(since))


@pytest.mark.parametrize("damage", ["flip", "cut", "removed", "other root"])
def test_a_damaged_ledger(cli: Cli, signed: Signed, damage: str) -> None:
    path = signed.store / "ledger"
    data = path.read_bytes()
    if damage == "flip":
        path.write_bytes(data.replace(b'"forget"', b'"forgot"'))
    elif damage == "cut":
        path.write_bytes(data[:-5])
    elif damage == "removed":
        path.unlink()
    else:
        manifest = signed.place.manifest()
        record = manifest["record"]
        assert isinstance(record, dict)
        earlier = json.loads(json.dumps(record))
        earlier["ledger"] |= {"size": 1, "bytes": len(data.splitlines(keepends=True)[0]), "certificates": 1}
        earlier["ledger"]["frontier"] = [signed.history.entries[0].leaf().hex()]
        signed.place.swap({**manifest, "record": earlier})
    for command in (["show"], ["checkpoint"], ["prove", "--number", 0]):
        done = cli("ledger", *command, "--store", signed.store)
        assert done.code == 1
        assert "ledger" in done.message


@pytest.mark.parametrize("arguments", [[], ["--number", "0", "--since", "x"]])
def test_one_thing_is_proved_at_a_time(cli: Cli, signed: Signed, arguments: list[str]) -> None:
    done = cli("ledger", "prove", "--store", signed.store, *arguments)
    assert (done.code, done.message) == (
        2, "name an entry with --number, or an earlier checkpoint with --since: one of the two"
    )  # fmt: skip
