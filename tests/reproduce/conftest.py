from __future__ import annotations

import pytest

from receraser.execution.local import LocalExecutor
from tests.cli.conftest import KeptWorkers

WORLD = "synthetic-60x24x700"


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages alone: a picture takes as long as everything else that is tested here."""
    monkeypatch.setattr("receraser.reproduce.report.saved", lambda *_: [])


@pytest.fixture
def kept_workers(monkeypatch: pytest.MonkeyPatch, worker: LocalExecutor) -> None:
    """One worker for all runs: starting new ones takes seconds each time."""
    for place in ("receraser.execution.local", "receraser.reproduce.jobs"):
        monkeypatch.setattr(f"{place}.LocalExecutor", lambda *_: KeptWorkers(worker))
