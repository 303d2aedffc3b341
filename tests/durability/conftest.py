from __future__ import annotations

import numba
import pytest


@pytest.fixture(autouse=True, scope="package")
def one_kernel_thread() -> None:
    """Threads that wait for each other on a busy machine make small fits many times slower."""
    numba.set_num_threads(1)
