from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.errors import StoreError
from receraser.fingerprint import Tensors
from receraser.partition.partition import Landmarks
from receraser.store import encoding
from receraser.store.encoding import (
    decode_assigned,
    decode_landmarks,
    decode_rows,
    decode_tensors,
    decode_titles,
    encode_assigned,
    encode_landmarks,
    encode_rows,
    encode_tensors,
    encode_titles,
    tensor_pieces,
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


def test_a_table_has_no_statistics() -> None:
    """They would repeat ids, and take longer to find than the rows take to write."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(pa.BufferReader(encode_rows(ROWS))) as file:
        group = file.metadata.row_group(0)
    assert [group.column(n).statistics for n in range(group.num_columns)] == [None, None]


@pytest.mark.parametrize("rows", [ROWS, Interactions.empty(), ROWS.take(np.array([2]))], ids=["some", "none", "one"])
def test_rows_come_back_with_their_shards(rows: Interactions) -> None:
    shards = np.arange(len(rows), dtype=np.int32)[::-1].copy()
    found, of_rows = decode_assigned(encode_assigned(rows, shards))
    assert found == rows
    assert of_rows.dtype == np.int32
    assert of_rows.tolist() == shards.tolist()
    assert decode_rows(encode_assigned(rows, shards)) == rows, "or without them"


def test_rows_that_stand_twice_are_refused() -> None:
    """They would have two shards."""
    with pytest.raises(ValueError, match="a row stands twice"):
        decode_assigned(assigned([("a", "x"), ("b", "x"), ("a", "x")], [0, 1, 2]))


def test_shards_stay_with_their_rows_in_whatever_order_these_are() -> None:
    pairs = [*ROWS.pairs()][::-1]
    shards = list(range(len(pairs)))
    rows, found = decode_assigned(assigned(pairs, shards))
    assert rows == ROWS
    assert dict(zip(rows.pairs(), found.tolist(), strict=True)) == dict(zip(pairs, shards, strict=True))


def assigned(pairs: list[tuple[str, str]], shards: list[int]) -> bytes:
    """A table as another program might write it."""
    import pyarrow as pa

    columns = {
        name: pa.array([pair[place] for pair in pairs]).dictionary_encode()
        for place, name in enumerate(("user", "item"))
    }
    return encoding._parquet(pa.table(columns | {"shard": pa.array(shards, pa.int32())}))


THREADS = """
import os
from receraser.data.interactions import Interactions
from receraser.store.encoding import decode_rows, encode_rows
data = encode_rows(Interactions.from_pairs([("u", "a"), ("v", "b")]))
before = len(os.listdir("/proc/self/task"))
decode_rows(data)
print(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="there is no /proc here")
def test_reading_starts_no_threads() -> None:
    """A process that ends while pyarrow's threads are starting is aborted, however well its work was done."""
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"


@pytest.mark.parametrize("ids", [["b", "a", "日本", "9 9"], ["one"], []], ids=["some", "one", "none"])
def test_landmarks_come_back(ids: list[str]) -> None:
    rng = np.random.default_rng(1)
    marks = Landmarks(rng.normal(size=(3, 4)), IdMap(ids), rng.normal(size=(len(ids), 2)).astype(np.float32))
    found = decode_landmarks(encode_landmarks(marks))
    assert found.ids == marks.ids
    for name, array in marks.tensors().items():
        assert found.tensors()[name].dtype == array.dtype
        assert found.tensors()[name].tobytes() == array.tobytes()
        assert found.tensors()[name].shape == array.shape


def test_landmarks_without_width() -> None:
    """As label propagation keeps them: labels of items, and no anchors."""
    marks = Landmarks(np.empty((3, 0)), IdMap(["a"]), np.ones((1, 1), dtype=np.float32))
    assert decode_landmarks(encode_landmarks(marks)).anchors.shape == (3, 0)


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


@pytest.mark.parametrize("item", ["", "c\n", "c\nd", "\n"])
@pytest.mark.parametrize("exact", [False, True])
def test_an_id_that_would_be_two_or_none_is_refused(item: str, exact: bool) -> None:
    """In a text of all ids it could not be told from others."""
    rows = Interactions.from_pairs([("u", "a"), ("u", "b")])
    made = IdMap.ascending(sorted(["a", item]))
    with pytest.raises(ValueError, match="an id is empty or holds a line break"):
        decode_rows(encode_rows(Interactions(rows.users, made, rows.user_index, rows.item_index)), exact=exact)


@pytest.mark.parametrize("data", [b"", b"x" * 100, bytes(100)])
def test_what_are_no_tensors_is_refused(data: bytes) -> None:
    with pytest.raises(StoreError, match="the weights cannot be read"):
        decode_tensors(data)


@pytest.mark.parametrize(
    "tensors",
    [
        {},
        {"node.1.0": np.arange(12, dtype=np.float32).reshape(3, 4)},
        {"user_vectors": np.ones((2, 3), dtype=np.float32), "item_vectors": np.zeros((5, 3), dtype=np.float32)},
        {"node.1.0.items": np.frombuffer(b"a\nb", dtype=np.uint8)},
        {"mixed": np.ones(3), "kinds": np.ones(3, dtype=np.int64)},
        {"turned": np.arange(6, dtype=np.int32).reshape(2, 3).T},
        {"empty": np.zeros((0, 4), dtype=np.float32)},
        {'odd "name"': np.ones(2)},
        {"b": np.ones(1, dtype=np.float16)},
    ],
)
def test_pieces_are_what_the_library_writes(tensors: dict[str, np.ndarray]) -> None:
    assert b"".join(tensor_pieces(tensors)) == encode_tensors(tensors)


@pytest.mark.parametrize("encoded", [encode_rows(ROWS), encode_titles({"a": "b"}), encode_tensors({"a": np.ones(3)})])
def test_nothing_is_pickled(encoded: bytes) -> None:
    assert encoded[:4] == b"PAR1" or encoded[8:9] == b"{"  # Parquet, or safetensors: a length and a JSON header
