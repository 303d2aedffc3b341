"""`receraser export`: what a fresh fit needs, and nothing that was learned."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from receraser.cli import options
from receraser.cli.console import Bar, count, print_json, say, warn
from receraser.errors import UsageError

__all__ = ["export"]


def export(
    store: options.Store,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A new folder.", show_default=False)],
    to: Annotated[
        str, typer.Option("--to", metavar="WHO", help="Who gets it: kept in the store, so that they can be told later.")
    ] = "somebody who was not named",
    keys: options.Keys = None,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Export what a fresh fit needs, and nothing that was learned.

    The surviving rows, the assignment to shards, the configuration and the titles; users stay pseudonyms. The store
    remembers that it was handed out, and to whom: whoever holds an export is not reached by what is forgotten later.
    """
    from receraser.cli.opening import opened

    noted = not dry_run and _can_note(store, keys)
    with opened(store, keys, to_change=noted, needs_key=False) as (engine, _):
        rows = sum(shard.rows for shard in engine.shards)
        if not dry_run:
            with Bar("exporting"):
                engine.export(out, to=to)
    if as_json:
        told = {"dry_run": True} if dry_run else {}
        print_json({**told, "out": str(out), "rows": rows, "digest": engine.digest, "level": engine.level})
        return
    say(f"{'would export' if dry_run else 'exported'} {count(rows, 'row')} to {out}")
    if not dry_run:
        say(f"a fresh fit of it: receraser fit --from-export {out} --store NEW")


def _can_note(store: Path, keys: Path | None) -> bool:
    """Say whether the store's keys are at hand: rows can be had without them, an entry in a signed ledger cannot."""
    from receraser.cli.opening import keyring_for
    from receraser.custody import signing_for
    from receraser.store.directory import DirectoryStore
    from receraser.store.record import Record

    record = Record.from_dict(DirectoryStore(store).manifest()["record"])
    try:
        signing_for(record, keyring_for(keys))
    except UsageError as error:
        warn(f"who gets this export is not entered into the ledger: {error}")
        return False
    return True
