"""Adjacency lines, `user item item ...`, separated by spaces or tabs: the format of the paper's own code.

A user may have several lines. A line with one bad id is bad as a whole. Blank lines are passed over.
"""

from __future__ import annotations

from pathlib import Path

from receraser.data.readers.formats import Options
from receraser.data.readers.lines import MAX_ADJACENCY_BYTES, decoded, lines
from receraser.data.readers.rows import Gatherer, Table
from receraser.errors import DataError, UsageError

__all__ = ["parse_adjacency"]


def parse_adjacency(path: Path, options: Options) -> Table:
    """Read every line, in order."""
    if options.columns is not None:
        raise UsageError("columns: a file of `user item item ...` lines has no columns to name")
    if options.min_rating is not None:
        raise DataError("a minimum rating is asked for, but adjacency lines hold no ratings", path=str(path))
    if options.keep_timestamps:
        raise DataError("timestamps are to be kept, but adjacency lines hold none", path=str(path))
    gathered = Gatherer(path, options)
    seen = False
    for line, raw in lines(path, MAX_ADJACENCY_BYTES, options.progress):
        try:
            # not str.split(): that would also cut at control characters and at spaces inside non-ASCII ids
            ids = [name for name in decoded(raw).replace("\t", " ").split(" ") if name]
            if not ids:
                continue
            seen = True
            if len(ids) == 1:
                raise DataError(f"the user {ids[0][:40]!r} stands without items")
            gathered.add_line(ids[0], ids[1:])
        except DataError as error:
            seen = True
            gathered.bad(line, error.reason)
    if not seen:
        raise DataError("the file is empty", path=str(path))
    return gathered.table()
