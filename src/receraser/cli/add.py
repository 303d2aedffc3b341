"""`receraser add`: new interactions join a store; only the shards they go to are retrained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from receraser.cli import options
from receraser.cli.console import Bar, count, print_json, say
from receraser.cli.outcome import cost, done_by, rounded, say_published

__all__ = ["add"]


def add(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Interactions, as for fit.")],
    store: options.Store,
    keep_old: Annotated[
        bool, typer.Option("--keep-old", help="Keep the state before it; the level is then at most L2.")
    ] = False,
    columns: options.Columns = None,
    min_rating: options.MinRating = None,
    skip_bad_rows: options.SkipBadRows = False,
    keys: options.Keys = None,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Add interactions; only the shards they join are retrained."""
    from receraser.cli.opening import opened
    from receraser.cli.reading import describe, read_for

    read = read_for(data, columns=columns, min_rating=min_rating, skip_bad_rows=skip_bad_rows)
    change = opened(store, keys, to_change=not dry_run, keep_old=keep_old)
    with change as (engine, reading), Bar("starting a worker") as bar:
        report = engine.add(read.interactions, dry_run=dry_run, progress=bar.update)
    seconds = {"read": reading, **engine.seconds}
    if as_json:
        print_json(
            {
                **({"dry_run": True} if dry_run else {}),
                "digest": engine.digest,
                "level": engine.level,
                "rows_added": report.rows_added,
                "rows_held": report.rows_held,
                "valid_rows_moved": report.valid_rows_moved,
                "shards_retrained": list(report.shards_retrained),
                "path": report.path,
                "certificate": None if report.certificate is None else str(report.certificate),
                "seconds": rounded(seconds),
                "estimated_seconds": report.estimated_seconds,
                "data": describe(read.report),
            }
        )
        return
    if report.rows_held:
        say(f"{count(report.rows_held, 'row')} held already")
    rows, how = count(report.rows_added, "row"), done_by(engine, report.path, report.shards_retrained)
    if not report.rows_added:
        say(f"nothing to add: the store in {store} is as it was")
    elif dry_run:
        say(f"would add {rows}, by {how}{cost(report.estimated_seconds)}")
    else:
        say_published(engine, store, seconds, f"added {rows}, by {how}", certificate=report.certificate)
