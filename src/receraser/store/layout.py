"""What lies where in the folder of a store, by name: for whoever reads it without the means to write it."""

from __future__ import annotations

import re

from receraser.proof.manifest import FORMAT

__all__ = ["FORMAT", "PARTS", "is_pending", "ledger_to_be"]

PARTS = ("certificates", "files", "ledger", "lock", "manifest.json", "pending")

_PENDING = re.compile(r"pending/[0-9a-f]{32}\.json")


def is_pending(name: str) -> bool:
    """Say whether this is the name of a request's file in a store."""
    return _PENDING.fullmatch(name) is not None


def ledger_to_be(store: str) -> str:
    """Return the name of the ledger of a store that takes the place of another one, until it has."""
    return f"ledger-{store}.new"
