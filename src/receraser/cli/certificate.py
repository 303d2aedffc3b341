"""`receraser certificate`: show what is certified, list it, give it to somebody."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from receraser.cli import options
from receraser.cli.console import count, print_json, print_lines, print_table, say
from receraser.cli.papers import KeyFolder, key_known, keyring_in, keyring_to_read, new_file, read_file, say_whose_key
from receraser.errors import ProofError, UsageError

if TYPE_CHECKING:
    from receraser.proof.issued import Issued
    from receraser.proof.keyring import Keyring

__all__ = ["certificate_app"]

certificate_app = typer.Typer(
    help="Certificates: show, list, give to somebody.", no_args_is_help=True, rich_markup_mode=None
)


@certificate_app.command("show")
def show(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="A certificate's file.")] = None,
    store: Annotated[
        Path | None, typer.Option("--store", metavar="DIR", help="Instead of a file: the newest of this store.")
    ] = None,
    number: Annotated[
        int | None, typer.Option("--number", metavar="N", help="Of the store: that of this entry of the ledger.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="OUT", help="Write a page to print and to file, instead of text.")
    ] = None,
    keys: KeyFolder = None,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Show a certificate, for people to read.

    What was asked and done, what that covers and what not; by which key it was signed, and whether that is one of those
    in the folder of keys. Checking everything is another command: `receraser verify`.
    """
    from receraser.proof.rendering import as_html, as_text

    if (file is None) == (store is None):
        raise UsageError("name a certificate's file, or a store with --store: one of the two")
    if number is not None and store is None:
        raise UsageError("--number is a place in the ledger of a store; name it with --store")
    keyring = keyring_in(keys)
    one, path = _from_store(store, number, keyring) if store is not None else _from_file(file, keyring)
    signer = (
        one.signed_by if one.checked else f"{one.signed_by}, which is not known here: the signature was not checked"
    )
    if html is not None:
        new_file(html, as_html(one.certificate, signed_by=signer, sha256=one.sha256).encode(), dry_run=dry_run)
    if as_json:
        print_json(
            {
                **({"dry_run": True} if dry_run else {}),
                "file": str(path),
                "sha256": one.sha256,
                "signed_by": one.signed_by,
                "key_known": one.signed_by in keyring.public(),
                "signature_checked": one.checked,
                "html": None if html is None else str(html),
                "certificate": _fields(one),
            }
        )
        return
    if html is None:
        print_lines([as_text(one.certificate, signed_by=signer, sha256=one.sha256).rstrip("\n")])
    else:
        written = f"would write {html}, which" if dry_run else html
        say(f"{written} is for reading; what counts is the file {path}")
    say_whose_key(keyring, one.signed_by, known=one.signed_by in keyring.public(), checked=one.checked)
    if store is None:  # it is signed before it counts: a crash in between leaves one that nothing stands behind
        say("it counts if the ledger of its store names it: receraser verify --store DIR --certificate FILE")


def _from_store(store: Path, number: int | None, keyring: Keyring) -> tuple[Issued, Path]:
    """Return a certificate of a store, and where it lies."""
    from receraser.store.directory import DirectoryStore
    from receraser.store.history import History

    place = DirectoryStore(store)
    history = History.of(place)
    one = history.issued(place, history.certified(number), keyring.public())
    return one, place.certificate_path(one.sha256)


def _from_file(file: Path | None, keyring: Keyring) -> tuple[Issued, Path]:
    from receraser.proof.issued import claimed_certificate

    assert file is not None  # where there is no store
    try:
        return claimed_certificate(read_file(file), keyring.public()), file
    except ProofError as error:
        raise ProofError(f"{file}: {error}") from None


def _fields(one: Issued) -> dict[str, object]:
    return {spec.name: getattr(one.certificate, spec.name) for spec in dataclasses.fields(one.certificate)}


@certificate_app.command("list")
def list_certificates(store: options.Store, keys: KeyFolder = None, as_json: options.AsJson = False) -> None:
    """List the certificates of a store.

    Says whether the keys that signed them are among those in the folder of keys.
    """
    from receraser.store.directory import DirectoryStore
    from receraser.store.history import History

    place, keyring = DirectoryStore(store), keyring_to_read(keys)
    history = History.of(place)
    known = {name: key_known(keyring, key) for name, key in history.signers.items()}
    rows: list[dict[str, object]] = []
    for entry in history.entries:
        if entry.certificate is None:
            continue
        one = history.issued(place, entry)
        said = one.certificate
        rows.append(
            {
                "index": entry.index,
                "time": entry.time,
                "action": said.action,
                "level": said.level,
                "rows_removed": said.rows_removed,
                "valid_rows_removed": said.valid_rows_removed,
                "rows_added": said.rows_added,
                "signed_by": one.signed_by,
                "key_known": known[one.signed_by],
                "certificate": str(place.certificate_path(entry.certificate)),
            }
        )
    if as_json:
        print_json({"certificates": rows})
    elif rows:
        columns = ["index", "time", "action", "level", "rows_removed", "valid_rows_removed", "certificate"]
        heads = ["index", "time", "action", "level", "rows removed", "for validation", "certificate"]
        print_table(heads, [[str(row[column]) for column in columns] for row in rows])
        for name in sorted({str(row["signed_by"]) for row in rows}):
            say_whose_key(keyring, name, known=known[name])
    else:
        say(f"there is no certificate in {store}: {count(len(history.entries), 'entry')} of the ledger, none signed")


@certificate_app.command("give")
def give(
    store: options.Store,
    number: Annotated[int, typer.Option("--number", metavar="N", help="Its entry of the ledger.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="A new file.", show_default=False)],
    to: Annotated[
        str, typer.Option("--to", metavar="WHO", help="Who gets it, for the record: an office, no user's id.")
    ],
    keys: KeyFolder = None,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Copy a certificate for somebody, and enter who got it."""
    from receraser.handing import check_giving, give_certificate

    keyring = keyring_in(keys)
    if dry_run:
        check_giving(to=to, out=out)
        sha256 = _from_store(store, number, keyring)[0].sha256
    else:
        sha256 = give_certificate(store, keyring, number, to=to, out=out)
    if as_json:
        told = {"dry_run": True} if dry_run else {}
        print_json({**told, "index": number, "sha256": sha256, "out": str(out), "to": to})
    else:
        say(f"{'would write' if dry_run else 'written to'} {out}, SHA-256 {sha256}; on record as given to {to}")
