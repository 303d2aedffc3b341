from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.training import kernels
from receraser.training.krylov import (
    Operator,
    blocked,
    draw_block,
    gap_after,
    leading_eigenvectors,
    refined,
    rows_gram,
)
from tests.contracts.worlds import random_rows

Matrix = NDArray[np.float64]


def ids(n: int) -> IdMap:
    return IdMap(f"i{i}" for i in range(n))


def with_spectrum(values: Matrix, seed: int = 1) -> tuple[Matrix, Matrix]:
    """A symmetric matrix with these eigenvalues, largest first, and its eigenvectors."""
    n = len(values)
    vectors, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))
    return (vectors * values) @ vectors.T, vectors


def powers(base: float, n: int) -> Matrix:
    return np.array([base**k for k in range(n)])


def solved(matrix: Matrix, rank: int, *, width: int, n_steps: int = 8) -> tuple[Matrix, Matrix]:
    start = draw_block(ids(len(matrix)), width, 7)[:, :width]
    return leading_eigenvectors(lambda x: matrix @ x, start, rank, n_steps)


def check(vectors: Matrix, values: Matrix, matrix: Matrix, rank: int) -> None:
    """What is found is what a dense eigen-decomposition finds, as far as there is anything."""
    n = len(matrix)
    expected = np.maximum(np.linalg.eigvalsh(matrix)[::-1], 0.0)
    there = min(rank, int((expected > 1e-9 * expected.max(initial=0.0)).sum()))
    padded = np.concatenate([expected, np.zeros(rank + 1)])[: rank + 1]
    assert vectors.shape == (n, rank)
    np.testing.assert_allclose(values, padded, atol=1e-7 * expected.max(initial=1.0))
    np.testing.assert_allclose(vectors[:, :there].T @ vectors[:, :there], np.eye(there), atol=1e-10)
    np.testing.assert_allclose(matrix @ vectors, vectors * values[:rank], atol=1e-6 * expected.max(initial=1.0))
    assert not vectors[:, there:].any(), "directions that do not exist are zero"
    largest = vectors[np.abs(vectors).argmax(axis=0), range(rank)] if n else vectors[:0].sum(axis=0)
    assert (largest >= 0).all(), "signs are fixed"


@pytest.mark.parametrize(("rank", "width"), [(1, 1), (5, 3), (20, 10)])
def test_against_a_dense_eigen_decomposition(rank: int, width: int) -> None:
    matrix, _ = with_spectrum(powers(0.6, 40))
    check(*solved(matrix, rank, width=width), matrix, rank)


def test_more_rows_than_a_block_of_the_products_has() -> None:
    true, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(2100, 6)))
    start = draw_block(ids(2100), 2, 7)[:, :2]
    found, values = leading_eigenvectors(lambda x: (true * powers(0.6, 6)) @ (true.T @ x), start, 4, 8)
    np.testing.assert_allclose(values, powers(0.6, 5), atol=1e-12)
    np.testing.assert_allclose(np.abs(found.T @ true[:, :4]), np.eye(4), atol=1e-9)


@given(st.integers(0, 8), st.integers(0, 9), st.integers(1, 12), st.integers(0, 100))
def test_more_rank_than_there_is(n: int, true_rank: int, rank: int, seed: int) -> None:
    """Beyond the rank of the matrix and beyond its size; no row, one row, and a matrix of zeros are among them."""
    half = np.random.default_rng(seed).normal(size=(true_rank, n))
    matrix = half.T @ half
    check(*solved(matrix, rank, width=max(1, -(-rank // 2))), matrix, rank)


@pytest.mark.parametrize("apart", [0.0, 1e-13, 1e-9, 1e-4])
def test_equal_and_nearly_equal_eigenvalues(apart: float) -> None:
    """Rounding decides on the directions; the space that they span is right, and the bits are the same run for run."""
    values = np.concatenate([1.0 - apart * np.arange(3), 0.5 ** np.arange(2, 39)])
    matrix, vectors = with_spectrum(values)
    found, _ = solved(matrix, 3, width=3)
    np.testing.assert_allclose(found @ found.T, vectors[:, :3] @ vectors[:, :3].T, atol=1e-9)
    np.testing.assert_allclose(found.T @ found, np.eye(3), atol=1e-12)
    assert solved(matrix.copy(), 3, width=3)[0].tobytes() == found.tobytes()


def test_a_cut_between_equal_eigenvalues_is_orthonormal_all_the_same() -> None:
    matrix, vectors = with_spectrum(np.concatenate([np.ones(4), 0.1 ** np.arange(1, 10)]))
    found, values = solved(matrix, 2, width=4)
    np.testing.assert_allclose(values, [1.0, 1.0, 1.0])
    np.testing.assert_allclose(found.T @ found, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(vectors[:, 4:].T @ found, 0.0, atol=1e-7)


def test_columns_of_the_start_that_say_the_same() -> None:
    matrix, _ = with_spectrum(powers(0.4, 12))
    start = np.repeat(draw_block(ids(12), 1, 7)[:, :1], 3, axis=1)
    vectors, values = leading_eigenvectors(lambda x: matrix @ x, start, 2, 8)
    check(vectors, values, matrix, 2)


def test_more_steps_come_closer() -> None:
    matrix, true = with_spectrum(1.0 / np.arange(1, 201))
    errors = []
    for n_steps in (1, 2, 4, 8):
        found, _ = solved(matrix, 3, width=3, n_steps=n_steps)
        errors.append(float(np.linalg.norm(found @ found.T - true[:, :3] @ true[:, :3].T)))
    assert errors[0] > errors[1] > errors[2] > 100 * errors[3]


# ---------------------------------------------------------------------- bits


@pytest.fixture
def threads() -> Iterator[None]:
    before = kernels.threads()
    yield
    kernels.use_threads(before)


def test_the_bits_do_not_depend_on_the_number_of_threads(threads: None) -> None:
    """Of a dense matrix and of a sparse one, both of several blocks of rows."""
    rows = random_rows(600, 2500, 0.02, seed=3)
    n = len(rows.items)
    assert n > 2048
    tall = np.random.default_rng(3).normal(size=(n, 20))
    operators: list[Operator] = [
        rows_gram(rows, np.arange(1, 601), np.linspace(0.5, 2.0, n)),
        lambda x: blocked(lambda rows: tall[rows] @ (tall.T @ x), *x.shape),
    ]
    for apply in operators:
        found = []
        for number in (1, 2):
            kernels.use_threads(number)
            if kernels.threads() != number:
                pytest.skip("numba may use a single thread here")
            vectors, values = leading_eigenvectors(apply, draw_block(ids(n), 6, 1), 8, 3)
            further, more = refined(apply, vectors, 5, 3)
            found.append(b"".join(one.tobytes() for one in (vectors, values, further, more)))
        assert found[0] == found[1]


def test_where_it_sets_out_from_depends_on_ids_and_seed_alone() -> None:
    few, many = IdMap(["9", "10", "b"]), IdMap(["9", "10", "b", "09", "a", "ß"])
    one, other = draw_block(few, 4, 1), draw_block(many, 4, 1)
    assert np.array_equal(other[many.indices(few)], one)
    assert np.array_equal(draw_block(few, 4, 1), one)
    assert not np.isin(draw_block(few, 4, 2), one).any()
    assert len(np.unique(other)) == other.size
    assert draw_block(IdMap([]), 40, 1).shape == (0, 40)
    assert one.shape == (3, 16)  # repeated eigenvalues want some columns, however few vectors are asked for


# ---------------------------------------------------------------------- the rest


@pytest.mark.parametrize("width", [1, 3, 16, 33, 70])
def test_the_operator_of_rows(width: int) -> None:
    rows = random_rows(30, 20, 0.2, seed=1)
    rng = np.random.default_rng(2)
    weights, scale = rng.integers(1, 2**20, len(rows.users)), rng.random(len(rows.items))
    columns = rng.normal(size=(len(rows.items), width))
    half = np.sqrt(weights)[:, None] * rows.matrix().toarray().astype(np.float64) * scale
    apply = rows_gram(rows, weights, scale)
    np.testing.assert_allclose(apply(columns), half.T @ (half @ columns), rtol=1e-12, atol=1e-6)
    assert np.array_equal(apply(np.asfortranarray(columns)), apply(columns))


def test_the_operator_of_no_rows() -> None:
    assert rows_gram(Interactions.empty(), np.zeros(0), np.zeros(0))(np.zeros((0, 4))).shape == (0, 4)


# ---------------------------------------------------------------------- from columns that nearly span it


def near(vectors: Matrix, width: int, off: float) -> Matrix:
    """The first eigenvectors, so far off."""
    noise: Matrix = np.random.default_rng(5).normal(size=(len(vectors), width))
    return np.asarray(vectors[:, :width] + off / np.sqrt(len(vectors)) * noise)


def test_who_sets_out_nearby_arrives() -> None:
    """And the nearer the more often the matrix is applied; a random start gets nowhere in so few applications."""
    matrix, true = with_spectrum(powers(0.8, 60))
    errors = []
    for n_passes in (1, 2, 3):
        found, values = refined(lambda x: matrix @ x, near(true, 14, 0.3), 8, n_passes)
        np.testing.assert_allclose(found.T @ found, np.eye(8), atol=1e-8)
        errors.append(float(np.linalg.norm(found @ found.T - true[:, :8] @ true[:, :8].T)))
    assert errors[0] > 3 * errors[1] > 9 * errors[2]
    assert errors[2] < 3e-3
    np.testing.assert_allclose(values, powers(0.8, 9), rtol=1e-3)
    lost, _ = refined(lambda x: matrix @ x, draw_block(ids(60), 14, 1)[:, :14], 8, 1)
    assert np.linalg.norm(lost @ lost.T - true[:, :8] @ true[:, :8].T) > 10 * errors[0]


def test_it_is_nearer_than_what_the_matrix_is_within_the_start() -> None:
    matrix, true = with_spectrum(powers(0.8, 60))
    start = np.linalg.qr(near(true, 14, 0.3))[0]
    within = start @ np.linalg.eigh(start.T @ matrix @ start)[1][:, ::-1][:, :8]
    found, _ = refined(lambda x: matrix @ x, start, 8, 1)
    expected = true[:, :8] @ true[:, :8].T
    assert np.linalg.norm(found @ found.T - expected) < 0.5 * np.linalg.norm(within @ within.T - expected)


@given(st.integers(0, 8), st.integers(0, 9), st.integers(1, 12), st.integers(0, 100))
def test_a_start_of_more_columns_than_there_are_directions(n: int, true_rank: int, rank: int, seed: int) -> None:
    """Beyond the rank of the matrix and beyond its size; and some columns of the start are zero."""
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(true_rank, n))
    matrix, start = half.T @ half, rng.normal(size=(n, rank + 3))
    start[:, rank + 1 :] = 0.0
    vectors, values = refined(lambda x: matrix @ x, start, rank, 1)
    assert vectors.shape == (n, rank)
    assert values.shape == (rank + 1,)
    expected = np.maximum(np.linalg.eigvalsh(matrix)[::-1], 0.0)
    if rank + 1 >= n:  # the start spans everything
        shown = np.concatenate([expected, np.zeros(rank + 1)])[: rank + 1]
        np.testing.assert_allclose(values, shown, atol=1e-5 * expected.max(initial=1.0))
    there = values[:rank] > 1e-6 * values[:1]
    np.testing.assert_allclose(vectors[:, there].T @ vectors[:, there], np.eye(there.sum()), atol=1e-6)
    assert np.isfinite(vectors).all()


def test_the_gap_is_that_of_singular_values() -> None:
    values = np.array([16.0, 9.0, 4.0, 0.0])
    assert [gap_after(values, rank) for rank in (1, 2)] == [1.3333, 1.5]
    assert gap_after(values, 3) is None, "what was not kept is nothing"
    assert gap_after(values, 4) is None
    assert gap_after(values, 0) is None
