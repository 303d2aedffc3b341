from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receraser.errors import ProofError
from receraser.proof.merkle import (
    EMPTY_ROOT,
    Frontier,
    consistency_proof,
    consistent,
    includes,
    inclusion_proof,
    leaf_hash,
    node_hash,
    root,
)

# The tree that implementations of certificate transparency are tested with, and its root after each leaf.
KNOWN = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
KNOWN_ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
KNOWN_LEAVES = [leaf_hash(bytes.fromhex(one)) for one in KNOWN]

LARGEST = 33
LEAVES = [leaf_hash(n.to_bytes(2, "big")) for n in range(LARGEST)]


def defined(leaves: Sequence[bytes]) -> bytes:
    """The root by the definition of RFC 6962, section 2.1, word for word."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    half = 1
    while half * 2 < len(leaves):
        half *= 2
    return hashlib.sha256(b"\x01" + defined(leaves[:half]) + defined(leaves[half:])).digest()


ROOTS = [defined(LEAVES[:size]) for size in range(LARGEST + 1)]


def tampered(proof: list[bytes]) -> Iterator[list[bytes]]:
    """Every proof with one thing wrong: a bit, a node too few, one too many, two swapped, one cut or lengthened."""
    for place, one in enumerate(proof):
        for byte in (0, 13, 31):
            flipped = bytearray(one)
            flipped[byte] ^= 1 << (place % 8)
            yield [*proof[:place], bytes(flipped), *proof[place + 1 :]]
        yield proof[:place] + proof[place + 1 :]
        yield [*proof[:place], one, one, *proof[place + 1 :]]
        yield [*proof[:place], one[:-1], *proof[place + 1 :]]
        yield [*proof[:place], one + b"\x00", *proof[place + 1 :]]
        for other in range(place):
            swapped = list(proof)
            swapped[place], swapped[other] = swapped[other], swapped[place]
            yield swapped
    for extra in (bytes(32), EMPTY_ROOT, LEAVES[0], LEAVES[-1], b""):
        yield [*proof, extra]
        yield [extra, *proof]
    if proof:
        yield proof[::-1] if len(proof) > 1 else []
        yield []


def test_the_known_tree() -> None:
    assert EMPTY_ROOT.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert [root(KNOWN_LEAVES[: size + 1]).hex() for size in range(8)] == KNOWN_ROOTS


def test_known_proofs() -> None:
    """As published with the tree."""
    assert [one.hex() for one in inclusion_proof(KNOWN_LEAVES, 0)] == [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ]
    assert [one.hex() for one in inclusion_proof(KNOWN_LEAVES[:3], 2)] == [
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"
    ]
    assert [one.hex() for one in consistency_proof(KNOWN_LEAVES, 6)] == [
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ]
    assert [one.hex() for one in consistency_proof(KNOWN_LEAVES[:5], 2)] == [
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ]


def test_leaves_and_nodes_cannot_pass_for_each_other() -> None:
    assert leaf_hash(LEAVES[0] + LEAVES[1]) != node_hash(LEAVES[0], LEAVES[1])
    assert leaf_hash(b"a") == hashlib.sha256(b"\x00a").digest()
    assert node_hash(b"a", b"b") == hashlib.sha256(b"\x01ab").digest()


def test_root_and_frontier_follow_the_definition_at_every_size() -> None:
    grown = Frontier()
    for size, expected in enumerate(ROOTS):
        assert root(LEAVES[:size]) == expected
        assert Frontier.of(LEAVES[:size]) == grown
        assert grown.root() == expected
        assert grown.size == size
        if size < LARGEST:
            grown = grown.appended(LEAVES[size])


@given(st.lists(st.binary(max_size=3), max_size=80), st.data())
def test_a_frontier_is_as_good_as_the_leaves(contents: list[bytes], data: st.DataObject) -> None:
    leaves = [leaf_hash(one) for one in contents]
    old = data.draw(st.integers(0, len(leaves)))
    grown = Frontier.from_dict(Frontier.of(leaves[:old]).as_dict())
    for leaf in leaves[old:]:
        grown = grown.appended(leaf)
    assert grown == Frontier.of(iter(leaves))
    assert grown.root() == defined(leaves)
    assert consistent(old, root(leaves[:old]), len(leaves), grown.root(), consistency_proof(leaves, old))


# ---------------------------------------------------------------------- inclusion


def test_every_leaf_of_every_tree_is_shown() -> None:
    for size in range(1, LARGEST + 1):
        leaves = LEAVES[:size]
        for index in range(size):
            proof = inclusion_proof(leaves, index)
            for at in range(size):  # shown where it is, and nowhere else
                assert includes(leaves[index], at, size, proof, ROOTS[size]) == (at == index), (index, at, size)
            for other in {(index + 1) % size, 0, size - 1} - {index}:
                assert not includes(leaves[other], index, size, proof, ROOTS[size])
            for tree in range(LARGEST + 1):
                assert includes(leaves[index], index, size, proof, ROOTS[tree]) == (tree == size)


def test_no_tampered_inclusion_proof_is_believed() -> None:
    tried = 0
    for size in range(1, LARGEST + 1):
        for index in range(size):
            for wrong in tampered(inclusion_proof(LEAVES[:size], index)):
                assert not includes(LEAVES[index], index, size, wrong, ROOTS[size]), (index, size, wrong)
                tried += 1
    assert tried > 20_000


@pytest.mark.parametrize(
    ("leaf", "index", "size", "root"),
    [
        (LEAVES[0], -1, 1, ROOTS[1]),
        (LEAVES[0], 1, 1, ROOTS[1]),
        (LEAVES[0], 0, 0, ROOTS[1]),
        (LEAVES[0], 0, -1, ROOTS[1]),
        (LEAVES[0][:-1], 0, 1, LEAVES[0][:-1]),
        (b"", 0, 1, b""),
        (LEAVES[0], 0, 1, ROOTS[1][:-1]),
    ],
)
def test_nonsense_is_not_included(leaf: bytes, index: int, size: int, root: bytes) -> None:
    assert includes(LEAVES[0], 0, 1, [], ROOTS[1])
    assert not includes(leaf, index, size, [], root)


def test_a_node_does_not_pass_for_a_leaf() -> None:
    """A tree of two nodes has the root of the four leaves below them; its size tells."""
    proof = inclusion_proof(LEAVES[:4], 0)
    node = node_hash(LEAVES[0], LEAVES[1])
    assert includes(node, 0, 2, proof[1:], ROOTS[4]), "under a false size; the size is signed with the root"
    assert not includes(node, 0, 4, proof[1:], ROOTS[4])


@pytest.mark.parametrize(("size", "index"), [(0, 0), (3, 3), (3, -1)])
def test_there_is_no_proof_for_what_is_not_there(size: int, index: int) -> None:
    with pytest.raises(ProofError, match=f"a tree of {size} entries has no entry {index}"):
        inclusion_proof(LEAVES[:size], index)


# ---------------------------------------------------------------------- consistency


def test_every_tree_is_shown_to_have_grown() -> None:
    for new in range(LARGEST + 1):
        for old in range(new + 1):
            proof = consistency_proof(LEAVES[:new], old)
            assert consistent(old, ROOTS[old], new, ROOTS[new], proof), (old, new)
            for other in range(LARGEST + 1):
                if other != old:
                    assert not consistent(old, ROOTS[other], new, ROOTS[new], proof), (old, new, other)
                if other != new and old > 0:
                    assert not consistent(old, ROOTS[old], new, ROOTS[other], proof), (old, new, other)


def test_no_tampered_consistency_proof_is_believed() -> None:
    tried = 0
    for new in range(LARGEST + 1):
        for old in range(new + 1):
            for wrong in tampered(consistency_proof(LEAVES[:new], old)):
                assert not consistent(old, ROOTS[old], new, ROOTS[new], wrong), (old, new, wrong)
                tried += 1
    assert tried > 20_000


def test_a_rewritten_tree_has_no_proof() -> None:
    """The best an imposter can do is the honest proof of the rewritten tree, or of the old one."""
    for new in range(2, LARGEST + 1):
        for old in range(1, new):
            rewritten = [leaf_hash(b"other"), *LEAVES[1:new]]
            for leaves in (rewritten, LEAVES[:new]):
                proof = consistency_proof(leaves, old)
                assert not consistent(old, ROOTS[old], new, root(rewritten), proof), (old, new)


@pytest.mark.parametrize(
    ("old", "old_root", "new", "new_root", "proof"),
    [
        (2, ROOTS[2], 1, ROOTS[1], []),
        (-1, ROOTS[0], 1, ROOTS[1], []),
        (0, ROOTS[1], 1, ROOTS[1], []),
        (0, ROOTS[1], 0, ROOTS[1], []),
        (0, ROOTS[0], 0, ROOTS[1], []),
        (0, ROOTS[0], 1, ROOTS[1], [ROOTS[1]]),
        (1, ROOTS[1], 1, ROOTS[1], [ROOTS[1]]),
        (1, ROOTS[1], 1, ROOTS[2], []),
        (1, b"", 1, b"", []),
        (3, ROOTS[3], 5, ROOTS[5], []),
        (2, ROOTS[2], 3, ROOTS[3], []),
    ],
)
def test_nonsense_is_not_consistent(old: int, old_root: bytes, new: int, new_root: bytes, proof: list[bytes]) -> None:
    assert not consistent(old, old_root, new, new_root, proof)


@pytest.mark.parametrize("old", [-1, 4])
def test_there_is_no_proof_of_a_size_it_never_had(old: int) -> None:
    with pytest.raises(ProofError, match=f"a tree of 3 entries never had {old}"):
        consistency_proof(LEAVES[:3], old)


# ---------------------------------------------------------------------- the frontier as it is kept


def test_a_frontier_is_written_and_read() -> None:
    frontier = Frontier.of(LEAVES[:6])
    assert frontier.as_dict() == {
        "size": 6,
        "frontier": [root(LEAVES[:4]).hex(), root(LEAVES[4:6]).hex()],
    }
    assert Frontier.from_dict(frontier.as_dict()) == frontier


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (None, "expected size and frontier"),
        ({"size": 1}, "expected size and frontier"),
        ({"size": 0, "frontier": [], "more": 1}, "expected size and frontier"),
        ({"size": True, "frontier": ["00" * 32]}, "expected a number and a list"),
        ({"size": 1.0, "frontier": ["00" * 32]}, "expected a number and a list"),
        ({"size": 0, "frontier": ()}, "expected a number and a list"),
        ({"size": 1, "frontier": [1]}, "1 is no hash"),
        ({"size": 1, "frontier": [None]}, "None is no hash"),
        ({"size": 1, "frontier": ["zz"]}, "'zz' is no hash"),
        ({"size": 1, "frontier": ["AB" * 32]}, "is no hash in hex"),
        ({"size": 1, "frontier": ["ab " * 32]}, "is no hash in hex"),
        ({"size": 1, "frontier": ["ab" * 31]}, "not of 32 bytes"),
        ({"size": 3, "frontier": ["ab" * 32]}, "of 3 entries has 1 hashes; expected 2"),
        ({"size": -1, "frontier": ["ab" * 32]}, "of -1 entries"),
    ],
)
def test_a_damaged_frontier_is_refused(values: object, reason: str) -> None:
    with pytest.raises(ProofError, match=reason):
        Frontier.from_dict(values)


def test_what_is_no_hash_is_not_appended() -> None:
    with pytest.raises(ProofError, match="not of 32 bytes"):
        Frontier().appended(b"short")
