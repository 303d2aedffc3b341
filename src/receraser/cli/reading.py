"""Reading data files for a command, and saying what was found in them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from receraser.cli.console import Bar, count, say, warn
from receraser.data.readers import ReadReport, ReadResult, parse_columns, read

if TYPE_CHECKING:
    from receraser.partition.partition import Embeddings

__all__ = ["describe", "read_embeddings_for", "read_for"]


def read_for(
    path: Path,
    *,
    columns: str | None,
    min_rating: float | None,
    skip_bad_rows: bool,
    keep_timestamps: bool = False,
) -> ReadResult:
    """Read a file by the options of the command line; bad rows that were left out are listed."""
    with Bar(f"reading {path.name}") as bar:
        result = read(
            path,
            columns=None if columns is None else parse_columns(columns),
            min_rating=min_rating,
            skip_bad_rows=skip_bad_rows,
            keep_timestamps=keep_timestamps,
            progress=lambda done, total: bar.update(f"reading {path.name}", done, total),
        )
    report = result.report
    if report.bad_rows:
        warn(f"{path}: {count(report.bad_rows, 'bad row')} left out")
        for line, reason in report.bad_examples:
            say(f"  line {line}: {reason}")
        if report.bad_rows > len(report.bad_examples):
            say(f"  and {report.bad_rows - len(report.bad_examples):,} more")
    if report.duplicates_merged:
        warn(f"{path}: {count(report.duplicates_merged, 'duplicate')} merged")
    return result


def describe(report: ReadReport) -> dict[str, object]:
    """Return what a report says, for JSON."""
    return {
        "rows_read": report.rows_read,
        "duplicates_merged": report.duplicates_merged,
        "below_min_rating": report.below_min_rating,
        "bad_rows": report.bad_rows,
        "bad_examples": [{"line": line, "reason": reason} for line, reason in report.bad_examples],
    }


def read_embeddings_for(path: Path | None) -> Embeddings | None:
    """Read vectors for a partition, if a file was named."""
    if path is None:
        return None
    from receraser.partition.embeddings import read_embeddings

    return read_embeddings(path)
