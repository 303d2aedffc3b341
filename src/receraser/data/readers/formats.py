"""The formats, told apart by file name alone, and what the caller of `read` asked for. Nothing is opened here."""

from __future__ import annotations

import math
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from receraser.data.readers.lines import Progress
from receraser.errors import DataError, UsageError

__all__ = ["KNOWN", "Format", "Options", "format_of", "require_file"]


@dataclass(frozen=True)
class Format:
    """How the text of one kind of file is cut into fields.

    Attributes
    ----------
    name
        As it stands in a report.
    delimiter
        Between fields; "" where the format has no delimited rows.
    quoting
        Whether a field may stand in double quotes.
    header
        Whether the first line names the columns.
    layout
        The names of the fields where the format fixes them.
    """

    name: str
    delimiter: str = ""
    quoting: bool = False
    header: bool = False
    layout: tuple[str, ...] = ()


_RATINGS = ("user", "item", "rating", "timestamp")

KNOWN: Mapping[str, Format] = {
    ".csv": Format("csv", ",", quoting=True, header=True),
    ".tsv": Format("tsv", "\t", quoting=True, header=True),
    ".txt": Format("lines"),
    ".dat": Format("movielens", "::", layout=_RATINGS),
    "u.data": Format("ml-100k", "\t", layout=_RATINGS),
    ".inter": Format("recbole", "\t", quoting=True, header=True),
    ".parquet": Format("parquet"),
}


@dataclass(frozen=True)
class Options:
    """What the caller of `read` asked for; see there."""

    columns: Mapping[str, str | int] | None = None
    min_rating: float | None = None
    skip_bad_rows: bool = False
    keep_timestamps: bool = False
    progress: Progress | None = None

    def __post_init__(self) -> None:
        if self.min_rating is not None and not math.isfinite(self.min_rating):
            raise UsageError(f"the minimum rating is {self.min_rating}; a finite number is expected")


def format_of(path: Path) -> Format:
    """Return the format a file's name announces.

    Examples
    --------
    >>> format_of(Path("ratings.csv.gz")).name, format_of(Path("ml-100k/u.data")).name
    ('csv', 'ml-100k')
    """
    name = path.name.lower()
    plain = name.removesuffix(".gz")
    known = KNOWN.get(plain) or KNOWN.get(Path(plain).suffix)
    if known is None or (known.name == "parquet" and plain != name):
        listing = ", ".join("u.data" if key == "u.data" else f"*{key}" for key in KNOWN)
        raise DataError(
            f"the name ends in no known extension; known: {listing}, all but Parquet also with .gz", path=str(path)
        )
    return known


def require_file(path: Path) -> None:
    """Refuse what is missing, a directory, or no regular file."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, ValueError) as error:  # ValueError: a NUL in the name
        raise DataError("there is no such file", path=str(path)) from error
    except OSError as error:
        raise DataError(f"the file cannot be read ({error.strerror})", path=str(path)) from error
    if stat.S_ISDIR(mode):
        raise DataError("this is a directory; name a file in it", path=str(path))
    if not stat.S_ISREG(mode):
        raise DataError("this is no regular file; save the data to one first", path=str(path))
