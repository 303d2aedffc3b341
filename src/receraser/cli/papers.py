"""What the commands around proofs share: the folder of keys, files that are written once, a question before the end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from receraser.cli.console import say, warn
from receraser.errors import UsageError

if TYPE_CHECKING:
    from receraser.engine import Engine
    from receraser.proof.keyring import Keyring
    from receraser.proof.signing import PublicKey

__all__ = ["KeyFolder", "Yes", "confirm", "key_known", "keyring_in", "keyring_to_read", "new_file", "read_file"]
__all__ += ["say_key_of_replaced", "say_whose_key"]

KeyFolder = Annotated[
    Path | None,
    typer.Option("--keys", metavar="DIR", help="Folder of the keys; without it $RECERASER_KEYS, or your own."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask whether it is meant.")]


def keyring_in(keys: Path | None) -> Keyring:
    """Return the keys in the folder named, or in the operator's own; makes nothing."""
    from receraser.proof.keyring import Keyring, default_folder

    return Keyring(default_folder() if keys is None else keys)


def keyring_to_read(keys: Path | None) -> Keyring | None:
    """Return the keys in the folder named, which must be there, or in the operator's own if there can be one."""
    if keys is not None and not keys.is_dir():
        raise UsageError(f"--keys {keys}: there is no such folder")
    try:
        return keyring_in(keys)
    except UsageError:
        return None


def key_known(keyring: Keyring | None, key: PublicKey) -> bool:
    """Say whether a key that a store names is one of those in the folder of keys."""
    return keyring is not None and keyring.public().get(key.id) == key


def say_whose_key(keyring: Keyring | None, name: str, *, known: bool, checked: bool = True) -> None:
    """Say of a signature whether its key is known here; `checked` that it fits the key that the store names."""
    public = "any folder of keys" if keyring is None else keyring.folder / "public"
    if known:
        say(f"signed with key {name}, which is known here ({public}); the signature fits")
    elif checked:
        warn(
            f"signed with key {name}, which is named by the store and not in {public}: the signature fits, "
            "but whose key it is must be asked elsewhere"
        )
    else:
        warn(f"signed with key {name}, which is not in {public}: the signature was not checked")


def say_key_of_replaced(engine: Engine, keys: Path | None) -> None:
    """Say that a store that was replaced leaves the key of its ledger, where it does: a copy of it may need that."""
    keyring, gone = keyring_to_read(keys), engine.replaced
    if keyring is not None and gone is not None and keyring.ledger_key(gone, create=False) is not None:
        named = "" if keys is None else f" --keys {keys}"
        say(
            f"the key of the ledger that was replaced is still in {keyring.folder}: by it, names can be tested against "
            f"copies of that ledger; if no copy of the store is in use: receraser keys shred --ledger {gone}{named}"
        )


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


def new_file(path: Path, data: bytes, *, dry_run: bool = False) -> None:
    """Write a file, unless it is only tried; one that is there with another content is not overwritten."""
    try:
        if path.exists():
            if not path.is_file() or path.read_bytes() != data:
                raise UsageError(f"{path} exists already; choose another name")
        elif not dry_run:
            with path.open("xb") as stream:
                stream.write(data)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None


def read_file(path: Path) -> bytes:
    """Return the content of a file that was named."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
