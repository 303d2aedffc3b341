"""`Receipt`: by it somebody who asked recognises the certificate of their request; nobody else can.

A certificate holds one Merkle root over commitments to everybody and everything that was named. A receipt opens one of
these commitments: the name as it was asked for, the nonce, and the path from the leaf to the root. It is handed to the
requester and not kept: with it, the certificate names them; without it, the root says nothing.

Receipts are drawn, and handed over, before the request is written down. The request keeps the root alone, so whoever
finishes it later certifies that very root, and nobody can test a guess with what lies in the store. A receipt therefore
names no certificate: its certificate is the one that commits to its root, once there is one.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import cast

from receraser.fingerprint import canonical_json
from receraser.proof import commitment, merkle
from receraser.proof.certificate import Certificate
from receraser.proof.fields import Check, count, decoded, hexadecimal, keys, many, one_of, refuse, text
from receraser.proof.ledger import KINDS

__all__ = ["RECEIPT_TYPE", "Receipt", "receipts_of"]

RECEIPT_TYPE = "urn:receraser:receipt:v2"

_FIELDS: dict[str, Check] = {
    "subjects_root": hexadecimal(64),
    "kind": one_of(KINDS),
    "names": many(text),
    "nonce": hexadecimal(64),
    "index": count,
    "leaves": count,
    "path": many(hexadecimal(64)),
}
_OWN = keys(_FIELDS)
_DOCUMENT = keys({"type": one_of([RECEIPT_TYPE]), **_FIELDS})


@dataclass(frozen=True, repr=False)
class Receipt:
    """One subject of a request and its place under the request's root. Shows no names, to no log.

    Attributes
    ----------
    subjects_root
        The root over all subjects of the request, which its certificate commits to.
    kind, names
        What was asked for, as it was asked for: a "user", an "item", or an "interaction" of both.
    nonce
        What hides the name from everybody else.
    index, leaves, path
        The place of the leaf, how many there are, and the hashes from it to the root.
    """

    subjects_root: str
    kind: str
    names: list[str]
    nonce: str
    index: int
    leaves: int
    path: list[str]

    def __post_init__(self) -> None:
        _OWN("the receipt", vars(self))
        if len(self.names) != (2 if self.kind == "interaction" else 1):
            refuse("the receipt's field names", self.names, "one name, or for an interaction the user's and the item's")
        if self.index >= self.leaves:
            refuse("the receipt's field index", self.index, f"a leaf of {self.leaves}, counted from 0")

    def __repr__(self) -> str:
        return f"Receipt({self.kind}, leaf {self.index} of {self.leaves})"

    def payload(self) -> bytes:
        """Return canonical JSON: the file that is handed to the requester."""
        return canonical_json({"type": RECEIPT_TYPE, **{spec.name: getattr(self, spec.name) for spec in fields(self)}})

    @classmethod
    def parse(cls, payload: bytes) -> Receipt:
        """Return the receipt in a file; anything that `payload` would not give is a `ProofError`."""
        document = decoded("the receipt", payload)
        _DOCUMENT("the receipt", document)
        found = cast("dict[str, object]", document)
        return cls(**{name: found[name] for name in _FIELDS})  # type: ignore[arg-type]  # checked by _DOCUMENT

    @property
    def is_whole(self) -> bool:
        """Whether what it names is under its own root: if not, it was changed.

        Of the number of leaves a path does not tell everything (the first of three has the path of the first of four):
        that is held to the certificate's.
        """
        path = [bytes.fromhex(one) for one in self.path]
        return merkle.includes(self._leaf(), self.index, self.leaves, path, bytes.fromhex(self.subjects_root))

    def matches(self, certificate: Certificate) -> bool:
        """Say whether this subject is one of those the certificate was made for."""
        same = (self.subjects_root, self.leaves) == (certificate.request["subjects_root"], certificate.subjects)
        return same and self.is_whole

    def _leaf(self) -> bytes:
        return _leaf(self.kind, self.names, bytes.fromhex(self.nonce))


def receipts_of(subjects: Iterable[tuple[str, ...]]) -> tuple[str | None, list[Receipt]]:
    """Commit to subjects, each a kind and its names; return the root (None for no subjects) and a receipt for each.

    Nonces are new and leaves in a random order, so that the same subjects give another root each time. The receipts are
    in the order of the subjects.

    Examples
    --------
    >>> root, receipts = receipts_of([("user", "u7"), ("interaction", "u1", "a")])
    >>> len(root), sorted(one.index for one in receipts), receipts[1].names
    (64, [0, 1], ['u1', 'a'])
    """
    subjects = list(subjects)
    if not subjects:
        return None, []
    places = list(range(len(subjects)))
    secrets.SystemRandom().shuffle(places)
    nonces = [commitment.new_nonce() for _ in subjects]
    leaves = [b""] * len(subjects)
    for place, (kind, *names), nonce in zip(places, subjects, nonces, strict=True):
        leaves[place] = _leaf(kind, names, nonce)
    levels = _levels(leaves)
    root = levels[-1][0].hex()
    receipts = [
        Receipt(root, kind, names, nonce.hex(), place, len(leaves), _path(levels, place))
        for place, (kind, *names), nonce in zip(places, subjects, nonces, strict=True)
    ]
    return root, receipts


def _leaf(kind: str, names: list[str], nonce: bytes) -> bytes:
    """Return the leaf's hash: of the commitment, so that a leaf can be shown without what it commits to."""
    committed = commitment.commit("subject", nonce, canonical_json([kind, *names]))
    return merkle.leaf_hash(bytes.fromhex(committed))


def _levels(leaves: list[bytes]) -> list[list[bytes]]:
    """Return the tree of RFC 6962 level by level, from the leaves to the root: every path can be read off it.

    `merkle.inclusion_proof` hashes all leaves for each path, which for a batch of thousands takes minutes.
    """
    levels = [leaves]
    while len(below := levels[-1]) > 1:
        pairs = zip(below[::2], below[1::2], strict=False)
        odd = below[len(below) & ~1 :]  # the last one of an odd number moves up as it is
        levels.append([merkle.node_hash(left, right) for left, right in pairs] + odd)
    return levels


def _path(levels: list[list[bytes]], index: int) -> list[str]:
    """Return the hashes beside the way from a leaf to the root."""
    beside = [(level, (index >> height) ^ 1) for height, level in enumerate(levels[:-1])]
    return [level[other].hex() for level, other in beside if other < len(level)]
