from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numba
import pytest

from receraser.store import snapshot
from tests.durability.scenes import fit
from tests.durability.traps import no_flushing


@pytest.fixture(autouse=True, scope="package")
def one_kernel_thread() -> None:
    """Threads that wait for each other on a busy machine make small fits many times slower."""
    numba.set_num_threads(1)


@pytest.fixture(autouse=True)
def one_file_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the n-th step is the same one every time."""
    monkeypatch.setattr(snapshot, "_WRITTEN_AT_ONCE", 1)


@pytest.fixture
def several_files_at_a_time(one_file_at_a_time: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is outside of tests: what the n-th step is, chance decides."""
    monkeypatch.setattr(snapshot, "_WRITTEN_AT_ONCE", 4)


@pytest.fixture(autouse=True)
def nobody_pulls_the_plug() -> Iterator[None]:
    with no_flushing():
        yield


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store, and the keys that sign for it."""
    folder = tmp_path / "root"
    folder.mkdir()
    fit(folder)
    return folder
