"""`receraser add`: new interactions join a store; only the shards they go to are retrained."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from receraser.cli import options
from receraser.cli.console import Bar, count, print_json, say

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
    from receraser.cli.opening import changing_store, open_store
    from receraser.cli.reading import describe, read_for

    read = read_for(data, columns=columns, min_rating=min_rating, skip_bad_rows=skip_bad_rows)
    started = time.perf_counter()
    opened = nullcontext(open_store(store, keys)) if dry_run else changing_store(store, keys, keep_old=keep_old)
    with opened as engine, Bar("starting a worker") as bar:
        reading = time.perf_counter() - started
        report = engine.add(read.interactions, dry_run=dry_run, progress=bar.update)
    seconds = {"read": reading, **engine.seconds}
    seconds["total"] = sum(seconds.values())
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
                "seconds": {name: round(value, 4) for name, value in seconds.items()},
                "estimated_seconds": report.estimated_seconds,
                "data": describe(read.report),
            }
        )
        return
    if report.rows_held:
        say(f"{count(report.rows_held, 'row')} held already")
    if not report.rows_added:
        say(f"nothing to add: the store in {store} is as it was")
        return
    shards = ", ".join(str(one) for one in report.shards_retrained)
    of_all = f"{len(report.shards_retrained)} of {count(len(engine.shards), 'shard')} ({shards})"
    if dry_run:
        about = report.estimated_seconds
        cost = "" if about is None else f", about {about:.1f} s by the last fit"
        say(f"would add {count(report.rows_added, 'row')} and retrain {of_all}{cost}")
        return
    for stage, value in seconds.items():
        say(f"  {stage:<10} {value:8.2f} s")
    say(f"added {count(report.rows_added, 'row')}; retrained {of_all}")
    say(f"published in {store}, digest {engine.digest[:16]}..., level {engine.level}")
