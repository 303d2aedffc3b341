"""A file of requests to one `ForgetRequest`: CSV and TSV with a header, or one JSON object a line; each also as .gz.

A line names a user (all of that user's rows are to go), an item (all rows with it), or both (that one row):

::

    user,item            {"user": "u7"}
    u7,                  {"item": "film 3"}
    ,film 3              {"user": "u9", "item": 12}
    u9,12

- Columns stand in any order and go by the names that interaction files have (`readers.columns`), keys too; one of the
  two is enough. An empty field is "not given", and so is null.
- `request_id`, `requested_at`, ratings and timestamps may be there and are not looked at. Any other name is refused:
  it could be a misspelt user column, and without the user a line would mean every row of its item. For the same reason
  `id` is refused: nobody can tell whose.
- Ids are text as written; JSON integers are their digits, and other numbers are refused.
- Blank lines are passed over. A file of no requests is an empty batch, not a fault.

The first fault ends the reading, with file, line and reason: a batch is read whole or not at all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from receraser.data.readers.columns import ALIASES
from receraser.data.readers.delimited import split_fields
from receraser.data.readers.formats import require_file
from receraser.data.readers.lines import decoded, lines
from receraser.erasure.request import ForgetRequest, checked_id
from receraser.errors import DataError, nearest

__all__ = ["read_requests"]

_ROLES: Mapping[str, str] = {
    **{name: role for role in ("user", "item", "rating", "timestamp") for name in ALIASES[role]},
    "request_id": "request_id",
    "requested_at": "requested_at",
}
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_OBJECTS = (".jsonl", ".ndjson")
_KINDS = {bool: "true or false", float: "a number that is no integer", list: "a list", tuple: "an object"}

Subject = tuple[str | None, str | None]


def read_requests(path: str | os.PathLike[str]) -> ForgetRequest:
    r"""Read a batch of requests from `.csv`, `.tsv`, `.jsonl` or `.ndjson`, each also with `.gz`.

    Raises
    ------
    DataError
        Naming file, line and reason; nothing is returned then.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "requests.csv")
    ...     _ = file.write_text("user,item\nu7,\n,film 3\nu9,12\n")
    ...     read_requests(file)
    ForgetRequest(1 users, 1 items, 1 interactions)
    """
    file = Path(path)
    require_file(file)
    subjects = list(_subjects(file))
    return ForgetRequest.of(
        users=[user for user, item in subjects if user is not None and item is None],
        items=[item for user, item in subjects if user is None and item is not None],
        interactions=[(user, item) for user, item in subjects if user is not None and item is not None],
    )


def _subjects(path: Path) -> Iterator[Subject]:
    """Yield what every line names, by the format that the file's name announces."""
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(_OBJECTS):
        return _of_objects(path)
    for extension, delimiter in _DELIMITERS.items():
        if name.endswith(extension):
            return _of_rows(path, delimiter)
    reason = "requests are read from *.csv, *.tsv, *.jsonl and *.ndjson, each with .gz or without; name the file so"
    raise DataError(reason, path=str(path))


@contextmanager
def _line(path: Path, line: int) -> Iterator[None]:
    """Add file and line to a fault."""
    try:
        yield
    except DataError as error:
        raise DataError(error.reason, path=str(path), line=line) from error


# ---------------------------------------------------------------------- rows


def _of_rows(path: Path, delimiter: str) -> Iterator[Subject]:
    header: list[str] = []
    places: Mapping[str, int] = {}
    for line, raw in lines(path):
        if not raw:
            continue
        with _line(path, line):
            fields = split_fields(decoded(raw), delimiter)
            if not header:
                header, places = fields, _header_places(fields)
                continue
            if len(fields) != len(header):
                raise DataError(f"the row has {len(fields)} fields, not {len(header)} as the header has")
            given = {role: fields[place] or None for role, place in places.items()}
            subject = _subject(given.get("user"), given.get("item"))
        yield subject


def _header_places(names: Sequence[str]) -> Mapping[str, int]:
    if not {"user", "item"} & {_role(name) for name in names}:
        found = ", ".join(repr(name[:40]) for name in names[:8]) + (", ..." if len(names) > 8 else "")
        raise DataError(f"the first line names no user or item column; found {found}; expected a header: user,item")
    return _places(names, "column")


# ---------------------------------------------------------------------- objects


def _of_objects(path: Path) -> Iterator[Subject]:
    for line, raw in lines(path):
        if not raw.strip():
            continue
        with _line(path, line):
            pairs = _object(decoded(raw))
            places = _places([name for name, _ in pairs], "key")
            for name, value in pairs:
                if isinstance(value, (list, tuple)):
                    raise DataError(f"the value of {name[:40]!r} is {_KINDS[type(value)]}; expected text or a number")
            given = {role: _given(role, pairs[place][1]) for role, place in places.items() if role in ("user", "item")}
            subject = _subject(given.get("user"), given.get("item"))
        yield subject


def _object(text: str) -> Sequence[tuple[str, object]]:
    """Return the keys and values of the one object on a line, repeated keys too."""
    expected = 'expected one object a line, such as {"user": "u7"}'
    try:
        found = json.loads(text, object_pairs_hook=tuple)  # an object is a tuple of pairs, a list stays a list
    except json.JSONDecodeError as error:
        raise DataError(f"no JSON: {error.msg} at position {error.colno}; {expected}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"JSON with a number too long or nested too deep; {expected}") from error
    if not isinstance(found, tuple):
        raise DataError(f"JSON, but no object; {expected}")
    return found


def _given(role: str, value: object) -> str | int | None:
    if value == "":
        raise DataError(f"the {role} is an empty text; leave the key out where no {role} is meant")
    if value is None or (isinstance(value, (str, int)) and not isinstance(value, bool)):
        return value
    raise DataError(f"the {role} is {_KINDS[type(value)]}; an id is text or an integer: write it in quotes")


# ---------------------------------------------------------------------- both


def _role(name: str) -> str | None:
    return _ROLES.get(name.strip().lower())


def _places(names: Sequence[str], what: str) -> Mapping[str, int]:
    """Return where each role stands; refuse a name that is not known, and two for one role."""
    places: dict[str, int] = {}
    for place, name in enumerate(names):
        role = _role(name)
        if role is None:
            raise DataError(f"unknown {what} {name[:40]!r}; {nearest(name.strip().lower(), set(_ROLES.values()))}")
        if role in places:
            raise DataError(f"two {what}s name the {role}: {names[places[role]]!r} and {name!r}; leave one of them out")
        places[role] = place
    return places


def _subject(user: str | int | None, item: str | int | None) -> Subject:
    if user is None and item is None:
        raise DataError("the line names neither a user nor an item; give at least one, or take the line out")
    return None if user is None else checked_id("user", user), None if item is None else checked_id("item", item)
