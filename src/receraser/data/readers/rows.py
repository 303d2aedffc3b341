"""What a good row is, and what a reader hands back.

Every reader ends here: the careful ones through `Gatherer`, row by row; the columnar ones with whole columns in a
`Table`. `conclude` turns either into a `ReadResult` and refuses a file of which nothing is left.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from receraser.data.ids import id_problem
from receraser.data.interactions import Interactions
from receraser.data.readers.columns import Layout
from receraser.data.readers.formats import Options
from receraser.errors import DataError

__all__ = ["Gatherer", "ReadReport", "ReadResult", "Table", "conclude", "finite", "number", "require_columns"]

MAX_EXAMPLES = 20
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


@dataclass(frozen=True)
class ReadReport:
    """What was found in a file. `rows_read` = rows kept + merged + below the minimum + bad.

    Attributes
    ----------
    path, format
        The file as it was named, and how it was read.
    rows_read
        All rows but the header and blank lines; in adjacency lines every item is a row, and a bad line is one.
    duplicates_merged
        Rows whose pair of user and item stood in another row already.
    below_min_rating
        Rows left out by `min_rating`.
    bad_rows, bad_examples
        Rows skipped because something was wrong with them, and the first 20 of them as (line, reason).
    """

    path: str
    format: str
    rows_read: int
    duplicates_merged: int
    below_min_rating: int
    bad_rows: int
    bad_examples: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class ReadResult:
    """The interactions of a file, and the report of how they came about."""

    interactions: Interactions
    report: ReadReport


@dataclass(frozen=True)
class Table:
    """A file's rows as columns: ids in any order, codes into them, and what was left out."""

    users: Sequence[str]
    items: Sequence[str]
    user_codes: NDArray[np.integer]
    item_codes: NDArray[np.integer]
    timestamps: NDArray[np.float64] | None
    below_min_rating: int = 0
    bad_rows: int = 0
    bad_examples: tuple[tuple[int, str], ...] = ()


def number(text: str, what: str) -> float:
    """Return the finite decimal number that a field holds.

    Examples
    --------
    >>> number("4.5", "rating"), number("1e3", "timestamp")
    (4.5, 1000.0)
    """
    if not text:
        raise DataError(f"the {what} is missing")
    if _NUMBER.fullmatch(text) is None:
        word = text.strip().lower().lstrip("+-")
        if word in {"nan", "inf", "infinity"}:
            raise DataError(f"the {what} is {text.strip()}; a finite number is expected")
        raise DataError(f"the {what} {text[:40]!r} is no number")
    return finite(float(text), what)


def finite(value: float, what: str) -> float:
    """Return a number as it is, or refuse NaN and infinity."""
    if not math.isfinite(value):
        raise DataError(f"the {what} is {value}; a finite number is expected")
    return value


def require_columns(layout: Layout, options: Options, path: Path) -> None:
    """Refuse a file that lacks the column an option needs."""
    if options.min_rating is not None and layout.rating is None:
        raise DataError("a minimum rating is asked for, but there is no rating column", path=str(path))
    if options.keep_timestamps and layout.timestamp is None:
        raise DataError("timestamps are to be kept, but there is no timestamp column", path=str(path))


class Codes(dict[str, int]):
    """Ids numbered by first appearance; an id is checked once, when it first appears."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def __missing__(self, name: str) -> int:
        problem = id_problem(name)
        if problem is not None:
            raise DataError(f"{self.what}: {problem}")
        code = self[name] = len(self)
        return code


class Gatherer:
    """Gathers rows one at a time; a bad one raises, or is counted with `skip_bad_rows`."""

    def __init__(self, path: Path, options: Options) -> None:
        self.path = path
        self.options = options
        self.users = Codes("user")
        self.items = Codes("item")
        self._user_codes = array("i")
        self._item_codes = array("i")
        self._timestamps = array("d")
        self._below = 0
        self._bad = 0
        self._examples: list[tuple[int, str]] = []

    def add(self, user: str, item: str, rating: float | None, timestamp: float | None) -> None:
        """Take one row; a bad id raises a `DataError` without file and line."""
        user_code, item_code = self.users[user], self.items[item]
        if self.options.min_rating is not None and rating is not None and rating < self.options.min_rating:
            self._below += 1
            return
        self._user_codes.append(user_code)
        self._item_codes.append(item_code)
        if self.options.keep_timestamps and timestamp is not None:
            self._timestamps.append(timestamp)

    def add_line(self, user: str, items: Sequence[str]) -> None:
        """Take one user with all their items; nothing is taken if one id is bad."""
        user_code = self.users[user]
        codes = self.items
        self._item_codes.extend([codes[item] for item in items])
        self._user_codes.extend([user_code] * len(items))

    def bad(self, line: int, reason: str) -> None:
        """Raise the error about a bad row, or count it."""
        if not self.options.skip_bad_rows:
            raise DataError(reason, path=str(self.path), line=line)
        self._bad += 1
        if len(self._examples) < MAX_EXAMPLES:
            self._examples.append((line, reason))

    def table(self) -> Table:
        """Return everything gathered."""
        times = np.frombuffer(self._timestamps, dtype=np.float64) if self.options.keep_timestamps else None
        return Table(
            list(self.users),
            list(self.items),
            np.frombuffer(self._user_codes, dtype=np.int32),
            np.frombuffer(self._item_codes, dtype=np.int32),
            times,
            self._below,
            self._bad,
            tuple(self._examples),
        )


def conclude(path: Path, format_name: str, table: Table) -> ReadResult:
    """Make the result of a read, or refuse a file of which no row is left."""
    kept = len(table.user_codes)
    rows_read = kept + table.below_min_rating + table.bad_rows
    if rows_read == 0:
        raise DataError("the file has no rows", path=str(path))
    if kept == 0 and table.bad_rows == rows_read:
        line, reason = table.bad_examples[0]
        raise DataError(f"all {rows_read} rows are bad; the first: {reason}", path=str(path), line=line)
    if kept == 0:
        reason = f"no row is left: {table.below_min_rating} below the minimum rating, {table.bad_rows} bad"
        raise DataError(reason, path=str(path))
    interactions = Interactions.from_indices(
        table.users, table.items, table.user_codes, table.item_codes, table.timestamps
    )
    merged = kept - len(interactions)
    report = ReadReport(
        str(path), format_name, rows_read, merged, table.below_min_rating, table.bad_rows, table.bad_examples
    )
    return ReadResult(interactions, report)
