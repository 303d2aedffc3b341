"""`receraser keys`: the folder of keys: show it, make a key, rotate it, shred that of a ledger."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from receraser.cli import options
from receraser.cli.console import print_json, print_lines, print_table, say
from receraser.cli.papers import KeyFolder, Yes, confirm, keyring_in
from receraser.errors import UsageError

if TYPE_CHECKING:
    from receraser.proof.keyring import Keyring
    from receraser.proof.signing import PublicKey

__all__ = ["keys_app"]

keys_app = typer.Typer(help="Keys: show, make, rotate, shred.", no_args_is_help=True, rich_markup_mode=None)


@keys_app.command("show")
def show(keys: KeyFolder = None, as_json: options.AsJson = False) -> None:
    """Show which keys there are, and where; never a secret."""
    from receraser.keys import has_key

    keyring = keyring_in(keys)
    current = _current(keyring)
    public = keyring.folder / "public"
    listed: list[dict[str, object]] = [
        {
            "id": name,
            "current": current is not None and name == current.id,
            "fingerprint": _fingerprint(key),
            "file": str(public / f"{name}.pem"),
            "rotation": str(statement) if (statement := public / f"{name}.rotation.json").exists() else None,
        }
        for name, key in sorted(keyring.public().items())
    ]
    ledgers = sorted(path.stem.removeprefix("ledger-") for path in keyring.folder.glob("ledger-*.key"))
    if as_json:
        document = {"folder": str(keyring.folder), "current": None if current is None else current.id, "keys": listed}
        print_json({**document, "ledgers": ledgers, "pseudonym_key": has_key(keyring.folder)})
        return
    if listed:
        rows = [["signs now" if one["current"] else "before", *(str(one[key]) for key in _COLUMNS)] for one in listed]
        print_table(["", "key", "fingerprint (SHA-256)", "file"], rows)
    signs = f"{keyring.folder / 'signing.key'}" if current is not None else "none yet: receraser keys make"
    lines = {
        "folder": str(keyring.folder),
        "signing": signs,
        "pseudonyms": str(keyring.folder / "pseudonym.key") if has_key(keyring.folder) else "no secret key here",
        "ledgers": ", ".join(ledgers) or "no key of a store's ledger here",
    }
    print_lines([f"{name:<11} {text}" for name, text in lines.items()])


_COLUMNS = ("id", "fingerprint", "file")


@keys_app.command("make")
def make(keys: KeyFolder = None, dry_run: options.DryRun = False, as_json: options.AsJson = False) -> None:
    """Make a signing key, unless there is one."""
    keyring = keyring_in(keys)
    before = _current(keyring)
    key = before if before is not None or dry_run else keyring.signing().public
    if as_json:
        told = {"dry_run": True} if dry_run else {}
        about = {"id": None if key is None else key.id, "fingerprint": None if key is None else _fingerprint(key)}
        print_json({**told, "made": before is None and not dry_run, "folder": str(keyring.folder), **about})
    elif before is not None:
        say(f"there is a signing key in {keyring.folder} already: {before.id}")
    elif key is None:
        say(f"would make a signing key in {keyring.folder}")
    else:
        say(f"made the signing key {key.id} in {keyring.folder}: guard the folder, and keep a copy of it elsewhere")
        _say_what_to_hand_out(keyring)


@keys_app.command("rotate")
def rotate(keys: KeyFolder = None, dry_run: options.DryRun = False, as_json: options.AsJson = False) -> None:
    """Replace the signing key; the old one is destroyed.

    What it signed stays valid. It signs a last statement: that the new key takes its place.
    """
    from datetime import UTC, datetime

    from receraser.proof.ledger import later

    keyring = keyring_in(keys)
    old = _current(keyring)
    if old is None:
        raise UsageError(f"there is no signing key in {keyring.folder} to replace; make one with: receraser keys make")
    if dry_run:
        if as_json:
            print_json({"dry_run": True, "old": old.id, "folder": str(keyring.folder)})
        else:
            say(f"would replace the signing key {old.id} in {keyring.folder}, and destroy it")
        return
    old, new = keyring.rotate(later(datetime.now(UTC), None))
    statement = keyring.folder / "public" / f"{new.id}.rotation.json"
    if as_json:
        print_json({"old": old.id, "new": new.id, "rotation": str(statement), "public": str(keyring.folder / "public")})
        return
    say(f"key {old.id} is replaced by {new.id}; the old private key is destroyed")
    say(f"the old key's statement: {statement}")
    _say_what_to_hand_out(keyring)


@keys_app.command("shred")
def shred(
    store: Annotated[
        Path | None, typer.Option("--store", metavar="DIR", help="The store whose ledger's key is destroyed.")
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option("--ledger", metavar="ID", help="Of a store that is no more: its id, as `keys show` gives it."),
    ] = None,
    keys: KeyFolder = None,
    yes: Yes = False,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Destroy the key of a store's ledger.

    Nobody can then tell who is named in the ledger: not whether a person asked, and not whether forgotten rows came
    back. The ledger and every certificate stay valid. A later change makes a new key, for what comes after it. A store
    that was replaced leaves its key, since a copy of it may be in use: --ledger destroys that.
    """
    if (store is None) == (ledger is None):
        raise UsageError("name a store with --store, or the id of one that is no more with --ledger: one of the two")
    if store is None:
        assert ledger is not None
        _shred_left(ledger, keyring_in(keys), yes=yes, dry_run=dry_run, as_json=as_json)
        return
    from receraser.store.directory import DirectoryStore
    from receraser.store.history import History

    keyring = keyring_in(keys)
    history = History.of(DirectoryStore(store))
    name = history.record.store
    named = len({one for entry in history.entries for one in entry.subjects})
    what = f"the key of the ledger in {store} is destroyed: who is named in its ledger can never be recognised again"
    if dry_run:
        if keyring.ledger_key(name, create=False) is None:
            raise UsageError(f"there is no key of this store's ledger in {keyring.folder} (--keys)")
        say(f"would do this: {what}")
    else:
        confirm(what, yes=yes)
        from receraser import handing

        handing.shred(store, keyring)
    if as_json:
        told = {"dry_run": True} if dry_run else {}
        print_json({**told, "store": name, "subjects": named, "folder": str(keyring.folder)})
    elif not dry_run:
        say(f"the key of the ledger in {store} is destroyed; that it was is the last entry of the ledger")
        say("copies of the key in backups and snapshots are not covered: destroy them too")


def _shred_left(ledger: str, keyring: Keyring, *, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Destroy the key of a ledger that is no more; there is nowhere to enter it."""
    what = f"the key of the ledger of store {ledger} is destroyed: in no copy of it can anybody be recognised again"
    if dry_run:
        found = keyring.ledger_key(ledger, create=False) is not None
    else:
        confirm(what, yes=yes)
        found = keyring.shred_ledger_key(ledger)
    if not found:
        raise UsageError(f"there is no key of the ledger of store {ledger} in {keyring.folder} (--keys)")
    say(f"{'would do this' if dry_run else 'done'}: {what}; copies in backups and snapshots are not covered")
    if as_json:
        told = {"dry_run": True} if dry_run else {}
        print_json({**told, "store": ledger, "folder": str(keyring.folder)})


def _current(keyring: Keyring) -> PublicKey | None:
    """Return the public half of the key that signs now; None where there is none."""
    if not (keyring.folder / "signing.key").exists():
        return None
    return keyring.signing(create=False).public


def _fingerprint(key: PublicKey) -> str:
    return hashlib.sha256(key.raw).hexdigest()


def _say_what_to_hand_out(keyring: Keyring) -> None:
    say(f"for auditors: the folder {keyring.folder / 'public'}, and nothing else of {keyring.folder}")
