"""Opening a store for a command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from receraser.cli.console import Bar

if TYPE_CHECKING:
    from receraser.engine import Engine

__all__ = ["open_store"]


def open_store(store: Path, keys: Path | None) -> Engine:
    """Return the engine in a store, by the options of the command line."""
    with Bar("opening the store"):
        from receraser.engine import Engine
        from receraser.keys import load_key

        return Engine.load(store, key=load_key(keys))
