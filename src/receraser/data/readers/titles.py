"""Titles of items, for display only: they are no part of what is fitted, and no digest covers them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from receraser.data.ids import id_problem
from receraser.data.readers.columns import find
from receraser.data.readers.delimited import split_fields
from receraser.data.readers.formats import require_file
from receraser.data.readers.lines import decoded, lines
from receraser.errors import DataError

__all__ = ["read_titles"]

# control characters, line separators, and the marks that turn the direction of text around
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")


def read_titles(path: str | os.PathLike[str]) -> dict[str, str]:
    r"""Read item titles: `.csv/.tsv[.gz]` with an item and a title column, MovieLens `movies.dat`, ML-100K `u.item`.

    MovieLens files may be Latin-1. Control characters in titles are replaced by U+FFFD; an item without a title is
    left out; of two titles of an item the first is kept.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "items.csv")
    ...     _ = file.write_text('item,title\n7,"Alien, the first"\n')
    ...     read_titles(file)
    {'7': 'Alien, the first'}
    """
    file = Path(path)
    require_file(file)
    name = file.name.lower().removesuffix(".gz")
    if name.endswith((".csv", ".tsv")):
        delimiter = "," if name.endswith(".csv") else "\t"
        return _gather(file, lambda raw: split_fields(decoded(raw), delimiter), header=True)
    if name.endswith(".dat"):
        return _gather(file, lambda raw: _old_text(raw).split("::"), header=False)
    if name == "u.item":
        return _gather(file, lambda raw: _old_text(raw).split("|"), header=False)
    raise DataError(
        "titles are read from *.csv, *.tsv (with .gz or without), MovieLens *.dat and u.item", path=str(path)
    )


def _old_text(raw: bytes) -> str:
    """Return the text of a MovieLens line: Latin-1 in older files, UTF-8 in newer ones."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _gather(path: Path, split: Callable[[bytes], list[str]], *, header: bool) -> dict[str, str]:
    titles: dict[str, str] = {}
    item, title, n_fields = (0, 1, 0)
    rows = 0
    for line, raw in lines(path):
        if not raw:
            continue
        try:
            fields = split(raw)
            if n_fields == 0:
                n_fields = len(fields)
                if header:
                    item, title = _places(fields)
                    continue
            rows += 1
            if len(fields) != n_fields or n_fields < 2:
                raise DataError(f"the row has {len(fields)} fields, not {max(n_fields, 2)}")
            problem = id_problem(fields[item])
            if problem is not None:
                raise DataError(f"item: {problem}")
        except DataError as error:
            raise DataError(error.reason, path=str(path), line=line) from error
        shown = _UNPRINTABLE.sub("\ufffd", fields[title]).strip()
        if shown:
            titles.setdefault(fields[item], shown)
    if rows == 0:
        raise DataError("the file has no rows" if n_fields else "the file is empty", path=str(path))
    return titles


def _places(fields: list[str]) -> tuple[int, int]:
    item, title = find(fields, "item"), find(fields, "title")
    if item is None or title is None:
        found = ", ".join(repr(name[:40]) for name in fields[:8])
        raise DataError(f"the first line names no item and title column; found {found}; expected item,title")
    return item, title
