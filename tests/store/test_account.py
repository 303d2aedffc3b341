"""The ledger of an open store: what came since it was last looked at is read, and nothing that was changed passes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from receraser.engine import Engine
from receraser.errors import ProofError, StoreError
from receraser.proof.keyring import Keyring
from receraser.proof.ledger import Entry, frontier_of, read_entries
from receraser.store import directory
from receraser.store.directory import _Account
from tests.contracts.worlds import blocks
from tests.forgetting.engines import Combination, Here

LINES = [Entry(n, f"2026-11-15T17:00:{n:02}Z", "add").line() for n in range(9)]


def test_going_on_is_reading_it_whole() -> None:
    account = _Account()
    for n in (0, 1, 4, 4, 9, 2, 6):  # a shorter one is another one
        account = account.going_on(b"".join(LINES[:n]))
        assert account.entries == tuple(read_entries(b"".join(LINES[:n])))
        assert account.tree == frontier_of(account.entries)


def test_what_was_changed_is_read_again() -> None:
    """Any byte of what was read before, and of what came after it: found, or another tree."""
    known = _Account().going_on(b"".join(LINES[:5]))
    whole = bytearray(b"".join(LINES))
    right = known.going_on(bytes(whole)).tree
    for at in np.random.default_rng(1).integers(0, len(whole), 60).tolist():
        damaged = bytearray(whole)
        damaged[at] ^= 1
        try:
            assert known.going_on(bytes(damaged)).tree != right
        except ProofError:
            continue


def test_what_is_known_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def noted(data: bytes, above: Sequence[Entry]) -> list[Entry]:
        read.append(len(data))
        return read_entries(data, above)

    monkeypatch.setattr(directory, "read_entries", noted)
    account = _Account().going_on(b"".join(LINES[:5]))
    account.going_on(b"".join(LINES[:6]))
    assert read == [sum(map(len, LINES[:5])), len(LINES[5])]


def test_an_open_store_finds_an_old_entry_changed(tmp_path: Path) -> None:
    """And nothing is published over it."""
    world, keyring = blocks(14, 12, 2), Keyring(tmp_path / "keys")
    engine = Combination("whole", "alone", "wmf").engine().fit(world.train)
    engine.save(tmp_path / "s", keyring=keyring)
    with Engine.changing(tmp_path / "s", executor=Here(), keyring=keyring) as opened:
        opened.forget(["u01"])
        opened.forget(["u02"])
        ledger = tmp_path / "s" / "ledger"
        text = ledger.read_bytes()
        ledger.write_bytes(text.replace(b'"action":"fit"', b'"action":"add"', 1))
        assert ledger.read_bytes() != text
        certificates = sorted((tmp_path / "s" / "certificates").iterdir())
        with pytest.raises(StoreError, match="damaged"):
            opened.forget(["u03"])
        assert set(certificates) <= set((tmp_path / "s" / "certificates").iterdir()), "nothing was removed"
