"""The ledger: what was done to a store, one line an entry, appended and never changed; the leaves of a Merkle tree.

An entry says when, what, and to whom: subjects are keyed hashes, never ids. Whoever has the ledger key can find a
person's entries; when the key is shredded nobody can, and the tree stays whole. A leaf is the line as it is in the
file, with its end. A checkpoint is the size and root of the tree at some time; signed and kept elsewhere, it shows
later whether the ledger was rewritten. This module makes and checks values; it reads and writes no file.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Self

from receraser.errors import ProofError, UsageError
from receraser.fingerprint import canonical_json, of_bytes
from receraser.proof import merkle

__all__ = [
    "CHECKPOINT_TYPE",
    "KINDS",
    "Entry",
    "check_checkpoint",
    "check_checkpoint_form",
    "checkpoint_body",
    "frontier_of",
    "is_time",
    "key_check",
    "later",
    "manifest_hash",
    "read_entries",
    "subject_hash",
]

CHECKPOINT_TYPE = "application/vnd.receraser.checkpoint+json"
KINDS = ("user", "item", "interaction")

_ACTION = re.compile("[a-z]+(-[a-z]+)*")
_HASH = re.compile("[0-9a-f]{32}")
_SHA256 = re.compile("[0-9a-f]{64}")
_SAID = {"store", "size", "root", "time", "manifest"}  # by a checkpoint
_DAMAGED = "the checkpoint is damaged: expected store, size, root, time and manifest, and nothing else"
_TIME = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


@dataclass(frozen=True)
class Entry:
    r"""One line of the ledger, checked when made.

    Parameters
    ----------
    index
        Its place, counted from 0.
    time
        UTC to the second, as in `2026-11-15T17:00:00Z`.
    action
        What was done: fit, forget, add, rebuild, export, handed, shred and so on; small letters and hyphens.
    subjects
        Keyed hashes (`subject_hash`) of those concerned, sorted, each once.
    key
        The check value (`key_check`) of the ledger key the subjects are hashed with; empty without one.
    certificate
        The SHA-256 of the certificate, where there is one.

    Examples
    --------
    >>> entry = Entry(0, "2026-11-15T17:00:00Z", "fit")
    >>> entry.line()
    b'{"action":"fit","certificate":null,"index":0,"key":"","subjects":[],"time":"2026-11-15T17:00:00Z"}\n'
    >>> Entry.parse(entry.line()) == entry
    True
    """

    index: int
    time: str
    action: str
    subjects: tuple[str, ...] = ()
    key: str = ""
    certificate: str | None = None

    def __post_init__(self) -> None:
        if type(self.index) is not int or self.index < 0:
            raise ProofError(f"an entry of the ledger has the index {self.index!r}; expected a number of at least 0")
        where = f"entry {self.index} of the ledger"
        if not is_time(self.time):
            raise ProofError(f"{where}: the time is {self.time!r}; expected one such as 2026-11-15T17:00:00Z")
        if not _fits(_ACTION, self.action):
            raise ProofError(f"{where}: the action is {self.action!r}; expected a word in small letters")
        for one in self.subjects:
            if not _fits(_HASH, one):
                raise ProofError(f"{where}: a subject is {one!r}; expected a keyed hash of 32 hex digits")
        if list(self.subjects) != sorted(set(self.subjects)):
            raise ProofError(f"{where}: the subjects are out of order or repeated; expected them sorted, each once")
        if self.key != "" and not _fits(_HASH, self.key):
            raise ProofError(f"{where}: the key's check value is {self.key!r}; expected 32 hex digits or nothing")
        if self.certificate is not None and not _fits(_SHA256, self.certificate):
            raise ProofError(f"{where}: the certificate is {self.certificate!r}; expected a SHA-256 in hex or null")

    def line(self) -> bytes:
        """Return the line of the ledger, with its end."""
        return canonical_json(asdict(self)) + b"\n"

    def leaf(self) -> bytes:
        """Return the leaf of the tree: the hash of the line, with its end."""
        return merkle.leaf_hash(self.line())

    @classmethod
    def parse(cls, line: bytes) -> Self:
        """Return the entry that `line()` wrote; a line written in any other way is refused."""
        if not line.endswith(b"\n"):
            raise ProofError("an entry of the ledger is cut off: its line has no end")
        try:
            values = json.loads(line.decode())
        except (ValueError, RecursionError):
            raise ProofError("an entry of the ledger is no JSON") from None
        names = {field.name for field in fields(cls)}
        if not isinstance(values, dict) or set(values) != names:
            raise ProofError(f"an entry of the ledger has not the keys it should: expected {', '.join(sorted(names))}")
        if not isinstance(values["subjects"], list):
            raise ProofError("an entry of the ledger has subjects that are no list")
        entry = cls(**values | {"subjects": tuple(values["subjects"])})
        if entry.line() != line:
            raise ProofError(
                f"entry {entry.index} of the ledger is not written as it should be: "
                "expected JSON with sorted keys, each once, and no spaces"
            )
        return entry


def read_entries(data: bytes, above: Sequence[Entry] = ()) -> list[Entry]:
    """Return the entries of a whole ledger: each as it was written, in order, none missing, no time going backwards.

    With those `above`, which were read before, the data is what came after them, and all entries are returned.

    Examples
    --------
    >>> lines = [Entry(n, "2026-11-15T17:00:00Z", "add").line() for n in range(3)]
    >>> len(read_entries(b"".join(lines)))
    3
    >>> read_entries(lines[0] + lines[2])
    Traceback (most recent call last):
    ...
    receraser.errors.ProofError: the ledger is damaged at entry 1: its index is 2; entries were moved, taken out or put in
    """  # noqa: E501 - a message is never wrapped
    entries = list(above)
    for line in io.BytesIO(data):
        index = len(entries)
        try:
            entry = Entry.parse(line)
        except ProofError as error:
            raise ProofError(f"the ledger is damaged at entry {index}: {error}") from None
        if entry.index != index:
            raise ProofError(
                f"the ledger is damaged at entry {index}: its index is {entry.index}; "
                "entries were moved, taken out or put in"
            )
        if entries and entry.time < entries[-1].time:
            raise ProofError(
                f"the ledger is damaged at entry {index}: its time is {entry.time}, "
                f"before that of the entry above it, {entries[-1].time}"
            )
        entries.append(entry)
    return entries


def frontier_of(entries: Iterable[Entry]) -> merkle.Frontier:
    """Return the frontier of the tree over these entries."""
    return merkle.Frontier.of(entry.leaf() for entry in entries)


# ---------------------------------------------------------------------- subjects


def subject_hash(key: bytes, kind: str, *names: str) -> str:
    """Return what stands for a subject in the ledger: 32 hex digits that nobody can make without the key.

    Parameters
    ----------
    key
        The ledger key of the store.
    kind
        user, item or interaction.
    names
        One id, or for an interaction the user's and the item's.

    Examples
    --------
    >>> subject_hash(bytes(32), "user", "ann") == subject_hash(bytes(32), "item", "ann")
    False
    """
    expected = 2 if kind == "interaction" else 1
    if kind not in KINDS or len(names) != expected:
        raise UsageError(
            f"a subject of the ledger is a {kind} of {len(names)} names; "
            "expected a user or an item of one, or an interaction of two"
        )
    return _keyed(key, "receraser ledger subject", kind, *names)


def key_check(key: bytes) -> str:
    """Return what tells whether a ledger key is the one an entry was made with, and nothing else about it."""
    return _keyed(key, "receraser ledger key")


def _keyed(key: bytes, *parts: str) -> str:
    code = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        data = part.encode()
        code.update(len(data).to_bytes(8, "little"))
        code.update(data)
    return code.digest()[:16].hex()


# ---------------------------------------------------------------------- times


def is_time(text: object) -> bool:
    """Say whether this is a time as the ledger writes it: UTC, to the second, a day that exists.

    Examples
    --------
    >>> is_time("2026-11-15T17:00:00Z"), is_time("2026-02-30T17:00:00Z"), is_time("2026-11-15 17:00")
    (True, False, False)
    """
    if not isinstance(text, str) or not _TIME.fullmatch(text):
        return False
    try:
        return _written(datetime.fromisoformat(text)) == text
    except ValueError:
        return False


def later(now: datetime, last: str | None) -> str:
    """Return the time for the next entry: now, but never before the last entry.

    A clock that went backwards is not followed: until it has caught up, entries share the last one's time.

    Examples
    --------
    >>> later(datetime(2026, 11, 15, 17, tzinfo=UTC), "2026-11-15T18:30:00Z")
    '2026-11-15T18:30:00Z'
    """
    if now.tzinfo is None:
        raise UsageError(f"the time {now.isoformat()} is of no time zone; expected one such as UTC")
    if last is not None and not is_time(last):
        raise ProofError(f"the time of the last entry is {last!r}; expected one such as 2026-11-15T17:00:00Z")
    text = _written(now.astimezone(UTC))
    return max(text, last or text)


def _written(moment: datetime) -> str:
    """Return a time in UTC as the ledger writes it."""
    return moment.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


# ---------------------------------------------------------------------- checkpoints


def manifest_hash(manifest: Mapping[str, object]) -> str:
    """Return the SHA-256 of everything a manifest says, but for its checksum and the checkpoint that signs this.

    It holds the nonces that open the newest certificate: whoever does not know them cannot test a guess by it.
    """
    record = manifest["record"]
    assert isinstance(record, Mapping)
    said = {key: value for key, value in manifest.items() if key != "checksum"}
    return of_bytes(canonical_json({**said, "record": {**record, "checkpoint": None}}))


def checkpoint_body(store: str, frontier: merkle.Frontier, time: str, manifest: str) -> dict[str, object]:
    """Return what a checkpoint says: the store, the size and root of its ledger at that time, its manifest's hash."""
    return {"store": store, "size": frontier.size, "root": frontier.root().hex(), "time": time, "manifest": manifest}


def check_checkpoint_form(body: object) -> None:
    """Raise unless this says what a checkpoint says, of some number of entries."""
    size = body["size"] if isinstance(body, Mapping) and set(body) == _SAID else None
    if type(size) is not int or size < 0:
        raise ProofError(_DAMAGED)


def check_checkpoint(body: object, *, store: str, frontier: merkle.Frontier) -> None:
    """Raise unless a checkpoint is of this store and this ledger.

    Parameters
    ----------
    body
        What `checkpoint_body` made, read back from JSON.
    store
        The id of the store.
    frontier
        Of the entries that the checkpoint should cover: all for the newest, the first so many for an earlier one.
    """
    if not isinstance(body, Mapping) or set(body) != _SAID:
        raise ProofError(_DAMAGED)
    if body["store"] != store:
        raise ProofError(f"the checkpoint is of another store: {body['store']!r}; expected {store!r}")
    if not is_time(body["time"]):
        raise ProofError(f"the checkpoint's time is {body['time']!r}; expected one such as 2026-11-15T17:00:00Z")
    if not _fits(_SHA256, body["manifest"]):
        raise ProofError(f"the checkpoint's manifest is {body['manifest']!r}; expected 64 hexadecimal digits")
    if type(body["size"]) is not int or body["size"] != frontier.size:
        raise ProofError(f"the checkpoint is of {body['size']!r} entries; the ledger has {frontier.size}")
    if body["root"] != frontier.root().hex():
        raise ProofError(
            f"the ledger is not the one the checkpoint was made of: the root over its {frontier.size} entries is "
            f"{frontier.root().hex()}; expected {body['root']!r}"
        )


def _fits(pattern: re.Pattern[str], text: object) -> bool:
    return isinstance(text, str) and pattern.fullmatch(text) is not None
