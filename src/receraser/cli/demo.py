"""`receraser demo`: the whole story on built-in data, in under a minute.

A film world is fitted in shards; one person asks to be forgotten; only their shard is retrained; those who are like
them notice; and a fresh process that never saw the person ends up with the very same bits.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from receraser.cli import options
from receraser.cli.console import Bar, count, print_json, print_table, say

if TYPE_CHECKING:
    from receraser.data.films import FilmWorld
    from receraser.data.splits import Split
    from receraser.engine import Engine
    from receraser.execution.local import LocalExecutor

__all__ = ["demo"]

_SEED = 7
_SHARDS = 8
_FRIENDS = 5  # of their circle, whose lists are compared
_LIST = 8  # films shown
_METRICS = ("recall@20", "ndcg@20", "precision@20")


def demo(
    directory: Annotated[
        Path | None, typer.Option("--dir", metavar="DIR", help="Keep the data, the store and the picture here.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Tell the whole story on built-in data.

    Makes a film world, fits it in shards, recommends, forgets a person, shows what changed for whom, and that a fresh
    process which never saw that person gets the same bits.
    """
    if directory is not None:
        _tell(directory, as_json)
        return
    with tempfile.TemporaryDirectory(prefix="receraser-demo-") as folder:
        _tell(Path(folder), as_json)
    say("   All of it was temporary; --dir DIR keeps the data, the store and the picture.")


@dataclass(frozen=True)
class _Story:
    """Who it is about."""

    person: str
    friends: tuple[str, ...]
    group: str


def _tell(folder: Path, as_json: bool) -> None:
    from receraser.cli.data import write_films
    from receraser.cli.picture import draw_forgetting
    from receraser.data.films import films
    from receraser.data.splits import random_split
    from receraser.errors import StoreError
    from receraser.execution.local import LocalExecutor
    from receraser.store.directory import DirectoryStore

    store = folder / "store"
    if DirectoryStore(store).exists():
        raise StoreError(f"there is a store in {store} already; choose another folder")
    say("1. A film world, made from a seed: no download.")
    world = films(seed=_SEED)
    parts = random_split(world.interactions, test=0.2, valid=0.08, seed=_SEED)
    rows = world.interactions
    write_films(folder, world, parts)
    say(f"   {count(len(rows), 'interaction')} of {len(rows.users):,} users with {len(rows.items):,} films\n")
    story = _cast(world)

    with LocalExecutor() as executor:
        say(f"2. Fit: BPR in {_SHARDS} shards of similar people (ubp), put together by attention, in worker processes.")
        engine = _fit(world, parts, executor)
        engine.save(store)
        fitted, before = dict(engine.seconds), _measure(engine, parts)
        fit_seconds = sum(fitted.values())
        say(f"   {fit_seconds:.1f} s; the largest shard has {engine.balance:.2f} times the mean; in {store}\n")

        say(f"3. Recommendations for {story.person}, one of the taste group {story.group!r}.")
        lists = _lists(engine, world)
        _show(world, lists[story.person], as_json)

        say(f"\n4. {story.person} asks to be forgotten.")
        report, forget_seconds = _forget(store, story, executor)
        after = _after(store, parts, world)
    say(f"\n5. What others see: {len(story.friends)} people of the same circle, before and after.")
    shares = _unchanged(world, story, lists, after.lists)
    _compare(world, story, lists, after.lists, as_json)
    told = ", ".join(f"{who} {share:.0%}" for who, share in shares.items())
    say(f"   Of {_LIST} recommended films there stayed: {told}.")

    say("\n6. A fresh process that is handed the survivors only: the same bits?")
    same, fresh_seconds = _fresh(store, folder)
    say(f"   {'yes' if same else 'NO'}: digest {after.digest}")
    picture = folder / "forgetting.png"
    draw_forgetting(picture, report.sizes, report.shards, fit_seconds, forget_seconds, shares)
    say("\n7. In numbers")
    table = [[name, f"{before[name]:.4f}", f"{after.metrics[name]:.4f}"] for name in _METRICS]
    table += [["recall@20 by popularity", *(f"{one['popularity']:.4f}" for one in (before, after.metrics))]]
    table += [["seconds (fit; forget)", f"{fit_seconds:.2f}", f"{forget_seconds:.2f}"]]
    if as_json:
        print_json(
            {
                "digest": after.digest,
                "level": after.level,
                "refit_equal": same,
                "person": story.person,
                "rows_removed": report.rows,
                "shards_retrained": report.shards,
                "recommendations": [{"item": one, "title": world.titles[one]} for one in lists[story.person]],
                "before": before,
                "after": after.metrics,
                "lists_unchanged": shares,
                "seconds": {"fit": fit_seconds, "forget": forget_seconds, "fresh fit": fresh_seconds},
                "picture": str(picture),
            }
        )
    else:
        print_table(["", "before", "after"], table)
    say(
        f"   Level {after.level}: every weight is that of a fresh fit, given the shard of each row; those were assigned while"
    )
    say("   the person was there. `receraser rebuild` assigns them anew; with --partition hash there is no need to.")
    say(f"   A picture of it: {picture}")
    if not same:
        raise typer.Exit(1)


def _cast(world: FilmWorld) -> _Story:
    """Choose who the story is about: of the smallest circle, the one who has seen most; few are like them."""
    rows = world.interactions
    sizes = Counter(world.circle_of[name] for name in rows.users)
    circle = min(sizes, key=lambda name: (sizes[name], name))
    n_seen = dict(zip(rows.users, (rows.indptr[1:] - rows.indptr[:-1]).tolist(), strict=True))
    members = [name for name in rows.users if world.circle_of[name] == circle]
    members.sort(key=lambda name: -n_seen[name])
    person = members[0]
    return _Story(person, tuple(sorted(members[1 : _FRIENDS + 1])), world.taste_group_of[person])


def _fit(world: FilmWorld, parts: Split, executor: LocalExecutor) -> Engine:
    from receraser.aggregation.attention import Attention
    from receraser.engine import Engine
    from receraser.models.bpr import BPR
    from receraser.partition.balanced import UBP

    engine = Engine(
        model=BPR(dim=32, n_epochs=20),
        partitioner=UBP(n_shards=_SHARDS, dim=32),
        aggregator=Attention(n_epochs=8, batch_size=4096, n_negatives=8, optimizer="adam", learning_rate=0.01),
        seed=_SEED,
        executor=executor,
    )
    engine.titles = world.titles
    with Bar("starting workers") as bar:
        engine.fit(parts.train, valid=parts.valid, progress=bar.update)
    return engine


def _measure(engine: Engine, parts: Split) -> dict[str, float]:
    """Return the metrics of the engine, and what recommending the popular films would reach."""
    from receraser.evaluation import evaluate
    from receraser.models.popularity import Popularity

    popular = evaluate(Popularity().fit(parts.train), parts.train, parts.test, at=(20,)).metrics["recall@20"]
    found = engine.evaluate(parts.test, at=(20,)).metrics
    return {"popularity": popular} | {name: found[name] for name in _METRICS}


def _lists(engine: Engine, world: FilmWorld) -> dict[str, list[str]]:
    """Return the films recommended to everybody."""
    found = engine.recommend(list(world.interactions.users), k=_LIST)
    return {name: [one.item for one in best] for name, best in found.items()}


@dataclass(frozen=True)
class _Forgotten:
    rows: int
    shards: list[int]
    sizes: list[int]


def _forget(store: Path, story: _Story, executor: LocalExecutor) -> tuple[_Forgotten, float]:
    """Forget the person, as the command `receraser forget` does."""
    from receraser.engine import Engine

    with Engine.changing(store, executor=executor) as engine:
        planned = engine.forget([story.person], dry_run=True)
        shards = ", ".join(str(one) for one in planned.shards_retrained)
        rows = count(planned.rows_removed, "training row")
        say(f"   Their {rows} are in shard {shards}; the other shards stay as they are.")
        with Bar("forgetting") as bar:
            report = engine.forget([story.person], progress=bar.update)
    seconds = sum(engine.seconds.values())
    stages = ", ".join(f"{stage} {value:.1f} s" for stage, value in engine.seconds.items())
    say(f"   Forgotten in {seconds:.1f} s ({stages}); the old state is destroyed.")
    gone = not engine.knows(story.person) and not engine.recommend([story.person])[story.person]
    say(f"   Asked for again, {story.person} is {'unknown' if gone else 'STILL KNOWN'} to the store.")
    sizes = [shard.rows for shard in engine.shards]
    return _Forgotten(report.rows_removed, list(report.shards_retrained), sizes), seconds


@dataclass(frozen=True)
class _After:
    digest: str
    level: str
    metrics: dict[str, float]
    lists: dict[str, list[str]]


def _after(store: Path, parts: Split, world: FilmWorld) -> _After:
    from receraser.engine import Engine

    engine = Engine.load(store)
    return _After(engine.digest, engine.level, _measure(engine, parts), _lists(engine, world))


def _unchanged(
    world: FilmWorld, story: _Story, before: dict[str, list[str]], after: dict[str, list[str]]
) -> dict[str, float]:
    """Return the share of recommended films that stayed, by how near people are to the person."""
    near: dict[str, list[float]] = {"same circle": [], "same taste group": [], "everybody else": []}
    for name in before:
        if name == story.person or not before[name]:
            continue
        same = len(set(before[name]) & set(after[name])) / len(before[name])
        if world.circle_of[name] == world.circle_of[story.person]:
            near["same circle"].append(same)
        elif world.taste_group_of[name] == story.group:
            near["same taste group"].append(same)
        else:
            near["everybody else"].append(same)
    return {who: sum(shares) / len(shares) for who, shares in near.items()}


def _show(world: FilmWorld, films: Sequence[str], as_json: bool) -> None:
    if not as_json:
        print_table(
            ["film", "title", "genres"], [[one, world.titles[one], ", ".join(world.genres[one])] for one in films]
        )


def _compare(
    world: FilmWorld, story: _Story, before: dict[str, list[str]], after: dict[str, list[str]], as_json: bool
) -> None:
    """Show what went from and what came to the lists of the person's circle."""
    if as_json:
        return
    rows = []
    for name in story.friends:
        gone = [world.titles[one] for one in before[name] if one not in after[name]]
        come = [world.titles[one] for one in after[name] if one not in before[name]]
        rows.append([name, f"{_LIST - len(gone)} of {_LIST}", _few(gone), _few(come)])
    print_table(["", "stayed", "went", "came"], rows)


def _few(titles: Sequence[str]) -> str:
    shown = "; ".join(titles[:2])
    return f"{shown}; and {len(titles) - 2} more" if len(titles) > 2 else shown


def _fresh(store: Path, folder: Path) -> tuple[bool, float]:
    """Export the survivors, fit them from nothing in new processes, and compare digests."""
    from receraser.engine import Engine

    held = Engine.load(store)
    held.export(folder / "export")
    started = time.perf_counter()
    with Bar("starting fresh workers") as bar:
        fresh = Engine.fit_export(folder / "export", progress=bar.update)
    return fresh.digest == held.digest, time.perf_counter() - started
