from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

from receraser.data.interactions import Interactions
from receraser.errors import StoreError
from receraser.fingerprint import Tensors
from receraser.store import encoding
from receraser.store.encoding import (
    decode_rows,
    decode_tensors,
    decode_titles,
    encode_rows,
    encode_tensors,
    encode_titles,
)

ROWS = Interactions.from_pairs([("9", "10"), ("10", "9"), ("09", "9.0"), ("日本", "ü"), ("9", "a b"), ("10", "10")])


@pytest.mark.parametrize("rows", [ROWS, Interactions.empty(), ROWS.take(np.array([2]))], ids=["some", "none", "one"])
def test_rows_come_back_as_they_were(rows: Interactions) -> None:
    assert decode_rows(encode_rows(rows)) == rows


def test_rows_of_several_chunks_come_back() -> None:
    """As large tables are written: in row groups, each with a dictionary of its own when read back."""
    rows = Interactions.from_pairs([(f"u{u}", f"i{(u * 7 + n) % 90}") for u in range(300) for n in range(4)])
    with patch.object(encoding, "_ROW_GROUP", 100):
        assert decode_rows(encode_rows(rows)) == rows


def test_equal_content_is_equal_bytes() -> None:
    assert encode_rows(ROWS) == encode_rows(Interactions.from_pairs(reversed(list(ROWS.pairs()))))
    assert encode_titles({"a": "1", "b": "2"}) == encode_titles({"b": "2", "a": "1"})
    one = {"p": np.zeros((2, 3), dtype=np.float32), "q": np.ones(4, dtype=np.float32)}
    assert encode_tensors(one) == encode_tensors(dict(reversed(one.items())))


def test_many_rows_take_little_room() -> None:
    rows = Interactions.from_pairs([(f"{u:032x}", f"item{i}") for u in range(50) for i in range(40)])
    assert len(encode_rows(rows)) < 16 * len(rows)


def test_titles_come_back() -> None:
    titles = {"9": "Alien, the first", "10": 'Say "ü"', "日本": "日本"}
    assert decode_titles(encode_titles(titles)) == titles
    assert decode_titles(encode_titles({})) == {}


def test_tensors_come_back_bit_for_bit() -> None:
    tensors: Tensors = {
        "user_vectors": np.array([[1.5, -0.0], [np.float32(1e-45), 3.0]], dtype=np.float32),
        "empty": np.zeros((0, 4), dtype=np.float32),
        "counts": np.arange(5, dtype=np.int64),
    }
    found = decode_tensors(encode_tensors(tensors))
    assert set(found) == set(tensors)
    for name, array in tensors.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()


def test_a_view_is_stored_as_what_it_shows() -> None:
    table = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert decode_tensors(encode_tensors({"t": table.T}))["t"].tolist() == table.T.tolist()


@pytest.mark.parametrize("data", [b"", b"nothing of the kind", b"PAR1" + bytes(40) + b"PAR1"])
def test_what_is_no_table_is_refused(data: bytes) -> None:
    with pytest.raises(StoreError, match="a table of the store cannot be read"):
        decode_rows(data)
    with pytest.raises(StoreError, match="a table of the store cannot be read"):
        decode_titles(data)


def test_a_table_of_other_columns_is_refused() -> None:
    with pytest.raises(StoreError, match="a table of the store cannot be read"):
        decode_rows(encode_titles({"a": "b"}))


@pytest.mark.parametrize("data", [b"", b"x" * 100, bytes(100)])
def test_what_are_no_tensors_is_refused(data: bytes) -> None:
    with pytest.raises(StoreError, match="the weights cannot be read"):
        decode_tensors(data)


@pytest.mark.parametrize("encoded", [encode_rows(ROWS), encode_titles({"a": "b"}), encode_tensors({"a": np.ones(3)})])
def test_nothing_is_pickled(encoded: bytes) -> None:
    assert encoded[:4] == b"PAR1" or encoded[8:9] == b"{"  # Parquet, or safetensors: a length and a JSON header
