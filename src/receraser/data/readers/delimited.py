"""Rows of delimited fields, line by line: CSV, TSV, MovieLens, RecBole. This parser says what such a file means.

- A row has exactly as many fields as the header (without one: as the first row).
- A field may stand in double quotes, where "" is one quote; a quote elsewhere in a field is a character like others.
- A quoted field ends on its line: a line break inside quotes is a bad row.
- Blank lines are passed over. Columns that have no role are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from receraser.data.readers.columns import Layout, find, has_header, layout_of
from receraser.data.readers.formats import Format, Options
from receraser.data.readers.lines import decoded, lines
from receraser.data.readers.rows import Gatherer, Table, number
from receraser.errors import DataError

__all__ = ["Plan", "parse_delimited", "plan_of", "split_fields"]


@dataclass(frozen=True)
class Plan:
    """How a file is to be parsed: its format, where the values stand, and the line of the header (0 without one)."""

    format: Format
    layout: Layout
    header_line: int


def split_fields(line: str, delimiter: str) -> list[str]:
    """Cut a line into fields, with quotes.

    Examples
    --------
    >>> split_fields('7,"Alien, ""the"" first",x', ",")
    ['7', 'Alien, "the" first', 'x']
    """
    if '"' not in line:
        return line.split(delimiter)
    fields: list[str] = []
    start = 0
    while True:
        if line.startswith('"', start):
            field, end = _quoted(line, start)
            if end < len(line) and not line.startswith(delimiter, end):
                raise DataError(f"text stands after the closing quote of field {len(fields) + 1}")
        else:
            end = line.find(delimiter, start)
            end = len(line) if end < 0 else end
            field = line[start:end]
        fields.append(field)
        if end >= len(line):
            return fields
        start = end + len(delimiter)


def _quoted(line: str, start: int) -> tuple[str, int]:
    """Return the text of the quoted field that begins at `start`, and where it ends."""
    end = start + 1
    while True:
        end = line.find('"', end)
        if end < 0:
            raise DataError("a quote is opened and not closed on its line (line breaks inside a field are not read)")
        if not line.startswith('""', end):
            return line[start + 1 : end].replace('""', '"'), end + 1
        end += 2


def _splitter(fmt: Format) -> Callable[[str], list[str]]:
    if fmt.quoting:
        return lambda line: split_fields(line, fmt.delimiter)
    return lambda line: line.split(fmt.delimiter)


def plan_of(path: Path, fmt: Format, options: Options) -> Plan:
    """Look at the first line that is not blank, and say how the file is to be parsed."""
    first = next(((line, raw) for line, raw in lines(path) if raw), None)
    if first is None:
        raise DataError("the file is empty", path=str(path))
    if fmt.layout and options.columns is None:
        return Plan(fmt, layout_of(fmt, (), None), 0)
    line, raw = first
    try:
        fields = _splitter(fmt)(decoded(raw))
        layout = layout_of(fmt, fields, options.columns)
        header = has_header(fmt, options.columns)
        if not header and find(fields, "user") == layout.user and find(fields, "item") == layout.item:
            raise DataError("the first line names columns; positions are for files without a header: use the names")
    except DataError as error:
        raise DataError(error.reason, path=str(path), line=line) from error
    return Plan(fmt, layout, line if header else 0)


def parse_delimited(path: Path, plan: Plan, options: Options) -> Table:
    """Read every row, in order."""
    layout = plan.layout
    split = _splitter(plan.format)
    gathered = Gatherer(path, options)
    for line, raw in lines(path, progress=options.progress):
        if not raw or line <= plan.header_line:
            continue
        try:
            fields = split(decoded(raw))
            if len(fields) != layout.n_fields:
                raise DataError(_wrong_count(plan, len(fields)))
            rating = None if layout.rating is None else number(fields[layout.rating], "rating")
            timestamp = None if layout.timestamp is None else number(fields[layout.timestamp], "timestamp")
            gathered.add(fields[layout.user], fields[layout.item], rating, timestamp)
        except DataError as error:
            gathered.bad(line, error.reason)
    return gathered.table()


def _wrong_count(plan: Plan, found: int) -> str:
    expected = f"the row has {found} fields, not {plan.layout.n_fields}"
    if plan.format.layout:
        return f"{expected} ({plan.format.delimiter.join(plan.format.layout)})"
    return f"{expected} as the {'header' if plan.header_line else 'first row'} has"
