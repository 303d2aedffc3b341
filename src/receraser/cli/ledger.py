"""`receraser ledger`: show the ledger of a store, and prove things about it to somebody outside."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from receraser.cli import options
from receraser.cli.console import print_json, print_lines, print_table, say
from receraser.cli.papers import KeyFolder, key_known, keyring_in, keyring_to_read, new_file, read_file, say_whose_key
from receraser.errors import ProofError, StoreError, UsageError

if TYPE_CHECKING:
    from receraser.proof.issued import Checkpoint
    from receraser.store.history import History

__all__ = ["ledger_app"]

ledger_app = typer.Typer(
    help="The ledger of a store: show it, prove what is in it.", no_args_is_help=True, rich_markup_mode=None
)

Out = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="A new file; by default standard output.")]


@ledger_app.command("show")
def show(store: options.Store, keys: KeyFolder = None, as_json: options.AsJson = False) -> None:
    """Show what was done to a store, and when.

    Says whether the key that signed it is one of those in the folder of keys.
    """
    history, keyring = _history(store), keyring_to_read(keys)
    signed = history.checkpoint()
    known = signed is not None and key_known(keyring, history.signers[signed.signed_by])
    if as_json:
        entries = [{**vars(one), "subjects": len(one.subjects)} for one in history.entries]
        document = {"store": history.record.store, "size": len(entries), "root": history.root, "entries": entries}
        print_json({**document, "checkpoint": None if signed is None else {**_said(signed), "key_known": known}})
        return
    rows = [
        [str(one.index), one.time, one.action, str(len(one.subjects)), (one.certificate or "none")[:16]]
        for one in history.entries
    ]
    print_table(["index", "time", "action", "subjects", "certificate"], rows)
    by = "not signed" if signed is None else f"signed with key {signed.signed_by}"
    print_lines([f"store {history.record.store}, root {history.root}, {by}"])
    if signed is not None:
        say_whose_key(keyring, signed.signed_by, known=known)


@ledger_app.command("checkpoint")
def checkpoint(
    store: options.Store,
    out: Out = None,
    keys: KeyFolder = None,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Hand out the signed root, for a witness elsewhere.

    Whoever has it can tell later whether the ledger was rewritten: `receraser ledger prove --since`. Says whether the
    key that signed it is one of those in the folder of keys.
    """
    history, keyring = _history(store), keyring_to_read(keys)
    signed = history.checkpoint()
    if signed is None:
        raise StoreError(
            f"the ledger in {store} is not signed: its last entry was made without keys; the next one that is made "
            "with them signs for all before it"
        )
    known = key_known(keyring, history.signers[signed.signed_by])
    _hand_out(signed.envelope, out, dry_run=dry_run)
    if as_json:
        told = {**({"dry_run": True} if dry_run else {}), **_said(signed), "key_known": known}
        print_json({**told, "out": None if out is None else str(out), "checkpoint": signed.envelope})
        return
    _print(signed.envelope, out, dry_run=dry_run)
    say(f"the root over {_entries(signed.size)}, as of {signed.time}")
    say_whose_key(keyring, signed.signed_by, known=known)


@ledger_app.command("prove")
def prove(
    store: options.Store,
    number: Annotated[
        int | None, typer.Option("--number", metavar="N", help="That this entry is in the ledger.")
    ] = None,
    since: Annotated[
        Path | None, typer.Option("--since", metavar="CHECKPOINT", help="That since this one the ledger only grew.")
    ] = None,
    out: Out = None,
    keys: KeyFolder = None,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Prove that an entry is in it, or that it only grew.

    The proof is a JSON document after RFC 6962: hashes from which the signed root can be computed.
    """
    if (number is None) == (since is None):
        raise UsageError("name an entry with --number, or an earlier checkpoint with --since: one of the two")
    history = _history(store)
    if since is None:
        assert number is not None
        proof = history.inclusion(number)
        said = f"entry {number} ({history.entry(number).action}) is in the ledger of {_entries(len(history.entries))}"
    else:
        proof = _consistency(history, since, keys)
        said = f"the ledger of {_entries(len(history.entries))} began with the {proof['old_size']} of {since}"
    _hand_out(proof, out, dry_run=dry_run)
    if as_json:
        print_json({**({"dry_run": True} if dry_run else {}), **proof})
        return
    _print(proof, out, dry_run=dry_run)
    say(said)


def _history(store: Path) -> History:
    from receraser.store.directory import DirectoryStore
    from receraser.store.history import History

    return History.of(DirectoryStore(store))


def _consistency(history: History, since: Path, keys: Path | None) -> dict[str, object]:
    from receraser.proof.issued import envelope_in

    try:
        envelope = envelope_in(read_file(since), "the checkpoint")
        return history.consistency(envelope, keyring_in(keys).public())
    except ProofError as error:
        raise ProofError(f"{since}: {error}") from None


def _said(signed: Checkpoint) -> dict[str, object]:
    return {"size": signed.size, "root": signed.root, "time": signed.time, "signed_by": signed.signed_by}


def _entries(how_many: int) -> str:
    return f"{how_many:,} {'entry' if how_many == 1 else 'entries'}"


def _written(document: Mapping[str, object]) -> bytes:
    from receraser.fingerprint import canonical_json

    return canonical_json(document) + b"\n"


def _hand_out(document: Mapping[str, object], out: Path | None, *, dry_run: bool) -> None:
    if out is not None:
        new_file(out, _written(document), dry_run=dry_run)


def _print(document: Mapping[str, object], out: Path | None, *, dry_run: bool) -> None:
    """Write a document to standard output, the very bytes that a file would have; or say where the file is."""
    if out is None:
        print_lines([_written(document).decode().rstrip("\n")])
    else:
        say(f"{'would write' if dry_run else 'written to'} {out}")
