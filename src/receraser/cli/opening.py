"""Opening a store for a command: to look, or to change it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from receraser.cli.console import Bar

if TYPE_CHECKING:
    from receraser.engine import Engine

__all__ = ["changing_store", "open_store"]


def open_store(store: Path, keys: Path | None) -> Engine:
    """Return the engine in a store, by the options of the command line."""
    with Bar("opening the store"):
        from receraser.engine import Engine
        from receraser.keys import load_key

        return Engine.load(store, key=load_key(keys))


@contextmanager
def changing_store(store: Path, keys: Path | None, *, keep_old: bool = False) -> Iterator[Engine]:
    """Open a store to change it; what changed is published when the block ends."""
    with Bar("opening the store"):
        from receraser.engine import Engine
        from receraser.keys import load_key

        key = load_key(keys)
    with Engine.changing(store, key=key, keep_old=keep_old) as engine:
        yield engine
