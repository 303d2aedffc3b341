"""`History`: what a store's ledger says, read and checked, and proofs about it for somebody outside.

Reading needs no key and no model. An inclusion proof shows that an entry is in the ledger whose root a checkpoint
signs; a consistency proof that the ledger only grew since an earlier checkpoint. Both are plain values for JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from receraser.errors import ProofError, ReceraserError, StoreError, UsageError
from receraser.proof import merkle
from receraser.proof.issued import (
    Checkpoint,
    Issued,
    claimed_certificate,
    named_signers,
    opening_with,
    read_checkpoint,
)
from receraser.proof.ledger import Entry, frontier_of, read_entries
from receraser.proof.signing import Envelope, PublicKey
from receraser.store.directory import DirectoryStore
from receraser.store.pending import Pending
from receraser.store.record import Record

__all__ = ["CONSISTENCY_TYPE", "INCLUSION_TYPE", "History", "replaceable", "waiting", "waiting_as"]

INCLUSION_TYPE = "urn:receraser:inclusion:v1"
CONSISTENCY_TYPE = "urn:receraser:consistency:v1"


@dataclass(frozen=True, eq=False)
class History:
    """The record of a store and the entries of its ledger, which is the one that the record covers."""

    record: Record
    entries: Sequence[Entry]

    @classmethod
    def of(cls, store: DirectoryStore) -> History:
        """Read it; raises where the ledger is not the one that the manifest covers."""
        record = Record.from_dict(store.manifest().get("record"))
        entries = read_entries(store.ledger(record.length))
        if frontier_of(entries) != record.tree:
            raise ProofError(
                f"the ledger in {store.path} is not the one its manifest covers: its {len(entries)} entries give "
                f"another root than the {record.size} that were written"
            )
        return cls(record, entries)

    @property
    def root(self) -> str:
        """The root of the ledger's tree, in hex."""
        return self.record.tree.root().hex()

    @cached_property
    def signers(self) -> dict[str, PublicKey]:
        """The keys that signed something in this store, as the store itself says; whom to trust is not said by that."""
        return named_signers(self.record.signers)

    def entry(self, number: int) -> Entry:
        """Return an entry by its place."""
        if not 0 <= number < len(self.entries):
            last = len(self.entries) - 1
            raise UsageError(f"the ledger has no entry {number}: expected a number from 0 to {last}")
        return self.entries[number]

    def certified(self, number: int | None = None) -> Entry:
        """Return the entry of a certificate: the one at this place, or the newest there is."""
        those = [one for one in self.entries if one.certificate is not None]
        if number is None:
            if not those:
                raise StoreError("there is no certificate in this store: no change of it was signed (see --keys)")
            return those[-1]
        entry = self.entry(number)
        if entry.certificate is None:
            known = ", ".join(str(one.index) for one in those) or "none"
            raise UsageError(
                f"entry {number} of the ledger ({entry.action}) has no certificate; those with one: {known}"
            )
        return entry

    def issued(self, store: DirectoryStore, entry: Entry, keys: Mapping[str, PublicKey] | None = None) -> Issued:
        """Return the certificate that an entry names; its signature must be that of one of these keys, or the store's.

        A key that is given takes the place of what the store says it is.
        """
        assert entry.certificate is not None
        one = claimed_certificate(store.certificate(entry.certificate), {**self.signers, **(keys or {})})
        if not one.checked:
            raise ProofError(
                f"the certificate of entry {entry.index} is signed with key {one.signed_by}, none of the store's"
            )
        if (one.certificate.store, one.certificate.ledger["index"]) != (self.record.store, entry.index):
            raise ProofError(f"the certificate of entry {entry.index} was made for another store or another entry")
        return one

    # ------------------------------------------------------------------ proofs

    def checkpoint(self) -> Checkpoint | None:
        """Return the signed root of this ledger, checked; None where it is not signed."""
        if self.record.checkpoint is None:
            return None
        found = read_checkpoint(dict(self.record.checkpoint), opening_with(self.signers))
        found.check(self.record.store, self._leaves)
        return found

    def inclusion(self, number: int) -> dict[str, object]:
        """Return the proof that an entry is in the ledger.

        `entry` is the line as it is hashed, with its end; `path` goes from the leaf to the `root` over `size` entries.
        """
        entry, checkpoint = self.entry(number), self.checkpoint()
        return {
            "type": INCLUSION_TYPE,
            "store": self.record.store,
            "entry": entry.line().decode(),
            "index": number,
            "size": len(self.entries),
            "path": [one.hex() for one in merkle.inclusion_proof(self._leaves, number)],
            "root": self.root,
            "checkpoint": None if checkpoint is None else checkpoint.envelope,
        }

    def consistency(self, since: Envelope, keys: Mapping[str, PublicKey]) -> dict[str, object]:
        """Return the proof that the ledger is one that was signed earlier, with entries appended.

        Parameters
        ----------
        since
            The checkpoint from then.
        keys
            Further keys that it may be signed with.

        Raises
        ------
        ProofError
            If it is no checkpoint of this ledger: it was rewritten, or is another store's.
        """
        old, new = read_checkpoint(since, opening_with({**self.signers, **keys})), self.checkpoint()
        if old.store == self.record.store and old.size > len(self.entries):
            gone = f"the ledger has {len(self.entries)}: some are gone"
            raise ProofError(f"the checkpoint is of {old.size} entries; {gone}")
        old.check(self.record.store, self._leaves[: old.size])
        return {
            "type": CONSISTENCY_TYPE,
            "store": self.record.store,
            "old_size": old.size,
            "old_root": old.root,
            "size": len(self.entries),
            "root": self.root,
            "path": [one.hex() for one in merkle.consistency_proof(self._leaves, old.size)],
            "old_checkpoint": old.envelope,
            "checkpoint": None if new is None else new.envelope,
        }

    @property
    def _leaves(self) -> list[bytes]:
        return [one.leaf() for one in self.entries]


def waiting(store: DirectoryStore) -> list[Pending]:
    """Return the requests that are written down in a store and not done yet, the oldest first."""
    record = Record.from_dict(store.manifest().get("record"))
    found = [Pending.decode(name, data) for name, data in _waiting(store).items()]
    return sorted(
        (one for one in found if not record.is_settled(one.id, of=one.store)), key=lambda one: (one.time, one.id)
    )


def replaceable(store: DirectoryStore) -> str | None:
    """Return the id of a store that is to be replaced, or None; raise where requests wait, which would be lost."""
    try:
        record = Record.from_dict(store.manifest()["record"])
    except ReceraserError:  # no store yet, or a damaged one: nobody can do what was asked of it
        return None
    if left := waiting(store):
        raise StoreError(
            f"requests are waiting in {store.path} ({len(left)}), and replacing the store would lose them; do them "
            f"first (receraser pending finish --store {store.path}) or take them back (receraser pending withdraw)"
        )
    return record.store


def waiting_as(store: DirectoryStore, name: str) -> bytes:
    """Return the file of a request that is waiting under this id; it may be damaged."""
    found = _waiting(store)
    if name not in found:
        raise UsageError(f"no request {name!r} is waiting in {store.path}; waiting: {', '.join(found) or 'none'}")
    return found[name]


def _waiting(store: DirectoryStore) -> dict[str, bytes]:
    done = Record.from_dict(store.manifest().get("record")).done  # its file may have been left behind by a crash
    return {name: data for name, data in store.pending().items() if name != done}
