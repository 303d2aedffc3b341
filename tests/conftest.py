from __future__ import annotations

import os

import pytest
from hypothesis import settings

# As in the workers. Tests are small: threads that wait for each other on a busy machine make them many times slower.
os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

pytest.register_assert_rewrite("tests.contracts")

settings.register_profile("reproducible", deadline=None, derandomize=True)
settings.load_profile("reproducible")
