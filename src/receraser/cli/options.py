"""The options that several commands share, written once so that they are the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from receraser.errors import UsageError

__all__ = [
    "AsJson",
    "Columns",
    "DryRun",
    "Keys",
    "MinRating",
    "SkipBadRows",
    "Store",
    "id_given",
    "integers",
    "pair_given",
    "pairs",
]

_DEEPEST = 10_000  # nobody reads a longer list, and every user's is held in memory

Store = Annotated[Path, typer.Option("--store", metavar="DIR", help="Folder of the store.", show_default=False)]
Keys = Annotated[
    Path | None,
    typer.Option(
        "--keys", metavar="DIR", help="Folder with the key of the users' pseudonyms. Without it, a public key is used."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="ROLE=NAME,...",
        help="Which columns to read, e.g. user=uid,item=film,rating=stars; or by position: user=1,item=2.",
    ),
]
MinRating = Annotated[float | None, typer.Option("--min-rating", metavar="X", help="Leave out rows rated lower.")]
RebuildEvery = Annotated[
    int | None,
    typer.Option(
        "--rebuild-every", metavar="N", min=1, help="A new partition with every N-th request (ubp, ibp, ...)."
    ),
]
RebuildDays = Annotated[
    int | None,
    typer.Option("--rebuild-days", metavar="N", min=1, help="A new partition with the first request after N days."),
]
SkipBadRows = Annotated[bool, typer.Option("--skip-bad-rows", help="Leave out bad rows, count them and list them.")]


def pairs(settings: list[str]) -> dict[str, str]:
    """Split KEY=VALUE texts.

    Examples
    --------
    >>> pairs(["dim=8"])
    {'dim': '8'}
    """
    found = {}
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--set {text!r}: expected KEY=VALUE, as in --set dim=32")
        found[key.strip()] = value.strip()
    return found


def integers(text: str, option: str) -> list[int]:
    """Split a list such as 10,20,50.

    Examples
    --------
    >>> integers("10,20", "--at")
    [10, 20]
    """
    try:
        values = [int(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or min(values) < 1 or max(values) > _DEEPEST:
        raise UsageError(f"{option} {text!r}: expected whole numbers from 1 to {_DEEPEST:,}, as in {option} 10,20,50")
    return list(dict.fromkeys(values))


def id_given(text: str, option: str) -> str:
    """Return an id given on the command line, checked.

    Examples
    --------
    >>> id_given("u 17", "--user")
    'u 17'
    """
    from receraser.data.ids import id_problem

    problem = id_problem(text)
    if problem is not None:
        raise UsageError(f"{option} {text!r}: {problem}")
    return text


def pair_given(text: str, option: str) -> tuple[str, str]:
    """Return a user and an item given as one text; no id holds a comma.

    Examples
    --------
    >>> pair_given("u1,i7", "--interaction")
    ('u1', 'i7')
    """
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(parts):
        raise UsageError(f"{option} {text!r}: expected a user and an item, as in {option} U,I")
    return id_given(parts[0], option), id_given(parts[1], option)
