"""Papers that somebody brings along: each is recognised, and those of others are not."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from receraser import handing
from receraser.data.ids import pseudonyms
from receraser.erasure.request import ForgetRequest
from receraser.errors import ProofError
from receraser.fingerprint import canonical_json
from receraser.proof.ledger import CHECKPOINT_TYPE, Entry
from receraser.proof.receipt import Receipt, receipts_of
from receraser.proof.signing import SigningKey, sealed
from receraser.store.directory import DirectoryStore
from receraser.store.history import History
from receraser.store.pending import Pending
from receraser.verify.case import Case
from receraser.verify.papers import check_certificate, check_receipt, check_witness
from tests.verify.conftest import GONE, World, changing, checkpoint_of, fitted

Papers = Callable[[Case, bytes], str]


def certificates(world: World) -> list[bytes]:
    entries = [Entry.parse(line) for line in (world.store / "ledger").read_bytes().splitlines(keepends=True)]
    return [(world.store / "certificates" / f"{one.certificate}.json").read_bytes() for one in entries]


@pytest.fixture
def other(world: World, tmp_path: Path) -> World:
    """Another store of the same operator, with somebody forgotten too."""
    fitted(tmp_path / "other", world.keys)
    with changing(tmp_path / "other", world.keys) as engine:
        receipts = engine.forget([GONE, "person-01"]).receipts
    return World(tmp_path / "other", world.keys, tuple(receipts), checkpoint_of(tmp_path / "other"))


def refused(check: Papers, world: World, data: bytes) -> str:
    with pytest.raises(ProofError) as caught:
        check(world.examine()[0], data)
    return str(caught.value)


# ---------------------------------------------------------------------- certificates


def test_a_certificate_is_found_in_the_ledger(original: World) -> None:
    case, _ = original.examine()
    for index, data in enumerate(certificates(original)):
        told = check_certificate(case, data)
        assert f"is entry {index} of 7 (" in told
        assert "included under the root" in told


def test_certificates_that_are_not_this_stores(world: World, other: World) -> None:
    found = certificates(other)[1]
    assert refused(check_certificate, world, found).startswith("it is of another store: ")
    own = certificates(world)[1]
    assert "cannot be read" in refused(check_certificate, world, b"\xff")
    assert "not canonical JSON" in refused(check_certificate, world, own.replace(b",", b", ", 1))
    payload = json.loads(own)["payload"]
    forged = own.replace(payload[:8].encode(), b"eyJYdHlw")
    assert "does not fit the content" in refused(check_certificate, world, forged)


def test_a_certificate_of_an_entry_that_was_taken_out(world: World) -> None:
    """The store as it was before: what was certified since is signed, and not in it."""
    earlier = world.at(world.store.parent / "earlier")
    with changing(world.store, world.keys) as engine:
        engine.forget(["person-08"])
    told = refused(check_certificate, earlier, certificates(world)[-1])
    assert "as entry 7 of this store, but none of its 7 entries names" in told


# ---------------------------------------------------------------------- receipts


def store_id(world: World) -> str:
    return str(world.manifest()["record"]["store"])  # type: ignore[index]


def opened_by(world: World, receipt: Receipt) -> str:
    """The certificate that commits to the root of a receipt."""
    history = History.of(DirectoryStore(world.store))
    issued = [history.issued(DirectoryStore(world.store), one) for one in history.entries]
    (found,) = (one.sha256 for one in issued if one.certificate.request["subjects_root"] == receipt.subjects_root)
    return found


def test_receipts_open_their_certificates(original: World) -> None:
    case, _ = original.examine()
    assert len(original.receipts) == 4
    for receipt in original.receipts:
        told = check_receipt(case, receipt.payload() + b"\n")
        assert f"certificate {opened_by(original, receipt)} (entry " in told
        assert not any(name in told for name in receipt.names), "a message names nobody"
    assert "what it names, an interaction, is one of 1 subject" in check_receipt(case, original.receipts[2].payload())
    assert "what it names, a user, is one of 2 subjects" in check_receipt(case, original.receipts[0].payload())


def test_receipts_of_others(world: World, other: World) -> None:
    told = refused(check_receipt, world, other.receipts[0].payload())
    assert told.startswith("no certificate of this store and no request that waits in it has the root ")
    assert told.endswith("it was taken back or not taken up, or asked of another store")
    one, _, another, _ = world.receipts
    for changed in (
        dataclasses.replace(one, names=["person-01"]),
        dataclasses.replace(one, index=1 - one.index),
        dataclasses.replace(one, nonce=another.nonce),
        dataclasses.replace(one, subjects_root=another.subjects_root),
    ):
        assert "it was changed: what it names does not lead to its root" in refused(
            check_receipt, world, changed.payload()
        )
    (last,) = (one for one in world.receipts[:2] if one.index == 1)  # with the path of the last of three
    told = refused(check_receipt, world, dataclasses.replace(last, index=2, leaves=3).payload())
    assert told == f"it was changed: it is one of 3, and {opened_by(world, last)} is of 2 subjects"
    made_up = receipts_of([("user", "person-01")])[1][0]
    assert "was never done here" in refused(check_receipt, world, made_up.payload())
    assert "cannot be read" in refused(check_receipt, world, b"nothing")


def test_a_receipt_of_a_request_that_is_waiting_or_was_taken_back(world: World, other: World) -> None:
    """Asked for, and nobody has begun: that is said, and it is no certificate. Nor is a request of another store."""
    root, (receipt,) = receipts_of([("user", "person-08")])
    store, ledger_key = store_id(world), world.keyring.ledger_key(store_id(world))
    request = ForgetRequest.of(pseudonyms(["person-08"], world.key))
    pending = Pending("forget", "2026-11-15T17:00:00Z", request=request, subjects_root=root, store=store)
    place = DirectoryStore(world.store)
    place.put_pending(pending.id, pending.encode(ledger_key))
    told = refused(check_receipt, world, receipt.payload())
    assert told == (
        f"asked for on {pending.time} and not yet carried out: the request {pending.id} is waiting in this store"
    )
    place.put_pending(pending.id, pending.encode(bytes(32)))
    assert "was never done here" in refused(check_receipt, world, receipt.payload()), "written by somebody else"
    place.put_pending(pending.id, dataclasses.replace(pending, store="0" * 32).encode(ledger_key))
    assert "was never done here" in refused(check_receipt, world, receipt.payload()), "asked of another store"
    place.put_pending(pending.id, pending.encode(ledger_key))
    handing.withdraw(world.store, world.keyring, pending.id)
    assert "it was taken back or not taken up" in refused(check_receipt, world, receipt.payload())
    place.put_pending(pending.id, pending.encode(ledger_key))  # as a crash leaves it
    assert "it was taken back or not taken up" in refused(check_receipt, world, receipt.payload())


def test_a_receipt_of_a_certificate_that_is_damaged(world: World) -> None:
    path = world.store / "certificates" / f"{opened_by(world, world.receipts[0])}.json"
    path.write_bytes(b"{}")
    assert f"(entry 1: certificates/{path.name} is not what was written" in refused(
        check_receipt, world, world.receipts[0].payload()
    )


# ---------------------------------------------------------------------- checkpoints


def test_the_ledger_grew_out_of_an_earlier_checkpoint(original: World) -> None:
    case, _ = original.examine()
    told = check_witness(case, original.checkpoint)
    assert told.startswith("the ledger of 7 entries grew out of the 2 of 20")
    assert check_witness(case, checkpoint_of(original.store)).startswith("the ledger of 7 entries grew out of the 7")


def signed(world: World, **changes: object) -> bytes:
    """A checkpoint that the operator signed, of something else."""
    payload = json.loads(
        canonical_json(
            {"store": "0" * 32, "size": 2, "root": "0" * 64, "manifest": "0" * 64, "time": "2026-11-15T17:00:00Z"}
        )
    )
    body = {**payload, "store": world.manifest()["record"]["store"], **changes}  # type: ignore[index]
    return canonical_json(sealed(CHECKPOINT_TYPE, canonical_json(body), world.keyring.signing())) + b"\n"


def test_a_ledger_that_is_not_the_one_that_was_signed(world: World, other: World) -> None:
    told = refused(check_witness, world, signed(world))
    assert "the root over its 2 entries is" in told
    assert "0" * 64 in told
    told = refused(check_witness, world, signed(world, size=9))
    assert told.startswith(f"the ledger had 9 entries under the root {'0' * 64}")
    assert " and has 7 under " in told
    assert "is of another store" in refused(check_witness, world, other.checkpoint)
    assert "the checkpoint is damaged" in refused(check_witness, world, signed(world, size=-1))
    assert "the checkpoint is damaged" in refused(check_witness, world, signed(world, size="2"))
    assert "and nothing else" in refused(check_witness, world, signed(world, more=1))


def test_a_checkpoint_that_nobody_here_signed(world: World) -> None:
    stranger = SigningKey.generate()
    body = canonical_json({"store": "0" * 32, "size": 0, "root": "0" * 64, "time": "2026-11-15T17:00:00Z"})
    data = canonical_json(sealed(CHECKPOINT_TYPE, body, stranger))
    assert f"signed with key {stranger.public.id}, which is not trusted here" in refused(check_witness, world, data)
    certificate = certificates(world)[0]
    assert "the envelope holds 'application/vnd.in-toto+json'" in refused(check_witness, world, certificate)
