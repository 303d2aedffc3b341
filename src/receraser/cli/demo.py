"""`receraser demo`: the whole story on built-in data, in under a minute.

A film world is fitted in shards; one person asks to be forgotten; only their shard is retrained; those who are like
them notice; and a fresh process that never saw the person ends up with the very same bits.
"""

from __future__ import annotations

import tempfile
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
    from receraser.engine import Engine, ForgetReport
    from receraser.execution.local import LocalExecutor
    from receraser.proof.keyring import Keyring
    from receraser.state import ShardReport

__all__ = ["demo"]

_SEED = 7
_SHARDS = 8
_EPOCHS = 20  # of the submodels
_FRIENDS = 5  # of their circle, whose lists are compared
_LIST = 8  # films shown
_PICTURE = "receraser-demo.png"  # in the current folder, where no other was named
_METRICS = ("recall@20", "ndcg@20", "precision@20")


def demo(
    directory: Annotated[
        Path | None, typer.Option("--dir", metavar="DIR", help="Keep data, store and picture here.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Tell the whole story on built-in data.

    Makes a film world, fits it in shards, recommends, forgets a person, shows what changed for whom, that a fresh
    process which never saw that person gets the same bits, and that a verifier finds nothing wrong and nothing left.
    """
    if directory is not None:
        _tell(directory, directory / "forgetting.png", as_json)
        return
    with tempfile.TemporaryDirectory(prefix="receraser-demo-") as folder:
        _tell(Path(folder), Path(_PICTURE), as_json)
    say("   Data and store were temporary; --dir DIR keeps them too.")


@dataclass(frozen=True)
class _Story:
    """Who it is about."""

    person: str
    friends: tuple[str, ...]
    group: str


def _tell(folder: Path, picture: Path, as_json: bool) -> None:
    from receraser.cli.data import write_films
    from receraser.cli.picture import draw_forgetting
    from receraser.data.films import films
    from receraser.data.splits import random_split
    from receraser.engine import Engine
    from receraser.errors import StoreError
    from receraser.execution.local import LocalExecutor
    from receraser.proof.keyring import Keyring
    from receraser.store.directory import DirectoryStore

    keyring = Keyring(folder / "keys")
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
        say(f"2. Fit: BPR in {_SHARDS} shards by a keyed hash of the user, merged by an SVD (the method spectral).")
        engine = _fit(world, parts, executor)
        engine.save(store, keyring=keyring)
        before = _moment(engine, parts, world)
        say(f"   {before.seconds:.2f} s; the largest shard has {engine.balance:.2f} times the mean; in {store}\n")

        say(f"3. Recommendations for {story.person}, one of the taste group {story.group!r}.")
        _show(world, before.lists[story.person], as_json)

        say(f"\n4. {story.person} asks to be forgotten.")
        report, seconds = _forget(store, story, executor, keyring)
    after = _moment(Engine.load(store), parts, world, seconds)

    say(f"\n5. What others see: {len(story.friends)} people of the same circle, before and after.")
    shares = _stayed(world, story, before.lists, after.lists)
    _compare(world, story, before.lists, after.lists, as_json)
    told = ", ".join(f"{who} {share:.0%}" for who, share in shares.items())
    say(f"   Of {_LIST} recommended films there stayed: {told}.")

    say("\n6. A fresh process that is handed the survivors only: the same bits?")
    same = _fresh_digest(store, folder) == after.digest
    say(f"   {'yes' if same else 'NO'}: digest {after.digest}")

    say("\n7. And a verifier that trusts nobody, without the engine: files, digests, ledger, signatures, residue.")
    failed = _verify(store, keyring)

    sizes = [shard.rows for shard in after.shards]
    draw_forgetting(picture, sizes, report.shards_retrained, before.seconds, after.seconds, shares)
    say("\n8. In numbers")
    if as_json:
        shown = [{"item": one, "title": world.titles[one]} for one in before.lists[story.person]]
        more = {
            "recommendations": shown,
            "stayed": shares,
            "refit_equal": same,
            "verified": not failed,
            "picture": str(picture),
        }
        print_json(_document(story, before, after, report) | more)
    else:
        _print_numbers(before, after)
    say(f"   Level {after.level}: everything is that of a fresh fit, the shard of each row too (a hash looks at")
    say("   no data), and what was there before is destroyed.")
    say(f"   A picture of it: {picture}")
    if failed or not same:
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
    from receraser.engine import Engine
    from receraser.models.bpr import BPR

    model = BPR(dim=32, n_epochs=_EPOCHS)
    engine = Engine(model=model, method="spectral", shards=_SHARDS, seed=_SEED, executor=executor)
    engine.titles = world.titles
    with Bar("starting workers") as bar:
        engine.fit(parts.train, valid=parts.valid, progress=bar.update)
    return engine


@dataclass(frozen=True)
class _Moment:
    """The engine before or after: how long it took to get there, how good it is, what it recommends to everybody."""

    digest: str
    level: str
    seconds: float
    shards: list[ShardReport]
    metrics: dict[str, float]
    lists: dict[str, list[str]]


def _moment(engine: Engine, parts: Split, world: FilmWorld, seconds: float | None = None) -> _Moment:
    from receraser.evaluation import evaluate
    from receraser.models.popularity import Popularity

    popular = evaluate(Popularity().fit(parts.train), parts.train, parts.test, at=(20,)).metrics["recall@20"]
    metrics = engine.evaluate(parts.test, at=(20,)).metrics
    found = engine.recommend(list(world.interactions.users), k=_LIST)
    return _Moment(
        digest=engine.digest,
        level=engine.level,
        seconds=sum(engine.seconds.values()) if seconds is None else seconds,
        shards=engine.shards,
        metrics={name: metrics[name] for name in _METRICS} | {"recall@20 by popularity": popular},
        lists={name: [one.item for one in best] for name, best in found.items()},
    )


def _forget(store: Path, story: _Story, executor: LocalExecutor, keyring: Keyring) -> tuple[ForgetReport, float]:
    """Forget the person, as the command `receraser forget` does."""
    from receraser.engine import Engine

    with Engine.changing(store, executor=executor, keyring=keyring) as engine:
        planned = engine.forget([story.person], dry_run=True)
        shards = ", ".join(str(one) for one in planned.shards_retrained)
        rows = count(planned.rows_removed, "training row")
        say(f"   Their {rows} are in shard {shards}; the other shards stay as they are.")
        with Bar("forgetting") as bar:
            report = engine.forget([story.person], progress=bar.update)
    seconds = sum(engine.seconds.values())
    stages = ", ".join(f"{stage} {value * 1e3:,.0f}" for stage, value in engine.seconds.items())
    say(f"   Forgotten in {seconds:.2f} s (milliseconds: {stages}); the old state is destroyed.")
    if report.certificate is not None:
        say(f"   A certificate says so: {report.certificate.name}")
    gone = not engine.knows(story.person) and not engine.recommend([story.person])[story.person]
    say(f"   Asked for again, {story.person} is {'unknown' if gone else 'STILL KNOWN'} to the store.")
    return report, seconds


def _stayed(
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


def _fresh_digest(store: Path, folder: Path) -> str:
    """Export the survivors, fit them from nothing in new processes, and return the digest of that."""
    from receraser.engine import Engine

    Engine.load(store).export(folder / "export")
    with Bar("starting fresh workers") as bar:
        return Engine.fit_export(folder / "export", progress=bar.update).digest


def _verify(store: Path, keyring: Keyring) -> list[str]:
    """Check everything as `receraser verify --residue` does; return the names of the checks that failed."""
    from receraser.keys import PUBLIC_KEY
    from receraser.residue.search import residue
    from receraser.verify.checks import examine
    from receraser.verify.signatures import Vouchers

    case, checks = examine(store, vouchers=Vouchers.of([], keyring, named=True), keyring=keyring)
    checks += residue(case, users=[], items=[], interactions=[], search=[], key=PUBLIC_KEY)
    failed = [one.name for one in checks if not one.ok]
    what = f"NO: {', '.join(failed)}" if failed else f"all {len(checks)} checks hold"
    say(f"   {what} ({', '.join(one.name for one in checks)})")
    return failed


def _document(story: _Story, before: _Moment, after: _Moment, report: ForgetReport) -> dict[str, object]:
    """Return what happened, for JSON."""
    return {
        "digest": after.digest,
        "level": after.level,
        "person": story.person,
        "rows_removed": report.rows_removed,
        "shards_retrained": list(report.shards_retrained),
        "before": before.metrics,
        "after": after.metrics,
        "seconds": {"fit": before.seconds, "forget": after.seconds},
    }


def _print_numbers(before: _Moment, after: _Moment) -> None:
    rows = [[name, f"{before.metrics[name]:.4f}", f"{after.metrics[name]:.4f}"] for name in before.metrics]
    rows.append(["seconds to get there", f"{before.seconds:.2f}", f"{after.seconds:.2f}"])
    print_table(["", "before (fit)", "after (forget)"], rows)
