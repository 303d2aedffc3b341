"""The hardest negative by the kernel for CUDA; the network's kernels are held to torch in tests/aggregation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from receraser.models.objectives import _hardest
from receraser.training.kernels import attention_cuda
from tests.training.kernels.interpreter import by_the_interpreter


def drawn(n: int, n_items: int, n_candidates: int, dim: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Vectors of small whole numbers: their products have no roundings, and many candidates score the same."""
    rng = np.random.default_rng(n + dim)
    users, items = (torch.from_numpy(rng.integers(-2, 3, (m, dim)).astype(np.float32)) for m in (n, n_items))
    return users, items, torch.from_numpy(rng.integers(0, n_items, (n, n_candidates)))


@by_the_interpreter
@pytest.mark.parametrize(("n", "n_candidates", "dim"), [(1, 1, 1), (8, 3, 16), (21, 8, 7), (40, 32, 37), (9, 5, 64)])
def test_the_hardest_is_that_of_torch_and_of_equals_the_first(n: int, n_candidates: int, dim: int) -> None:
    users, items, candidates = drawn(n, 30, n_candidates, dim)
    found = attention_cuda.hardest(users, items, candidates)
    assert torch.equal(found, _hardest(users, items, candidates))


@by_the_interpreter
def test_the_hardest_of_tables_that_are_turned() -> None:
    users, items, candidates = drawn(16, 16, 4, 16)
    turned = users.T, items.T, candidates.T.contiguous().T
    assert torch.equal(attention_cuda.hardest(*turned), _hardest(*turned))


def test_nobody_needs_no_kernel() -> None:
    users, items, candidates = drawn(0, 5, 3, 4)
    assert attention_cuda.hardest(users, items, candidates).shape == (0,)


@pytest.mark.parametrize(("n", "least", "padded"), [(1, 1, 1), (1, 16, 16), (16, 16, 16), (17, 16, 32), (128, 16, 128)])
def test_sizes_are_powers_of_two(n: int, least: int, padded: int) -> None:
    assert attention_cuda._padded(n, least) == padded
