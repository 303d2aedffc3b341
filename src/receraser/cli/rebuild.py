"""`receraser rebuild`: a store fitted again, from its surviving rows alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from receraser.cli import options
from receraser.cli.console import Bar, count, print_json, say
from receraser.cli.outcome import rounded, say_published

__all__ = ["rebuild"]


def rebuild(
    store: options.Store,
    device: Annotated[str | None, typer.Option(metavar="auto|cpu|cuda", help="Move it to another device.")] = None,
    embeddings: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Vectors for a partition that takes them from a file.")
    ] = None,
    rebuild_every: options.RebuildEvery = None,
    rebuild_days: options.RebuildDays = None,
    keys: options.Keys = None,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Fit a store again, from its surviving rows alone.

    A new partition and new weights. For partitions that look at the data this takes away what the assignment remembered
    of forgotten rows; and it moves a store to the environment of today.
    """
    from receraser.cli.opening import opened
    from receraser.cli.reading import read_embeddings_for
    from receraser.store.record import Policy

    with opened(store, keys, to_change=not dry_run, needs_key=False, finish=False) as (engine, reading):
        before = engine.level
        if not dry_run:
            if rebuild_every is not None or rebuild_days is not None:
                engine.policy = Policy(rebuild_every, rebuild_days)
            with Bar("starting a worker") as bar:
                engine.rebuild(device=device, embeddings=read_embeddings_for(embeddings), progress=bar.update)
    seconds = {"read": reading, **engine.seconds}
    if as_json:
        print_json(
            {
                **({"dry_run": True} if dry_run else {}),
                "digest": engine.digest,
                "level": engine.level,
                "shards": [vars(shard) for shard in engine.shards],
                "balance": round(engine.balance, 4),
                "seconds": rounded(seconds),
                "certificate": None if engine.certificate is None else str(engine.certificate),
            }
        )
    elif dry_run:
        say(f"would fit {count(len(engine.shards), 'shard')} again; the level is {before}")
    else:
        say_published(engine, store, seconds, f"the level was {before}", certificate=engine.certificate)
