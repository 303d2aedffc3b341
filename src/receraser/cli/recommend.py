"""`receraser recommend`: the best items for users, or for somebody known only by a list of items."""

from __future__ import annotations

from typing import Annotated

import typer

from receraser.cli import options
from receraser.cli.console import print_json, print_table, say

__all__ = ["recommend"]


def recommend(
    store: options.Store,
    user: Annotated[list[str], typer.Option("--user", metavar="U", help="A user; repeatable.")] = [],  # noqa: B006
    items: Annotated[
        str | None, typer.Option("--items", metavar="I,I,...", help="Somebody new, who likes these items.")
    ] = None,
    k: Annotated[int, typer.Option("-k", help="How many items.")] = 10,
    keys: options.Keys = None,
    as_json: options.AsJson = False,
) -> None:
    """Recommend items; those a user has already are left out."""
    from receraser.engine import Engine
    from receraser.errors import UsageError
    from receraser.keys import load_key

    if not user and items is None:
        raise UsageError("name at least one user with --user, or a list of items with --items")
    engine = Engine.load(store, key=load_key(keys))
    liked = None if items is None else [part.strip() for part in items.split(",")]
    answer = engine.recommend(user, k=k, items=liked)
    for name, found in answer.items():
        if not found:
            say(_nothing(name, known=bool(name) and engine.knows(name)))
    if as_json:
        print_json(
            {
                "recommendations": {
                    name: [
                        {"item": one.item, "score": one.score}
                        | ({"title": engine.titles[one.item]} if one.item in engine.titles else {})
                        for one in found
                    ]
                    for name, found in answer.items()
                }
            }
        )
        return
    for name, found in answer.items():
        rows = [[str(n), one.item, engine.titles.get(one.item, ""), f"{one.score:.4f}"] for n, one in enumerate(found, 1)]
        if rows:
            print_table(["", "item", "title", "score"], rows, title=f"for {name or 'somebody with these items'}")


def _nothing(name: str, *, known: bool) -> str:
    if not name:
        return "none of the items given with --items is known to this store: nothing to recommend"
    if known:
        return f"user {name} has every item there is: nothing left to recommend"
    return f"user {name} is unknown to this store (no training rows are held): nothing to recommend"
