"""Rows and titles as Parquet, tensors as safetensors: bytes in, bytes out. No pickle anywhere."""

from __future__ import annotations

import io
from collections.abc import Mapping

import numpy as np

from receraser.data.interactions import Interactions
from receraser.errors import StoreError
from receraser.fingerprint import Tensors

__all__ = ["decode_rows", "decode_tensors", "decode_titles", "encode_rows", "encode_tensors", "encode_titles"]

_ROW_GROUP = 1024 * 1024


def encode_rows(rows: Interactions) -> bytes:
    """Return a table as Parquet: two dictionary-encoded text columns, in canonical order."""
    import pyarrow as pa

    columns = {
        name: pa.DictionaryArray.from_arrays(pa.array(index, pa.int32()), pa.array(list(ids), pa.string()))
        for name, index, ids in (
            ("user", rows.user_index, rows.users.ids),
            ("item", rows.item_index, rows.items.ids),
        )
    }
    return _parquet(pa.table(columns))


def decode_rows(data: bytes) -> Interactions:
    """Return the table that `encode_rows` wrote."""
    table = _table(data, ("user", "item"))
    parts = []
    for name in ("user", "item"):
        encoded = table.column(name).unify_dictionaries().combine_chunks()
        parts.append((encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False)))
    (users, user_index), (items, item_index) = parts
    return Interactions.from_indices(users, items, user_index, item_index)


def encode_titles(titles: Mapping[str, str]) -> bytes:
    """Return titles by item as Parquet."""
    import pyarrow as pa

    items = sorted(titles)
    return _parquet(pa.table({"item": items, "title": [titles[item] for item in items]}))


def decode_titles(data: bytes) -> dict[str, str]:
    """Return the titles that `encode_titles` wrote."""
    table = _table(data, ("item", "title"))
    return dict(zip(table.column("item").to_pylist(), table.column("title").to_pylist(), strict=True))


def encode_tensors(tensors: Tensors) -> bytes:
    """Return named arrays as safetensors, without metadata (which would not be written the same way twice)."""
    from safetensors.numpy import save

    data: bytes = save({name: np.ascontiguousarray(array) for name, array in tensors.items()})
    return data


def decode_tensors(data: bytes) -> dict[str, np.ndarray]:
    """Return the arrays that `encode_tensors` wrote."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return dict(load(data))
    except SafetensorError as error:
        raise StoreError(f"the weights cannot be read: {error}") from None


def _parquet(table: object) -> bytes:
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", row_group_size=_ROW_GROUP)
    return sink.getvalue()


def _table(data: bytes, columns: tuple[str, ...]):  # type: ignore[no-untyped-def]
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(io.BytesIO(data), columns=list(columns))
    except (pa.ArrowException, OSError, KeyError) as error:
        raise StoreError(f"a table of the store cannot be read: {error}") from None
