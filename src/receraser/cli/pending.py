"""`receraser pending`: requests that are written down in a store and not done yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from receraser.cli import options
from receraser.cli.console import Bar, count, print_json, print_table, say
from receraser.cli.outcome import rounded, say_published
from receraser.cli.papers import KeyFolder, Yes, confirm, keyring_in, keyring_to_read

if TYPE_CHECKING:
    from receraser.store.pending import Pending

__all__ = ["pending_app"]

pending_app = typer.Typer(
    help="Requests that wait in a store: show, finish, withdraw.", no_args_is_help=True, rich_markup_mode=None
)


@pending_app.command("show")
def show(store: options.Store, keys: KeyFolder = None, as_json: options.AsJson = False) -> None:
    """Show what is waiting: kinds and numbers, nobody's id.

    Where the key of the store's ledger is at hand, also whether each was written with it: what was not is not done.
    """
    written = _written_with(store, keys)
    found = [(_described(one), written(one)) for one in _waiting(store)]
    if as_json:
        print_json({"pending": [{**row, "ours": ours} for row, ours in found]})
    elif found:
        said = {True: "these keys", False: "other keys", None: "not checked"}
        heads = [*found[0][0], "written with"]
        print_table(heads, [[*map(str, row.values()), said[ours]] for row, ours in found])
    else:
        say(f"nothing is waiting in {store}")


@pending_app.command("finish")
def finish(
    store: options.Store, keys: KeyFolder = None, dry_run: options.DryRun = False, as_json: options.AsJson = False
) -> None:
    """Do what is waiting.

    Every command that changes a store does that first, too. What needs another environment than this waits on;
    `receraser rebuild` does it by fitting everything again.
    """
    todo = _waiting(store)
    if dry_run or not todo:
        if as_json:
            print_json({**({"dry_run": True} if dry_run else {}), "pending": len(todo), "finished": 0})
        else:
            say(f"would do {count(len(todo), 'request')}" if todo else f"nothing is waiting in {store}")
        return
    with Bar("starting a worker"):
        from receraser.cli.opening import keyring_for
        from receraser.engine import Engine

        started = time.perf_counter()
        with Engine.changing(store, key=None, keyring=keyring_for(keys)) as engine:
            seconds = {"finish": time.perf_counter() - started}
    if as_json:
        document = {"pending": 0, "finished": engine.finished, "digest": engine.digest, "level": engine.level}
        print_json({**document, "seconds": rounded(seconds)})
    else:
        done = f"{count(engine.finished, 'request')} that had been waiting: done"
        say_published(engine, store, seconds, f"{done}; receipts handed out before open the certificate")


@pending_app.command("withdraw")
def withdraw(
    store: options.Store,
    name: Annotated[str, typer.Argument(metavar="ID", help="As `pending show` gives it.")],
    keys: KeyFolder = None,
    yes: Yes = False,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Take a request back; that is entered into the ledger."""
    from receraser.store.directory import DirectoryStore
    from receraser.store.history import waiting_as

    waiting_as(DirectoryStore(store), name)  # raises where there is none
    if not dry_run:
        confirm(f"the request {name} will not be done: whoever made it must have taken it back", yes=yes)
        from receraser import handing

        handing.withdraw(store, keyring_in(keys), name)
    if as_json:
        print_json({**({"dry_run": True} if dry_run else {}), "withdrawn": name})
    else:
        say(f"{'would take back' if dry_run else 'taken back'}: the request {name} in {store}")


def _waiting(store: Path) -> Sequence[Pending]:
    from receraser.store.directory import DirectoryStore
    from receraser.store.history import waiting

    return waiting(DirectoryStore(store))


def _written_with(store: Path, keys: Path | None) -> Callable[[Pending], bool | None]:
    """Return what says of a request whether it was written with the key of the store's ledger; None: not checked."""
    from receraser.errors import StoreError
    from receraser.store.directory import DirectoryStore
    from receraser.store.pending import Pending
    from receraser.store.record import Record

    place, keyring = DirectoryStore(store), keyring_to_read(keys)
    record = Record.from_dict(place.manifest()["record"])
    key = keyring.ledger_key(record.store, create=False) if keyring is not None and record.signers else None
    files = place.pending()

    def written(one: Pending) -> bool | None:
        if key is None:
            return None
        try:
            Pending.decode(one.id, files[one.id], key)
        except StoreError:  # it could be read without the key
            return False
        return True

    return written


def _described(one: Pending) -> dict[str, object]:
    """Return what may be shown of a request."""
    return {
        "id": one.id,
        "kind": one.kind,
        "time": one.time,
        "users": len(one.request.users),
        "items": len(one.request.items),
        "interactions": len(one.request.interactions),
        "rows": 0 if one.rows is None else len(one.rows),
    }
