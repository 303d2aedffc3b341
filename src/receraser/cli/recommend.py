"""`receraser recommend`: the best items for users, or for somebody known only by a list of items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from receraser.cli import options
from receraser.cli.console import print_json, print_table, say, warn

if TYPE_CHECKING:
    from receraser.engine import Recommendation

__all__ = ["recommend"]


def recommend(
    store: options.Store,
    user: Annotated[list[str], typer.Option("--user", metavar="U", help="A user; repeatable.")] = [],  # noqa: B006
    items: Annotated[
        str | None, typer.Option("--items", metavar="I,I,...", help="Somebody new, who likes these items.")
    ] = None,
    k: Annotated[int, typer.Option("-k", metavar="K", help="How many items.")] = 10,
    keys: options.Keys = None,
    as_json: options.AsJson = False,
) -> None:
    """Recommend items; those a user has already are left out."""
    from receraser.cli.opening import open_store
    from receraser.errors import UsageError

    if not user and items is None:
        raise UsageError("name at least one user with --user, or a list of items with --items")
    if k < 1:
        raise UsageError(f"-k {k}: expected at least 1")
    users = [options.id_given(one, "--user") for one in user]
    liked = None if items is None else [options.id_given(part.strip(), "--items") for part in items.split(",")]
    engine = open_store(store, keys)
    strange = [item for item in liked or [] if item not in engine.items]
    if strange and len(strange) < len(liked or []):
        warn(f"left out as unknown to this store: {', '.join(strange)}")
    answer = engine.recommend(users, k=k, items=liked)
    for name, found in answer.items():
        if not found:
            say(_nothing(name, known=not name or engine.knows(name), items=liked))
    if as_json:
        listing = {name: [_entry(one, engine.titles) for one in found] for name, found in answer.items()}
        print_json({"recommendations": listing})
        return
    for name, found in answer.items():
        if found:
            heading = f"for {name}" if name else f"for somebody with {', '.join(liked or [])}"
            _print(heading, found, engine.titles)


def _entry(one: Recommendation, titles: dict[str, str]) -> dict[str, object]:
    title = {"title": titles[one.item]} if one.item in titles else {}
    return {"item": one.item, "score": one.score, **title}


def _print(heading: str, found: list[Recommendation], titles: dict[str, str]) -> None:
    rows = [[str(n), one.item, titles.get(one.item, ""), f"{one.score:.4f}"] for n, one in enumerate(found, 1)]
    columns = ["", "item", "title", "score"]
    if not titles:
        columns, rows = ["", "item", "score"], [[n, item, score] for n, item, _, score in rows]
    print_table(columns, rows, title=heading)


def _nothing(name: str, *, known: bool, items: list[str] | None) -> str:
    if not known:
        return f"user {name} is unknown to this store (it holds no training rows of theirs): nothing to recommend"
    if name:
        return f"user {name} has every item there is: nothing left to recommend"
    return f"nothing to recommend for {', '.join(items or [])}: no such item is known to this store, or no other one"
