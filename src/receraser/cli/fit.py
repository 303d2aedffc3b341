"""`receraser fit`: read interactions, fit, publish a store."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from receraser.cli import options
from receraser.cli.console import Bar, count, print_json, say, warn

if TYPE_CHECKING:
    from receraser.config import EngineConfig
    from receraser.engine import Engine

__all__ = ["fit"]


def _model_names() -> list[str]:
    from receraser.config import MODEL_NAMES

    return list(MODEL_NAMES)


def _method_names() -> list[str]:
    from receraser.methods import METHODS

    return list(METHODS)


def fit(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="Interactions: .csv .tsv .txt .dat .inter (each also .gz) .parquet")
    ],
    store: options.Store,
    valid: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Rows that choose the epoch; never trained on.")
    ] = None,
    items: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Titles of the items, shown with recommendations.")
    ] = None,
    method: Annotated[
        str | None, typer.Option(metavar="M", help="Method: retrain.", autocompletion=_method_names)
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="B", help="Base model: wmf, bpr or lightgcn.", autocompletion=_model_names)
    ] = None,
    dim: Annotated[int | None, typer.Option(metavar="D", help="Length of the vectors.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Root of every random draw.")] = None,
    device: Annotated[str | None, typer.Option(metavar="auto|cpu|cuda", help="Where to compute.")] = None,
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="A TOML file, or a preset by name, such as bpr-ml-1m.")
    ] = None,
    settings: Annotated[
        list[str], typer.Option("--set", metavar="KEY=VALUE", help="A hyperparameter; repeatable.")
    ] = [],  # noqa: B006
    columns: options.Columns = None,
    min_rating: options.MinRating = None,
    skip_bad_rows: options.SkipBadRows = False,
    replace: Annotated[bool, typer.Option("--replace", help="Destroy a store that is there already.")] = False,
    keys: options.Keys = None,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Fit a model on interactions and publish it as a store."""
    from receraser.cli.reading import describe, read_for
    from receraser.config import resolve
    from receraser.data.readers import read_titles
    from receraser.store.directory import DirectoryStore

    overrides = options.pairs(settings) | ({} if dim is None else {"dim": str(dim)})
    with Bar("preparing"):
        chosen = resolve(_chosen(config, method=method, model=model, seed=seed, device=device), overrides)
    DirectoryStore(store).check_free(replace=replace)

    started = time.perf_counter()
    train = read_for(data, columns=columns, min_rating=min_rating, skip_bad_rows=skip_bad_rows)
    held = None
    if valid is not None:
        held = read_for(valid, columns=columns, min_rating=min_rating, skip_bad_rows=skip_bad_rows).interactions
    titles = {} if items is None else read_titles(items)
    read_seconds = time.perf_counter() - started

    rows = train.interactions
    say(f"{count(len(rows), 'interaction')} of {count(len(rows.users), 'user')} with {count(len(rows.items), 'item')}")
    if dry_run:
        say(f"would fit {chosen.model} ({chosen.method}) on {chosen.device} and publish it in {store}")
        if as_json:
            data_read = describe(train.report)
            print_json({"dry_run": True, "config": chosen.as_dict(), "rows": len(rows), "data": data_read})
        return
    engine = _engine(chosen, keys)
    engine.titles = titles
    with Bar("starting a worker") as bar:
        engine.fit(rows, valid=held, progress=bar.update)
    with Bar("publishing"):
        engine.save(store, replace=replace)
    seconds = {"read": read_seconds, **engine.seconds}
    seconds["total"] = sum(seconds.values())
    if as_json:
        print_json(_document(engine, seconds) | {"data": describe(train.report)})
        return
    for stage, value in seconds.items():
        say(f"  {stage:<10} {value:8.2f} s")
    say(f"published in {store}, digest {engine.digest[:16]}..., level {engine.level}")
    _say_what_next(store, keys, rows.users.ids[0])


def _chosen(
    source: str | None, *, method: str | None, model: str | None, seed: int | None, device: str | None
) -> EngineConfig:
    """Return the configuration: that of the file or preset, changed by what was given beside it."""
    from receraser.config import EngineConfig, load_config

    base = EngineConfig() if source is None else load_config(source)
    keeps_model = model is None or model == base.model
    return EngineConfig(
        method=base.method if method is None else method,
        model=base.model if model is None else model,
        seed=base.seed if seed is None else seed,
        device=base.device if device is None else device,
        hyperparameters=base.hyperparameters if keeps_model else {},  # another model's are of no use
    )


def _engine(chosen: EngineConfig, keys: Path | None) -> Engine:
    from receraser.engine import Engine
    from receraser.keys import has_key, load_key

    new = keys is not None and not has_key(keys)
    engine = Engine.from_config(chosen, key=load_key(keys, create=True))
    if new:
        warn(f"a new secret key was made in {keys}: keep it, or nobody will find their rows in this store again")
    return engine


def _document(engine: Engine, seconds: dict[str, float]) -> dict[str, object]:
    """Return what scripts depend on: these keys, in this order."""
    return {
        "digest": engine.digest,
        "level": engine.level,
        "method": engine.config.method,
        "model": engine.config.model,
        "shards": [vars(shard) for shard in engine.shards],
        "seconds": {name: round(value, 4) for name, value in seconds.items()},
    }


def _say_what_next(store: Path, keys: Path | None, user: str) -> None:
    """Give a command to try; it names a user only where ids are no secret."""
    if keys is None:
        warn("users go by pseudonyms made with a public key; for personal data, give a folder with --keys")
    secret = "" if keys is None else f" --keys {shlex.quote(str(keys))}"
    somebody = shlex.quote(user) if keys is None else "U"
    say(f"next: receraser recommend --store {shlex.quote(str(store))}{secret} --user {somebody}")
