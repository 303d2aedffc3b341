"""The key that turns users' ids into pseudonyms. It lives outside the store, in a folder the operator names.

Without a folder the key is a public constant: rows still go by pseudonyms, and the same data gives the same digest on
every machine, but whoever can guess an id can recognise it. For personal data, name a folder and guard it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path

from receraser.errors import UsageError

__all__ = ["PUBLIC_KEY", "has_key", "load_key"]

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
    try:
        if create and not has_key(folder):
            _make_key(path)
        key = bytes.fromhex(path.read_text().strip())
    except FileNotFoundError:
        raise UsageError(f"there is no key in {folder}: expected the file {path}") from None
    except OSError as error:
        raise UsageError(f"the key {path} cannot be used: {error.strerror}") from None
    except ValueError:
        raise UsageError(f"{path} is no key: expected 64 hexadecimal digits") from None
    if len(key) != 32:
        raise UsageError(f"{path} is no key: expected 64 hexadecimal digits, found {2 * len(key)}")
    return key


def _make_key(path: Path) -> None:
    """Put a random key there, whole or not at all; if somebody else was first, theirs stays."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(dir=path.parent)  # readable by its owner alone
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(secrets.token_hex(32) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        with suppress(FileExistsError):
            os.link(name, path)
    finally:
        Path(name).unlink()
