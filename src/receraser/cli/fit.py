"""`receraser fit`: read interactions, fit, publish a store."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from receraser.cli import options
from receraser.cli.console import Bar, print_json, say, warn

__all__ = ["fit"]


def fit(  # noqa: PLR0913 - the options of the command
    data: Annotated[Path, typer.Argument(help="Interactions: .csv .tsv .txt (each also .gz) .parquet .dat .inter")],
    store: options.Store,
    valid: Annotated[Path | None, typer.Option(help="Rows that choose the epoch; never trained on.")] = None,
    items: Annotated[Path | None, typer.Option(help="Titles of the items, shown with recommendations.")] = None,
    method: Annotated[str | None, typer.Option(help="Method: retrain.")] = None,
    model: Annotated[str | None, typer.Option(help="Base model: wmf, bpr or lightgcn.")] = None,
    dim: Annotated[int | None, typer.Option(help="Length of the vectors.")] = None,
    seed: Annotated[int | None, typer.Option(help="Root of every random draw.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda.")] = None,
    config: Annotated[str | None, typer.Option(help="A TOML file, or a preset by name, such as bpr-ml-1m.")] = None,
    settings: Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="A hyperparameter; repeatable.")] = [],  # noqa: B006
    columns: options.Columns = None,
    min_rating: options.MinRating = None,
    skip_bad_rows: options.SkipBadRows = False,
    replace: Annotated[bool, typer.Option("--replace", help="Destroy a store that is there already.")] = False,
    keys: options.Keys = None,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Fit a model on interactions and publish it as a store."""
    import dataclasses

    from receraser.cli.reading import describe, read_for
    from receraser.config import EngineConfig, load_config, resolve
    from receraser.data.readers import read_titles
    from receraser.engine import Engine
    from receraser.keys import load_key
    from receraser.store.directory import DirectoryStore

    chosen = load_config(config) if config is not None else EngineConfig()
    given = {"method": method, "model": model, "seed": seed, "device": device}
    changes = {name: value for name, value in given.items() if value is not None}
    if model is not None and model != chosen.model:
        changes["hyperparameters"] = {}  # another model's are of no use
    chosen = dataclasses.replace(chosen, **changes)  # type: ignore[arg-type]
    overrides = options.pairs(settings) | ({} if dim is None else {"dim": str(dim)})
    chosen = resolve(chosen, overrides)
    DirectoryStore(store).check_free(replace=replace)

    started = time.perf_counter()
    reading = {"columns": columns, "min_rating": min_rating, "skip_bad_rows": skip_bad_rows}
    train = read_for(data, **reading)  # type: ignore[arg-type]
    held = None if valid is None else read_for(valid, **reading)  # type: ignore[arg-type]
    titles = {} if items is None else read_titles(items)
    read_seconds = time.perf_counter() - started

    rows = train.interactions
    say(f"{len(rows):,} interactions of {len(rows.users):,} users with {len(rows.items):,} items")
    if dry_run:
        summary = {"dry_run": True, "config": chosen.as_dict(), "rows": len(rows), "data": describe(train.report)}
        if as_json:
            print_json(summary)
        else:
            say(f"would fit {chosen.model} ({chosen.method}) on {chosen.device} and publish it in {store}")
        return
    engine = Engine.from_config(chosen, key=load_key(keys, create=True))
    engine.titles = titles
    with Bar() as bar:
        engine.fit(rows, valid=None if held is None else held.interactions, progress=bar.update)
    engine.save(store, replace=replace)
    seconds = {"read": read_seconds, **engine.seconds}
    seconds["total"] = sum(seconds.values())
    if as_json:
        print_json(
            {
                "digest": engine.digest,
                "level": engine.level,
                "method": chosen.method,
                "model": chosen.model,
                "shards": [vars(shard) for shard in engine.shards],
                "seconds": {name: round(value, 4) for name, value in seconds.items()},
                "data": describe(train.report),
            }
        )
        return
    for stage, value in seconds.items():
        say(f"  {stage:<10} {value:8.2f} s")
    if keys is None:
        warn("users go by pseudonyms made with a public key; for personal data, give a folder with --keys")
    say(f"published in {store}, digest {engine.digest[:16]}..., level {engine.level}")
    say(f"next: receraser recommend --store {store} --user {rows.users.ids[0]}")
