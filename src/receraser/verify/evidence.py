"""The bytes of a store as they lie there, and what its manifest says; nothing in it is believed.

A manifest is taken apart by the letter: exact keys and types, the checksum over its content, the very bytes. Files are
read once and held against their names. Whoever changes a store can make the checksum and the names fit again: what that
does not cover is the business of `content` and `checks`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict, cast

from receraser.errors import ProofError, StoreError, StoreNotFoundError
from receraser.fingerprint import canonical_json, of_bytes
from receraser.proof.fields import Check, count, hexadecimal, integer, keys, many, one_of, or_null, refuse, table, text
from receraser.proof.fields import time as moment
from receraser.proof.wording import LEVELS
from receraser.store.layout import FORMAT, ledger_to_be

__all__ = ["Evidence", "Ledger", "Manifest", "Previous", "Record", "ShardEntry", "read_manifest", "shown"]

_MOST_NAMED = 5


# ---------------------------------------------------------------------- what a manifest says


class ShardEntry(TypedDict):
    """What a manifest says of a shard."""

    id: int
    rows: int
    users: int
    items: int
    digest: str
    files: dict[str, str | None]
    facts: dict[str, object]
    seconds: float | None


class Ledger(TypedDict):
    """How far the ledger goes."""

    size: int
    bytes: int
    certificates: int
    frontier: list[str]
    time: str


class Record(TypedDict):
    """What a manifest says of the store's history."""

    store: str
    ledger: Ledger
    checkpoint: dict[str, object] | None
    certificate: str | None
    after: dict[str, str]
    openings: dict[str, str]
    signers: dict[str, str]
    done: str
    recipients: list[dict[str, str]]
    policy: dict[str, int | None]
    debt: dict[str, object]
    origin: str


class Previous(TypedDict):
    """An earlier state that was kept: its manifest's file, and the other files."""

    manifest: str
    files: list[str]


class Manifest(TypedDict):
    """A manifest, its checksum taken off."""

    format: int
    config: dict[str, object]
    digest: str
    level: str
    inherited: bool
    pseudonyms: dict[str, object]
    shards: list[ShardEntry]
    landmarks: str | None
    aggregate: dict[str, dict[str, object]]
    titles: str | None
    wishes: str | None
    record: Record
    environment: dict[str, object]
    seconds: dict[str, object]
    files: dict[str, int]
    previous: Previous | None


_SHA256 = hexadecimal(64)


def _truth(where: str, value: object) -> None:
    if type(value) is not bool:
        refuse(where, value, "true or false")


def _seconds(where: str, value: object) -> None:
    if type(value) not in (int, float):
        refuse(where, value, "a number of seconds")


def _or_empty(inner: Check) -> Check:
    def check(where: str, value: object) -> None:
        if value != "":
            inner(where, value)

    return check


def _table_of(key: Check, inner: Check) -> Check:
    """Return the check for a table whose keys and values are each of one kind."""

    def check(where: str, value: object) -> None:
        if type(value) is not dict:
            refuse(where, value, "a table")
        for name, entry in value.items():
            key(f"a key of {where}", name)
            inner(f"{where}.{name}", entry)

    return check


def _both_or_neither(where: str, value: object) -> None:
    if value != {}:
        keys({"digest": _SHA256, "data": _SHA256})(where, value)


_COUNTS = dict.fromkeys(("id", "rows", "users", "items"), count)
_SHARD = keys(
    {
        **_COUNTS,
        "digest": _SHA256,
        "files": keys({"train": _SHA256, "valid": or_null(_SHA256), "weights": _SHA256}),
        "facts": table,
        "seconds": or_null(_seconds),
    }
)
_CONFIG = keys(
    {
        **dict.fromkeys(("method", "model", "partition", "aggregation", "device"), text),
        **dict.fromkeys(("shards", "seed"), integer),
        **dict.fromkeys(("hyperparameters", "partition_settings", "aggregation_settings"), table),
    }
)
_RECORD = keys(
    {
        "store": hexadecimal(32),
        "ledger": keys(
            {
                **dict.fromkeys(("size", "bytes", "certificates"), count),
                "frontier": many(_SHA256),
                "time": _or_empty(moment),
            }
        ),
        "checkpoint": or_null(table),
        "certificate": or_null(_SHA256),
        "after": _both_or_neither,
        "openings": _both_or_neither,
        "signers": _table_of(hexadecimal(16), _SHA256),
        "done": _or_empty(hexadecimal(32)),
        "recipients": many(keys({"what": text, "to": text, "time": moment})),
        "policy": keys({"requests": or_null(count), "days": or_null(count)}),
        "debt": keys({**dict.fromkeys(("requests", "rows_removed", "rows_added"), count), "since": _or_empty(moment)}),
        "origin": text,
    }
)
_MANIFEST = keys(
    {
        "format": count,
        "config": _CONFIG,
        "digest": _SHA256,
        "level": one_of(LEVELS),
        "inherited": _truth,
        "pseudonyms": keys({"key_check": hexadecimal(16), "public_key": _truth}),
        "shards": many(_SHARD),
        "landmarks": or_null(_SHA256),
        "aggregate": keys({"files": _table_of(text, _SHA256), "facts": table}),
        "titles": or_null(_SHA256),
        "wishes": or_null(_SHA256),
        "record": _RECORD,
        "environment": table,
        "seconds": _table_of(text, _seconds),
        "files": _table_of(_SHA256, count),
        "previous": or_null(keys({"manifest": _SHA256, "files": many(_SHA256)})),
    }
)


def read_manifest(data: bytes) -> tuple[Manifest | None, list[str]]:
    """Return what a manifest says, and what is wrong with it; None where nothing can be made of it."""
    try:
        whole = json.loads(data)
        body = {name: value for name, value in whole.items() if name != "checksum"}
        checksum, found = whole["checksum"], of_bytes(canonical_json(body))
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return None, ["it is no JSON with a checksum"]
    if body.get("format") != FORMAT:
        return None, [f"its format is {body.get('format')!r}; this version reads {FORMAT}"]
    faults = []
    if found != checksum:
        faults.append(f"its content has the checksum {found}; expected {checksum!r}")
    if json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n" != data:
        faults.append("it is not written as it was: other bytes say the same")
    try:
        _MANIFEST("the manifest", body)
    except ProofError as error:
        return None, [*faults, str(error)]
    return cast("Manifest", body), faults


# ---------------------------------------------------------------------- what lies there


class Evidence:
    """A store's folder, looked at and not touched.

    Parameters
    ----------
    path
        The folder; a manifest must be there.

    Attributes
    ----------
    text, manifest, faults
        The manifest's bytes, what it says (None where nothing can be made of it), and what is wrong with it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.text = (path / "manifest.json").read_bytes()
        except OSError as error:
            if (path / "files").is_dir():
                raise StoreError(
                    f"the store in {path} is half-written: it has no manifest ({error.strerror})"
                ) from None
            raise StoreNotFoundError(f"there is no store in {path}: {error.strerror}") from None
        self.manifest, self.faults = read_manifest(self.text)
        self._looked_at: dict[str, int | str] = {}

    def get(self, name: str) -> bytes:
        """Return the content of a file of the store; one that is not what it was written with is refused."""
        fault: str
        try:
            data = (self.path / "files" / name).read_bytes()
        except OSError as error:
            fault = f"files/{name} cannot be read ({error.strerror})"
        else:
            found = of_bytes(data)
            if found == name:
                self._looked_at[name] = len(data)
                return data
            fault = f"files/{name} is not what it was written with: its SHA-256 is {found}"
        self._looked_at[name] = fault
        raise ProofError(fault)

    def look(self, name: str) -> int | str:
        """Return the size of a file that is what its name says, else what is wrong with it; read only once."""
        if name not in self._looked_at:
            with contextlib.suppress(ProofError):
                self.get(name)
        return self._looked_at[name]

    def certificate(self, name: str) -> bytes:
        """Return the bytes of a certificate, held against its name."""
        path = self.path / "certificates" / f"{name}.json"
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ProofError(f"certificates/{name}.json cannot be read ({error.strerror})") from None
        if of_bytes(data) != name:
            raise ProofError(f"certificates/{name}.json is not what was written: its SHA-256 is {of_bytes(data)}")
        return data

    @property
    def ledger_name(self) -> str:
        """The file of the ledger: where a crash came while one store replaced another, still where it was made."""
        made = "" if self.manifest is None else ledger_to_be(self.manifest["record"]["store"])
        return made if made and (self.path / made).exists() else "ledger"

    def ledger(self) -> bytes:
        """Return the whole ledger, also what is behind its end; nothing where there is none."""
        try:
            return (self.path / self.ledger_name).read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise ProofError(f"the ledger cannot be read ({error.strerror})") from None

    def everything(self) -> Iterator[tuple[str, Path]]:
        """Yield what lies in the folder, by its name in it: files, links, and folders that are empty."""
        for path in sorted(self.path.rglob("*")):
            if path.is_symlink() or not path.is_dir() or not any(path.iterdir()):
                yield path.relative_to(self.path).as_posix(), path

    def kept(self) -> list[tuple[str, Manifest]]:
        """Return the manifests of earlier states that were kept, each with its file's name, the newest first."""
        found, manifest = [], self.manifest
        while manifest is not None and manifest["previous"] is not None:
            name = manifest["previous"]["manifest"]
            manifest, faults = read_manifest(self.get(name))
            if manifest is None or faults:
                raise ProofError(f"files/{name} is no manifest of an earlier state: {faults[0]}")
            found.append((name, manifest))
        return found


def shown(faults: list[str]) -> str:
    """Return faults as one text; of many, the first few.

    Examples
    --------
    >>> shown([str(n) for n in range(7)])
    '0; 1; 2; 3; 4; and 2 more'
    """
    more = [f"and {len(faults) - _MOST_NAMED} more"] if len(faults) > _MOST_NAMED else []
    return "; ".join([*faults[:_MOST_NAMED], *more])
