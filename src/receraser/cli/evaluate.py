"""`receraser evaluate`: quality on held-out rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from receraser.cli import options
from receraser.cli.console import Bar, count, print_json, print_table, say

__all__ = ["evaluate"]


def evaluate(
    store: options.Store,
    test: Annotated[Path, typer.Option("--test", metavar="FILE", help="Held-out interactions.", show_default=False)],
    at: Annotated[str, typer.Option("--at", metavar="K,K,...", help="Cuts of the ranked lists.")] = "10,20,50",
    columns: options.Columns = None,
    min_rating: options.MinRating = None,
    skip_bad_rows: options.SkipBadRows = False,
    keys: options.Keys = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure recall, NDCG and more on held-out rows.

    Full ranking: every item a user does not have is ranked. Only training rows are masked.
    """
    from receraser.cli.opening import open_store
    from receraser.cli.reading import read_for

    cuts = options.integers(at, "--at")
    engine = open_store(store, keys)
    held_out = read_for(test, columns=columns, min_rating=min_rating, skip_bad_rows=skip_bad_rows).interactions
    with Bar("ranking") as bar:
        found = engine.evaluate(held_out, at=cuts, progress=bar.update)
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
    names = list(dict.fromkeys(metric.partition("@")[0] for metric in found.metrics))
    rows = [[name, *(f"{found.metrics[f'{name}@{cut}']:.4f}" for cut in cuts)] for name in names]
    print_table(["", *(f"@{cut}" for cut in cuts)], rows)
    say(f"ranked for {count(found.users, 'user')}; {found.users_skipped:,} more in the test rows have no training rows")
