"""`receraser data`: list what there is, make built-in data, fetch public data, split a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from receraser.cli import options
from receraser.cli.console import Bar, count, print_json, print_table, say
from receraser.errors import UsageError, nearest

if TYPE_CHECKING:
    from receraser.data.films import FilmWorld
    from receraser.data.splits import Split

__all__ = ["data_app", "write_films", "write_split"]

data_app = typer.Typer(
    help="Built-in and public data: list, make, fetch, split.", no_args_is_help=True, rich_markup_mode=None
)

Out = Annotated[Path, typer.Option("--out", metavar="PATH", help="Where to write.", show_default=False)]


_PARTS = ("train", "valid", "test")


class World(StrEnum):
    """What `data make` can make."""

    FILMS = "films"
    LARGE = "large"


class SplitBy(StrEnum):
    """How `data split` chooses the held-out rows."""

    RANDOM = "random"
    USER = "user"
    LEAVE_LAST = "leave-last"
    TIME = "time"


@data_app.command("list")
def list_data(as_json: options.AsJson = False) -> None:
    """List the data sets that can be made or fetched."""
    from receraser.data.fetch import DATASETS

    built_in = [
        ("films", "make", "about 2,000 users, 1,000 films, 100,000 interactions, with titles"),
        ("large", "make", "any number of users, items and interactions, to Parquet"),
    ]
    rows = built_in + [(one.name, "fetch", one.contents) for one in DATASETS.values()]
    if as_json:
        print_json({"data": [{"name": name, "by": by, "contents": contents} for name, by, contents in rows]})
        return
    print_table(["name", "by", "contents"], rows)


@data_app.command("make")
def make(
    world: Annotated[World, typer.Argument(metavar="WORLD", help="films: a folder of files; large: one Parquet file.")],
    out: Out,
    seed: Annotated[int, typer.Option(metavar="N", help="Root of every random draw.")] = 7,
    users: Annotated[int, typer.Option(metavar="N", help="Users of a large world.")] = 100_000,
    items: Annotated[int, typer.Option(metavar="N", help="Items of a large world.")] = 20_000,
    interactions: Annotated[int, typer.Option(metavar="N", help="Interactions of a large world.")] = 10_000_000,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Make built-in data, the same on every machine."""
    if dry_run:
        _done({"dry_run": True, "world": world.value, "out": str(out)}, f"would make {world.value} in {out}", as_json)
        return
    made = _make_films(out, seed) if world is World.FILMS else _make_large(out, users, items, interactions, seed)
    text = f"{count(made, 'interaction')} in {out}"
    _done({"world": world.value, "out": str(out), "rows": made}, text, as_json)


def _make_large(out: Path, users: int, items: int, interactions: int, seed: int) -> int:
    from receraser.data.worlds import write_large_world

    with _writing(out), Bar("drawing") as bar:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_large_world(
            out, users, items, interactions, seed, progress=lambda done, total: bar.update("rows", done, total)
        )
    return interactions


def _make_films(out: Path, seed: int) -> int:
    from receraser.data.films import films
    from receraser.data.splits import random_split

    world = films(seed)
    write_films(out, world, random_split(world.interactions, test=0.2, valid=0.08, seed=seed))
    return len(world.interactions)


def write_films(out: Path, world: FilmWorld, parts: Split) -> None:
    """Write the parts of a film world, and its films' titles and genres."""
    import csv

    write_split(out, parts)
    with _writing(out), (out / "items.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["item", "title", "genres"])
        writer.writerows([item, title, "|".join(world.genres[item])] for item, title in sorted(world.titles.items()))


@data_app.command("fetch")
def fetch_data(
    name: Annotated[str, typer.Argument(metavar="NAME", help="ml-100k, ml-1m, ml-10m or yelp2018.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder in which a folder of that name is made.")
    ] = Path("data"),
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Fetch a public data set from its official place.

    What arrives is checked; a download that broke off is resumed.
    """
    from receraser.data.fetch import DATASETS, fetch

    if name not in DATASETS:
        raise UsageError(f"unknown data set {name!r}: {nearest(name, DATASETS)}")
    dataset = DATASETS[name]
    say(f"{dataset.title}: {dataset.terms}")
    if dry_run:
        places = [file.url for file in dataset.files]
        _done({"dry_run": True, "name": name, "from": places}, f"would fetch {', '.join(places)}", as_json)
        return
    with Bar("connecting") as bar:
        folder = fetch(dataset, out, progress=lambda done, total: bar.update("bytes", done, total))
    files = sorted(path.name for path in folder.iterdir())
    _done({"name": name, "folder": str(folder), "files": files}, f"in {folder}: {', '.join(files)}", as_json)


@data_app.command("split")
def split(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Interactions.")],
    out: Out,
    by: Annotated[
        SplitBy, typer.Option(help="random: per interaction; user: per user; leave-last and time: by timestamp.")
    ] = SplitBy.RANDOM,
    test: Annotated[
        float, typer.Option(metavar="X", help="Share held out for testing (leave-last: rows per user).")
    ] = 0.2,
    valid: Annotated[
        float, typer.Option(metavar="X", help="Share held out for validation (leave-last: rows per user).")
    ] = 0.0,
    seed: Annotated[int, typer.Option(metavar="N", help="Root of the draws.")] = 0,
    columns: options.Columns = None,
    min_rating: options.MinRating = None,
    skip_bad_rows: options.SkipBadRows = False,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Split a file into train, valid and test."""
    from receraser.cli.reading import read_for
    from receraser.data import splits

    if data.resolve() in [(out / f"{part}.csv").resolve() for part in _PARTS]:
        raise UsageError(f"{data} would be overwritten by a part of itself; choose another folder than {out}")
    timed = by in (SplitBy.LEAVE_LAST, SplitBy.TIME)
    rows = read_for(
        data, columns=columns, min_rating=min_rating, skip_bad_rows=skip_bad_rows, keep_timestamps=timed
    ).interactions
    if by is SplitBy.RANDOM:
        parts = splits.random_split(rows, test=test, valid=valid, seed=seed)
    elif by is SplitBy.USER:
        parts = splits.per_user_split(rows, test=test, valid=valid, seed=seed)
    elif by is SplitBy.TIME:
        parts = splits.time_split(rows, test=test, valid=valid)
    else:
        if test != int(test) or valid != int(valid):
            raise UsageError("--by leave-last takes whole numbers of rows per user, as in --test 1 --valid 1")
        parts = splits.leave_last_split(rows, n_test=int(test), n_valid=int(valid))
    counts = {"train": len(parts.train), "valid": len(parts.valid), "test": len(parts.test)}
    text = ", ".join(f"{n:,} {name}" for name, n in counts.items())
    if dry_run:
        _done({"dry_run": True, **counts}, f"would write {text} rows to {out}", as_json)
        return
    write_split(out, parts)
    _done({"out": str(out), **counts}, f"{text} rows in {out}", as_json)


def write_split(out: Path, parts: Split) -> None:
    """Write train, valid and test as CSV; a part without rows is left out, and one of an earlier split removed."""
    from receraser.data.readers import write_csv

    with _writing(out):
        out.mkdir(parents=True, exist_ok=True)
        for name, rows in zip(_PARTS, (parts.train, parts.valid, parts.test), strict=True):
            path = out / f"{name}.csv"
            if len(rows):
                write_csv(path, rows)
            else:
                path.unlink(missing_ok=True)


@contextmanager
def _writing(out: Path) -> Iterator[None]:
    """Turn the system's refusal to write somewhere into a message."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror or error}") from None


def _done(document: dict[str, object], text: str, as_json: bool) -> None:
    if as_json:
        print_json(document)
    else:
        say(text)
