from __future__ import annotations

import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from receraser.data.interactions import Interactions
from receraser.execution.messages import Arrays, pack_rows, read_message, unpack_rows, write_message
from tests.contracts.worlds import edges, random_rows

ARRAYS: dict[str, NDArray[np.generic]] = {
    "floats": np.array([[1.5, -0.0, np.inf], [np.nan, 1e-45, 3.4e38]], dtype=np.float32),
    "wide": np.arange(6, dtype=np.int64).reshape(1, 2, 3),
    "flags": np.array([True, False]),
    "nothing": np.empty((0, 4), dtype=np.float32),
    "one": np.array(7.0),
    "strided": np.arange(10, dtype=np.int32)[::3],
    "transposed": np.arange(6, dtype=np.float64).reshape(2, 3).T,
    "big-endian": np.arange(3, dtype=">i4"),
}


def sent(*messages: tuple[str, dict[str, object], dict[str, NDArray[np.generic]]]) -> bytes:
    stream = io.BytesIO()
    for message in messages:
        write_message(stream, *message)
    return stream.getvalue()


def test_messages_arrive_one_after_the_other_as_they_were_sent() -> None:
    meta: dict[str, object] = {"text": "é\n\x00", "number": 1.5, "nested": {"list": [1, None, True]}}
    stream = io.BytesIO(sent(("fit", meta, ARRAYS), ("empty", {}, {}), ("last", {"n": 1}, {"a": np.zeros(2)})))
    first = read_message(stream)
    assert first is not None
    kind, got, arrays = first
    assert (kind, got) == ("fit", meta)
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert arrays[name].shape == array.shape
        assert arrays[name].tobytes() == array.tobytes()
        assert arrays[name].flags.writeable
    assert read_message(stream) == ("empty", {}, {})
    last = read_message(stream)
    assert last is not None
    assert last[0] == "last"
    assert read_message(stream) is None


def test_the_frame_is_what_the_docstring_says() -> None:
    data = sent(("fit", {"a": 1}, {"x": np.array([1, 2], dtype="<i2")}))
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    assert header == {"kind": "fit", "meta": {"a": 1}, "arrays": [{"name": "x", "dtype": "<i2", "shape": [2]}]}
    assert data[8 + size :] == b"\x01\x00\x02\x00"


def test_a_stream_that_ends_between_messages_has_ended_and_one_that_ends_within_has_broken() -> None:
    data = sent(("fit", {"a": 1}, {"x": np.arange(4)}))
    for cut in range(8):
        assert read_message(io.BytesIO(data[:cut])) is None
    for cut in range(8, len(data)):
        with pytest.raises(EOFError, match="the stream ended after"):
            read_message(io.BytesIO(data[:cut]))


@pytest.mark.parametrize("name", edges())
def test_tables_travel(name: str) -> None:
    rows = edges()[name]
    stream = io.BytesIO(sent(("x", {}, {**pack_rows("train", rows), **pack_rows("valid", random_rows(5, 5, 0.5, 1))})))
    message = read_message(stream)
    assert message is not None
    arrays: Arrays = message[2]
    assert unpack_rows("train", arrays) == rows
    assert unpack_rows("valid", arrays) == random_rows(5, 5, 0.5, 1)


IDS = st.sampled_from(["a", "b", "9", "09", "é", "\U0001f600", "a b", "\uff41", "'", '"', "\\n"])


@given(st.lists(st.tuples(IDS, IDS), max_size=20))
def test_ids_of_any_script_travel(pairs: list[tuple[str, str]]) -> None:
    rows = Interactions.from_pairs(pairs)
    assert unpack_rows("t", pack_rows("t", rows)) == rows
