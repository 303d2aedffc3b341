"""Interactions back to files: adjacency lines and CSV. A file appears whole or not at all, with reproducible bytes."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from receraser.data.interactions import Interactions
from receraser.errors import DataError

__all__ = ["write_csv", "write_lines"]


def write_lines(path: str | os.PathLike[str], interactions: Interactions) -> None:
    """Write `user item item ...` lines in canonical order; gzip if the name ends in .gz.

    Timestamps are not written. An id with a space in it is refused: it would come back as two.
    """
    for ids, what in ((interactions.users, "user"), (interactions.items, "item")):
        spaced = next((name for name in ids if " " in name), None)
        if spaced is not None:
            raise DataError(f"the {what} id {spaced!r} holds a space; write CSV instead", path=str(path))
    _write(Path(path), _adjacency(interactions))


def write_csv(path: str | os.PathLike[str], interactions: Interactions) -> None:
    """Write `user,item[,timestamp]` rows with a header in canonical order (tabs if named .tsv); gzip if named .gz."""
    _write(Path(path), _delimited(interactions, "\t" if ".tsv" in Path(path).suffixes else ","))


def _adjacency(rows: Interactions) -> Iterator[str]:
    items = rows.items.ids
    bounds = rows.indptr.tolist()
    for user, start, end in zip(rows.users.ids, bounds[:-1], bounds[1:], strict=True):
        yield " ".join([user, *(items[i] for i in rows.item_index[start:end].tolist())]) + "\n"


def _delimited(rows: Interactions, delimiter: str) -> Iterator[str]:
    names = ["user", "item"] if rows.timestamps is None else ["user", "item", "timestamp"]
    yield delimiter.join(names) + "\n"
    users = [_field(name) for name in rows.users]
    items = [_field(name) for name in rows.items]
    times = None if rows.timestamps is None else rows.timestamps.tolist()
    for row, (u, i) in enumerate(zip(rows.user_index.tolist(), rows.item_index.tolist(), strict=True)):
        tail = "" if times is None else delimiter + _decimal(times[row])
        yield f"{users[u]}{delimiter}{items[i]}{tail}\n"


def _field(name: str) -> str:
    """Ids hold no delimiter and no line break; only a quote needs care."""
    return '"' + name.replace('"', '""') + '"' if '"' in name else name


def _decimal(value: float) -> str:
    return f"{value:.0f}" if value.is_integer() else repr(value)


def _write(path: Path, pieces: Iterable[str]) -> None:
    """Write to a hidden file beside the target, then put it in place."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            if path.name.lower().endswith(".gz"):
                with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0) as packed:
                    packed.writelines(piece.encode() for piece in pieces)
            else:
                file.writelines(piece.encode() for piece in pieces)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise DataError(f"the file cannot be written ({error.strerror or error})", path=str(path)) from error
    finally:
        partial.unlink(missing_ok=True)
