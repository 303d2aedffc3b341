from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from receraser.execution.local import LocalExecutor
from tests.nightly import examples

# As in the workers. Tests are small: threads that wait for each other on a busy machine make them many times slower.
os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

pytest.register_assert_rewrite("tests.contracts")

settings.register_profile("reproducible", deadline=None, derandomize=True, max_examples=examples(30, 200))
settings.load_profile("reproducible")


@pytest.fixture(scope="session", autouse=True)
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Whatever signs without being told where its keys are finds them here, and not in the folder of whoever tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECERASER_KEYS", str(tmp_path_factory.mktemp("keys") / "own"))
        yield


@pytest.fixture(scope="session")
def worker() -> Iterator[LocalExecutor]:
    """One worker process for everybody: starting one takes seconds, and what it computes depends on the task alone."""
    with LocalExecutor(n_workers=1, threads=1) as executor:
        yield executor
