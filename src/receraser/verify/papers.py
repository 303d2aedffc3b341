"""Papers that somebody brings along: a certificate, a receipt, a checkpoint that was kept elsewhere."""

from __future__ import annotations

import contextlib

from receraser.errors import ProofError, ReceraserError
from receraser.proof import merkle
from receraser.proof.fields import decoded
from receraser.proof.ledger import CHECKPOINT_TYPE, check_checkpoint
from receraser.proof.receipt import Receipt
from receraser.store.pending import Pending
from receraser.verify.case import Case
from receraser.verify.checks import counted, is_pending
from receraser.verify.evidence import shown

__all__ = ["check_certificate", "check_receipt", "check_witness"]


def check_certificate(case: Case, data: bytes) -> str:
    """Check that a certificate is one of the store's, and that its entry is under the ledger's root."""
    one = case.handed(data)
    index, size, root = one.entry.index, len(case.leaves), merkle.root(case.leaves)
    proof = merkle.inclusion_proof(case.leaves, index)
    if not merkle.includes(one.entry.leaf(), index, size, proof, root):
        raise ProofError(f"entry {index} is not under the root {root.hex()} of the ledger")
    unsigned = "" if case.manifest["record"]["checkpoint"] else ", which nobody has signed"
    return (
        f"{one.sha256} is entry {index} of {size} ({one.entry.action}, {one.entry.time}), included under the root "
        f"{root.hex()}{unsigned} by {counted(len(proof), 'hash', 'hashes')}; signed with key {one.key}"
    )


def check_receipt(case: Case, data: bytes) -> str:
    """Check that a receipt opens a certificate of the store."""
    receipt = Receipt.parse(data.removesuffix(b"\n"))
    if not receipt.is_whole:
        raise ProofError(f"it was changed: what it names does not lead to its root {receipt.subjects_root}")
    found, faults = case.issued
    one = next((one for one in found if receipt.matches(one.certificate)), None)
    if one is None:
        raise ProofError(_not_carried_out(case, receipt, f" ({shown(faults)})" if faults else ""))
    where = f"certificate {one.sha256} (entry {one.entry.index}, {one.entry.action}, {one.entry.time})"
    article = "a" if receipt.kind == "user" else "an"
    return (
        f"what it names, {article} {receipt.kind}, is one of {counted(receipt.leaves, 'subject')} of {where}, level "
        f"{one.certificate.level}"
    )


def _not_carried_out(case: Case, receipt: Receipt, faults: str) -> str:
    """Say of a receipt that opens no certificate of the store whether its request is waiting there."""
    record, folder = case.manifest["record"], case.evidence.path / "pending"
    key = case.ledger_key if record["signers"] else None
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if not is_pending(f"pending/{path.name}"):
            continue
        with contextlib.suppress(ReceraserError, OSError):  # what cannot be read is `check_pending`'s to say
            one = Pending.decode(path.stem, path.read_bytes(), key)
            settled = one.id == record["done"] or one.store not in ("", record["store"])
            if one.subjects_root == receipt.subjects_root and not settled:
                return f"asked for on {one.time} and not yet carried out: the request {one.id} is waiting in this store"
    return (
        f"no certificate of this store{faults} and no request that waits in it has the root {receipt.subjects_root}: "
        "what was asked for was never done here; it was taken back or not taken up, or asked of another store"
    )


def check_witness(case: Case, data: bytes) -> str:
    """Check that the ledger grew out of the one that an earlier checkpoint was signed for."""
    payload, key = case.opened(decoded("the checkpoint's file", data.removesuffix(b"\n")), CHECKPOINT_TYPE)
    body = decoded("the checkpoint", payload)
    store, now, root = case.manifest["record"]["store"], len(case.leaves), merkle.root(case.leaves)
    size = body.get("size") if isinstance(body, dict) else None
    if not isinstance(body, dict) or type(size) is not int or size < 0:
        raise ProofError("the checkpoint is damaged: expected store, size, root, time and manifest, and nothing else")
    if body.get("store") == store and size > now:
        raise ProofError(
            f"the ledger had {size} entries under the root {body.get('root')} when the checkpoint was signed, and has "
            f"{now} under {root.hex()}: it was cut off, or this is an older copy of the store"
        )
    check_checkpoint(body, store=store, frontier=merkle.Frontier.of(case.leaves[:size]))
    proof = merkle.consistency_proof(case.leaves, size)
    if not merkle.consistent(size, bytes.fromhex(body["root"]), now, root, proof):
        raise ProofError(f"the {now} entries under {root.hex()} did not grow out of the {size} under {body['root']}")
    return (
        f"the ledger of {counted(now, 'entry', 'entries')} grew out of the {size} of {body['time']} (root "
        f"{body['root']}, signed with key {key}): none of them was changed or taken out"
    )
