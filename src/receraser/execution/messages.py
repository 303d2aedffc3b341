"""How a task travels to a worker and back: a JSON header and raw arrays, length-prefixed. No pickle.

Frame: 8 bytes length of the header (little-endian), the header, then the arrays' bytes one after another. Ids travel as
one array of bytes, joined by newlines, which no id can hold.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from receraser.data.interactions import Interactions

__all__ = ["Message", "pack_rows", "read_message", "unpack_rows", "write_message"]

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
        count = int(np.prod(shape, dtype=np.int64))
        data = _exactly(stream, count * dtype.itemsize)
        arrays[spec["name"]] = np.frombuffer(data, dtype=dtype).reshape(shape).copy()
    return header["kind"], header["meta"], arrays


def _exactly(stream: BinaryIO, n: int) -> bytes:
    data = stream.read(n)
    if len(data) < n:
        raise EOFError(f"the stream ended after {len(data)} of {n} bytes")
    return data


def pack_rows(name: str, rows: Interactions) -> Arrays:
    """Return a table as arrays."""
    return {
        f"{name}.users": _joined(rows.users.ids),
        f"{name}.items": _joined(rows.items.ids),
        f"{name}.user_index": rows.user_index,
        f"{name}.item_index": rows.item_index,
    }


def unpack_rows(name: str, arrays: Mapping[str, NDArray[np.generic]]) -> Interactions:
    """Return the table that `pack_rows` packed."""
    return Interactions.from_indices(
        _split(arrays[f"{name}.users"]),
        _split(arrays[f"{name}.items"]),
        np.asarray(arrays[f"{name}.user_index"], dtype=np.int32),
        np.asarray(arrays[f"{name}.item_index"], dtype=np.int32),
    )


def _joined(ids: Sequence[str]) -> NDArray[np.uint8]:
    return np.frombuffer("\n".join(ids).encode(), dtype=np.uint8)


def _split(joined: NDArray[np.generic]) -> list[str]:
    text = joined.tobytes().decode()
    return text.split("\n") if text else []
