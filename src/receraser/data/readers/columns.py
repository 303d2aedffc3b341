"""Which field of a row is the user, the item, the rating, the timestamp: by header, by `--columns`, or by the format.

Header names are compared without case and outer white space against one small table; a column of another name is
ignored. What the caller names with `--columns` is taken literally, and then nothing else is looked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from receraser.data.readers.formats import Format
from receraser.errors import DataError, UsageError, nearest

__all__ = ["ALIASES", "Layout", "find", "layout_of", "parse_columns"]

# The first name of each role wins over the others where a file has several.
ALIASES: Mapping[str, tuple[str, ...]] = {
    "user": ("user", "user_id", "userid", "uid"),
    "item": (
        "item",
        "item_id",
        "itemid",
        "iid",
        "movie",
        "movie_id",
        "movieid",
        "product_id",
        "productid",
        "business_id",
        "artist_id",
        "artistid",
    ),
    "rating": ("rating", "ratings", "stars", "score"),
    "timestamp": ("timestamp", "time", "ts", "unix_timestamp"),
    "title": ("title", "movie_title", "item_title", "name"),
}
ROLES = ("user", "item", "rating", "timestamp")
_SYNTAX = "user=NAME,item=NAME[,rating=NAME][,timestamp=NAME], or numbers (from 1) for a file without a header"


@dataclass(frozen=True)
class Layout:
    """Where a row's values stand, as positions from 0; `n_fields` is how many fields a row has."""

    n_fields: int
    user: int
    item: int
    rating: int | None = None
    timestamp: int | None = None


def parse_columns(text: str) -> dict[str, str | int]:
    """Read the value of `--columns`: names of a header, or positions in a file without one.

    Examples
    --------
    >>> parse_columns("user=uid,item=movie,rating=stars")
    {'user': 'uid', 'item': 'movie', 'rating': 'stars'}
    >>> parse_columns("user=1,item=3")
    {'user': 1, 'item': 3}
    """
    columns: dict[str, str | int] = {}
    for part in text.split(","):
        role, equals, where = (piece.strip() for piece in part.partition("="))
        if not equals or not where:
            raise UsageError(f"--columns: {part!r} is not ROLE=NAME; expected {_SYNTAX}")
        if role in columns:
            raise UsageError(f"--columns names the {role} twice")
        columns[role] = int(where) if where.isascii() and where.isdigit() else where
    check_columns(columns)
    return columns


def check_columns(columns: Mapping[str, str | int]) -> None:
    """Refuse an unknown role, a missing user or item, one column for two roles, names mixed with positions."""
    for role in columns:
        if role not in ROLES:
            raise UsageError(f"columns: unknown role {role!r}; {nearest(role, ROLES)}")
    for role in ("user", "item"):
        if role not in columns:
            raise UsageError(f"columns: the {role} is not named; expected {_SYNTAX}")
    if len(set(columns.values())) < len(columns):
        raise UsageError("columns: one column stands for two roles")
    if len({type(where) for where in columns.values()}) > 1:
        raise UsageError("columns: names and positions cannot be mixed")
    if any(isinstance(where, int) and where < 1 for where in columns.values()):
        raise UsageError("columns: positions count from 1")


def find(names: Sequence[str], role: str) -> int | None:
    """Return the position of the column that a header gives a role, or None.

    Examples
    --------
    >>> find(["movie_id", "Item", "title"], "item")
    1
    """
    plain = [name.strip().lower() for name in names]
    hits = [position for position, name in enumerate(plain) if name in ALIASES[role]]
    if len(hits) > 1:
        first = [position for position in hits if plain[position] == ALIASES[role][0]]
        if len(first) != 1:
            found = ", ".join(repr(names[position]) for position in hits)
            raise DataError(f"several columns could be the {role}: {found}; say which with --columns {_SYNTAX}")
        hits = first
    return hits[0] if hits else None


def layout_of(fmt: Format, fields: Sequence[str], columns: Mapping[str, str | int] | None) -> Layout:
    """Return the layout of a file whose first line (for Parquet: whose schema) has these fields.

    A `DataError` from here has no file or line; the caller adds them.
    """
    if columns is None:
        if fmt.layout:
            return _made(len(fmt.layout), {role: fmt.layout.index(role) for role in fmt.layout})
        names = [_untyped(name) for name in fields] if fmt.name == "recbole" else fields
        by_role = {role: position for role in ROLES if (position := find(names, role)) is not None}
        if "user" not in by_role or "item" not in by_role:
            raise DataError(_unknown_header(fields))
        return _made(len(fields), by_role)
    check_columns(columns)
    return _made(len(fields), {role: _position(fmt, fields, where) for role, where in columns.items()})


def has_header(fmt: Format, columns: Mapping[str, str | int] | None) -> bool:
    """Say whether the first line is a header: the format has one, and the columns are not given by position."""
    return fmt.header and not (columns and any(isinstance(where, int) for where in columns.values()))


def _made(n_fields: int, by_role: Mapping[str, int]) -> Layout:
    return Layout(n_fields, by_role["user"], by_role["item"], by_role.get("rating"), by_role.get("timestamp"))


def _position(fmt: Format, fields: Sequence[str], where: str | int) -> int:
    if isinstance(where, int):
        if where > len(fields):
            raise DataError(f"there is no column {where}: a row has {len(fields)} fields")
        return where - 1
    if fmt.layout:
        raise UsageError(f"columns: a {fmt.name} file has no header; give positions, for example user=1,item=2")
    names = [_untyped(name) for name in fields] if fmt.name == "recbole" and ":" not in where else list(fields)
    hits = [position for position, name in enumerate(names) if name.strip() == where]
    if len(hits) != 1:
        how = "stands twice" if hits else "is missing"
        raise DataError(f"the column {where!r} {how}; {nearest(where, {_shown(name) for name in names})}")
    return hits[0]


def _untyped(name: str) -> str:
    """RecBole writes `name:type`; the types are not needed."""
    return name.partition(":")[0]


def _shown(name: str) -> str:
    return name.strip() if len(name) <= 40 else name[:40] + "..."


def _unknown_header(fields: Sequence[str]) -> str:
    found = ", ".join(repr(_shown(name)) for name in fields[:8]) + (", ..." if len(fields) > 8 else "")
    return (
        f"the first line names no user and item column; found {found}; expected names such as user,item,rating,"
        f"timestamp. Say which they are with --columns {_SYNTAX}"
    )
