from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from receraser.data.interactions import Interactions
from receraser.errors import TrainingError, UsageError
from receraser.models.factors import initial_vectors
from receraser.models.wmf import WMF
from receraser.protocols import Model
from tests.contracts.model_contract import FactorModelContract
from tests.contracts.worlds import bits, checkerboard, random_rows

Matrix = NDArray[np.float64]


class TestAlternatingLeastSquares(FactorModelContract):
    model: ClassVar[Callable[..., Model]] = WMF
    quick: ClassVar[dict[str, object]] = {"dim": 5, "n_sweeps": 2}
    able: ClassVar[dict[str, object]] = {"dim": 4}
    passes: ClassVar[str] = "n_sweeps"


class TestAdagrad(FactorModelContract):
    model: ClassVar[Callable[..., Model]] = WMF
    quick: ClassVar[dict[str, object]] = {
        "solver": "adagrad",
        "dim": 5,
        "n_epochs": 6,
        "validate_every": 2,
        "batch_size": 10,
    }
    able: ClassVar[dict[str, object]] = {"solver": "adagrad", "dim": 8, "n_epochs": 80, "batch_size": 8}


# ---------------------------------------------------------------------- alternating least squares


def dense_side(r: Matrix, others: Matrix, w: float, strength: float) -> Matrix:
    """Solve every row's normal equations as they are written in the paper, with the dense matrix of weights."""
    solved = np.zeros((len(r), others.shape[1]))
    for row, own in enumerate(r):
        weights = np.diag(own + w)  # a row counts 1 more than what is missing
        penalty = strength * (own.sum() + w * len(others))
        a = others.T @ weights @ others + penalty * np.eye(others.shape[1])
        solved[row] = np.linalg.solve(a, others.T @ own)
    return solved


def objective(r: Matrix, p: Matrix, q: Matrix, w: float, strength: float) -> float:
    y = p @ q.T
    fit = (r * (1 - y) ** 2).sum() + w * (y**2).sum()
    of_users = (strength * (r.sum(axis=1) + w * r.shape[1]) * (p**2).sum(axis=1)).sum()
    of_items = (strength * (r.sum(axis=0) + w * r.shape[0]) * (q**2).sum(axis=1)).sum()
    return float(fit + of_users + of_items)


@pytest.mark.parametrize("dim", [3, 16, 17])
def test_enough_steps_solve_the_normal_equations(dim: int) -> None:
    rows = random_rows(30, 40, 0.2, seed=2)
    r = rows.matrix().toarray().astype(np.float64)
    p = initial_vectors(rows.users, dim, 0.1 / dim**0.5, 5, "user").astype(np.float64)
    for _ in range(2):
        q = dense_side(r.T, p, 0.3, 0.02)
        p = dense_side(r, q, 0.3, 0.02)
    model = WMF(dim=dim, missing_weight=0.3, regularization=0.02, n_sweeps=2, cg_steps=60).fit(rows, seed=5)
    np.testing.assert_allclose(model.item_vectors_, q, atol=2e-4 * np.abs(q).max())
    np.testing.assert_allclose(model.user_vectors_, p, atol=2e-4 * np.abs(p).max())


@pytest.mark.parametrize("cg_steps", [1, 3])
def test_no_sweep_makes_it_worse(cg_steps: int) -> None:
    rows = random_rows(40, 30, 0.2, seed=3)
    r = rows.matrix().toarray().astype(np.float64)
    values = []
    for n_sweeps in range(1, 9):
        model = WMF(dim=8, n_sweeps=n_sweeps, cg_steps=cg_steps).fit(rows, seed=1)
        p, q = model.user_vectors_.astype(np.float64), model.item_vectors_.astype(np.float64)
        values.append(objective(r, p, q, 0.2, 0.01))
    assert all(later < earlier for earlier, later in pairwise(values[:5]))
    assert all(later < earlier * (1 + 1e-6) for earlier, later in pairwise(values))
    assert values[-1] < 0.95 * values[0]


def test_the_validation_rows_are_not_looked_at() -> None:
    world = checkerboard()
    model = WMF(dim=4, n_sweeps=3)
    assert bits(model.fit(world.train, valid=world.held_out, seed=1)) == bits(
        WMF(dim=4, n_sweeps=3).fit(world.train, seed=1)
    )
    assert model.facts() == {"sweeps": 3}


def test_a_penalty_of_nothing_at_all_is_reported_not_published() -> None:
    rows = random_rows(20, 15, 0.4, seed=0)
    with pytest.raises(TrainingError, match="no number"):
        WMF(dim=32, regularization=0.0, missing_weight=0.0, n_sweeps=50).fit(rows)


# ---------------------------------------------------------------------- Adagrad


def test_the_first_step_of_adagrad_follows_the_gradient_over_all_pairs() -> None:
    """Adagrad's first step has the length of the learning rate in every coordinate: its sign is the gradient's."""
    rows = random_rows(12, 10, 0.3, seed=4)
    r = torch.from_numpy(rows.matrix().toarray().astype(np.float64))
    p, q = (
        torch.from_numpy(initial_vectors(ids, 4, 0.1 / 2, 6, what).astype(np.float64)).requires_grad_()
        for ids, what in ((rows.users, "user"), (rows.items, "item"))
    )
    y = p @ q.T
    loss = (r * (1 - y) ** 2 + 0.3 * (1 - r) * y**2).sum()
    expected = [t.detach() - 0.05 * g.sign() for t, g in zip((p, q), torch.autograd.grad(loss, (p, q)), strict=True)]
    model = WMF(solver="adagrad", dim=4, n_epochs=1, dropout=0.0, missing_weight=0.3, learning_rate=0.05).fit(
        rows, seed=6
    )
    np.testing.assert_allclose(model.user_vectors_, expected[0], atol=1e-6)
    np.testing.assert_allclose(model.item_vectors_, expected[1], atol=1e-6)


def test_adagrad_comes_close_to_what_least_squares_finds() -> None:
    """Without a penalty and without dropout both minimise the same sum."""
    rows = random_rows(30, 20, 0.3, seed=5)
    r = rows.matrix().toarray().astype(np.float64)

    def value(model: WMF) -> float:
        model.fit(rows, seed=1)
        return objective(r, model.user_vectors_.astype(np.float64), model.item_vectors_.astype(np.float64), 0.2, 0.0)

    best = value(WMF(dim=4, n_sweeps=60, cg_steps=10, regularization=1e-6))
    reached = value(WMF(solver="adagrad", dim=4, n_epochs=300, batch_size=10, learning_rate=0.1, dropout=0.0))
    untrained = value(WMF(solver="adagrad", dim=4, n_epochs=0))
    assert reached - best < 0.05 * (untrained - best)


def test_unknown_solvers_and_dropping_everything_are_refused() -> None:
    with pytest.raises(UsageError, match="unknown solver 'sgd'"):
        WMF(solver="sgd")
    with pytest.raises(UsageError, match="dropout"):
        WMF(dropout=1.0)


def test_a_diverging_fit_is_an_error() -> None:
    rows = Interactions.from_pairs([("u", "a"), ("u", "b"), ("v", "a")])
    with pytest.raises(TrainingError, match="learning_rate"):
        WMF(solver="adagrad", dim=4, learning_rate=1e30, n_epochs=3).fit(rows)


@pytest.mark.parametrize("solver", ["als", "adagrad"])
def test_torchs_threads_change_nothing_on_tables_large_enough_to_be_shared_out(solver: str) -> None:
    rows = random_rows(3000, 400, 0.02, seed=5)
    kept = torch.get_num_threads()
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        try:
            found.append(bits(WMF(dim=64, solver=solver, n_sweeps=2, n_epochs=2).fit(rows, seed=1)))
            assert torch.get_num_threads() == threads, "the caller's setting is restored"
        finally:
            torch.set_num_threads(kept)
    assert found[0] == found[1]


@pytest.mark.parametrize("dim", [4, 16])
def test_without_a_penalty_it_is_still_numbers(dim: int) -> None:
    """The equations may not be determined then: fewer users than dimensions, and columns that only fill up."""
    rows = random_rows(6, 9, 0.5, seed=3)
    model = WMF(dim=dim, regularization=0.0).fit(rows, seed=1)
    assert np.isfinite(model.user_vectors_).all()
    assert np.isfinite(model.item_vectors_).all()
