"""Parquet: text or integer id columns, by the same names as CSV. Row numbers in messages count from 1.

A float id column is refused: 1.0 and 1 are different texts, and which one was meant cannot be told. A null in a column
with a role is a bad row. A column of type timestamp is read as seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from receraser.data.readers.columnar import ColumnGatherer, encoded
from receraser.data.readers.columns import Layout, layout_of
from receraser.data.readers.formats import Format, Options
from receraser.data.readers.lines import Progress, decoded
from receraser.data.readers.rows import Gatherer, Table, finite, require_columns
from receraser.errors import DataError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = ["parse_parquet"]

_BATCH_ROWS = 1024 * 1024


def parse_parquet(path: Path, fmt: Format, options: Options) -> Table:
    """Read every row; at speed when all are good, else row by row."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise UsageError("reading Parquet needs pyarrow: pip install 'pyarrow>=17'") from error
    try:
        with pq.ParquetFile(path) as file:
            layout = _layout(path, file, fmt, options)
            fast = _parse_columns(file, layout, options)
            return _parse_rows(path, file, layout, options) if fast is None else fast
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"no readable Parquet file ({_first_line(error)})", path=str(path)) from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _layout(path: Path, file: pq.ParquetFile, fmt: Format, options: Options) -> Layout:
    """Find the columns by name and check their types."""
    schema = file.schema_arrow
    if file.metadata.num_rows == 0:
        raise DataError("the file has no rows", path=str(path))
    try:
        layout = layout_of(fmt, schema.names, options.columns)
        for place in (layout.user, layout.item):
            _check_id_type(schema.field(place))
        for wanted in (layout.rating, layout.timestamp):
            if wanted is not None:
                _check_number_type(schema.field(wanted), time=wanted == layout.timestamp)
    except DataError as error:
        raise DataError(error.reason, path=str(path)) from error
    require_columns(layout, options, path)
    return layout


def _value_type(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _check_id_type(field: pa.Field) -> None:
    import pyarrow as pa

    kind = _value_type(field.type)
    if pa.types.is_floating(kind):
        raise DataError(
            f"the id column {field.name!r} is of type {kind}: 1.0 and 1 are different texts; store text or integers"
        )
    if not (_is_text(kind) or pa.types.is_integer(kind)):
        raise DataError(f"the id column {field.name!r} is of type {kind}; text or integers are expected")


def _check_number_type(field: pa.Field, *, time: bool) -> None:
    import pyarrow as pa

    kind = field.type
    known = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not (known or (time and pa.types.is_timestamp(kind))):
        raise DataError(f"the column {field.name!r} is of type {kind}; numbers are expected")


def _batches(file: pq.ParquetFile, layout: Layout, progress: Progress | None = None) -> Iterator[dict[int, pa.Array]]:
    """Yield the columns that have a role, by their place in the schema."""
    names = file.schema_arrow.names
    wanted = [p for p in (layout.user, layout.item, layout.rating, layout.timestamp) if p is not None]
    done = 0
    for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=[names[place] for place in wanted]):
        yield {place: batch.column(names[place]) for place in wanted}
        done += batch.num_rows
        if progress is not None:
            progress(done, file.metadata.num_rows)


def _floats(column: pa.Array) -> pa.Array:
    """Return numbers as float64 (nulls stay); points in time as seconds since 1970."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[column.type.unit]
        ticks = column.cast(pa.int64())
        seconds = ticks.to_numpy(zero_copy_only=False) / per_second
        return pa.array(seconds, mask=column.is_null().to_numpy(zero_copy_only=False))
    return column.cast(pa.float64(), safe=False)


def _parse_columns(file: pq.ParquetFile, layout: Layout, options: Options) -> Table | None:
    gathered = ColumnGatherer(options)
    for columns in _batches(file, layout, options.progress):
        if any(_plain(column).null_count for column in columns.values()):
            return None
        numbers: list[NDArray[np.float64] | None] = []
        for place in (layout.rating, layout.timestamp):
            values = None if place is None else _floats(columns[place]).to_numpy()
            if values is not None and not np.isfinite(values).all():
                return None
            numbers.append(values)
        users, items = encoded(_plain(columns[layout.user]), _plain(columns[layout.item]))
        gathered.add(users, items, numbers[0], numbers[1])
    return gathered.table()


def _plain(column: pa.Array) -> pa.Array:
    """Return a column as values, whatever the file's writer encoded them as."""
    import pyarrow as pa

    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _parse_rows(path: Path, file: pq.ParquetFile, layout: Layout, options: Options) -> Table:
    """Look at every row by itself."""
    gathered = Gatherer(path, options)
    row = 0
    for columns in _batches(file, layout, options.progress):
        users, items = (_raw_ids(columns[place]) for place in (layout.user, layout.item))
        ratings, times = (
            [None] * len(users) if place is None else _floats(columns[place]).to_pylist()
            for place in (layout.rating, layout.timestamp)
        )
        for user, item, rating, time in zip(users, items, ratings, times, strict=True):
            row += 1
            try:
                rating = None if layout.rating is None else _present(rating, "rating")
                time = None if layout.timestamp is None else _present(time, "timestamp")
                gathered.add(decoded(user or b""), decoded(item or b""), rating, time)
            except DataError as error:
                gathered.bad(row, error.reason)
    return gathered.table()


def _raw_ids(column: pa.Array) -> list[bytes | None]:
    import pyarrow as pa

    column = _plain(column)
    if not _is_text(column.type):
        column = column.cast(pa.string())
    ids: list[bytes | None] = column.cast(pa.large_binary()).to_pylist()
    return ids


def _present(value: float | None, what: str) -> float:
    if value is None:
        raise DataError(f"the {what} is missing")
    return finite(value, what)
