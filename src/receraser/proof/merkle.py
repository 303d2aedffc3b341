"""The Merkle tree of RFC 6962 over SHA-256: its root, and the proofs that an entry is in it and that it only grew.

Leaves and inner nodes are hashed apart (a 0 or a 1 before them), so that neither can pass for the other. Everything is
bytes in and bytes out; what the leaves are is the ledger's affair. Proofs are checked by the algorithms of RFC 9162,
sections 2.1.3.2 and 2.1.4.2, which follow the bits of the sizes; they are made by the recursive definition. The two
meet in the tests.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from receraser.errors import ProofError

__all__ = [
    "EMPTY_ROOT",
    "Frontier",
    "consistency_proof",
    "consistent",
    "includes",
    "inclusion_proof",
    "leaf_hash",
    "node_hash",
    "root",
]

_LENGTH = 32

EMPTY_ROOT = hashlib.sha256(b"").digest()


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of a leaf."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of the node above two others."""
    return hashlib.sha256(b"\x01" + left + right).digest()


@dataclass(frozen=True)
class Frontier:
    """What a tree must keep so that it can grow: the roots of its complete subtrees, the largest first.

    One for every 1 in the binary form of the size: never more than 20 for a million entries.

    Parameters
    ----------
    size
        How many leaves there are.
    hashes
        The roots, 32 bytes each.

    Examples
    --------
    >>> leaves = [leaf_hash(bytes([n])) for n in range(5)]
    >>> grown = Frontier.of(leaves[:4]).appended(leaves[4])
    >>> (grown.size, len(grown.hashes), grown.root() == root(leaves))
    (5, 2, True)
    """

    size: int = 0
    hashes: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ProofError(f"the frontier of a tree is of {self.size} entries; expected at least 0")
        if len(self.hashes) != self.size.bit_count():
            raise ProofError(
                f"the frontier of a tree of {self.size} entries has {len(self.hashes)} hashes; "
                f"expected {self.size.bit_count()}"
            )
        if any(len(one) != _LENGTH for one in self.hashes):
            raise ProofError(f"the frontier of a tree has a hash that is not of {_LENGTH} bytes")

    @classmethod
    def of(cls, leaf_hashes: Iterable[bytes]) -> Self:
        """Return the frontier of the tree with these leaves."""
        size, hashes = 0, list[bytes]()
        for leaf in leaf_hashes:
            _append(hashes, size, leaf)
            size += 1
        return cls(size, tuple(hashes))

    def appended(self, leaf_hash: bytes) -> Self:
        """Return the frontier with one leaf more."""
        hashes = list(self.hashes)
        _append(hashes, self.size, leaf_hash)
        return type(self)(self.size + 1, tuple(hashes))

    def root(self) -> bytes:
        """Return the root of the tree."""
        if not self.hashes:
            return EMPTY_ROOT
        *others, node = self.hashes
        for left in reversed(others):
            node = node_hash(left, node)
        return node

    def as_dict(self) -> dict[str, object]:
        """Return plain values for JSON: `size`, and `frontier` as hex."""
        return {"size": self.size, "frontier": [one.hex() for one in self.hashes]}

    @classmethod
    def from_dict(cls, values: object) -> Self:
        """Return the frontier written by `as_dict`; anything else is refused."""
        if not isinstance(values, Mapping) or set(values) != {"size", "frontier"}:
            raise ProofError("the frontier of a tree is damaged: expected size and frontier, and nothing else")
        size, hashes = values["size"], values["frontier"]
        if type(size) is not int or not isinstance(hashes, list):
            raise ProofError("the frontier of a tree is damaged: expected a number and a list of hashes")
        found = []
        for one in hashes:
            try:
                found.append(bytes.fromhex(one))
            except (TypeError, ValueError):
                found.append(b"")
            if found[-1].hex() != one:  # one way to write a hash, too
                raise ProofError(f"the frontier of a tree is damaged: {one!r} is no hash in hex")
        return cls(size, tuple(found))


def _append(hashes: list[bytes], size: int, leaf: bytes) -> None:
    """Add a leaf to the frontier of a tree of that size, in place: join while two subtrees are of one size."""
    while size & 1:
        leaf = node_hash(hashes.pop(), leaf)
        size >>= 1
    hashes.append(leaf)


def root(leaf_hashes: Sequence[bytes]) -> bytes:
    """Return the root of the tree with these leaves.

    Examples
    --------
    >>> root([]) == EMPTY_ROOT
    True
    """
    return Frontier.of(leaf_hashes).root()


def inclusion_proof(leaf_hashes: Sequence[bytes], index: int) -> list[bytes]:
    """Return the proof that a leaf is in the tree: the nodes beside its way to the root, from below.

    Examples
    --------
    >>> leaves = [leaf_hash(bytes([n])) for n in range(5)]
    >>> includes(leaves[3], 3, 5, inclusion_proof(leaves, 3), root(leaves))
    True
    """
    size = len(leaf_hashes)
    if not 0 <= index < size:
        raise ProofError(f"a tree of {size} entries has no entry {index}")
    if size == 1:
        return []
    half = _left_size(size)
    left, right = leaf_hashes[:half], leaf_hashes[half:]
    if index < half:
        return [*inclusion_proof(left, index), root(right)]
    return [*inclusion_proof(right, index - half), root(left)]


def includes(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Say whether the proof shows the leaf at that index of the tree with that size and root.

    Parameters
    ----------
    leaf
        The hash of the leaf.
    index, size
        Its place, and how many leaves there are.
    proof
        As `inclusion_proof` makes it.
    root
        The root of the tree.
    """
    if not 0 <= index < size or not _are_hashes(leaf, *proof, root):
        return False
    own, last, node = index, size - 1, leaf
    for other in proof:
        if last == 0:
            return False  # longer than the way to the root
        if own & 1 or own == last:
            node = node_hash(other, node)
            own, last = _up_to_a_right_child(own, last)
        else:
            node = node_hash(node, other)
        own, last = own >> 1, last >> 1
    return last == 0 and hmac.compare_digest(node, root)


def consistency_proof(leaf_hashes: Sequence[bytes], old_size: int) -> list[bytes]:
    """Return the proof that the tree began as the tree of its first `old_size` leaves.

    Examples
    --------
    >>> leaves = [leaf_hash(bytes([n])) for n in range(7)]
    >>> consistent(3, root(leaves[:3]), 7, root(leaves), consistency_proof(leaves, 3))
    True
    """
    size = len(leaf_hashes)
    if not 0 <= old_size <= size:
        raise ProofError(f"a tree of {size} entries never had {old_size}")
    return _subproof(leaf_hashes, old_size, known=True) if 0 < old_size < size else []


def _subproof(leaf_hashes: Sequence[bytes], old_size: int, *, known: bool) -> list[bytes]:
    """Return SUBPROOF of RFC 6962; `known` while the old tree is the whole subtree, whose root the reader has."""
    size = len(leaf_hashes)
    if old_size == size:
        return [] if known else [root(leaf_hashes)]
    half = _left_size(size)
    left, right = leaf_hashes[:half], leaf_hashes[half:]
    if old_size <= half:
        return [*_subproof(left, old_size, known=known), root(right)]
    return [*_subproof(right, old_size - half, known=False), root(left)]


def consistent(old_size: int, old_root: bytes, new_size: int, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """Say whether the proof shows that the new tree is the old one with leaves appended.

    Every tree grew out of the empty one, whose root is `EMPTY_ROOT`: that takes no proof, and an empty one is expected.

    Parameters
    ----------
    old_size, old_root
        The tree as it was.
    new_size, new_root
        The tree as it is.
    proof
        As `consistency_proof` makes it.
    """
    if not 0 <= old_size <= new_size or not _are_hashes(old_root, new_root, *proof):
        return False
    if old_size == new_size or old_size == 0:
        same = old_size < new_size or old_root == new_root
        return same and not proof and (old_size > 0 or old_root == EMPTY_ROOT)
    own, last = _up_to_a_left_child(old_size - 1, new_size - 1)
    nodes = list(proof) if own else [old_root, *proof]  # a complete old tree is itself the first node
    if not nodes:
        return False
    old = new = nodes[0]
    for other in nodes[1:]:
        if last == 0:
            return False  # longer than the way to the root
        if own & 1 or own == last:
            old, new = node_hash(other, old), node_hash(other, new)
            own, last = _up_to_a_right_child(own, last)
        else:
            new = node_hash(new, other)
        own, last = own >> 1, last >> 1
    return last == 0 and hmac.compare_digest(old, old_root) and hmac.compare_digest(new, new_root)


def _left_size(size: int) -> int:
    """Return the size of the left subtree: the largest power of two below the size."""
    return 1 << ((size - 1).bit_length() - 1)


def _up_to_a_left_child(own: int, last: int) -> tuple[int, int]:
    """Climb while the node is a right child."""
    while own & 1:
        own, last = own >> 1, last >> 1
    return own, last


def _up_to_a_right_child(own: int, last: int) -> tuple[int, int]:
    """Climb while the node is a left child, hence the last of its level and without a neighbour, or the root."""
    while own and not own & 1:
        own, last = own >> 1, last >> 1
    return own, last


def _are_hashes(*hashes: bytes) -> bool:
    return all(len(one) == _LENGTH for one in hashes)
