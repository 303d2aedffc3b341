from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from receraser.data.ids import pseudonyms
from receraser.engine import Engine
from receraser.erasure.request import ForgetRequest
from receraser.errors import EnvironmentMismatchError
from receraser.execution.local import LocalExecutor
from receraser.fingerprint import canonical_json, of_bytes
from receraser.keys import PUBLIC_KEY
from receraser.proof.ledger import subject_hash
from receraser.proof.receipt import Receipt
from receraser.store.pending import Pending
from receraser.store.record import Record
from tests.cli.conftest import Cli, Files
from tests.cli.sharded import content, said_to_be_computed_elsewhere
from tests.cli.signed import TIME, Signed
from tests.contracts.worlds import checkerboard
from tests.forgetting.engines import Here

SOMEBODY, SOMEBODY_ELSE = pseudonyms(["u05", "u06"], PUBLIC_KEY)


def test_nothing_waits(cli: Cli, signed: Signed) -> None:
    before = content(signed.store)
    for command in ("show", "finish"):
        done = cli("pending", command, "--store", signed.store)
        assert (done.code, done.out, done.err) == (0, "", f"nothing is waiting in {signed.store}\n")
    assert cli("pending", "show", "--store", signed.store, "--json").json == {"pending": []}
    assert cli("pending", "finish", "--store", signed.store, "--json").json == {"pending": 0, "finished": 0}
    assert content(signed.store) == before


def test_show_names_nobody(cli: Cli, signed: Signed) -> None:
    first = signed.asked(SOMEBODY, SOMEBODY_ELSE)
    rows = checkerboard().train.take(np.arange(3))
    second = Pending("add", TIME.replace("2026", "2027"), rows=rows)
    signed.place.put_pending(second.id, second.encode())
    done = cli("pending", "show", "--store", signed.store, "--keys", signed.keys)
    cells = [[cell.strip() for cell in line.split("│")] for line in done.out.splitlines() if "│" in line]
    assert cells == [
        [first.id, "forget", first.time, "2", "0", "0", "0", "these keys"],
        [second.id, "add", second.time, "0", "0", "0", "3", "other keys"],
    ]
    document = cli("pending", "show", "--store", signed.store, "--json")
    listed = document.json["pending"]
    assert isinstance(listed, list)
    assert [(one["id"], one["users"], one["rows"]) for one in listed] == [(first.id, 2, 0), (second.id, 0, 3)]
    assert [one["ours"] for one in listed] == [None, None], "without the ledger's key nobody can tell"
    listed = cli("pending", "show", "--store", signed.store, "--keys", signed.keys, "--json").json["pending"]
    assert isinstance(listed, list)
    assert [one["ours"] for one in listed] == [True, False]
    assert cli("pending", "show", "--store", signed.store, "--keys", signed.keys / "none").code == 2
    for text in (done.out + done.err, document.out):
        assert SOMEBODY not in text
        assert rows.users.ids[0] not in text


def test_finish(cli: Cli, signed: Signed, worker: LocalExecutor, tmp_path: Path, signed_once: Signed) -> None:
    signed.asked(SOMEBODY)
    before = content(signed.store)
    arguments = ("pending", "finish", "--store", signed.store, "--keys", signed.keys)
    assert cli(*arguments, "--dry-run").err == "would do 1 request\n"
    assert cli(*arguments, "--dry-run", "--json").json == {"dry_run": True, "pending": 1, "finished": 0}
    assert content(signed.store) == before
    done = cli(*arguments, "--json")
    assert done.code == 0
    assert done.json["finished"] == 1
    assert not signed.place.pending()
    assert signed.actions == ["fit", "forget", "forget"]
    assert signed.history.entries[2].certificate is not None
    direct = signed_once.copied(tmp_path / "direct")
    with Engine.changing(direct.store, executor=worker, keyring=direct.keyring) as engine:
        engine.forget(users=["u05"])
    assert done.json["digest"] == engine.digest
    signed.asked(SOMEBODY_ELSE)
    done = cli(*arguments)
    assert done.code == 0
    assert "1 request that had been waiting: done; receipts handed out before open the certificate\n" in done.err


def test_receipts_open_the_certificate_of_whoever_finishes_the_request(
    cli: Cli, signed: Signed, tmp_path: Path
) -> None:
    """Handed over before the request was written down; the process that did that is no more."""
    receipt = tmp_path / "receipt.json"
    verify = ("verify", "--store", signed.store, "--keys", signed.keys, "--receipt", receipt)
    with (
        pytest.raises(EnvironmentMismatchError),  # any failure would do, once the request is written down
        Engine.changing(signed.store, executor=Here(), keyring=signed.keyring) as engine,
    ):
        engine.forget(users=["u05"], receipts=lambda handed: receipt.write_bytes(handed[0].payload()))
    (data,) = signed.place.pending().values()
    drawn = Receipt.parse(receipt.read_bytes())
    assert drawn.subjects_root.encode() in data
    for secret in (drawn.nonce, "u05"):
        assert secret.encode() not in data, "whoever gets hold of the store cannot test guesses"
    waits = cli(*verify)
    assert waits.code == 1
    assert "and not yet carried out: the request " in waits.out
    assert cli("pending", "finish", "--store", signed.store, "--keys", signed.keys).code == 0
    done = cli(*verify)
    assert done.code == 0, done.out
    assert "what it names, a user, is one of 1 subject of certificate" in done.out


def test_a_request_of_an_earlier_version_is_done_too(cli: Cli, signed: Signed) -> None:
    """It kept no root: nobody has a receipt, and nobody can open the certificate."""
    pending = signed.asked(SOMEBODY)
    key = signed.keyring.ledger_key(signed.history.record.store)
    assert key is not None
    body = json.loads(pending.encode())
    for name in ("subjects_root", "mac", "checksum"):
        del body[name]
    body["mac"] = hmac.new(key, b"receraser pending request\n" + canonical_json(body), hashlib.sha256).hexdigest()
    whole = {**body, "checksum": of_bytes(canonical_json(body))}
    signed.place.put_pending(pending.id, canonical_json(whole) + b"\n")
    assert cli("pending", "finish", "--store", signed.store, "--keys", signed.keys).code == 0
    newest = signed.history.issued(signed.place, signed.history.certified()).certificate
    assert newest.request["users"] == 1
    assert newest.request["subjects_root"] is not None


def test_what_cannot_be_finished_here_waits_on(cli: Cli, signed: Signed) -> None:
    signed.asked(SOMEBODY)
    said_to_be_computed_elsewhere(signed.store)
    done = cli("pending", "finish", "--store", signed.store, "--keys", signed.keys)
    assert done.code == 1
    assert "rebuild" in done.message
    assert len(signed.place.pending()) == 1


# ---------------------------------------------------------------------- withdraw


def test_withdraw(cli: Cli, signed: Signed) -> None:
    pending, other = signed.asked(SOMEBODY), signed.asked(SOMEBODY_ELSE)
    before, version = content(signed.store), signed.place.version()
    arguments = ("pending", "withdraw", pending.id, "--store", signed.store, "--keys", signed.keys)
    tried = cli(*arguments, "--dry-run")
    assert (tried.code, tried.err) == (0, f"would take back: the request {pending.id} in {signed.store}\n")
    refused = cli(*arguments)
    assert refused.code == 2
    assert refused.message.endswith("whoever made it must have taken it back; if that is meant, say --yes")
    assert content(signed.store) == before
    done = cli(*arguments, "--yes")
    assert (done.code, done.err) == (0, f"taken back: the request {pending.id} in {signed.store}\n")
    assert list(signed.place.pending()) == [other.id]
    assert signed.place.version() == version
    assert signed.actions == ["fit", "forget", "withdraw"]
    key = signed.keyring.ledger_key(signed.history.record.store, create=False)
    assert key is not None
    assert signed.history.entries[2].subjects == (subject_hash(key, "user", SOMEBODY),), (
        "nobody's request just vanishes"
    )
    again = cli(*arguments, "--yes")
    assert (again.code, again.message) == (
        2, f"no request {pending.id!r} is waiting in {signed.store}; waiting: {other.id}"
    )  # fmt: skip
    document = cli("pending", "withdraw", other.id, "--store", signed.store, "--keys", signed.keys, "--yes", "--json")
    assert document.json == {"withdrawn": other.id}
    assert cli("pending", "show", "--store", signed.store, "--json").json == {"pending": []}


def test_everything_that_was_named_is_entered(cli: Cli, signed: Signed) -> None:
    request = ForgetRequest.of([SOMEBODY], ["i01"], [(SOMEBODY_ELSE, "i02")])
    pending = Pending("forget", TIME, request=request)
    signed.place.put_pending(pending.id, pending.encode())
    assert cli("pending", "withdraw", pending.id, "--store", signed.store, "--keys", signed.keys, "--yes").code == 0
    assert len(signed.history.entries[2].subjects) == 3


def test_a_crash_after_the_swap(cli: Cli, signed: Signed) -> None:
    """What the manifest says is done is done, though its file is still there; and stays so after what comes next."""
    left, other = signed.asked(SOMEBODY), signed.asked(SOMEBODY_ELSE)
    record = dataclasses.replace(signed.history.record, done=left.id)
    signed.place.swap({**signed.place.manifest(), "record": record.as_dict()})
    listed = cli("pending", "show", "--store", signed.store, "--json").json["pending"]
    assert isinstance(listed, list)
    assert [one["id"] for one in listed] == [other.id]
    arguments = ("pending", "withdraw", "--store", signed.store, "--keys", signed.keys, "--yes")
    assert cli(*arguments, left.id).code == 2
    assert cli(*arguments, other.id).code == 0
    assert not signed.place.pending()


def test_a_damaged_request_can_be_taken_back(cli: Cli, signed: Signed) -> None:
    pending = signed.asked(SOMEBODY)
    signed.place.put_pending(pending.id, pending.encode()[:-5])
    for command in ("show", "finish"):
        done = cli("pending", command, "--store", signed.store)
        assert done.code == 1
        assert f"pending/{pending.id}.json is not as it was written" in done.message
    assert cli("pending", "withdraw", pending.id, "--store", signed.store, "--keys", signed.keys, "--yes").code == 0
    assert signed.history.entries[2].subjects == ()


def test_of_an_unsigned_store(cli: Cli, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECERASER_KEYS", str(tmp_path / "own"))
    shutil.copytree(files.store, tmp_path / "store")
    pending = Signed(tmp_path / "store", tmp_path / "none").asked(SOMEBODY)
    assert cli("pending", "withdraw", pending.id, "--store", tmp_path / "store", "--yes").code == 0
    manifest = Signed(tmp_path / "store", tmp_path / "none").place.manifest()
    record = Record.from_dict(manifest["record"])
    assert (record.size, record.checkpoint, record.done) == (2, None, pending.id)
    assert not (tmp_path / "own").exists()


def test_it_needs_the_keys_of_the_store(cli: Cli, signed: Signed) -> None:
    pending = signed.asked(SOMEBODY)
    done = cli("pending", "withdraw", pending.id, "--store", signed.store, "--yes")
    assert done.code == 2
    assert done.message.startswith("none of the keys that signed for this store")
    assert list(signed.place.pending()) == [pending.id]
