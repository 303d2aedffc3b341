from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from receraser import fingerprint
from receraser.data.interactions import Interactions

PAIRS = st.lists(st.tuples(st.sampled_from(["a", "b", "ab", "é"]), st.sampled_from(["a", "b", "c", "bc"])), max_size=8)


def test_known_answers() -> None:
    """Every published digest rests on these: they may never change."""
    assert fingerprint.of_bytes(b"") == hashlib.sha256(b"").hexdigest()
    rows = Interactions.from_pairs([("u", "a"), ("u", "b"), ("v", "a")])
    assert fingerprint.of_rows(rows) == ROWS
    assert fingerprint.of_settings({"dim": 64, "model": "wmf"}) == SETTINGS
    assert fingerprint.of_tensors({"P": np.arange(6, dtype=np.float32).reshape(2, 3)}) == TENSORS


ROWS = "d9356da1708948020836b5646d144c1caf6af1057aaa38d4a387cacbe4081e95"
SETTINGS = "bd95cd906112e9a4da6d6b159ccb91212a985d27c79d1ce311e933ba9051886b"
TENSORS = "0eb8e613339a97ce764486e9c90ddce3b59e21a61077f1c236cbedf51c731cc9"


@given(PAIRS, PAIRS)
def test_rows_have_equal_digests_exactly_when_they_are_equal(
    some: list[tuple[str, str]], others: list[tuple[str, str]]
) -> None:
    one, other = Interactions.from_pairs(some), Interactions.from_pairs(others)
    assert (fingerprint.of_rows(one) == fingerprint.of_rows(other)) == (set(some) == set(others))


def test_timestamps_are_no_part_of_the_rows_digest() -> None:
    timed = Interactions.from_columns(["u"], ["a"], timestamps=[1.0])
    assert fingerprint.of_rows(timed) == fingerprint.of_rows(Interactions.from_pairs([("u", "a")]))


def test_canonical_json_is_sorted_compact_utf8_and_finite() -> None:
    assert fingerprint.canonical_json({"é": 1, "b": {"z": 0.1, "a": None}}) == '{"b":{"a":null,"z":0.1},"é":1}'.encode()
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="JSON"):
            fingerprint.canonical_json({"x": bad})


def test_settings_do_not_depend_on_the_order_of_keys() -> None:
    assert fingerprint.of_settings({"a": 1, "b": 2}) == fingerprint.of_settings({"b": 2, "a": 1})
    assert fingerprint.of_settings({"a": 1}) != fingerprint.of_settings({"a": "1"})


def test_tensors_differ_by_name_type_shape_and_content() -> None:
    base = np.arange(6, dtype=np.float32)
    different: list[fingerprint.Tensors] = [
        {"P": base},
        {"Q": base},
        {"P": base.astype(np.float64)},
        {"P": base.view(np.int32)},
        {"P": base.reshape(2, 3)},
        {"P": base.reshape(3, 2)},
        {"P": base + 1},
        {"P": base, "Q": base},
        {"P": np.array([0.0, *base[1:-1], 5.0], dtype=np.float32) * np.float32(-1)},
    ]
    assert len({fingerprint.of_tensors(tensors) for tensors in different}) == len(different)


def test_tensors_do_not_depend_on_memory_layout_byte_order_or_dict_order() -> None:
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    same: list[fingerprint.Tensors] = [
        {"P": table, "Q": table + 1},
        {"Q": table + 1, "P": table},
        {"P": np.asfortranarray(table), "Q": table + 1},
        {"P": table.astype(">f4"), "Q": table + 1},
        {"P": np.repeat(table, 2, axis=1)[:, ::2], "Q": table + 1},
    ]
    assert len({fingerprint.of_tensors(tensors) for tensors in same}) == 1


def test_minus_zero_is_not_zero_here() -> None:
    """Digests are of bits: two weights that compare equal but differ in bits are told apart."""
    assert fingerprint.of_tensors({"P": np.array([0.0])}) != fingerprint.of_tensors({"P": np.array([-0.0])})


def test_kinds_of_content_do_not_collide() -> None:
    """The same bytes as settings, as parts and as plain bytes have different digests."""
    assert len({fingerprint.of_settings({}), fingerprint.combine({}), fingerprint.of_tensors({})}) == 3


def test_combine_keeps_names_and_digests_apart() -> None:
    assert fingerprint.combine({"a": "1", "b": "2"}) == fingerprint.combine({"b": "2", "a": "1"})
    assert fingerprint.combine({"a": "12"}) != fingerprint.combine({"a1": "2"})
    assert fingerprint.combine({"a": "1", "b": "2"}) != fingerprint.combine({"a": "2", "b": "1"})


def test_each_tensor_has_the_digest_that_it_has_alone() -> None:
    """Of many sizes, so that those hashed side by side are ready in another order."""
    tensors = {f"t{n}": np.full(n, n, dtype=np.float32) for n in (200_000, 1, 50_000, 0, 7, 100_000)}
    assert fingerprint.of_each(tensors) == {name: fingerprint.of_tensors({name: tensors[name]}) for name in tensors}
    assert list(fingerprint.of_each(tensors)) == list(tensors)
