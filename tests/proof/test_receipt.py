from __future__ import annotations

import json
from dataclasses import replace

import pytest

from receraser.errors import ProofError
from receraser.fingerprint import canonical_json
from receraser.proof import merkle
from receraser.proof.certificate import Certificate
from receraser.proof.receipt import Receipt, receipts_of
from tests.proof.examples import changed, sha
from tests.proof.test_certificate import others, places, put

SUBJECTS = [("user", "u7"), ("item", "f3"), ("interaction", "u1", "f9")]


def certificate(root: str | None, users: int = 1, items: int = 1, interactions: int = 1) -> Certificate:
    counts = {"users": users, "items": items, "interactions": interactions}
    return changed(request={**counts, "unknown": 0, "subjects_root": root})


def test_everybody_who_asked_recognises_their_certificate() -> None:
    root, receipts = receipts_of(SUBJECTS)
    one = certificate(root)
    assert [(receipt.kind, *receipt.names) for receipt in receipts] == SUBJECTS
    for receipt in receipts:
        assert receipt.is_whole
        assert receipt.subjects_root == root
        assert receipt.matches(one)
        assert Receipt.parse(receipt.payload()) == receipt


def test_and_no_other() -> None:
    """The same subjects in two certificates: other commitments, another root."""
    (root, receipts), (other_root, other_receipts) = receipts_of(SUBJECTS), receipts_of(SUBJECTS)
    assert root != other_root
    assert not set(leaves(receipts)) & set(leaves(other_receipts))
    assert not any(receipt.matches(certificate(other_root)) for receipt in receipts)
    nothing = changed(
        request={"users": 0, "items": 0, "interactions": 0, "unknown": 0, "subjects_root": None},
    )
    assert not any(receipt.matches(nothing) for receipt in receipts)
    assert not any(receipt.matches(certificate(root, users=2)) for receipt in receipts), "as many leaves as subjects"


def leaves(receipts: list[Receipt]) -> list[bytes]:
    return [receipt._leaf() for receipt in receipts]


@pytest.mark.parametrize("size", [*range(1, 18), 31, 32, 33, 100])
def test_paths_are_those_of_the_tree(size: int) -> None:
    root, receipts = receipts_of([("user", f"u{n}") for n in range(size)])
    ordered = leaves(sorted(receipts, key=lambda receipt: receipt.index))
    assert root == merkle.root(ordered).hex()
    for receipt in receipts:
        assert receipt.path == [one.hex() for one in merkle.inclusion_proof(ordered, receipt.index)]
        assert receipt.leaves == size


def test_a_large_batch_takes_no_minutes() -> None:
    root, receipts = receipts_of([("user", f"u{n}") for n in range(5_000)])
    assert receipts[-1].matches(certificate(root, users=5_000, items=0, interactions=0))


def test_no_subjects_no_root() -> None:
    assert receipts_of([]) == (None, [])


def test_the_order_of_the_leaves_tells_nothing() -> None:
    orders = {tuple(receipt.index for receipt in receipts_of(SUBJECTS)[1]) for _ in range(200)}
    assert len(orders) == 6, "all orders of three occur"


def test_whatever_is_changed_in_a_receipt_it_no_longer_fits() -> None:
    root, receipts = receipts_of(SUBJECTS)
    one, tried = certificate(root), 0
    for receipt in receipts:  # leaves at every place
        document = json.loads(receipt.payload())
        for at, value in places(document):
            for other in others(value):
                tried += 1
                try:
                    read = Receipt.parse(canonical_json(put(document, at, other)))
                except ProofError:
                    continue
                assert read != receipt
                assert not read.is_whole or at == ("leaves",), (at, other)
                assert not read.matches(one), (at, other)
    assert tried > 300


def test_a_name_that_was_not_asked_for_does_not_fit() -> None:
    root, receipts = receipts_of(SUBJECTS)
    assert not replace(receipts[0], names=["u8"]).matches(certificate(root))
    assert not replace(receipts[0], kind="item").matches(certificate(root))
    assert not replace(receipts[2], names=["f9", "u1"]).matches(certificate(root))
    assert not replace(receipts[0], subjects_root=sha("another")).matches(certificate(sha("another")))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "film"}, "the receipt's field kind is 'film'; expected one of user, item, interaction"),
        ({"names": []}, "field names is .*; expected one name, or for an interaction the user's and the item's"),
        ({"kind": "interaction"}, "field names is .*; expected one name, or for an interaction"),
        ({"nonce": "00"}, "field nonce is '00'; expected 64 hexadecimal digits"),
        ({"index": 3}, "field index is 3; expected a leaf of 3, counted from 0"),
        ({"path": ["x"]}, r"field path\[0\] is 'x'; expected 64 hexadecimal digits"),
        ({"subjects_root": "x"}, "field subjects_root is 'x'; expected 64 hexadecimal digits"),
        ({"subjects_root": None}, "field subjects_root is None; expected 64 hexadecimal digits"),
        ({"type": "urn:other"}, "field type is 'urn:other'; expected one of urn:receraser:receipt:v2"),
        ({"more": 1}, "the receipt has the key 'more'; expected exactly: type, subjects_root"),
    ],
)
def test_a_receipt_that_is_none(changes: dict[str, object], message: str) -> None:
    _, receipts = receipts_of(SUBJECTS)
    document = json.loads(receipts[0].payload()) | changes
    with pytest.raises(ProofError, match=message):
        Receipt.parse(canonical_json(document))


def test_it_shows_no_names_where_it_is_shown() -> None:
    _, receipts = receipts_of(SUBJECTS)
    assert "u7" not in f"{receipts[0]} {receipts[0]!r} {receipts}"
    assert receipts[0].nonce not in repr(receipts)


def test_a_subject_of_no_known_kind_is_refused() -> None:
    with pytest.raises(ProofError, match="field kind is 'film'"):
        receipts_of([("film", "f3")])
