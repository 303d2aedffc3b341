"""The same meaning as `delimited`, at speed: blocks of whole lines are parsed by pyarrow, column by column.

Nothing is decided here. A block in which the two parsers could differ (stray quotes or carriage returns, long lines,
bytes that are not UTF-8), and any row that is not plainly good, make `parse_columnar` return None; the careful parser
then reads the file from the start, and what it says holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from receraser.data.ids import MAX_ID_BYTES, id_problem
from receraser.data.readers.delimited import Plan
from receraser.data.readers.formats import Options
from receraser.data.readers.lines import MAX_ROW_BYTES, Progress, blocks, too_long
from receraser.data.readers.rows import Table, number
from receraser.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ColumnGatherer", "encoded", "parse_columnar"]

_BLOCK_BYTES = 16 * 1024 * 1024
_SEPARATOR = b"\x1f"  # stands for a delimiter of two bytes, which pyarrow does not know
_QUOTE, _NEWLINE, _RETURN = ord('"'), ord("\n"), ord("\r")


class ColumnGatherer:
    """Gathers chunks of columns; ids stay codes into a dictionary per chunk until the end."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._users: list[pa.DictionaryArray] = []
        self._items: list[pa.DictionaryArray] = []
        self._timestamps: list[NDArray[np.float64]] = []
        self._below = 0

    def add(
        self,
        users: pa.DictionaryArray,
        items: pa.DictionaryArray,
        ratings: NDArray[np.float64] | None,
        timestamps: NDArray[np.float64] | None,
    ) -> None:
        """Take one chunk of equally long columns, without nulls and with finite numbers."""
        if self.options.min_rating is not None and ratings is not None:
            import pyarrow as pa

            good = ratings >= self.options.min_rating
            self._below += int(len(good) - np.count_nonzero(good))
            # the ids of rows left out stay in the dictionaries, and are checked like all others
            users, items = users.filter(pa.array(good)), items.filter(pa.array(good))
            timestamps = None if timestamps is None else timestamps[good]
        self._users.append(users)
        self._items.append(items)
        if self.options.keep_timestamps and timestamps is not None:
            self._timestamps.append(timestamps)

    def table(self) -> Table | None:
        """Return everything gathered, or None if an id is not a good one."""
        users = _unified(self._users)
        items = _unified(self._items)
        if users is None or items is None:
            return None
        times = np.concatenate([np.empty(0), *self._timestamps]) if self.options.keep_timestamps else None
        return Table(users[0], items[0], users[1], items[1], times, self._below)


def _unified(chunks: list[pa.DictionaryArray]) -> tuple[list[str], NDArray[np.int32]] | None:
    """Return the ids of all chunks, each once, and every row's code; None if an id is bad."""
    import pyarrow as pa

    if not chunks:
        return [], np.empty(0, dtype=np.int32)
    joined = pa.chunked_array(chunks).unify_dictionaries()
    chunks.clear()  # the codes are copied below; this keeps the peak low
    dictionary = joined.chunk(0).dictionary
    if not pa.types.is_string(dictionary.type):
        dictionary = dictionary.cast(pa.string())
    try:
        ids: list[str] = dictionary.to_pylist()
    except UnicodeDecodeError:
        return None
    if not _good(ids):
        return None
    codes = [chunk.indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False) for chunk in joined.chunks]
    return ids, np.concatenate(codes)


def _good(ids: list[str]) -> bool:
    digits = "".join(ids)
    if digits.isascii() and digits.isdigit():  # most often; one look at all is quicker than one at each
        return min(map(len, ids)) > 0 and max(map(len, ids)) <= MAX_ID_BYTES
    return all(id_problem(name) is None for name in ids)


def encoded(*columns: pa.Array) -> list[pa.DictionaryArray]:
    """Return each column as codes into a dictionary; side by side, for this is the costliest step."""
    with ThreadPoolExecutor(len(columns)) as pool:
        return list(pool.map(lambda column: column.dictionary_encode(), columns))


def parse_columnar(path: Path, plan: Plan, options: Options) -> Table | None:
    """Read every row, or return None when the careful parser must look."""
    try:
        import pyarrow as pa
        import pyarrow.csv
    except ImportError:
        return None
    gathered = ColumnGatherer(options)
    layout = plan.layout
    try:
        for block in _line_blocks(path, plan.header_line, options.progress):
            if not _plain(block, plan):
                return None
            columns = _parsed(block, plan)
            users, items = encoded(columns[layout.user], columns[layout.item])
            ratings = None if layout.rating is None else _numbers(columns[layout.rating], "rating")
            times = None if layout.timestamp is None else _numbers(columns[layout.timestamp], "timestamp")
            gathered.add(users, items, ratings, times)
    except (DataError, UnicodeDecodeError, pa.ArrowException):
        return None
    return gathered.table()


def _line_blocks(path: Path, header_line: int, progress: Progress | None) -> Iterator[bytes]:
    """Yield the file in blocks of whole lines, without the lines up to the header."""
    tail = b""
    first = True
    for block in chain(blocks(path, _BLOCK_BYTES, progress), [b""]):
        whole = tail + block
        cut = whole.rfind(b"\n") + 1 if block else len(whole)
        whole, tail = whole[:cut], whole[cut:]
        if len(tail) > MAX_ROW_BYTES:
            raise too_long(path, 0, MAX_ROW_BYTES)
        if first and whole:
            if whole.count(b"\n") < header_line:
                raise DataError("the header is not in the first block")
            for _ in range(header_line):
                whole = whole[whole.index(b"\n") + 1 :]
            first = False
        if whole:
            yield whole


def _plain(block: bytes, plan: Plan) -> bool:
    """Say whether pyarrow cuts this block into the same rows and fields as the careful parser."""
    if not block.isascii():
        block.decode()  # the caller takes the error as a refusal
    data = np.frombuffer(block, dtype=np.uint8)
    ends = np.flatnonzero(data == _NEWLINE)
    starts = np.concatenate([[-1], ends, [len(data)]])
    if np.diff(starts).max() > MAX_ROW_BYTES:
        return False
    if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
        return False
    if len(plan.format.delimiter) > 1 and _SEPARATOR in block:
        return False
    return not plan.format.quoting or b'"' not in block or _plain_quotes(data, ends, ord(plan.format.delimiter))


def _plain_quotes(data: NDArray[np.uint8], ends: NDArray[np.intp], delimiter: int) -> bool:
    """Say whether quotes come in pairs that enclose one field of one line, with no quote inside."""
    quotes = np.flatnonzero(data == _QUOTE)
    if len(quotes) % 2:
        return False
    opened, closed = quotes[0::2], quotes[1::2]
    before = np.where(opened > 0, data[opened - 1], _NEWLINE)
    after = np.where(closed + 1 < len(data), data[np.minimum(closed + 1, len(data) - 1)], _NEWLINE)
    return bool(
        np.isin(before, (delimiter, _NEWLINE)).all()
        and np.isin(after, (delimiter, _NEWLINE, _RETURN)).all()
        and (np.searchsorted(ends, opened) == np.searchsorted(ends, closed)).all()
    )


def _parsed(block: bytes, plan: Plan) -> dict[int, pa.StringArray]:
    """Return the columns that have a role, by position, all as text."""
    import pyarrow as pa
    import pyarrow.csv

    delimiter = plan.format.delimiter
    if len(delimiter) > 1:
        block, delimiter = block.replace(delimiter.encode(), _SEPARATOR), _SEPARATOR.decode()
    layout = plan.layout
    wanted = [place for place in (layout.user, layout.item, layout.rating, layout.timestamp) if place is not None]
    types = {str(place): pa.string() for place in wanted}
    table = pyarrow.csv.read_csv(
        pa.BufferReader(block),
        read_options=pyarrow.csv.ReadOptions(
            column_names=[str(place) for place in range(layout.n_fields)], block_size=4 * 1024 * 1024
        ),
        parse_options=pyarrow.csv.ParseOptions(
            delimiter=delimiter, quote_char='"' if plan.format.quoting else False, newlines_in_values=False
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=types, include_columns=list(types), null_values=[], strings_can_be_null=False
        ),
    )
    return {place: table.column(str(place)).combine_chunks() for place in wanted}


def _numbers(column: pa.StringArray, what: str) -> NDArray[np.float64]:
    """Return the numbers that a column of text holds; a `DataError` if one is none."""
    import pyarrow as pa

    if _only_digits(column):
        return np.asarray(column.cast(pa.int64()).to_numpy(), dtype=np.float64)
    encoded = column.dictionary_encode()
    values = np.array([number(text, what) for text in encoded.dictionary.to_pylist()], dtype=np.float64)
    return np.asarray(values[encoded.indices.to_numpy()], dtype=np.float64)


def _only_digits(column: pa.StringArray) -> bool:
    """Say whether every text is 1 to 15 ASCII digits: whole numbers that a float64 holds exactly."""
    _, offset_bytes, data_bytes = column.buffers()
    offsets = np.frombuffer(offset_bytes, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    sizes = np.diff(offsets)
    if len(sizes) == 0 or sizes.min() < 1 or sizes.max() > 15:
        return False
    data = np.frombuffer(data_bytes, dtype=np.uint8)[offsets[0] : offsets[-1]]
    return bool(((data - np.uint8(ord("0"))) <= 9).all())
