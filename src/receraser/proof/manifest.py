"""What a manifest says, and how it is written: the form of the one document that a checkpoint signs as a whole.

Taken by the letter: exact keys and types, the checksum over the content, the very bytes. Whoever changes a store can
make all of that fit again; what a manifest says is believed only after the files and the signatures are looked at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypedDict, cast

from receraser.errors import ProofError
from receraser.fingerprint import canonical_json, of_bytes
from receraser.proof.fields import (
    Check,
    count,
    hexadecimal,
    integer,
    keys,
    many,
    one_of,
    or_empty,
    or_null,
    refuse,
    table,
    text,
    time,
)
from receraser.proof.wording import LEVELS

__all__ = ["FORMAT", "Ledger", "Manifest", "Previous", "Record", "ShardEntry"]
__all__ += ["files_named", "read_manifest", "roles", "written"]

FORMAT = 4


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
                "time": or_empty(time),
            }
        ),
        "checkpoint": or_null(table),
        "certificate": or_null(_SHA256),
        "after": _both_or_neither,
        "openings": _both_or_neither,
        "signers": _table_of(hexadecimal(16), _SHA256),
        "done": or_empty(hexadecimal(32)),
        "recipients": many(keys({"what": text, "to": text, "time": time})),
        "policy": keys({"requests": or_null(count), "days": or_null(count)}),
        "debt": keys({**dict.fromkeys(("requests", "rows_removed", "rows_added"), count), "since": or_empty(time)}),
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


def written(body: Mapping[str, object]) -> bytes:
    """Return a manifest as it is written, with its checksum."""
    return canonical_json({**body, "checksum": of_bytes(canonical_json(body))}) + b"\n"


def read_manifest(data: bytes) -> tuple[Manifest | None, list[str]]:
    """Return what a manifest says, and what is wrong with it; None where nothing can be made of it."""
    try:
        whole = json.loads(data)
        body = {name: value for name, value in whole.items() if name != "checksum"}
        checksum, found = whole["checksum"], of_bytes(canonical_json(body))
        again = canonical_json(whole) + b"\n"
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return None, ["it is no JSON with a checksum"]
    if body.get("format") != FORMAT:
        return None, [f"its format is {body.get('format')!r}; this version reads {FORMAT}"]
    faults = []
    if found != checksum:
        faults.append(f"its content has the checksum {found}; expected {checksum!r}")
    if again != data:
        faults.append("it is not written as it was: other bytes say the same")
    try:
        _MANIFEST("the manifest", body)
    except ProofError as error:
        return None, [*faults, str(error)]
    return cast("Manifest", body), faults


def roles(manifest: Manifest) -> dict[str, str]:
    """Return what each file is there for, by its name."""
    named: list[tuple[object, str]] = []
    for number, listed in enumerate(manifest["shards"]):
        for part, what in (("train", "training rows"), ("valid", "validation rows"), ("weights", "weights")):
            named.append((listed["files"][part], f"the {what} of shard {number}"))
    named += [(file, f"the aggregate's {part}") for part, file in manifest["aggregate"]["files"].items()]
    named += [(manifest["landmarks"], "the landmarks"), (manifest["titles"], "the titles")]
    named += [(manifest["wishes"], "the wishes")]
    found: dict[str, str] = {}
    for file, what in named:
        if file is not None:
            found.setdefault(str(file), what)
    return found


def files_named(manifest: Mapping[str, Any]) -> list[str]:
    """Return the names of all files that a manifest covers: its own, and those of the one it keeps."""
    previous = manifest["previous"]
    return sorted({*manifest["files"], *([] if previous is None else [previous["manifest"], *previous["files"]])})
