from __future__ import annotations

import pytest

from receraser.execution.local import LocalExecutor
from tests.cli.conftest import KeptWorkers

WORLD = "synthetic-60x24x700"


@pytest.fixture
def kept_workers(monkeypatch: pytest.MonkeyPatch, worker: LocalExecutor) -> None:
    """One worker for all runs: starting new ones takes seconds each time."""
    monkeypatch.setattr("receraser.execution.local.LocalExecutor", lambda *_: KeptWorkers(worker))
