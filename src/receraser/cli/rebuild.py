"""`receraser rebuild`: a store fitted again, from its surviving rows alone."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from receraser.cli import options
from receraser.cli.console import Bar, print_json, say

__all__ = ["rebuild"]


def rebuild(
    store: options.Store,
    embeddings: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Vectors for a partition that takes them from a file.")
    ] = None,
    keys: options.Keys = None,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Fit a store again, from its surviving rows alone.

    A new partition and new weights. For partitions that look at the data this takes away what the assignment remembered
    of forgotten rows; and it moves a store to the environment of today.
    """
    from receraser.cli.opening import changing_store, open_store
    from receraser.cli.reading import read_embeddings_for

    started = time.perf_counter()
    opened = nullcontext(open_store(store, keys)) if dry_run else changing_store(store, keys)
    with opened as engine, Bar("starting a worker") as bar:
        reading = time.perf_counter() - started
        before = engine.level
        if not dry_run:
            engine.rebuild(embeddings=read_embeddings_for(embeddings), progress=bar.update)
    seconds = {"read": reading, **engine.seconds}
    seconds["total"] = sum(seconds.values())
    if as_json:
        told = {"dry_run": True} if dry_run else {}
        times = {name: round(value, 4) for name, value in seconds.items()}
        shards = [vars(shard) for shard in engine.shards]
        print_json({**told, "digest": engine.digest, "level": engine.level, "shards": shards, "seconds": times})
        return
    if dry_run:
        say(f"would fit {len(engine.shards)} shards again; the level is {before}, and would be L3")
        return
    for stage, value in seconds.items():
        say(f"  {stage:<10} {value:8.2f} s")
    say(f"published in {store}, digest {engine.digest[:16]}..., level {engine.level} (before: {before})")
