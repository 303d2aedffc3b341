from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from receraser.training.least_squares import Problem, fold_in, pad, polished
from tests.contracts.worlds import random_rows

CPU = torch.device("cpu")


def dense(r: NDArray[np.float64], q: NDArray[np.float64], w: float, strength: float) -> NDArray[np.float64]:
    """The normal equations of every row, in float64."""
    solved = np.zeros((len(r), q.shape[1]))
    for row, own in enumerate(r):
        a = w * q.T @ q + (own[:, None] * q).T @ q + strength * (own.sum() + w * len(q)) * np.eye(q.shape[1])
        solved[row] = np.linalg.solve(a, q.T @ own)
    return solved


@pytest.mark.parametrize("dim", [2, 16, 20])
def test_a_problem_against_the_dense_solution(dim: int) -> None:
    rows = random_rows(20, 30, 0.2, seed=1)
    q = np.random.default_rng(2).normal(size=(len(rows.items), dim)).astype(np.float32)
    problem = Problem(rows.matrix(), missing_weight=0.4, regularization=0.05, device=CPU)
    assert problem.n_rows == len(rows.users)
    start = pad(np.zeros((len(rows.users), dim), dtype=np.float32), CPU)
    found = problem.solve(pad(q, CPU), start, cg_steps=80).numpy()
    expected = dense(rows.matrix().toarray().astype(np.float64), q.astype(np.float64), 0.4, 0.05)
    np.testing.assert_allclose(found[:, :dim], expected, atol=1e-4)
    assert not found[:, dim:].any(), "what was added to fill the vectors up stays zero"
    assert not start.any(), "where it set out from is not written over"


def test_more_steps_come_closer() -> None:
    rows = random_rows(20, 30, 0.2, seed=1)
    q = np.random.default_rng(2).normal(size=(len(rows.items), 16)).astype(np.float32)
    problem = Problem(rows.matrix(), missing_weight=0.4, regularization=0.05, device=CPU)
    expected = dense(rows.matrix().toarray().astype(np.float64), q.astype(np.float64), 0.4, 0.05)
    start = torch.zeros((len(rows.users), 16))
    errors = [
        np.abs(problem.solve(torch.from_numpy(q), start, cg_steps=steps).numpy() - expected).max()
        for steps in (0, 2, 5, 12)
    ]
    assert errors[0] > errors[1] > errors[2] > 10 * errors[3]


def test_padding() -> None:
    padded = pad(np.ones((2, 17), dtype=np.float32), CPU)
    assert padded.shape == (2, 32)
    assert padded[:, :17].all()
    assert not padded[:, 17:].any()
    assert pad(np.ones((2, 16), dtype=np.float32), CPU).shape == (2, 16)
    assert pad(np.ones((0, 3), dtype=np.float32), CPU).shape == (0, 16)


# ---------------------------------------------------------------------- folding in


def test_folding_in_against_the_dense_solution() -> None:
    rows = random_rows(20, 30, 0.2, seed=1)
    q = np.random.default_rng(2).normal(size=(len(rows.items), 7)).astype(np.float32)
    found = fold_in(rows.indptr, rows.item_index.astype(np.int64), q, missing_weight=0.3, regularization=0.02)
    expected = dense(rows.matrix().toarray().astype(np.float64), q.astype(np.float64), 0.3, 0.02)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_vector_depends_on_its_own_history_alone() -> None:
    rows = random_rows(20, 30, 0.2, seed=1)
    q = np.random.default_rng(2).normal(size=(len(rows.items), 7)).astype(np.float32)
    together = fold_in(rows.indptr, rows.item_index.astype(np.int64), q, missing_weight=0.3, regularization=0.02)
    for user in range(len(rows.users)):
        own = rows.item_index[rows.indptr[user] : rows.indptr[user + 1]].astype(np.int64)
        alone = fold_in(np.array([0, len(own)]), own, q, missing_weight=0.3, regularization=0.02)
        assert np.array_equal(alone[0], together[user])


def test_a_history_of_nothing_gives_zeros() -> None:
    q = np.ones((4, 3), dtype=np.float32)
    found = fold_in(np.array([0, 0, 2, 2]), np.array([1, 3]), q, missing_weight=0.3, regularization=0.02)
    assert not found[[0, 2]].any()
    assert found[1].all()
    nobody = fold_in(np.array([0]), np.empty(0, dtype=np.int64), q, missing_weight=0.3, regularization=0.02)
    assert nobody.shape == (0, 3)


# ---------------------------------------------------------------------- sweeps over all rows


def test_a_sweep_solves_users_given_items_and_then_items_given_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("receraser.training.least_squares._CG_STEPS", 80)
    rows = random_rows(20, 30, 0.2, seed=1)
    r = rows.matrix().toarray().astype(np.float64)
    start = np.random.default_rng(2).normal(size=(len(rows.items), 5)).astype(np.float32)
    given, q = start.copy(), start.astype(np.float64)
    for n_sweeps in (0, 1, 2):
        found = polished(start, rows, n_sweeps, missing_weight=0.3, regularization=0.02)
        np.testing.assert_allclose(found, q, atol=1e-4)
        q = dense(r.T, dense(r, q, 0.3, 0.02), 0.3, 0.02)
    assert np.array_equal(start, given)
