"""`Certificate`: what was asked, what was done, and what that covers; as the in-toto statement that is signed.

A certificate names nobody and holds no digest of data: counts, commitments (`commitment`) and plain sentences
(`wording`). It is a value, checked when made and again when read: `parse` takes the bytes that `payload` gives and no
others, so whatever was signed is here, and nothing else. Signing is `signing`'s, the place in the ledger `ledger`'s;
how it looks to people is `rendering`'s; how a requester recognises it is `receipt`'s.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypedDict, cast

from receraser.fingerprint import canonical_json
from receraser.proof.fields import (
    Check,
    count,
    decoded,
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

__all__ = [
    "ACTIONS",
    "PATHS",
    "PAYLOAD_TYPE",
    "PREDICATE_TYPE",
    "STATEMENT_TYPE",
    "Certificate",
    "Code",
    "Debt",
    "LedgerPlace",
    "Request",
    "Shards",
    "StateCommitments",
    "Times",
]

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:receraser:change:v1"

ACTIONS = ("fit", "forget", "add", "rebuild")
PATHS = ("nothing", "downdate", "core", "shards", "refit", "rebuild")  # of `erasure.plan`; a fit is a rebuild


class Request(TypedDict):
    """How many subjects were named, for how many of them nothing was held, and the root over their commitments."""

    users: int
    items: int
    interactions: int
    unknown: int
    subjects_root: str | None


class StateCommitments(TypedDict):
    """Commitments to the digest of a state and to the root of its data."""

    digest: str
    data: str


class Shards(TypedDict):
    """How many shards there are, which were retrained (ascending), and how many were not touched."""

    count: int
    retrained: list[int]
    untouched: int


class Code(TypedDict):
    """The version of this package."""

    version: str


class Times(TypedDict):
    """When the request was made durable, work on it began, and the new state was published; UTC, to the second."""

    requested: str
    started: str
    published: str


class LedgerPlace(TypedDict):
    """The place of the certificate's own entry, and the ledger before it: how many entries, and their root."""

    index: int
    size: int
    root: str


class Debt(TypedDict):
    """What has happened since the rows were assigned to shards; `since` is empty where that looks at no data."""

    requests: int
    rows_removed: int
    rows_added: int
    since: str


_SHA256 = hexadecimal(64)
_STATE = keys({"digest": _SHA256, "data": _SHA256})
_FIELDS: dict[str, Check] = {
    "store": hexadecimal(32),
    "action": one_of(ACTIONS),
    "level": one_of(LEVELS),
    "request": keys(
        {
            **dict.fromkeys(("users", "items", "interactions", "unknown"), count),
            "subjects_root": or_null(_SHA256),
        }
    ),
    "rows_removed": count,
    "valid_rows_removed": count,
    "rows_added": count,
    "removed": or_null(_SHA256),
    "before": or_null(_STATE),
    "after": _STATE,
    "shards": keys({"count": count, "retrained": many(count), "untouched": count}),
    "path": one_of(PATHS),
    "config": table,
    "origin": text,
    "seed": integer,
    "code": keys({"version": text}),
    "environment": table,
    "times": keys({"requested": time, "started": time, "published": time}),
    "parent": or_null(_SHA256),
    "ledger": keys({"index": count, "size": count, "root": _SHA256}),
    "debt": keys({**dict.fromkeys(("requests", "rows_removed", "rows_added"), count), "since": or_empty(time)}),
    "covers": many(text, at_least=1),
    "not_covered": many(text, at_least=1),
}
_PREDICATE = keys(_FIELDS)


def _predicate(_: str, value: object) -> None:
    """Take a predicate; its fields are the certificate's."""
    _PREDICATE("the certificate", value)


_SUBJECT = keys({"name": text, "digest": keys({"sha256": _SHA256})})
_STATEMENT = keys(
    {
        "_type": one_of([STATEMENT_TYPE]),
        "subject": many(_SUBJECT),
        "predicateType": one_of([PREDICATE_TYPE]),
        "predicate": _predicate,
    }
)


@dataclass(frozen=True, eq=False)
class Certificate:
    """What is signed about one change of a store. Checked when made: `ProofError` names a field that does not fit.

    Two are equal if the bytes that are signed are: 64 and 64.0 are not the same setting.

    Attributes
    ----------
    store
        The random id of the store, 32 hexadecimal digits.
    action, level, path
        What was done, what holds now (`LEVELS`), and the way it was computed (`PATHS`).
    request
        How many subjects were named, and the Merkle root over commitments to them; nobody's name.
    rows_removed, valid_rows_removed, rows_added
        Rows of the training and validation tables.
    removed
        Commitment to the rows removed; null where there were none.
    before, after
        Commitments to the digests and the data of the states before (as the certificate before this one has them; null
        for a fit, and where there is no such certificate) and after.
    config, origin, seed, code, environment
        What a replay needs: the configuration and where it comes from, the seed, the version, what bits depend on.
    parent
        SHA-256 of the certificate before this one; null for the first.
    debt
        What the assignment to shards has been through since it was made.
    covers, not_covered
        Plain sentences, as `wording` makes them.
    """

    store: str
    action: str
    level: str
    request: Request
    rows_removed: int
    valid_rows_removed: int
    rows_added: int
    removed: str | None
    before: StateCommitments | None
    after: StateCommitments
    shards: Shards
    path: str
    config: dict[str, object]
    origin: str
    seed: int
    code: Code
    environment: dict[str, object]
    times: Times
    parent: str | None
    ledger: LedgerPlace
    debt: Debt
    covers: list[str]
    not_covered: list[str]

    def __post_init__(self) -> None:
        _PREDICATE("the certificate", vars(self))
        self._check_request()
        self._check_shards()
        if (self.before is None) != (self.action == "fit" or self.parent is None):
            expected = (
                "the commitments of the certificate before" if self.before is None else "null, for none was before"
            )
            refuse("the certificate's field before", self.before, expected)
        if self.ledger["index"] != self.ledger["size"]:
            expected = f"{self.ledger['size']}, the number of entries before it"
            refuse("the certificate's field ledger.index", self.ledger["index"], expected)

    def _check_request(self) -> None:
        asked, root = self.subjects, self.request["subjects_root"]
        if self.request["unknown"] > asked:
            expected = f"at most {asked}, the number of subjects"
            refuse("the certificate's field request.unknown", self.request["unknown"], expected)
        if (root is None) != (asked == 0):
            expected = "a root over the subjects" if asked else "null, for there are no subjects"
            refuse("the certificate's field request.subjects_root", root, expected)
        gone = self.rows_removed + self.valid_rows_removed
        if self.action == "forget" and (self.removed is None) != (gone == 0):
            expected = "a commitment to the rows removed" if gone else "null, for no row was removed"
            refuse("the certificate's field removed", self.removed, expected)

    def _check_shards(self) -> None:
        shards, retrained = self.shards, self.shards["retrained"]
        if retrained != sorted(set(retrained)) or (retrained and retrained[-1] >= shards["count"]):
            expected = f"shards below {shards['count']}, ascending, each once"
            refuse("the certificate's field shards.retrained", retrained, expected)
        if shards["untouched"] != shards["count"] - len(retrained):
            expected = f"{shards['count'] - len(retrained)}, all that were not retrained"
            refuse("the certificate's field shards.untouched", shards["untouched"], expected)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Certificate) and self.payload() == other.payload()

    def __hash__(self) -> int:
        return hash(self.payload())

    @property
    def subjects(self) -> int:
        """How many users, items and interactions were named."""
        return self.request["users"] + self.request["items"] + self.request["interactions"]

    # ------------------------------------------------------------------ as bytes

    def statement(self) -> dict[str, object]:
        """Return the in-toto statement; its subject is the store, by the commitment to the digest after the change."""
        return {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": f"receraser-store:{self.store}", "digest": {"sha256": self.after["digest"]}}],
            "predicateType": PREDICATE_TYPE,
            "predicate": {spec.name: getattr(self, spec.name) for spec in fields(self)},
        }

    def payload(self) -> bytes:
        """Return the statement as canonical JSON: what is signed."""
        return canonical_json(self.statement())

    @classmethod
    def parse(cls, payload: bytes) -> Certificate:
        """Return the certificate with this payload; anything that `payload` would not give is a `ProofError`."""
        statement = decoded("the certificate", payload)
        _STATEMENT("the certificate", statement)
        found = cast("dict[str, dict[str, object]]", statement)
        certificate = cls(**found["predicate"])  # type: ignore[arg-type]  # has been checked
        subject = certificate.statement()["subject"]
        if found["subject"] != subject:
            refuse("the certificate's field subject", found["subject"], f"what its predicate says, {subject}")
        return certificate
