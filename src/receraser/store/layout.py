"""What lies where in the folder of a store, by name: for whoever reads it without the means to write it."""

from __future__ import annotations

__all__ = ["FORMAT", "PARTS", "ledger_to_be"]

FORMAT = 3
PARTS = ("certificates", "files", "ledger", "lock", "manifest.json", "pending")


def ledger_to_be(store: str) -> str:
    """Return the name of the ledger of a store that takes the place of another one, until it has."""
    return f"ledger-{store}.new"
