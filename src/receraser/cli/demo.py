"""`receraser demo`: the whole story on built-in data, in under a minute."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from receraser.cli import options
from receraser.cli.console import Bar, count, print_json, print_table, say

if TYPE_CHECKING:
    from receraser.data.films import FilmWorld
    from receraser.data.splits import Split
    from receraser.engine import Engine, Recommendation

__all__ = ["demo"]

_ENOUGH_FILMS = 40  # seen by the person whose recommendations are shown


def demo(
    directory: Annotated[
        Path | None, typer.Option("--dir", metavar="DIR", help="Keep the data and the store here.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Tell the whole story on built-in data.

    Makes a film world, fits, recommends, measures, and shows that a second fit gives the same bits.
    """
    if directory is not None:
        _tell(directory, as_json)
        say(f"   The data and the store are in {directory}.")
        return
    with tempfile.TemporaryDirectory(prefix="receraser-demo-") as folder:
        _tell(Path(folder), as_json)
    say("   The store was a temporary one; --dir DIR keeps it.")


def _tell(folder: Path, as_json: bool) -> None:
    from receraser.cli.data import write_films
    from receraser.data.films import films
    from receraser.data.splits import random_split
    from receraser.errors import StoreError
    from receraser.store.directory import DirectoryStore

    if DirectoryStore(folder / "store").exists():
        raise StoreError(f"there is a store in {folder / 'store'} already; choose another folder")
    say("1. A film world, made from a seed: no download.")
    world = films(seed=7)
    parts = random_split(world.interactions, test=0.2, valid=0.08, seed=7)
    rows = world.interactions
    write_films(folder, world, parts)
    say(f"   {count(len(rows), 'interaction')} of {len(rows.users):,} users with {len(rows.items):,} films\n")

    say("2. Fit: weighted matrix factorisation, solved in closed form, in a worker process.")
    engine, again = _fit_twice(world, parts)
    engine.save(folder / "store")
    say(f"   {engine.seconds['submodels']:.2f} s; published in {folder / 'store'}\n")

    user = next(name for u, name in enumerate(rows.users) if rows.indptr[u + 1] - rows.indptr[u] >= _ENOUGH_FILMS)
    say(f"3. Recommendations for {user}, one of the taste group {world.taste_group_of[user]!r}.")
    found = _recommend(folder / "store", world, user, as_json)

    say("\n4. Is it any good? Full ranking on held-out rows, against recommending what is popular.")
    metrics = _measure(engine, parts, as_json)

    same = again.digest == engine.digest
    say("\n5. Fitted a second time from the same rows: the same bits? " + ("yes." if same else "NO."))
    say(f"   digest {engine.digest}")
    if as_json:
        print_json(
            {
                "digest": engine.digest,
                "refit_equal": same,
                "user": user,
                "recommendations": [{"item": one.item, "title": world.titles[one.item]} for one in found],
                **metrics,
                "seconds": engine.seconds,
            }
        )
    if not same:
        raise typer.Exit(1)


def _fit_twice(world: FilmWorld, parts: Split) -> tuple[Engine, Engine]:
    from receraser.engine import Engine
    from receraser.execution.local import LocalExecutor
    from receraser.models.wmf import WMF

    with LocalExecutor() as executor, Bar("starting a worker") as bar:
        engine, again = (Engine(model=WMF(dim=32), seed=7, executor=executor) for _ in range(2))
        engine.titles = world.titles
        engine.fit(parts.train, valid=parts.valid, progress=bar.update)
        again.fit(parts.train, valid=parts.valid)
    return engine, again


def _recommend(store: Path, world: FilmWorld, user: str, as_json: bool) -> list[Recommendation]:
    from receraser.engine import Engine

    found = Engine.load(store).recommend([user], k=8)[user]
    if not as_json:
        rows = [[one.item, world.titles[one.item], ", ".join(world.genres[one.item])] for one in found]
        scores = [f"{one.score:.3f}" for one in found]
        print_table(
            ["film", "title", "genres", "score"], [[*row, score] for row, score in zip(rows, scores, strict=True)]
        )
    return found


def _measure(engine: Engine, parts: Split, as_json: bool) -> dict[str, dict[str, float]]:
    from receraser.evaluation import evaluate
    from receraser.models.popularity import Popularity

    ours = engine.evaluate(parts.test, at=(20,)).metrics
    popular = evaluate(Popularity().fit(parts.train), parts.train, parts.test, at=(20,)).metrics
    names = ("recall@20", "ndcg@20", "precision@20")
    if not as_json:
        print_table(["", "popularity", "wmf"], [[name, f"{popular[name]:.4f}", f"{ours[name]:.4f}"] for name in names])
    return {"metrics": {name: ours[name] for name in names}, "popularity": {name: popular[name] for name in names}}
