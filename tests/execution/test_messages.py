from __future__ import annotations

import io
import json
import os
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from receraser import fingerprint
from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.execution.messages import (
    Arrays,
    _fill,
    pack_result,
    pack_task,
    read_message,
    unpack_result,
    unpack_task,
    write_message,
)
from receraser.execution.task import Result, Task, submodel_task
from receraser.fingerprint import Tensors
from tests.contracts.executor_contract import tasks
from tests.contracts.worlds import checkerboard, edges, random_rows

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


class Dribbling(io.RawIOBase):
    """A stream that gives three bytes at a time, as a pipe may, until there are no more."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        n = min(3, len(buffer), len(self._data))
        buffer[:n], self._data = self._data[:n], self._data[n:]
        return n


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_is_filled_however_little_comes_at_a_time(name: str) -> None:
    data, found = ARRAYS[name].tobytes(), np.empty_like(ARRAYS[name], order="C")
    stream = Dribbling(data + b"the next one")
    _fill(stream, found)  # type: ignore[arg-type]
    assert found.tobytes() == data
    assert stream.read(3) == b"the", "and nothing more is taken"


@pytest.mark.parametrize("there", [0, 1, 3, 8, 31])
def test_an_array_that_ends_in_the_middle_says_where(there: int) -> None:
    array = np.arange(4, dtype=np.int64)
    for stream in (Dribbling(array.tobytes()[:there]), io.BytesIO(array.tobytes()[:there])):
        with pytest.raises(EOFError, match=f"^the stream ended after {there} of 32 bytes$"):
            _fill(stream, np.empty_like(array))  # type: ignore[arg-type]


def test_a_pipe_whose_other_end_breaks_off() -> None:
    """An array larger than any pipe holds, of which a part arrives."""
    array = np.arange(2**19, dtype=np.int64)
    data = sent(("result", {}, {"x": array}))
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as out:
            out.write(data[:-5])

    thread = threading.Thread(target=write)
    thread.start()
    with (
        os.fdopen(reading, "rb") as stream,
        pytest.raises(EOFError, match=f"^the stream ended after {2**22 - 5} of {2**22} bytes$"),
    ):
        read_message(stream)
    thread.join()


# ---------------------------------------------------------------------- tasks and results


def travelled(meta: dict[str, object], arrays: Arrays) -> tuple[dict[str, object], Arrays]:
    """What comes out of the pipe on the other side."""
    message = read_message(io.BytesIO(sent(("task", meta, arrays))))
    assert message is not None
    return message[1], message[2]


def same_arrays(found: Tensors, expected: Tensors) -> bool:
    return list(found) == list(expected) and fingerprint.of_tensors(found) == fingerprint.of_tensors(expected)


@pytest.mark.parametrize("task", tasks(), ids=lambda task: task.kind)
def test_tasks_of_every_kind_travel(task: Task) -> None:
    found = unpack_task(*travelled(*pack_task(task)))
    assert found.kind == task.kind
    assert found.settings == task.settings
    assert found.tables == task.tables
    assert found.ids == task.ids
    assert same_arrays(found.arrays, task.arrays)
    json.dumps(pack_task(task)[0], allow_nan=False)


def test_a_task_is_packed_with_all_that_it_depends_on() -> None:
    world = checkerboard()
    meta, arrays = pack_task(submodel_task("bpr", {"dim": 4}, 2**63, world.train, world.held_out))
    assert meta == {
        "kind": "submodel",
        "settings": {"model": "bpr", "hyperparameters": {"dim": 4}, "seed": 2**63},
        "tables": ["train", "valid"],
        "ids": [],
        "arrays": [],
    }
    assert len(arrays) == 8
    meta, arrays = pack_task(submodel_task("bpr", {"dim": 4}, 1, world.train))
    assert meta["tables"] == ["train"]
    assert len(arrays) == 4


@pytest.mark.parametrize("name", edges())
def test_tables_travel(name: str) -> None:
    rows, other = edges()[name], random_rows(5, 5, 0.5, 1)
    task = Task("submodel", {}, {"train": rows, "valid": other, "more": Interactions.empty()})
    found = unpack_task(*travelled(*pack_task(task)))
    assert found.tables == {"train": rows, "valid": other, "more": Interactions.empty()}


def test_results_travel() -> None:
    ids = {"landmarks": IdMap(["b", "a", "é"]), "none": IdMap([])}
    result = Result(ARRAYS, ids, {"epochs": 3, "validation": [[1, 0.5]], "weights": [0.25]}, 1.5)
    found = unpack_result(*travelled(*pack_result(result)))
    assert same_arrays(found.arrays, ARRAYS)
    assert found.ids == ids
    assert found.facts == result.facts
    assert found.seconds == 1.5
    nothing = unpack_result(*travelled(*pack_result(Result({}, {}, {}, 0.0))))
    assert (nothing.arrays, nothing.ids, nothing.facts, nothing.seconds) == ({}, {}, {}, 0.0)


IDS = st.sampled_from(["a", "b", "9", "09", "é", "\U0001f600", "a b", "\uff41", "'", '"', "\\n"])


@given(st.lists(st.tuples(IDS, IDS), max_size=20))
def test_ids_of_any_script_travel(pairs: list[tuple[str, str]]) -> None:
    rows = Interactions.from_pairs(pairs)
    task = Task("submodel", {}, {"t": rows}, {"users": rows.users})
    found = unpack_task(*pack_task(task))
    assert found.tables == {"t": rows}
    assert found.ids == {"users": rows.users}
