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
from functools import cached_property

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
_HEX = re.compile(rb"[0-9a-f]{32,}")
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_KINDS = {"user": "user", "uid": "user", "person": "user", "item": "item", "movie": "item", "film": "item"}
_DELIMITERS = {"csv": ",", "tsv": "\t", "inter": "\t", "dat": "::"}


@dataclass(frozen=True, eq=False)
class Raw:
    """Bytes as they are."""

    where: str
    data: bytes

    @cached_property
    def hexes(self) -> set[str]:
        """Long runs of hexadecimal digits: pseudonyms and digests are such."""
        return {one.decode() for one in _HEX.findall(self.data)}

    @cached_property
    def is_text(self) -> bool:
        """Whether it can be read as text, in UTF-8 or an older encoding."""
        try:
            self.data.decode()
        except UnicodeDecodeError:
            return not _BINARY.search(self.data)
        return True


@dataclass(frozen=True, eq=False)
class Fields:
    """Values that stand whole somewhere, and what they are by the name they go by: "user", "item" or ""."""

    where: str
    values: frozenset[str]
    kind: str = ""


@dataclass(frozen=True, eq=False)
class Column:
    """A column: its name, what it holds ("user", "item", ""), its distinct values, and each row's (-1 for none)."""

    name: str
    kind: str
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


@dataclass(frozen=True)
class _Seen:
    """What is known of some bytes: their name for people, the file's name, what ids in them are, how deep to go yet."""

    where: str
    name: str
    kind: str
    deeper: int

    def inner(self, beside: str = "", *, name: str | None = None) -> _Seen:
        return _Seen(self.where + beside, self.name if name is None else name, self.kind, self.deeper - 1)


def unpack(where: str, data: bytes, *, kind: str = "") -> Iterator[Piece]:
    """Yield what is in some bytes.

    Parameters
    ----------
    where
        A name for people; it ends with the file's, whose ending says how values are separated.
    data
        The bytes.
    kind
        What ids in it are where nothing in it tells: "user", "item" or "".

    Examples
    --------
    >>> [type(piece).__name__ for piece in unpack("a.json", b'{"user": "u1"}')]
    ['Raw', 'Fields', 'Fields', 'Fields', 'Groups']
    """
    yield from _unpacked(_Seen(where, where, kind, _DEEPEST), data)


def _unpacked(seen: _Seen, data: bytes) -> Iterator[Piece]:
    yield Raw(seen.where, data)
    if not seen.deeper or not data:
        return
    opener = next((opener for magic, opener in _MAGIC if data.startswith(magic)), None)
    try:
        if opener is not None:
            yield from opener(seen, data)
        elif (header := _header(data)) is not None:
            yield from _safetensors(seen, data, header)
        else:
            yield from _plain(seen, data)
    except (*UNFIT, ReceraserError, RecursionError, EOFError, lzma.LZMAError, zlib.error, zipfile.BadZipFile) as error:
        yield Closed(seen.where, f"{type(error).__name__} {error}".strip())


# ---------------------------------------------------------------------- containers


def _inner(decompress: Callable[[bytes], bytes], ending: str) -> Callable[[_Seen, bytes], Iterator[Piece]]:
    def opener(seen: _Seen, data: bytes) -> Iterator[Piece]:
        yield from _unpacked(seen.inner(name=seen.name.removesuffix(ending)), decompress(data))

    return opener


def _zstd(data: bytes) -> bytes:
    import pyarrow as pa

    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        return bytes(stream.read())


def _zip(seen: _Seen, data: bytes) -> Iterator[Piece]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            yield from _unpacked(seen.inner(f", {name}", name=name), archive.read(name))


def _parquet(seen: _Seen, data: bytes) -> Iterator[Piece]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(pa.BufferReader(data)) as file:
        schema, about = file.schema_arrow, file.metadata
    text = [name for name in schema.names if pa.types.is_string(schema.field(name).type)]
    with pq.ParquetFile(pa.BufferReader(data), read_dictionary=text) as file:  # also values that no row has
        table = file.read(use_threads=False)
    beside = set(schema.names)
    for key, value in (about.metadata or {}).items():
        beside |= {key.decode(errors="replace"), *([] if key == b"ARROW:schema" else [value.decode(errors="replace")])}
    yield Fields(f"{seen.where}, its metadata", frozenset(beside))
    kinds = _kinds(schema.names)
    columns = []
    for number, (name, kind) in enumerate(zip(schema.names, kinds, strict=True)):
        column = _column(name, kind, table.column(name))
        if column is not None:
            columns.append(column)
            yield Fields(f"{seen.where}, statistics of {name}", frozenset(_extremes(about, number)), kind)
    yield from _tabled(seen, columns)


def _extremes(about, number: int) -> Iterator[str]:  # type: ignore[no-untyped-def]
    """Yield the least and the greatest value of a column in every part of a file, as its footer has them."""
    for group in range(about.num_row_groups):
        found = about.row_group(group).column(number).statistics if number < about.num_columns else None
        if found is not None and found.has_min_max:
            yield from (str(found.min), str(found.max))


def _tabled(seen: _Seen, columns: Sequence[Column]) -> Iterator[Piece]:
    for column in columns:
        yield Fields(f"{seen.where}, column {column.name}", frozenset(column.values), column.kind)
    yield Table(seen.where, columns)


def _kind(name: str) -> str:
    """Return what stands under a name, by the name: "user", "item" or ""."""
    kinds = {kind for word, kind in _KINDS.items() if word in name.lower()}
    return kinds.pop() if len(kinds) == 1 else ""


def _kinds(names: Sequence[str]) -> list[str]:
    """Return what columns hold; where no name tells, the first are users and the second items."""
    told = [_kind(name) for name in names]
    return told if any(told) else ["user", "item", *("" for _ in names)][: len(names)]


def _column(name: str, kind: str, chunked) -> Column | None:  # type: ignore[no-untyped-def]
    """Return a column of text or whole numbers; of other kinds nothing: no id is one."""
    import pyarrow as pa

    of = chunked.type
    if pa.types.is_dictionary(of):
        coded = chunked.unify_dictionaries().combine_chunks()
    elif pa.types.is_string(of) or pa.types.is_large_string(of) or pa.types.is_integer(of):
        coded = chunked.combine_chunks().dictionary_encode()
    else:
        return None
    values = ["" if value is None else str(value) for value in coded.dictionary.to_pylist()]
    index = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return Column(name, kind, values, index)


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


def _safetensors(seen: _Seen, data: bytes, header: dict[str, object]) -> Iterator[Piece]:
    about = header.get("__metadata__")
    told = [*header, *(str(one) for pair in (about.items() if isinstance(about, dict) else ()) for one in pair)]
    yield Fields(f"{seen.where}, its header", frozenset(told))
    for name, array in decode_tensors(data).items():
        if array.dtype == np.uint8:
            text = array.tobytes().decode(errors="replace")
            yield Fields(f"{seen.where}, {name}", frozenset(text.split("\n")), _kind(name) or seen.kind)


_MAGIC: list[tuple[bytes, Callable[[_Seen, bytes], Iterator[Piece]]]] = [
    (b"PAR1", _parquet),
    (b"\x1f\x8b", _inner(gzip.decompress, ".gz")),
    (b"\x28\xb5\x2f\xfd", _inner(_zstd, ".zst")),
    (b"BZh", _inner(bz2.decompress, ".bz2")),
    (b"\xfd7zXZ\x00", _inner(lzma.decompress, ".xz")),
    (b"PK\x03\x04", _zip),
]


# ---------------------------------------------------------------------- text


def _plain(seen: _Seen, data: bytes) -> Iterator[Piece]:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return  # the raw bytes are all there is
    document = _documents(text)
    if document is not None:
        yield from _json(seen, document)
        return
    delimiter = _DELIMITERS.get(seen.name.rpartition(".")[2])
    if delimiter is not None:
        lines = text.splitlines()
        one = len(delimiter) == 1
        yield from _table(
            seen, csv.reader(lines, delimiter=delimiter) if one else (row.split(delimiter) for row in lines)
        )
    elif re.fullmatch(r"[\d \t\r\n]+", text):  # user item item ...
        parts = (line.split() for line in text.splitlines())
        yield from _table(seen, ((user, item) for user, *items in filter(None, parts) for item in items or [""]))
    else:
        yield Text(seen.where, text)


def _table(seen: _Seen, rows: Iterable[Sequence[str]]) -> Iterator[Piece]:
    found = [tuple(row) for row in rows]
    names = [name.strip() for name in found[0]] if found else []
    columns = []
    for number, kind in enumerate(_kinds(names)):
        codes: dict[str, int] = {}
        index = [codes.setdefault(row[number], len(codes)) if number < len(row) else -1 for row in found]
        columns.append(Column(str(number + 1), kind, list(codes), np.array(index, dtype=np.int64)))
    yield from _tabled(seen, columns)
    more = frozenset(value for row in found for value in row[len(names) :])
    if more:
        yield Fields(seen.where, more)


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


def _json(seen: _Seen, document: object) -> Iterator[Piece]:
    values: dict[str, set[str]] = {"": set(), "user": set(), "item": set()}
    rows: list[tuple[str, ...]] = []
    todo = [("", document)]
    while todo:
        kind, one = todo.pop()
        if isinstance(one, dict):
            inner = [(_kind(name) or kind, value) for name, value in one.items()]
            values[kind].update(one)
        else:
            inner = [(kind, value) for value in one] if isinstance(one, list) else [(kind, one)]
        own = [(of, text) for of, value in inner if (text := _scalar(value)) is not None]
        for of, text in own:
            values[of].add(text)
        if 1 < len(own) <= _WIDEST:
            rows.append(tuple(text for _, text in own))
        todo += [(of, value) for of, value in inner if isinstance(value, (dict, list))]
    for kind, found in values.items():
        yield Fields(seen.where, frozenset(found), kind)
    yield Groups(seen.where, rows)
    for value in sorted(set().union(*values.values())):
        hidden = _from_base64(value)
        if hidden is not None:
            yield from _unpacked(seen.inner(", base64 in it"), hidden)


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
