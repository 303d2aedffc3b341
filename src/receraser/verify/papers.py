"""Is it this store's? Papers that somebody brings along: a certificate, a receipt, a checkpoint kept elsewhere."""

from __future__ import annotations

from receraser.errors import ProofError
from receraser.proof import merkle
from receraser.proof.issued import envelope_in, read_checkpoint
from receraser.proof.receipt import Receipt
from receraser.verify.case import Case
from receraser.verify.words import counted, shown

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
        f"{root.hex()}{unsigned} by {counted(len(proof), 'hash', 'hashes')}; signed with key {one.signed_by}"
    )


def check_receipt(case: Case, data: bytes) -> str:
    """Check that a receipt opens a certificate of the store."""
    receipt = Receipt.parse(data.removesuffix(b"\n"))
    if not receipt.is_whole:
        raise ProofError(f"it was changed: what it names does not lead to its root {receipt.subjects_root}")
    found, faults = case.issued
    one = next((one for one in found if one.certificate.request["subjects_root"] == receipt.subjects_root), None)
    if one is None:
        raise ProofError(_not_carried_out(case, receipt, f" ({shown(faults)})" if faults else ""))
    if not receipt.matches(one.certificate):
        subjects = counted(one.certificate.subjects, "subject")
        raise ProofError(f"it was changed: it is one of {receipt.leaves}, and {one.sha256} is of {subjects}")
    where = f"certificate {one.sha256} (entry {one.entry.index}, {one.entry.action}, {one.entry.time})"
    article = "a" if receipt.kind == "user" else "an"
    return (
        f"what it names, {article} {receipt.kind}, is one of {counted(receipt.leaves, 'subject')} of {where}, level "
        f"{one.certificate.level}"
    )


def _not_carried_out(case: Case, receipt: Receipt, faults: str) -> str:
    """Say of a receipt that opens no certificate of the store whether its request is waiting there."""
    for one in case.requests.waiting:
        if one.subjects_root == receipt.subjects_root:
            return f"asked for on {one.time} and not yet carried out: the request {one.id} is waiting in this store"
    return (
        f"no certificate of this store{faults} and no request that waits in it has the root {receipt.subjects_root}: "
        "what was asked for was never done here; it was taken back or not taken up, or asked of another store"
    )


def check_witness(case: Case, data: bytes) -> str:
    """Check that the ledger grew out of the one that an earlier checkpoint was signed for."""
    then = read_checkpoint(envelope_in(data, "the checkpoint's file"), case.opened)
    now, root = len(case.leaves), merkle.root(case.leaves)
    if then.store == case.store and then.size > now:
        raise ProofError(
            f"the ledger had {then.size} entries under the root {then.root} when the checkpoint was signed, and has "
            f"{now} under {root.hex()}: it was cut off, or this is an older copy of the store"
        )
    then.check(case.store, case.leaves[: then.size])
    proof = merkle.consistency_proof(case.leaves, then.size)
    if not merkle.consistent(then.size, bytes.fromhex(then.root), now, root, proof):
        raise ProofError(f"the {now} entries under {root.hex()} did not grow out of the {then.size} under {then.root}")
    return (
        f"the ledger of {counted(now, 'entry', 'entries')} grew out of the {then.size} of {then.time} (root "
        f"{then.root}, signed with key {then.signed_by}): none of them was changed or taken out"
    )
