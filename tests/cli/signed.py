"""A small store whose changes are signed, for the commands around proofs."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from receraser.engine import Engine
from receraser.erasure.request import ForgetRequest
from receraser.execution.local import LocalExecutor
from receraser.models.wmf import WMF
from receraser.proof.keyring import Keyring
from receraser.store.directory import DirectoryStore
from receraser.store.history import History
from receraser.store.pending import Pending
from tests.contracts.worlds import checkerboard

TIME = "2026-01-01T00:00:00Z"


@dataclass(frozen=True)
class Signed:
    """Where a store and its keys lie: a fit (entry 0) and the forgetting of one user (entry 1)."""

    store: Path
    keys: Path

    @classmethod
    def made(cls, folder: Path, worker: LocalExecutor) -> Self:
        one = cls(folder / "store", folder / "keys")
        engine = Engine(model=WMF(dim=4, n_sweeps=2), seed=7, executor=worker).fit(checkerboard().train)
        engine.save(one.store, keyring=one.keyring)
        with Engine.changing(one.store, executor=worker, keyring=one.keyring) as engine:
            engine.forget(users=["u03"])
        return one

    def copied(self, folder: Path) -> Self:
        """Return a copy that may be changed."""
        shutil.copytree(self.store, folder / "store")
        shutil.copytree(self.keys, folder / "keys")
        return type(self)(folder / "store", folder / "keys")

    @property
    def keyring(self) -> Keyring:
        return Keyring(self.keys)

    @property
    def place(self) -> DirectoryStore:
        return DirectoryStore(self.store)

    @property
    def history(self) -> History:
        """What the store's ledger says; checked, its signature too."""
        history = History.of(self.place)
        history.checkpoint()
        return history

    @property
    def actions(self) -> list[str]:
        return [one.action for one in self.history.entries]

    def asked(self, *users: str) -> Pending:
        """Write down that users, by their pseudonyms, are to be forgotten: as a command that is interrupted then."""
        pending = Pending("forget", TIME, request=ForgetRequest.of(users))
        key = Keyring(self.keys).ledger_key(self.history.record.store)
        self.place.put_pending(pending.id, pending.encode(key))
        return pending
