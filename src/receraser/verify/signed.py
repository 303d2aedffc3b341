"""Was it published by whom it should be? The ledger, the keys, the signed root, every certificate, and the newest.

When all of it holds, what `state` looked at is what the holder of the signing key published.
"""

from __future__ import annotations

from receraser.errors import ProofError
from receraser.proof import merkle
from receraser.proof.certificate import ACTIONS
from receraser.proof.commitment import opens
from receraser.proof.issued import Issued, read_checkpoint
from receraser.proof.ledger import manifest_hash
from receraser.verify.case import Case, Entered
from receraser.verify.words import counted, differences, shown

__all__ = ["check_certificates", "check_ledger", "check_newest", "check_signed_root", "check_signers"]

_HANDED_OVER = ("certificate", "export")


def check_ledger(case: Case) -> str:
    """Check the ledger's entries against what the manifest covers."""
    head, entries = case.manifest["record"]["ledger"], case.entries
    tree = merkle.Frontier.of(case.leaves)
    covered = merkle.Frontier.from_dict({"size": head["size"], "frontier": head["frontier"]})
    handed_over = [entry.action for entry in entries if entry.action in _HANDED_OVER]
    faults = differences(
        [
            ("entries", len(entries), covered.size),
            ("the root", tree.root().hex(), covered.root().hex()),
            (
                "entries with a certificate",
                sum(entry.certificate is not None for entry in entries),
                head["certificates"],
            ),
            ("the last entry's time", entries[-1].time if entries else "", head["time"]),
            ("things handed over", handed_over, [one["what"] for one in case.manifest["record"]["recipients"]]),
        ],
        "the ledger gives {}; the manifest says {}",
    )
    if faults:
        raise ProofError(shown(faults))
    name = case.evidence.ledger_name
    moved = "" if name == "ledger" else f"; still in {name}: a crash came before the other store's was replaced by it"
    return f"{counted(len(entries), 'entry', 'entries')}, root {tree.root().hex()}{moved}"


def check_signers(case: Case) -> str:
    """Check that somebody vouches for the keys that signed."""
    if not case.signed:
        return _unsigned(case)
    unnamed = {one.signed_by for one in case.issued[0]} - case.signers.keys()
    if unnamed:
        raise ProofError(
            f"record.signers does not name the key {', '.join(sorted(unnamed))}, which signed in this store"
        )
    unknown = sorted(case.signers.keys() - case.vouchers.keys.keys())
    if unknown and case.bound:
        known = ", ".join(sorted(case.vouchers.keys)) or "none"
        raise ProofError(
            f"the store names the key {', '.join(unknown)}, for which {case.vouchers.source} does not vouch "
            f"(it knows: {known})"
        )
    return f"{', '.join(sorted(case.signers))}: {case.vouchers.who(case.signers)}"


def _unsigned(case: Case) -> str:
    """Return what is said of a store in which nothing is signed; raise if a signature was expected."""
    if case.bound:
        raise ProofError(f"nothing is signed in this store; expected signatures by a key of {case.vouchers.source}")
    return "nothing is signed in this store: that it is whole can be seen, who made it cannot"


def check_signed_root(case: Case) -> str:
    """Check the signature over the ledger's root and everything the manifest says."""
    envelope = case.manifest["record"]["checkpoint"]
    if envelope is None:
        if case.signed:
            raise ProofError("record.checkpoint is missing: the ledger goes on without a signature")
        return _unsigned(case)
    checkpoint = read_checkpoint(envelope, case.opened)
    checkpoint.check(case.store, case.leaves)
    if checkpoint.manifest != manifest_hash(case.manifest):
        raise ProofError("the manifest is not the one that was signed: something in it was changed afterwards")
    return f"{counted(len(case.entries), 'entry', 'entries')}, signed with key {checkpoint.signed_by}"


def check_certificates(case: Case) -> str:
    """Check every certificate: that it is signed, in its place, and follows from the one before it."""
    found, faults = case.issued
    faults = list(faults)
    by_name = {one.sha256: one for one in found}
    tree, parent = merkle.Frontier(), None
    for entry, leaf in zip(case.entries, case.leaves, strict=True):
        one = by_name.get(entry.certificate or "")
        if one is not None:
            faults += _misplaced(one, case.store, tree.root().hex())
            faults += _unlinked(one, parent, by_name.get(parent or ""))
        elif parent is not None and entry.action in ACTIONS and entry.certificate is None:
            faults.append(f"entry {entry.index} ({entry.action}) has no certificate, though an earlier change has one")
        parent = entry.certificate or parent
        tree = tree.appended(leaf)
    if faults:
        raise ProofError(shown(faults))
    if not found:
        return _unsigned(case)
    keys = ", ".join(sorted({one.signed_by for one in found}))
    return f"{counted(len(found), 'certificate')}, each signed (key {keys}), in its place, and following the one before"


def _misplaced(one: Entered, store: str, root: str) -> list[str]:
    """Return what of a certificate does not fit its place in the ledger."""
    says, entry = one.certificate, one.entry
    return differences(
        [
            ("store", says.store, store),
            ("ledger.index", says.ledger["index"], entry.index),
            ("ledger.root", says.ledger["root"], root),
            ("action", says.action, entry.action),
        ],
        f"entry {entry.index}: its certificate says {{}}; expected {{}}",
    )


def _unlinked(one: Entered, expected: str | None, parent: Issued | None) -> list[str]:
    """Return what of a certificate does not follow from the one before it."""
    says = one.certificate
    pairs: list[tuple[str, object, object]] = [("parent", says.parent, expected)]
    if parent is not None and says.before is not None:
        pairs.append(("before", says.before, parent.certificate.after))
    return differences(pairs, f"entry {one.entry.index}: its certificate says {{}}; expected by the one before it {{}}")


def check_newest(case: Case) -> str:
    """Check that the newest certificate is about the state that lies here."""
    if not case.signed:
        return _unsigned(case)
    manifest, record, one = case.manifest, case.manifest["record"], case.newest
    says = one.certificate
    faults = differences(
        [
            ("record.certificate", record["certificate"], one.sha256),
            ("record.after", record["after"], says.after),
            ("level", manifest["level"], says.level),
            ("config", manifest["config"], says.config),
            ("config.seed", manifest["config"]["seed"], says.seed),
            ("environment", {name: str(value) for name, value in manifest["environment"].items()}, says.environment),
            ("the number of shards", len(manifest["shards"]), says.shards["count"]),
            ("record.origin", record["origin"], says.origin),
            ("record.debt", record["debt"], says.debt),
        ],
        "the manifest says {}; the certificate says {}",
    )
    for name, value in (("digest", manifest["digest"]), ("data", case.content.data)):
        nonce = bytes.fromhex(record["openings"].get(name, ""))
        if not opens(says.after[name], name, nonce, value.encode()):  # type: ignore[literal-required]
            faults.append(f"the certificate's after.{name} does not open, by record.openings, to {value}")
    if faults:
        raise ProofError(f"certificate {one.sha256} (entry {one.entry.index}): {shown(faults)}")
    return f"as certificate {one.sha256} (entry {one.entry.index}, {says.action}) has it, level {says.level}"
