"""`receraser fit`: read interactions, fit, publish a store."""

from __future__ import annotations

import dataclasses
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from receraser.cli import options
from receraser.cli.choosing import based_on, overriding, placed
from receraser.cli.console import Bar, count, print_json, say, warn
from receraser.cli.opening import keyring_for
from receraser.cli.outcome import rounded, say_published
from receraser.cli.papers import say_key_of_replaced
from receraser.errors import UsageError

if TYPE_CHECKING:
    from receraser.config import EngineConfig
    from receraser.data.interactions import Interactions
    from receraser.engine import Engine
    from receraser.partition.partition import Embeddings
    from receraser.store.directory import DirectoryStore

__all__ = ["fit"]


def fit(
    context: typer.Context,
    store: options.Store,
    data: Annotated[
        Path | None,
        typer.Argument(metavar="DATA", help="Interactions: .csv .tsv .txt .dat .inter (each also .gz) .parquet"),
    ] = None,
    from_export: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Fit what `export` wrote, with its configuration, from nothing.")
    ] = None,
    valid: options.Valid = None,
    items: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Titles of the items, shown with recommendations.")
    ] = None,
    method: options.Method = None,
    model: options.Model = None,
    partition: options.Partition = None,
    aggregation: options.Aggregation = None,
    shards: options.Shards = None,
    dim: options.Dim = None,
    rank: options.Rank = None,
    polish: options.Polish = None,
    seed: options.Seed = None,
    device: options.Device = None,
    config: options.Config = None,
    settings: options.Settings = [],  # noqa: B006
    embeddings: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Vectors (.npz) that a partition divides the rows by.")
    ] = None,
    columns: options.Columns = None,
    min_rating: options.MinRating = None,
    skip_bad_rows: options.SkipBadRows = False,
    replace: Annotated[bool, typer.Option("--replace", help="Destroy a store that is there already.")] = False,
    rebuild_every: options.RebuildEvery = None,
    rebuild_days: options.RebuildDays = None,
    keys: options.Keys = None,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Fit a model on interactions and publish it as a store."""
    from receraser.config import resolve
    from receraser.store.directory import DirectoryStore
    from receraser.store.record import Policy

    if from_export is not None:
        _check_only_an_export(context)
        _fit_export(from_export, store, keys, replace=replace, dry_run=dry_run, as_json=as_json)
        return
    if data is None:
        raise UsageError("name a file of interactions, or an export with --from-export")
    with Bar("preparing"):
        base = based_on(config, method=method, model=model, partition=partition, aggregation=aggregation)
        overrides = overriding(base, settings, dim=dim, rank=rank, polish=polish, embeddings=embeddings)
        chosen = resolve(placed(base, shards=shards, seed=seed, device=device), overrides)
    _check_place(DirectoryStore(store), replace=replace)
    given = _read(data, valid, items, embeddings, columns, min_rating, skip_bad_rows=skip_bad_rows)
    _say_what_to_know(chosen, given.rows)
    if dry_run:
        _tell_what_would_be(chosen, given, store, as_json=as_json)
        return
    engine, keyring = _engine(chosen, keys), keyring_for(keys)
    engine.titles = given.titles
    engine.policy = Policy(rebuild_every, rebuild_days)
    engine.origin = _origin(config, changed=bool(overrides))
    with Bar("starting a worker") as bar:
        engine.fit(given.rows, valid=given.valid, embeddings=given.embeddings, progress=bar.update)
    with Bar("publishing"):
        engine.save(store, replace=replace, keyring=keyring)
    say_key_of_replaced(engine, keys)
    _report(engine, {"read": given.seconds, **engine.seconds}, store, as_json, {"data": given.described})
    if not as_json:
        _say_what_next(store, keys, given.rows.users.ids[0])


def _check_place(store: DirectoryStore, *, replace: bool) -> None:
    """Raise unless a store can be published there: known before hours of work, and looked at again after them."""
    from receraser.store.history import replaceable

    store.check_free(replace=replace)
    replaceable(store)


# ---------------------------------------------------------------------- what to fit


def _origin(source: str | None, *, changed: bool) -> str:
    """Say where a configuration comes from: certificates name it. A preset is what a search found best."""
    from receraser.config import is_tuned, preset_names

    if source is None:
        return "given" if changed else "defaults"
    named = source if source in preset_names() else "a file"
    base = f"{'tuned' if is_tuned(source) else 'given'}: {named}"
    return f"{base}, with changes" if changed else base


def _engine(chosen: EngineConfig, keys: Path | None) -> Engine:
    from receraser.engine import Engine
    from receraser.keys import has_key, load_key

    new = keys is not None and not has_key(keys)
    engine = Engine.from_config(chosen, key=load_key(keys, create=True))
    if new:
        warn(f"a new secret key was made in {keys}: keep it, or nobody will find their rows in this store again")
    return engine


# ---------------------------------------------------------------------- what is read


@dataclasses.dataclass(frozen=True, eq=False)
class _Given:
    """What was read: rows, rows for validation, titles, vectors, what the reader said of the rows; and how long."""

    rows: Interactions
    valid: Interactions | None
    titles: dict[str, str]
    embeddings: Embeddings | None
    described: Mapping[str, object]
    seconds: float


def _read(
    data: Path,
    valid: Path | None,
    items: Path | None,
    embeddings: Path | None,
    columns: str | None,
    min_rating: float | None,
    *,
    skip_bad_rows: bool,
) -> _Given:
    """Read every file that was named."""
    from receraser.cli.reading import describe, read_embeddings_for, read_for
    from receraser.data.readers import read_titles

    started = time.perf_counter()
    train = read_for(data, columns=columns, min_rating=min_rating, skip_bad_rows=skip_bad_rows)
    held = None
    if valid is not None:
        held = read_for(valid, columns=columns, min_rating=min_rating, skip_bad_rows=skip_bad_rows).interactions
    titles = {} if items is None else read_titles(items)
    vectors = read_embeddings_for(embeddings)
    seconds = time.perf_counter() - started
    return _Given(train.interactions, held, titles, vectors, describe(train.report), seconds)


# ---------------------------------------------------------------------- an export


def _check_only_an_export(context: typer.Context) -> None:
    """Refuse options that an export decides: whatever was given but where it goes and how it is told."""
    allowed = ("store", "from_export", "keys", "replace", "dry_run", "as_json")
    given = []
    for option in context.command.params:
        source = context.get_parameter_source(str(option.name))
        if source is not None and source.name == "COMMANDLINE" and option.name not in allowed:
            given.append(option.opts[0] if option.opts[0].startswith("-") else "DATA")
    if given:
        raise UsageError(f"--from-export brings its own data and configuration; leave {', '.join(given)} out")


def _fit_export(folder: Path, store: Path, keys: Path | None, *, replace: bool, dry_run: bool, as_json: bool) -> None:
    """Fit an export, from nothing."""
    from receraser.engine import Engine
    from receraser.keys import load_key
    from receraser.store.directory import DirectoryStore
    from receraser.store.export import read_export

    _check_place(DirectoryStore(store), replace=replace)
    started = time.perf_counter()
    export = read_export(folder)
    read_seconds = time.perf_counter() - started
    say(f"{count(len(export.train), 'interaction')} of {count(len(export.train.users), 'user')}, by pseudonyms")
    if dry_run:
        say(f"would fit {export.config.model} ({export.config.method}) and publish it in {store}")
        if as_json:
            print_json({"dry_run": True, "config": export.config.as_dict(), "rows": len(export.train)})
        return
    keyring = keyring_for(keys)
    with Bar("starting a worker") as bar:
        engine = Engine.fit_export(export, key=None if keys is None else load_key(keys), progress=bar.update)
    with Bar("publishing"):
        engine.save(store, replace=replace, keyring=keyring)
    say_key_of_replaced(engine, keys)
    _report(engine, {"read": read_seconds, **engine.seconds}, store, as_json, {})


# ---------------------------------------------------------------------- what is told


def _say_what_to_know(chosen: EngineConfig, rows: Interactions) -> None:
    """Say what was read, what the combination cannot do, and what would serve better."""
    from receraser.cli.hints import hints

    say(f"{count(len(rows), 'interaction')} of {count(len(rows.users), 'user')} with {count(len(rows.items), 'item')}")
    _warn_of_the_combination(chosen)
    for hint in hints(chosen, rows):
        say(f"hint: {hint}")


def _warn_of_the_combination(chosen: EngineConfig) -> None:
    """Say what a combination cannot do."""
    from receraser.config import part_settings
    from receraser.models.source import is_foreign
    from receraser.partition.registry import make_partitioner

    fixed = chosen.aggregation in ("mean", "static") and chosen.shards > 1
    if fixed and make_partitioner(*part_settings(chosen, "partition")).user_atomic:
        warn(
            f"with the partition {chosen.partition} all rows of a user are in one shard, so {chosen.aggregation} "
            "cannot change the order of anybody's list: it is that of their own submodel"
        )
    if is_foreign(chosen.model) and chosen.aggregation in ("static", "attention"):
        warn(f"{chosen.aggregation} is learned by the loss of bpr: of the loss of {chosen.model} nothing is known")


def _tell_what_would_be(chosen: EngineConfig, given: _Given, store: Path, *, as_json: bool) -> None:
    """Say what a dry run would do."""
    parts = f"{chosen.partition} + {chosen.aggregation}, {count(chosen.shards, 'shard')}"
    say(f"would fit {chosen.model} ({chosen.method}: {parts}) on {chosen.device} and publish it in {store}")
    if as_json:
        config = chosen.as_dict()
        print_json({"dry_run": True, "config": config, "rows": len(given.rows), "data": given.described})


def _report(engine: Engine, seconds: dict[str, float], store: Path, as_json: bool, more: dict[str, object]) -> None:
    """Say what was fitted and how long it took."""
    if as_json:
        print_json(_document(engine, seconds) | more)
        return
    balance = f"{count(len(engine.shards), 'shard')}, the largest {engine.balance:.2f} x the mean"
    say_published(engine, store, seconds, *([balance] if len(engine.shards) > 1 else []))


def _document(engine: Engine, seconds: dict[str, float]) -> dict[str, object]:
    """Return what scripts depend on: these keys, in this order."""
    return {
        "digest": engine.digest,
        "level": engine.level,
        "method": engine.config.method,
        "model": engine.config.model,
        "shards": [vars(shard) for shard in engine.shards],
        "balance": round(engine.balance, 4),
        "seconds": rounded(seconds),
    }


def _say_what_next(store: Path, keys: Path | None, user: str) -> None:
    """Give a command to try; it names a user only where ids are no secret."""
    if keys is None:
        warn("users go by pseudonyms made with a public key; for personal data, give a folder with --keys")
    secret = "" if keys is None else f" --keys {shlex.quote(str(keys))}"
    somebody = shlex.quote(user) if keys is None else "U"
    say(f"next: receraser recommend --store {shlex.quote(str(store))}{secret} --user {somebody}")
