"""`receraser evaluate`: quality on held-out rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from receraser.cli import options
from receraser.cli.console import print_json, print_table, say

__all__ = ["evaluate"]


def evaluate(
    store: options.Store,
    test: Annotated[Path, typer.Option("--test", help="Held-out interactions.", show_default=False)],
    at: Annotated[str, typer.Option("--at", help="Cuts of the ranked lists.")] = "10,20,50",
    columns: options.Columns = None,
    min_rating: options.MinRating = None,
    skip_bad_rows: options.SkipBadRows = False,
    keys: options.Keys = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure recall, NDCG and more: full ranking, training rows masked."""
    from receraser.cli.reading import read_for
    from receraser.engine import Engine
    from receraser.keys import load_key
    from receraser.metrics import METRICS

    cuts = options.integers(at, "--at")
    engine = Engine.load(store, key=load_key(keys))
    held_out = read_for(test, columns=columns, min_rating=min_rating, skip_bad_rows=skip_bad_rows).interactions
    found = engine.evaluate(held_out, at=cuts)
    if as_json:
        print_json(
            {
                **found.metrics,
                "users": found.users,
                "users_skipped": found.users_skipped,
                "users_without_truth": found.users_without_truth,
            }
        )
        return
    rows = [[name, *(f"{found.metrics[f'{name}@{cut}']:.4f}" for cut in cuts)] for name in METRICS]
    print_table(["", *(f"@{cut}" for cut in cuts)], rows)
    say(f"{found.users:,} users ranked for; {found.users_skipped:,} of the test rows' users have no training rows")
