"""Rows and titles as Parquet, tensors as safetensors: bytes in, bytes out. No pickle anywhere."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.errors import StoreError
from receraser.fingerprint import Tensors
from receraser.partition.partition import Landmarks

__all__ = [
    "decode_assigned",
    "decode_landmarks",
    "decode_rows",
    "decode_tensors",
    "decode_titles",
    "encode_assigned",
    "encode_landmarks",
    "encode_rows",
    "encode_tensors",
    "encode_titles",
    "tensor_pieces",
]

_ROW_GROUP = 1024 * 1024
_KINDS = {"<f4": "F32", "<f8": "F64", "<i4": "I32", "<i8": "I64", "|u1": "U8"}  # safetensors' names


def encode_rows(rows: Interactions) -> bytes:
    """Return a table as Parquet: two dictionary-encoded text columns, in canonical order."""
    import pyarrow as pa

    return _parquet(pa.table(_columns(rows)))


def encode_assigned(rows: Interactions, shards: NDArray[np.int32]) -> bytes:
    """Return a table as Parquet, with the shard of every row."""
    import pyarrow as pa

    return _parquet(pa.table(_columns(rows) | {"shard": pa.array(shards, pa.int32())}))


def decode_assigned(data: bytes) -> tuple[Interactions, NDArray[np.int32]]:
    """Return the table and the shards that `encode_assigned` wrote; the rows may be in any order."""
    shards = _table(data, ("shard",)).column("shard").to_numpy().astype(np.int32)
    return Interactions.labelled(*_indices(data), shards)


def _columns(rows: Interactions) -> dict[str, object]:
    import pyarrow as pa

    return {
        name: pa.DictionaryArray.from_arrays(pa.array(index, pa.int32()), pa.array(list(ids), pa.string()))
        for name, index, ids in (
            ("user", rows.user_index, rows.users.ids),
            ("item", rows.item_index, rows.items.ids),
        )
    }


def decode_rows(data: bytes, *, exact: bool = False) -> Interactions:
    """Return the table that `encode_rows` wrote.

    `exact`: what rides along is refused: another column, metadata, an id that no row has, a row that stands twice.
    """
    users, items, user_index, item_index = _indices(data, exact=exact)
    if users == sorted(set(users)) and items == sorted(set(items)):
        ids = IdMap.ascending(users), IdMap.ascending(items)
        with contextlib.suppress(ValueError):  # else in another order than ours, or worse
            return Interactions(*ids, user_index.astype(np.int32), item_index.astype(np.int32))
    made = Interactions.from_indices(users, items, user_index, item_index)
    if exact and (len(made.users), len(made.items)) != (len(users), len(items)):
        raise ValueError("its dictionary holds an id that no row has, or one twice")
    if exact and len(made) != len(user_index):
        raise ValueError("a row stands twice")
    return made


def _indices(
    data: bytes, *, exact: bool = False
) -> tuple[list[str], list[str], NDArray[np.integer], NDArray[np.integer]]:
    """Return the users, the items and the indices into them that a Parquet table holds."""
    table = _table(data, ("user", "item"), exact=exact)
    parts = []
    for name in ("user", "item"):
        encoded = table.column(name).unify_dictionaries().combine_chunks()
        if encoded.null_count or encoded.dictionary.null_count:
            raise ValueError(f"a {name} is missing")
        parts.append((encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False)))
    (users, user_index), (items, item_index) = parts
    for ids in (users, items):
        if "" in ids or "\n" in "".join(ids):
            raise ValueError("an id is empty or holds a line break")
    return users, items, user_index, item_index


def encode_titles(titles: Mapping[str, str]) -> bytes:
    """Return titles by item as Parquet."""
    import pyarrow as pa

    items = sorted(titles)
    return _parquet(pa.table({"item": items, "title": [titles[item] for item in items]}))


def decode_titles(data: bytes, *, exact: bool = False) -> dict[str, str]:
    """Return the titles that `encode_titles` wrote; `exact`: and nothing rides along."""
    table = _table(data, ("item", "title"), exact=exact)
    titles = dict(zip(table.column("item").to_pylist(), table.column("title").to_pylist(), strict=True))
    if exact and (len(titles) != len(table) or None in titles or None in titles.values()):
        raise ValueError("an item stands twice, or has no title")
    return titles


def encode_tensors(tensors: Tensors) -> bytes:
    """Return named arrays as safetensors, without metadata (which would not be written the same way twice)."""
    from safetensors.numpy import save

    data: bytes = save({name: np.ascontiguousarray(array) for name, array in tensors.items()})
    return data


def tensor_pieces(tensors: Tensors) -> list[bytes | memoryview]:
    """Return what `encode_tensors` returns, in pieces: the arrays are not copied. That of the common cases only."""
    arrays = {name: np.ascontiguousarray(tensors[name]) for name in sorted(tensors)}
    kinds = {array.dtype.str for array in arrays.values()}  # of several kinds the order would be another one
    plain = all(name.isascii() and name.replace(".", "").replace("_", "").isalnum() for name in arrays)
    kind = _KINDS.get(kinds.pop()) if len(kinds) == 1 else None
    if kind is None or not plain or any(array.ndim == 0 or array.size == 0 for array in arrays.values()):
        return [encode_tensors(tensors)]
    header, at = {}, 0
    for name, array in arrays.items():
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":"))
    text += " " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little") + text.encode(), *(array.data.cast("B") for array in arrays.values())]


def decode_tensors(data: bytes, *, exact: bool = False) -> dict[str, np.ndarray]:
    """Return the arrays that `encode_tensors` wrote; `exact`: and no metadata rides along."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if exact and "__metadata__" in json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]):
        raise ValueError("it holds metadata; expected tensors and nothing else")
    try:
        return dict(load(data))
    except SafetensorError as error:
        raise StoreError(f"the weights cannot be read: {error}") from None


def encode_landmarks(landmarks: Landmarks) -> bytes:
    """Return landmarks as safetensors; the ids, joined by newlines (which no id can hold), are one of the arrays."""
    ids = np.frombuffer("\n".join(landmarks.ids).encode(), dtype=np.uint8)
    return encode_tensors({**landmarks.tensors(), "ids": ids})


def decode_landmarks(data: bytes, *, exact: bool = False) -> Landmarks:
    """Return the landmarks that `encode_landmarks` wrote; `exact`: and nothing rides along."""
    arrays = decode_tensors(data, exact=exact)
    text = arrays["ids"].tobytes().decode()
    made = Landmarks(arrays["anchors"], IdMap(text.split("\n") if text else []), arrays["vectors"])
    in_order = "\n".join(made.ids) == text and len(made.vectors) == len(made.ids)
    if exact and not (in_order and arrays.keys() == {"anchors", "ids", "vectors"}):
        raise ValueError("expected anchors, and one vector for each id, the ids in order")
    return made


def _parquet(table: object) -> bytes:
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    # No statistics: our readers do not use them, they repeat ids, and to find them takes longer than all the rest.
    pq.write_table(table, sink, compression="zstd", row_group_size=_ROW_GROUP, write_statistics=False)
    return sink.getvalue()


def _table(data: bytes, columns: tuple[str, ...], *, exact: bool = False):  # type: ignore[no-untyped-def]
    """Return these columns of a Parquet table; `exact`: it must hold them in this order, and nothing else."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(pa.BufferReader(data)) as file:  # with threads, a process that ends at once would abort
            names = file.schema_arrow.names
            missing = [name for name in columns if name not in names]
            more = sorted(set(file.metadata.metadata or {}) - {b"ARROW:schema"})
            if exact and (names != list(columns) or more or file.schema_arrow.metadata):
                found = ", ".join([*names, *(one.decode(errors="replace") for one in more)])
                raise ValueError(f"it holds {found or 'no column'}; expected {', '.join(columns)} and nothing else")
            if missing:
                raise StoreError(f"a table of the store cannot be read: it has no column {missing[0]!r}")
            return file.read(columns=list(columns), use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"a table of the store cannot be read: {error}") from None
