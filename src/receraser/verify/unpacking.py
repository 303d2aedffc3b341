"""Any bytes, taken apart for somebody who searches them: what stands in them whole, and what stands side by side.

Looked into: gzip, bzip2, xz, zstd and zip; Parquet (columns, dictionaries, statistics and metadata); safetensors (the
header, and bytes that are text); JSON and JSON lines, and base64 in them; separated values and lines of numbers. Other
text is a text; whatever it is, its raw bytes are there too. What looks like one of these and cannot be opened is named.
"""

from __future__ import annotations

import base64
import binascii
import bz2
import csv
import gzip
import io
import json
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from receraser.errors import ReceraserError
from receraser.store.encoding import decode_tensors
from receraser.verify.content import UNFIT

__all__ = ["Closed", "Column", "Fields", "Groups", "Piece", "Raw", "Table", "Text", "unpack"]

_DEEPEST = 5
_LONG_NUMBER = 6  # digits; a shorter number in JSON is a count more often than an id
_WIDEST = 16  # values side by side in a JSON object or list that are taken for a row
_SHORTEST_BASE64 = 16
_DELIMITERS = {"csv": ",", "tsv": "\t", "inter": "\t", "dat": "::"}


@dataclass(frozen=True, eq=False)
class Raw:
    """Bytes as they are."""

    where: str
    data: bytes


@dataclass(frozen=True, eq=False)
class Fields:
    """Values that stand whole somewhere: a column's, a document's."""

    where: str
    values: frozenset[str]


@dataclass(frozen=True, eq=False)
class Column:
    """A column: its name, its distinct values, and the number of each row's value (-1 for none)."""

    name: str
    values: list[str]
    index: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Table:
    """Columns whose rows stand side by side."""

    where: str
    columns: Sequence[Column]


@dataclass(frozen=True, eq=False)
class Groups:
    """A few values that stand side by side, many times."""

    where: str
    rows: list[tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class Text:
    """Text of no form, by its lines."""

    where: str
    text: str


@dataclass(frozen=True, eq=False)
class Closed:
    """Something that could not be looked into."""

    where: str
    reason: str


Piece = Raw | Fields | Table | Groups | Text | Closed


def unpack(where: str, data: bytes, *, deeper: int = _DEEPEST) -> Iterator[Piece]:
    """Yield what is in some bytes; `where` ends with the file's name, whose ending says what separated values are.

    Examples
    --------
    >>> [type(piece).__name__ for piece in unpack("a.json", b'{"user": "u1"}')]
    ['Raw', 'Fields', 'Groups']
    """
    yield Raw(where, data)
    if not deeper or not data:
        return
    opener = next((opener for magic, opener in _MAGIC if data.startswith(magic)), None)
    try:
        if opener is not None:
            yield from opener(where, data, deeper)
        elif (header := _header(data)) is not None:
            yield from _safetensors(where, data, header)
        else:
            yield from _plain(where, data, deeper)
    except (*UNFIT, ReceraserError, RecursionError, EOFError, lzma.LZMAError, zlib.error, zipfile.BadZipFile) as error:
        yield Closed(where, f"{type(error).__name__} {error}".strip())


# ---------------------------------------------------------------------- containers


def _inner(decompress: Callable[[bytes], bytes], ending: str) -> Callable[[str, bytes, int], Iterator[Piece]]:
    def opener(where: str, data: bytes, deeper: int) -> Iterator[Piece]:
        yield from unpack(where.removesuffix(ending), decompress(data), deeper=deeper - 1)

    return opener


def _zstd(data: bytes) -> bytes:
    import pyarrow as pa

    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        return bytes(stream.read())


def _zip(where: str, data: bytes, deeper: int) -> Iterator[Piece]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            yield from unpack(f"{where}, {name}", archive.read(name), deeper=deeper - 1)


def _parquet(where: str, data: bytes, _deeper: int) -> Iterator[Piece]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(pa.BufferReader(data)) as file:
        schema, about = file.schema_arrow, file.metadata
    kept = {name for name in schema.names if pa.types.is_string(schema.field(name).type)}
    with pq.ParquetFile(pa.BufferReader(data), read_dictionary=sorted(kept)) as file:  # also values that no row has
        table = file.read(use_threads=False)
    beside = set(schema.names)
    for key, value in (about.metadata or {}).items():
        beside |= {key.decode(errors="replace"), *([] if key == b"ARROW:schema" else [value.decode(errors="replace")])}
    for group in range(about.num_row_groups):
        for number in range(about.num_columns):
            extremes = about.row_group(group).column(number).statistics
            if extremes is not None and extremes.has_min_max:
                beside |= {str(extremes.min), str(extremes.max)}
    yield Fields(f"{where}, its metadata", frozenset(beside))
    columns = [column for name in schema.names if (column := _column(name, table.column(name))) is not None]
    for column in columns:
        yield Fields(f"{where}, column {column.name}", frozenset(column.values))
    yield Table(where, columns)


def _column(name: str, chunked) -> Column | None:  # type: ignore[no-untyped-def]
    """Return a column of text or whole numbers; of other kinds nothing: no id is one."""
    import pyarrow as pa

    kind = chunked.type
    if pa.types.is_dictionary(kind):
        coded = chunked.unify_dictionaries().combine_chunks()
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind):
        coded = chunked.combine_chunks().dictionary_encode()
    else:
        return None
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.chunk(0) if coded.num_chunks else pa.array([], kind).dictionary_encode()
    values = ["" if value is None else str(value) for value in coded.dictionary.to_pylist()]
    index = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return Column(name, values, index)


def _header(data: bytes) -> dict[str, object] | None:
    """Return the header of safetensors; None where these are none."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 + size or data[8:9] != b"{":
        return None
    try:
        header = json.loads(data[8 : 8 + size])
    except (ValueError, RecursionError):
        return None
    return header if isinstance(header, dict) else None


def _safetensors(where: str, data: bytes, header: dict[str, object]) -> Iterator[Piece]:
    about = header.get("__metadata__")
    told = [*header, *(str(one) for pair in (about.items() if isinstance(about, dict) else ()) for one in pair)]
    yield Fields(f"{where}, its header", frozenset(told))
    for name, array in decode_tensors(data).items():
        if array.dtype == np.uint8:
            text = array.tobytes().decode(errors="replace")
            yield Fields(f"{where}, {name}", frozenset(text.split("\n")))


_MAGIC: list[tuple[bytes, Callable[[str, bytes, int], Iterator[Piece]]]] = [
    (b"PAR1", _parquet),
    (b"\x1f\x8b", _inner(gzip.decompress, ".gz")),
    (b"\x28\xb5\x2f\xfd", _inner(_zstd, ".zst")),
    (b"BZh", _inner(bz2.decompress, ".bz2")),
    (b"\xfd7zXZ\x00", _inner(lzma.decompress, ".xz")),
    (b"PK\x03\x04", _zip),
]


# ---------------------------------------------------------------------- text


def _plain(where: str, data: bytes, deeper: int) -> Iterator[Piece]:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return  # the raw bytes are all there is
    document = _documents(text)
    if document is not None:
        yield from _json(where, document, deeper)
        return
    delimiter = _DELIMITERS.get(where.rpartition(".")[2])
    if delimiter is not None:
        lines = text.splitlines()
        rows = (
            csv.reader(lines, delimiter=delimiter) if len(delimiter) == 1 else (line.split(delimiter) for line in lines)
        )
        yield from _table(where, rows)
    elif re.fullmatch(r"[\d \t\r\n]+", text):  # user item item ...
        parts = (line.split() for line in text.splitlines())
        yield from _table(where, ((user, item) for user, *items in filter(None, parts) for item in items or [""]))
    else:
        yield Text(where, text)


def _table(where: str, rows: Iterable[Sequence[str]]) -> Iterator[Piece]:
    found = [tuple(row) for row in rows]
    columns = []
    for number in range(max(map(len, found), default=0)):
        codes: dict[str, int] = {}
        index = [codes.setdefault(row[number], len(codes)) if number < len(row) else -1 for row in found]
        columns.append(Column(str(number + 1), list(codes), np.array(index, dtype=np.int64)))
    for column in columns:
        yield Fields(f"{where}, column {column.name}", frozenset(column.values))
    yield Table(where, columns)


def _documents(text: str) -> object:
    """Return what JSON says, or JSON lines; None where it is neither."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError):
        return None


def _json(where: str, document: object, deeper: int) -> Iterator[Piece]:
    values: set[str] = set()
    rows: list[tuple[str, ...]] = []
    todo = [document]
    while todo:
        one = todo.pop()
        inner = list(one.values()) if isinstance(one, dict) else one if isinstance(one, list) else []
        values.update(one if isinstance(one, dict) else ())
        own = tuple(text for value in inner if (text := _scalar(value)) is not None)
        values.update(own)
        if 1 < len(own) <= _WIDEST:
            rows.append(own)
        todo += [value for value in inner if isinstance(value, (dict, list))]
    yield Fields(where, frozenset(values))
    yield Groups(where, rows)
    for value in sorted(values):
        hidden = _from_base64(value)
        if hidden is not None:
            yield from unpack(f"{where}, base64 in it", hidden, deeper=deeper - 1)


def _scalar(value: object) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and len(str(value)) >= _LONG_NUMBER:
        return str(value)
    return None


def _from_base64(text: str) -> bytes | None:
    if len(text) < _SHORTEST_BASE64 or len(text) % 4 or not text.isascii() or re.fullmatch("[0-9a-f]*", text):
        return None
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
