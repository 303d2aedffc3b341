"""`Custody`: what surrounds every change of a published store, so that it cannot half-happen and can be proved.

::

    request -> receipts -> written down, durable -> the engine works -> state, certificate, entry -> one swap -> done

One request, one swap, one entry of the ledger, one certificate. A crash before the swap leaves the request where it was
written down, and the next writer finishes it; after the swap the manifest says that it is done. Receipts are handed
over first, and the request keeps their root: whoever finishes it, its certificate is the one they open. Without a
keyring nothing is signed: the ledger still counts what happened.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from receraser import fingerprint
from receraser.data.interactions import Interactions
from receraser.erasure.plan import NOTHING
from receraser.erasure.request import ForgetRequest
from receraser.errors import UsageError
from receraser.fingerprint import canonical_json
from receraser.partition.registry import PARTITIONS
from receraser.proof import certificate as certificates
from receraser.proof import commitment, ledger, signing
from receraser.proof.certificate import PAYLOAD_TYPE, Certificate, StateCommitments
from receraser.proof.ledger import CHECKPOINT_TYPE, Entry
from receraser.proof.receipt import receipts_of
from receraser.proof.signing import SigningKey
from receraser.proof.wording import covers, not_covered
from receraser.state import State, rebooked
from receraser.store.directory import DirectoryStore
from receraser.store.encoding import decode_rows
from receraser.store.pending import Pending
from receraser.store.record import Debt, Record
from receraser.store.snapshot import Snapshot, write_snapshot

if TYPE_CHECKING:
    from receraser.proof.keyring import Keyring

__all__ = ["Act", "Custody", "Published", "data_root", "now", "signing_for"]

ADD, EXPORT, FIT, FORGET, REBUILD = "add", "export", "fit", "forget", "rebuild"


def now() -> datetime:
    """Return what the clock says."""
    return datetime.now(UTC)


@dataclass(frozen=True, eq=False)
class Act:
    """One thing that was done to a store.

    Attributes
    ----------
    action
        "fit", "forget", "add" or "rebuild".
    before
        The state it set out from; None for a fit.
    request, unknown
        What was asked for, by pseudonyms, and the part of it for which nothing was held.
    removed, removed_valid, added
        Rows that went, from either table, and rows that came.
    retrained, path
        The shards that were fitted again, and the way that was taken (`erasure.plan`).
    started
        When work began.
    pending
        The request as it was written down; None where there was none.
    anew
        Whether the partition was computed from the rows there are now.
    hides
        Whether a wish was stored that an item be kept out of somebody's list.
    """

    action: str
    before: State | None
    request: ForgetRequest = field(default_factory=ForgetRequest)
    unknown: ForgetRequest = field(default_factory=ForgetRequest)
    removed: Interactions = field(default_factory=Interactions.empty)
    removed_valid: Interactions = field(default_factory=Interactions.empty)
    added: Interactions = field(default_factory=Interactions.empty)
    retrained: tuple[int, ...] = ()
    path: str = NOTHING
    started: str = ""
    pending: Pending | None = None
    anew: bool = False
    hides: bool = False


@dataclass(frozen=True, eq=False)
class Published:
    """What came of it: the state as it lies in the store, and the certificate's file.

    `certifying` is how long the certificate and the ledger's entry took, in seconds.
    """

    state: State
    certificate: Path | None = None
    certifying: float = 0.0


class Custody:
    """The keeping of one store, whose lock is held.

    Parameters
    ----------
    store
        Where it lies.
    record
        Its history so far.
    keyring
        What signs; None signs nothing.
    keep_old
        Whether the state before a change is to be kept.
    """

    def __init__(
        self, store: DirectoryStore, record: Record, keyring: Keyring | None, *, keep_old: bool = False
    ) -> None:
        self.store = store
        self.record = record
        self.keep_old = keep_old
        self._keyring = keyring

    # ------------------------------------------------------------------ requests

    @property
    def signs(self) -> bool:
        """Whether what is done will be certified."""
        return self._keyring is not None

    def time(self) -> str:
        """Return the time for what is written next: the clock's, but never before what was written last."""
        return ledger.later(now(), self.record.time or None)

    def write_down(self, pending: Pending) -> Pending:
        """Make a request durable."""
        pending = dataclasses.replace(pending, store=self.record.store)
        self.store.put_pending(pending.id, pending.encode(self._ledger_key()))
        return pending

    def pending(self) -> list[Pending]:
        """Return the requests that are to be finished, the oldest first; others that a crash left are cleared away."""
        found = []
        for name, data in self.store.pending().items():
            one = Pending.decode(name, data)
            if self.record.is_settled(one.id, of=one.store):  # perhaps with another store's key
                self.store.drop_pending(one.id)
            else:
                key = self._ledger_key() if self.record.signers else None
                found.append(Pending.decode(name, data, key))
        return sorted(found, key=lambda one: (one.time, one.id))

    # ------------------------------------------------------------------ publishing

    def publish(self, snapshot: Snapshot, act: Act, *, keep_old: bool = False, checked: bool = False) -> Published:
        """Make a state, and the account of how it came about, the content of the store; clear the request away.

        `checked`: the store was read under the lock that is held (`write_snapshot`).
        """
        state, only_noted = snapshot.state, self._is_only_noted(snapshot, act, keep_old=keep_old)
        if not only_noted:
            state = rebooked(state, kept_old=keep_old and self.store.exists())
        key = self._signing_key()
        record = dataclasses.replace(
            self.record,
            debt=self._debt(state, act),
            done=self.record.done if act.pending is None else act.pending.id,
        )
        name, started = None, time.perf_counter()
        if key is not None:
            record, certificate = self._certified(state, act, record)
            envelope = signing.sealed(PAYLOAD_TYPE, certificate.payload(), key)
            name = self.store.put_certificate(canonical_json(envelope) + b"\n")
        else:
            record = dataclasses.replace(record, after={}, openings={}, certificate=None)
        record = self._entered(record, act.action, self._subjects(act), name, key)
        certifying = time.perf_counter() - started
        if only_noted:
            self._swap(record, key)
        else:
            published = dataclasses.replace(snapshot, state=state, record=record)
            state = write_snapshot(
                self.store, published, keep_old=keep_old, checked=checked, seal=lambda body: _sealed(body, key)
            )
            self.record = Record.from_dict(self.store.manifest()["record"])
        if act.pending is not None:
            self.store.drop_pending(act.pending.id)
        return Published(state, None if name is None else self.store.certificate_path(name), certifying)

    def _is_only_noted(self, snapshot: Snapshot, act: Act, *, keep_old: bool) -> bool:
        """Say whether nothing changed but the record: no state, no wish, and no earlier state is to be destroyed."""
        if act.before is not snapshot.state or (snapshot.state.kept_old and not keep_old):
            return False
        name = self.store.manifest()["wishes"]
        published = Interactions.empty() if name is None else decode_rows(self.store.get(str(name)))
        return published == snapshot.wishes  # not their bytes: another version may write the same rows otherwise

    def note(self, action: str, *, to: str) -> None:
        """Enter into the ledger that something was handed over, and remember to whom."""
        recipient = {"what": action, "to": to, "time": self.time()}
        record = dataclasses.replace(self.record, recipients=(*self.record.recipients, recipient))
        key = self._signing_key()
        self._swap(self._entered(record, action, (), None, key), key)

    def enter(self, action: str, *, request: ForgetRequest | None = None, done: str | None = None) -> None:
        """Enter something that is no change of the state.

        Parameters
        ----------
        action
            What was done.
        request
            Whom and what it was about, by pseudonyms.
        done
            A request that nobody needs to finish any more.
        """
        record = self.record if done is None else dataclasses.replace(self.record, done=done)
        key = self._signing_key()
        self._swap(self._entered(record, action, self._hashes(request or ForgetRequest()), None, key), key)

    def _signing_key(self) -> SigningKey | None:
        """Return the key that signs; taken once for each swap, since somebody may rotate it meanwhile."""
        return None if self._keyring is None else self._keyring.signing()

    def _swap(self, record: Record, key: SigningKey | None) -> None:
        """Publish a record beside the state that is there."""
        self.store.swap(_sealed({**self.store.manifest(), "record": record.as_dict()}, key))
        self.record = Record.from_dict(self.store.manifest()["record"])

    def _entered(
        self, record: Record, action: str, subjects: Sequence[str], certificate: str | None, signer: SigningKey | None
    ) -> Record:
        """Write the next entry of the ledger, and return the record that covers it and names who signs it."""
        key = self._ledger_key()
        entry = Entry(
            index=record.size,
            time=self.time(),
            action=action,
            subjects=tuple(sorted(subjects)),
            key="" if key is None else ledger.key_check(key),
            certificate=certificate,
        )
        line = entry.line()
        self.store.append_to_ledger(line, at=record.length, of=record.store)
        tree = record.tree.appended(entry.leaf())
        record = dataclasses.replace(
            record,
            size=tree.size,
            length=record.length + len(line),
            certificates=record.certificates + (certificate is not None),
            frontier=tuple(one.hex() for one in tree.hashes),
            time=entry.time,
            certificate=certificate or record.certificate,
        )
        if signer is None:
            return record
        public = signer.public
        return dataclasses.replace(record, signers={**record.signers, public.id: public.to_hex()})

    # ------------------------------------------------------------------ the account

    def _ledger_key(self) -> bytes | None:
        return None if self._keyring is None else self._keyring.ledger_key(self.record.store)

    def _subjects(self, act: Act) -> list[str]:
        """Return the keyed hashes of what a request names; of rows that came, of what was forgotten once."""
        if act.action == FORGET:
            return self._hashes(act.request)
        if act.action not in (ADD, FIT):
            return []
        gone = {
            one
            for entry in ledger.read_entries(self.store.ledger(self.record.length))
            if entry.action == FORGET
            for one in entry.subjects
        }
        if not gone:
            return []
        rows = act.added
        named = ForgetRequest(rows.users.ids, rows.items.ids, tuple(rows.pairs()))
        return [one for one in self._hashes(named) if one in gone]

    def _hashes(self, request: ForgetRequest) -> list[str]:
        """Return the keyed hashes of all subjects; none without the key."""
        key = self._ledger_key()
        return [] if key is None else [ledger.subject_hash(key, *subject) for subject in request.subjects]

    def _debt(self, state: State, act: Act) -> Debt:
        """Return what the partition still remembers; one that looks at no data remembers nothing."""
        was = self.record.debt
        if act.anew or not was.since:
            return Debt(since=self.time())
        if not PARTITIONS[state.config.partition].remembers_data:
            return was
        if act.path == NOTHING:
            return was
        return Debt(
            requests=was.requests + 1,
            rows_removed=was.rows_removed + len(act.removed) + len(act.removed_valid),
            rows_added=was.rows_added + len(act.added),
            since=was.since,
        )

    def _certified(self, state: State, act: Act, record: Record) -> tuple[Record, Certificate]:
        """Return the certificate of an act, and the record that can open it."""
        same = act.before is not None and act.before.digest == state.digest and bool(record.after)
        openings, after = dict(record.openings), dict(record.after)
        if not same:
            openings = {name: commitment.new_nonce().hex() for name in ("digest", "data")}
            values = {"digest": state.digest, "data": fingerprint.combine(state.rows_digests)}
            after = {
                name: commitment.commit(name, bytes.fromhex(openings[name]), value.encode())
                for name, value in values.items()
            }
        removed = None
        if len(act.removed) or len(act.removed_valid):
            root = data_root(act.removed, act.removed_valid)
            removed = commitment.commit("removed", commitment.new_nonce(), root.encode())
        published = self.time()
        certificate = Certificate(
            store=record.store,
            action=act.action,
            level=state.level,
            request={
                "users": len(act.request.users),
                "items": len(act.request.items),
                "interactions": len(act.request.interactions),
                "unknown": len(act.unknown),
                "subjects_root": _subjects_root(act),
            },
            rows_removed=len(act.removed),
            valid_rows_removed=len(act.removed_valid),
            rows_added=len(act.added),
            removed=removed,
            before=None if act.before is None else _commitments(record.after),
            after=StateCommitments(digest=after["digest"], data=after["data"]),
            shards={
                "count": len(state.shards),
                "retrained": list(act.retrained),
                "untouched": len(state.shards) - len(act.retrained),
            },
            path=act.path,
            config=state.config.as_dict(),
            origin=record.origin,
            seed=state.config.seed,
            code={"version": metadata.version("receraser")},
            environment={name: str(value) for name, value in state.environment.items()},
            times={
                "requested": act.pending.time if act.pending is not None else act.started or published,
                "started": act.started or published,
                "published": published,
            },
            parent=record.certificate,
            ledger={"index": record.size, "size": record.size, "root": record.tree.root().hex()},
            debt=certificates.Debt(
                requests=record.debt.requests,
                rows_removed=record.debt.rows_removed,
                rows_added=record.debt.rows_added,
                since=record.debt.since,
            ),
            covers=covers(state.level, action=act.action),
            not_covered=not_covered(
                state.level,
                action=act.action,
                shards=len(state.shards),
                retrained=len(act.retrained),
                kept_old=state.kept_old,
                wishes=act.hides,
                tuned=record.origin.startswith("tuned"),
                exports=sum(one["what"] == EXPORT for one in record.recipients),
            ),
        )
        return dataclasses.replace(record, after=after, openings=openings), certificate


def signing_for(record: Record, keyring: Keyring | None) -> Keyring | None:
    """Return the keyring if its keys may sign for a store; None for a store that nothing was ever signed of.

    A signed ledger that went on without a signature, or with a stranger's, would not verify any more.
    """
    if not record.signers:
        return keyring
    ids = ", ".join(sorted(record.signers))
    if keyring is None:
        raise UsageError(f"changes of this store are signed (keys {ids}); give the folder of its keys with --keys")
    if not record.signers.keys() & keyring.public().keys():
        raise UsageError(
            f"none of the keys that signed for this store ({ids}) is in {keyring.folder}; name their folder with --keys"
        )
    keyring.signing(create=False)
    return keyring


def data_root(train: Interactions, valid: Interactions | None) -> str:
    """Return the digest of the rows alone, training and validation."""
    held = "none" if valid is None else fingerprint.of_rows(valid)
    return fingerprint.combine({"train": fingerprint.of_rows(train), "valid": held})


def _commitments(after: Mapping[str, str]) -> StateCommitments | None:
    """Return what the last certificate committed to; None where there is none."""
    return StateCommitments(digest=after["digest"], data=after["data"]) if after else None


def _subjects_root(act: Act) -> str | None:
    """Return what commits to every subject: the root of the receipts that were handed over when it was asked for.

    One that was made without keys, or by a version that kept no root, has none: one is drawn that nobody can open.
    """
    drawn = None if act.pending is None else act.pending.subjects_root
    return drawn or receipts_of(act.request.subjects)[0]


def _sealed(manifest: Mapping[str, object], key: SigningKey | None) -> Mapping[str, object]:
    """Return a manifest, complete but for its checkpoint, with that: the ledger's root and all the rest, signed."""
    record = Record.from_dict(manifest["record"])
    checkpoint = None
    if key is not None:
        body = ledger.checkpoint_body(record.store, record.tree, record.time, ledger.manifest_hash(manifest))
        checkpoint = signing.sealed(CHECKPOINT_TYPE, canonical_json(body), key)
    return {**manifest, "record": dataclasses.replace(record, checkpoint=checkpoint).as_dict()}
