"""What the commands around proofs share: the folder of keys, files that are written once, a question before the end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from receraser.cli.console import say
from receraser.errors import UsageError

if TYPE_CHECKING:
    from receraser.proof.keyring import Keyring

__all__ = ["KeyFolder", "Yes", "confirm", "keyring_in", "new_file", "read_file"]

KeyFolder = Annotated[
    Path | None,
    typer.Option("--keys", metavar="DIR", help="Folder of the keys; without it $RECERASER_KEYS, or your own."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask whether it is meant.")]


def keyring_in(keys: Path | None) -> Keyring:
    """Return the keys in the folder named, or in the operator's own; makes nothing."""
    from receraser.proof.keyring import Keyring, default_folder

    return Keyring(default_folder() if keys is None else keys)


def confirm(what: str, *, yes: bool) -> None:
    """Go on only if it is meant: by --yes, or by an answer on a terminal."""
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(f"{what}; if that is meant, say --yes")
    if sys.stderr is not None:
        sys.stderr.write(f"{what}. Go on? [y/N] ")
        sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        say("nothing was changed")
        raise typer.Exit(1)


def new_file(path: Path, data: bytes) -> None:
    """Write a file; one that is there with another content is not overwritten."""
    try:
        try:
            with path.open("xb") as stream:
                stream.write(data)
        except FileExistsError:
            if not path.is_file() or path.read_bytes() != data:
                raise UsageError(f"{path} exists already; choose another name") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None


def read_file(path: Path) -> bytes:
    """Return the content of a file that was named."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
