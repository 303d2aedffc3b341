"""The key that turns users' ids into pseudonyms. It lives outside the store, in a folder the operator names.

Without a folder the key is a public constant: rows still go by pseudonyms, and the same data gives the same digest on
every machine, but whoever can guess an id can recognise it. For personal data, name a folder and guard it.

Other keys live in the folder too (`receraser.proof.keyring`); they are written and read by the functions here.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path

from receraser.errors import UsageError

__all__ = ["PUBLIC_KEY", "flush_folder", "has_key", "key_in", "load_key", "make_folder", "write_once"]

PUBLIC_KEY = hashlib.sha256(b"receraser: public pseudonym key").digest()
_NAME = "pseudonym.key"


def has_key(folder: Path) -> bool:
    """Say whether there is a key in a folder."""
    return (Path(folder) / _NAME).exists()


def load_key(folder: Path | None, *, create: bool = False) -> bytes:
    """Return the key in a folder (making a random one if asked to), or the public one without a folder."""
    if folder is None:
        return PUBLIC_KEY
    path = Path(folder) / _NAME
    key = key_in(path, create=create)
    if key is None:
        raise UsageError(f"there is no key in {folder}: expected the file {path}")
    return key


def key_in(path: Path, *, create: bool = False) -> bytes | None:
    """Return the 32 bytes of the key in a file (making a random one if asked to), or nothing without such a file."""
    try:
        if create and not path.exists():
            write_once(path, f"{secrets.token_hex(32)}\n".encode())
        key = bytes.fromhex(path.read_text().strip())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"the key {path} cannot be used: {error.strerror}") from None
    except ValueError:
        raise UsageError(f"{path} is no key: expected 64 hexadecimal digits") from None
    if len(key) != 32:
        raise UsageError(f"{path} is no key: expected 64 hexadecimal digits, found {2 * len(key)}")
    return key


def write_once(path: Path, content: bytes) -> None:
    """Put a file there, readable by its owner alone, whole or not at all; if somebody else was first, theirs stays."""
    make_folder(path.parent, mode=0o700)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # readable by its owner alone
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        with suppress(FileExistsError):
            os.link(name, path)
    finally:
        Path(name).unlink()
    flush_folder(path.parent)


def make_folder(path: Path, *, mode: int = 0o777) -> None:
    """See to it that a folder is there, and its name on disk, and those of the folders above it."""
    if path.is_dir():
        return
    new = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True, mode=mode)
    for folder in new:
        flush_folder(folder.parent)


def flush_folder(path: Path) -> None:
    """Return once the names in a folder are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
