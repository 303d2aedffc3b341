"""How a task travels to a worker and back: a JSON header and raw arrays, length-prefixed. No pickle.

Frame: 8 bytes length of the header (little-endian), the header, then the arrays' bytes one after another. Ids travel as
one array of bytes, joined by newlines, which no id can hold.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.execution.task import Result, Task

__all__ = [
    "Arrays",
    "Message",
    "pack_result",
    "pack_task",
    "read_message",
    "unpack_result",
    "unpack_task",
    "write_message",
]

Arrays = dict[str, NDArray[np.generic]]
Message = tuple[str, dict[str, object], Arrays]


def write_message(
    stream: BinaryIO, kind: str, meta: Mapping[str, object], arrays: Mapping[str, NDArray[np.generic]]
) -> None:
    """Send one message."""
    listing = [{"name": n, "dtype": a.dtype.str, "shape": list(a.shape)} for n, a in arrays.items()]
    header = json.dumps({"kind": kind, "meta": dict(meta), "arrays": listing}).encode()
    stream.write(len(header).to_bytes(8, "little"))
    stream.write(header)
    stream.writelines(np.ascontiguousarray(array).data.cast("B") if array.size else b"" for array in arrays.values())
    stream.flush()


def read_message(stream: BinaryIO) -> Message | None:
    """Receive one message; None when the other side has closed."""
    size = stream.read(8)
    if len(size) < 8:
        return None
    header = json.loads(_exactly(stream, int.from_bytes(size, "little")))
    arrays: Arrays = {}
    for spec in header["arrays"]:
        dtype, shape = np.dtype(spec["dtype"]), tuple(spec["shape"])
        array: NDArray[np.generic] = np.empty(shape, dtype=dtype)
        _fill(stream, array)
        arrays[spec["name"]] = array
    return header["kind"], header["meta"], arrays


def _fill(stream: BinaryIO, array: NDArray[np.generic]) -> None:
    """Read the bytes of an array to where they belong."""
    left = array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")
    whole = len(left)
    while left:
        n = stream.readinto(left)  # type: ignore[attr-defined]
        if not n:
            raise EOFError(f"the stream ended after {whole - len(left)} of {whole} bytes")
        left = left[n:]


def _exactly(stream: BinaryIO, n: int) -> bytes:
    data = stream.read(n)
    if len(data) < n:
        raise EOFError(f"the stream ended after {len(data)} of {n} bytes")
    return data


def pack_task(task: Task) -> tuple[dict[str, object], Arrays]:
    """Return a task as the header and the arrays of a message."""
    meta: dict[str, object] = {
        "kind": task.kind,
        "settings": dict(task.settings),
        "tables": list(task.tables),
        "ids": list(task.ids),
        "arrays": list(task.arrays),
    }
    arrays: Arrays = {f"array {name}": array for name, array in task.arrays.items()}
    arrays |= {f"ids {name}": _letters(ids) for name, ids in task.ids.items()}
    for name, rows in task.tables.items():
        arrays |= {f"table {name} users": _letters(rows.users), f"table {name} items": _letters(rows.items)}
        arrays |= {f"table {name} user_index": rows.user_index, f"table {name} item_index": rows.item_index}
    return meta, arrays


def unpack_task(meta: Mapping[str, object], arrays: Arrays) -> Task:
    """Return the task that `pack_task` packed."""
    settings = meta["settings"]
    assert isinstance(settings, dict)
    return Task(
        kind=str(meta["kind"]),
        settings=settings,
        tables={name: _table(name, arrays) for name in _names(meta, "tables")},
        ids={name: _ids(arrays[f"ids {name}"]) for name in _names(meta, "ids")},
        arrays={name: arrays[f"array {name}"] for name in _names(meta, "arrays")},
    )


def pack_result(result: Result) -> tuple[dict[str, object], Arrays]:
    """Return a result as the header and the arrays of a message."""
    arrays: Arrays = {f"array {name}": array for name, array in result.arrays.items()}
    arrays |= {f"ids {name}": _letters(ids) for name, ids in result.ids.items()}
    names = {"ids": list(result.ids), "arrays": list(result.arrays)}
    return {"facts": dict(result.facts), "seconds": result.seconds, **names}, arrays


def unpack_result(meta: Mapping[str, object], arrays: Arrays) -> Result:
    """Return the result that `pack_result` packed."""
    facts = meta["facts"]
    assert isinstance(facts, dict)
    return Result(
        arrays={name: arrays[f"array {name}"] for name in _names(meta, "arrays")},
        ids={name: _ids(arrays[f"ids {name}"]) for name in _names(meta, "ids")},
        facts=facts,
        seconds=float(str(meta["seconds"])),
    )


def _table(name: str, arrays: Arrays) -> Interactions:
    """Return a table; it was in canonical order when it was sent, which is checked."""
    return Interactions(
        _ids(arrays[f"table {name} users"]),
        _ids(arrays[f"table {name} items"]),
        np.asarray(arrays[f"table {name} user_index"], dtype=np.int32),
        np.asarray(arrays[f"table {name} item_index"], dtype=np.int32),
    )


def _names(meta: Mapping[str, object], key: str) -> list[str]:
    names = meta[key]
    assert isinstance(names, list)
    return [str(name) for name in names]


def _letters(ids: IdMap) -> NDArray[np.uint8]:
    return np.frombuffer(ids.text, dtype=np.uint8)


def _ids(letters: NDArray[np.generic]) -> IdMap:
    return IdMap.from_text(letters.tobytes())
