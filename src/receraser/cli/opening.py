"""Opening a store for a command: to look, or to change it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from receraser.cli.console import Bar, count, say, warn
from receraser.errors import UsageError

if TYPE_CHECKING:
    from receraser.engine import Engine
    from receraser.proof.keyring import Keyring

__all__ = ["keyring_for", "open_store", "opened"]


def open_store(store: Path, keys: Path | None, *, needs_key: bool = True) -> Engine:
    """Return the engine in a store, by the options of the command line.

    Without need of the key, a store made with a secret one opens too; nobody can be asked for by their id then.
    """
    with Bar("opening the store"):
        from receraser.engine import Engine

        return Engine.load(store, key=_key(keys, needs_key=needs_key))


@contextmanager
def opened(
    store: Path,
    keys: Path | None,
    *,
    to_change: bool,
    keep_old: bool = False,
    needs_key: bool = True,
    finish: bool = True,
) -> Iterator[tuple[Engine, float]]:
    """Open a store, to change it or only to look; give the engine, and the seconds it took to open.

    What an interrupted command left to do is done first, unless the command does that itself (`finish`).
    """
    with Bar("starting"):
        from receraser.engine import Engine
    started = time.perf_counter()
    if not to_change:
        yield open_store(store, keys, needs_key=needs_key), time.perf_counter() - started
        return
    with Bar("opening the store"):
        from receraser.store.directory import DirectoryStore

        key = _key(keys, needs_key=needs_key)
        keyring = keyring_for(keys)
    held = False
    try:
        with Engine.changing(store, key=key, keyring=keyring, keep_old=keep_old, finish=finish) as engine:
            held = True
            if engine.finished:
                say(f"finished first: {count(engine.finished, 'request')} that an earlier command was interrupted in")
            yield engine, time.perf_counter() - started
    except BaseException:
        left = len(DirectoryStore(store).pending()) if held else 0  # otherwise they are somebody else's
        if left:
            say(
                f"{count(left, 'request')} written down and not done yet; the next command that changes {store} goes on"
            )
        raise


def keyring_for(keys: Path | None) -> Keyring | None:
    """Return what signs certificates: the keys in the folder named, or in the operator's own; None where there is none.

    Keys never lie in a store.
    """
    from receraser.proof.keyring import Keyring, default_folder

    ring = Keyring(keys or default_folder())
    try:
        ring.signing()
    except UsageError as error:
        if keys is not None:
            raise
        warn(f"no certificate will be signed: {error}; name a folder with --keys")
        return None
    return ring


def _key(keys: Path | None, *, needs_key: bool) -> bytes | None:
    from receraser.keys import load_key

    return load_key(keys) if needs_key or keys is not None else None
