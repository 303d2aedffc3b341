from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from receraser.data.interactions import Interactions
from receraser.engine import Engine
from receraser.fingerprint import canonical_json, of_bytes
from receraser.keys import load_key
from receraser.proof.keyring import Keyring
from receraser.proof.receipt import Receipt
from receraser.verify.case import Case
from receraser.verify.checks import Check, examine
from receraser.verify.signatures import Vouchers
from tests.forgetting.engines import Combination, Here

ROWS = [
    (f"person-{user:02}", f"item-{item:02}") for user in range(12) for item in range(9) if (user * 7 + item * 5) % 4
]
HELD = [(f"person-{user:02}", f"item-{item:02}") for user in range(12) for item in range(9) if (user + item) % 8 == 0]
GONE, BACK, UNKNOWN = "person-03", "person-04", "person-99"
PAIR = ("person-05", "item-02")
COMBINATION = Combination("hash", "spectral", "wmf")


@dataclass(frozen=True)
class World:
    """A store with a history, the keys of it, and what was handed out on the way."""

    store: Path
    keys: Path
    receipts: tuple[Receipt, ...]
    checkpoint: bytes  # after the second entry

    @property
    def keyring(self) -> Keyring:
        return Keyring(self.keys)

    @property
    def key(self) -> bytes:
        return load_key(self.keys)

    def at(self, store: Path) -> World:
        """The same with a copy of the store."""
        shutil.copytree(self.store, store)
        return replace(self, store=store)

    def examine(self) -> tuple[Case, list[Check]]:
        ring = self.keyring
        return examine(self.store, vouchers=Vouchers.of(keyring=ring, named=True), keyring=ring)

    def failing(self) -> dict[str, str]:
        """What does not hold, and why."""
        return {one.name: one.detail for one in self.examine()[1] if not one.ok}

    def rewrite(self, change: Callable[[dict[str, object]], object]) -> None:
        """Change the manifest as somebody would who knows how it is checksummed."""
        path = self.store / "manifest.json"
        body = json.loads(path.read_bytes())
        del body["checksum"]
        change(body)
        body["checksum"] = of_bytes(canonical_json(body))
        path.write_bytes(canonical_json(body) + b"\n")

    def manifest(self) -> dict[str, object]:
        found = json.loads((self.store / "manifest.json").read_bytes())
        assert isinstance(found, dict)
        return found


def changing(store: Path, keys: Path, *, keep_old: bool = False, executor: Here | None = None):  # type: ignore[no-untyped-def]
    """Open a store to change it, as its operator."""
    return Engine.changing(
        store, key=load_key(keys), executor=executor or Here(), keyring=Keyring(keys), keep_old=keep_old
    )


def fitted(store: Path, keys: Path, combination: Combination = COMBINATION) -> None:
    """Fit a small world into a store."""
    key = load_key(keys, create=True)
    engine = Engine.from_config(combination.config(), key=key, executor=Here())
    engine.titles = {f"item-{item:02}": f"The title of number {item}" for item in range(9)}
    engine.fit(Interactions.from_pairs(ROWS), valid=Interactions.from_pairs(HELD)).save(store, keyring=Keyring(keys))


def checkpoint_of(store: Path) -> bytes:
    """The signed root of a store's ledger, as a file for somebody else to keep."""
    record = json.loads((store / "manifest.json").read_bytes())["record"]
    return canonical_json(record["checkpoint"]) + b"\n"


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Fitted; somebody forgotten; an add that brings somebody back; a stranger and an interaction forgotten."""
    folder = tmp_path_factory.mktemp("verified")
    store, keys = folder / "store", folder / "keys"
    fitted(store, keys)
    with changing(store, keys) as engine:
        receipts = list(engine.forget([GONE, BACK]).receipts)
    kept = checkpoint_of(store)
    with changing(store, keys) as engine:
        engine.add(Interactions.from_pairs([(BACK, "item-01"), ("person-77", "item-01"), ("person-77", "item-02")]))
        engine.forget([UNKNOWN])
        receipts += engine.forget(interactions=[PAIR], hide=True).receipts
        engine.rebuild()
        receipts += engine.forget(["person-06"]).receipts
    return World(store, keys, tuple(receipts), kept)


@pytest.fixture
def world(original: World, tmp_path: Path) -> World:
    """A copy that may be changed, and its keys."""
    shutil.copytree(original.keys, tmp_path / "keys")
    return replace(original, keys=tmp_path / "keys").at(tmp_path / "store")
