"""Opening a store for a command: to look, or to change it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from receraser.cli.console import Bar

if TYPE_CHECKING:
    from receraser.engine import Engine

__all__ = ["open_store", "opened"]


def open_store(store: Path, keys: Path | None, *, needs_key: bool = True) -> Engine:
    """Return the engine in a store, by the options of the command line.

    Without need of the key, a store made with a secret one opens too; nobody can be asked for by their id then.
    """
    with Bar("opening the store"):
        from receraser.engine import Engine

        return Engine.load(store, key=_key(keys, needs_key=needs_key))


@contextmanager
def opened(
    store: Path, keys: Path | None, *, to_change: bool, keep_old: bool = False, needs_key: bool = True
) -> Iterator[tuple[Engine, float]]:
    """Open a store, to change it or only to look; give the engine, and the seconds it took to open.

    What changed is published when the block ends.
    """
    started = time.perf_counter()
    if not to_change:
        yield open_store(store, keys, needs_key=needs_key), time.perf_counter() - started
        return
    with Bar("opening the store"):
        from receraser.engine import Engine

        key = _key(keys, needs_key=needs_key)
    with Engine.changing(store, key=key, keep_old=keep_old) as engine:
        yield engine, time.perf_counter() - started


def _key(keys: Path | None, *, needs_key: bool) -> bytes | None:
    from receraser.keys import load_key

    return load_key(keys) if needs_key or keys is not None else None
