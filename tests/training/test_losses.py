from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from receraser.training.losses import bpr, l2, non_sampling


def test_bpr_of_known_differences() -> None:
    positive, negative = torch.tensor([2.0, 0.0, -1.0]), torch.tensor([1.0, 0.0, 2.0])
    expected = [math.log(1 + math.exp(-1)), math.log(2), math.log(1 + math.exp(3))]
    assert bpr(positive, negative, torch.ones(3)).item() == pytest.approx(sum(expected) / 3, rel=1e-6)


def test_bpr_does_not_overflow() -> None:
    one = torch.ones(1)
    assert bpr(1e6 * one, -1e6 * one, one).item() == 0.0
    assert bpr(-1e6 * one, 1e6 * one, one).item() == pytest.approx(2e6)


def test_a_weight_of_zero_takes_a_row_out_but_not_out_of_the_count() -> None:
    """Batches have one size: what fills the last one up adds nothing to the sum, which is divided by that size."""
    positive, negative = torch.tensor([2.0, 5.0]), torch.tensor([1.0, -3.0])
    weights = torch.tensor([1.0, 0.0])
    assert bpr(positive, negative, weights).item() == pytest.approx(math.log(1 + math.exp(-1)) / 2, rel=1e-6)
    vectors = torch.tensor([[3.0, 4.0], [100.0, 100.0]])
    assert l2((vectors,), weights).item() == pytest.approx(0.5 * 25 / 2)


def test_l2_is_half_the_squared_norms_averaged_over_the_batch() -> None:
    first, second = torch.tensor([[3.0, 4.0], [0.0, 1.0]]), torch.tensor([[1.0, 1.0], [2.0, 0.0]])
    assert l2((first, second), torch.ones(2)).item() == pytest.approx(0.5 * (25 + 1 + 2 + 4) / 2)


@pytest.mark.parametrize("w", [0.0, 0.2, 1.0])
def test_non_sampling_is_the_sum_over_all_pairs_up_to_a_constant(w: float) -> None:
    """The constant is the number of rows: the 1 of every (1 - y)^2."""
    rng = np.random.default_rng(1)
    r = rng.random((7, 9)) < 0.3
    p, q = rng.normal(size=(7, 4)), rng.normal(size=(9, 4))
    brute = 0.0
    for user in range(7):
        for item in range(9):
            y = float(p[user] @ q[item])
            brute += (1 - y) ** 2 if r[user, item] else w * y**2
    users, items = np.nonzero(r)
    scores = torch.from_numpy((p[users] * q[items]).sum(axis=1))
    found = non_sampling(scores, torch.from_numpy(p), torch.from_numpy(q), w).item()
    assert found + r.sum() == pytest.approx(brute, rel=1e-10)


def test_batches_of_users_add_up() -> None:
    rng = np.random.default_rng(2)
    p, q = (torch.from_numpy(rng.normal(size=(n, 3))) for n in (6, 5))
    r = torch.from_numpy(rng.random((6, 5)) < 0.4)

    def loss(users: slice) -> float:
        return non_sampling((p[users] @ q.T)[r[users]], p[users], q, 0.3).item()

    assert loss(slice(0, 2)) + loss(slice(2, 6)) == pytest.approx(loss(slice(0, 6)), rel=1e-10)
