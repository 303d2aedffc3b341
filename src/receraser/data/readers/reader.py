"""`read`: a file to `Interactions`, by the file's name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from receraser.data.readers.adjacency import parse_adjacency
from receraser.data.readers.columnar import parse_columnar
from receraser.data.readers.delimited import parse_delimited, plan_of
from receraser.data.readers.formats import Options, format_of, require_file
from receraser.data.readers.lines import Progress
from receraser.data.readers.parquet import parse_parquet
from receraser.data.readers.rows import ReadResult, conclude, require_columns

__all__ = ["read"]

_LARGE_BYTES = 1024 * 1024  # below this, the careful parser is done before pyarrow is imported


def read(
    path: str | os.PathLike[str],
    *,
    columns: Mapping[str, str | int] | None = None,
    min_rating: float | None = None,
    skip_bad_rows: bool = False,
    keep_timestamps: bool = False,
    progress: Progress | None = None,
) -> ReadResult:
    r"""Read interactions from a CSV, TSV, Parquet, MovieLens, RecBole or adjacency file.

    Parameters
    ----------
    path
        The file; its name says the format (`docs/data.md` lists them).
    columns
        Role to column: a header name, or a position from 1 for a file without a header. `parse_columns` makes it from
        text. Without it the header's own names are used.
    min_rating
        Leave out rows rated below this. Without it a rating of any value is one interaction.
    skip_bad_rows
        Count and list bad rows instead of raising at the first one. Faults of the file as a whole always raise.
    keep_timestamps
        Keep the timestamps, for splits by time.
    progress
        Called as `progress(done, total)` while reading: bytes of the file, or rows of a Parquet file.

    Raises
    ------
    DataError
        Naming file, line and reason; nothing is returned then.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "ratings.csv")
    ...     _ = file.write_text("userId,movieId,rating\n1,31,2.5\n1,31,4\n2,9,5\n")
    ...     result = read(file)
    >>> result.interactions, result.report.duplicates_merged
    (Interactions(2 rows, 2 users, 2 items), 1)
    """
    file = Path(path)
    options = Options(columns, min_rating, skip_bad_rows, keep_timestamps, progress)
    require_file(file)
    fmt = format_of(file)
    if fmt.name == "parquet":
        table = parse_parquet(file, fmt, options)
    elif fmt.name == "lines":
        table = parse_adjacency(file, options)
    else:
        plan = plan_of(file, fmt, options)
        require_columns(plan.layout, options, file)
        fast = parse_columnar(file, plan, options) if file.stat().st_size >= _LARGE_BYTES else None
        table = parse_delimited(file, plan, options) if fast is None else fast
    return conclude(file, fmt.name, table)
