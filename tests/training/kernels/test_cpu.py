from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from receraser.errors import EnvironmentMismatchError
from receraser.training import kernels
from receraser.training.kernels import cpu, pairs_plain, plain
from tests.contracts.worlds import random_rows
from tests.training.kernels.missing import break_numba, forget_numba


@dataclass(frozen=True)
class Equations:
    """Normal equations of every row of a random table; some rows are empty."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int64]
    others: NDArray[np.float32]
    diagonal: NDArray[np.float32]
    penalty: NDArray[np.float32]
    start: NDArray[np.float32]

    @property
    def for_cg(self) -> dict[str, Any]:
        """What conjugate gradients take, but for the number of steps and where to set out from."""
        return {
            "indptr": self.indptr,
            "indices": self.indices.astype(np.int32),
            "others": self.others,
            "diagonal": self.diagonal,
            "penalty": self.penalty,
        }

    @property
    def wide(self) -> tuple[Any, Any, Any]:
        """Others, gram and penalty, as the exact solvers take them."""
        gram = np.diag(self.diagonal)
        return self.others.astype(np.float64), gram.astype(np.float64), self.penalty.astype(np.float64)


def equations(dim: int, n_rows: int = 40) -> Equations:
    rng = np.random.default_rng(dim)
    rows = random_rows(n_rows, 30, 0.2, seed=dim)
    indptr = np.concatenate([rows.indptr, rows.indptr[-1:]])  # the last row has no entry
    others = rng.normal(size=(len(rows.items), dim)).astype(np.float32)
    penalty = rng.uniform(0.1, 1.0, len(indptr) - 1).astype(np.float32)
    start = rng.normal(size=(len(indptr) - 1, dim)).astype(np.float32)
    diagonal = rng.uniform(0.0, 2.0, dim).astype(np.float32)
    return Equations(indptr, rows.item_index.astype(np.int64), others, diagonal, penalty, start)


@pytest.fixture
def several_threads() -> Iterator[int]:
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(2)
    except ValueError:
        pytest.skip("numba may use a single thread here")
    yield 2
    numba.set_num_threads(before)


@pytest.mark.parametrize("dim", [1, 5, 16, 33])
def test_sparse_times_dense_against_the_plain_version(dim: int) -> None:
    e = equations(dim)
    values = np.random.default_rng(1).normal(size=len(e.indices)).astype(np.float32)
    fast, slow = (np.full((len(e.indptr) - 1, dim), np.nan, dtype=np.float32) for _ in range(2))
    cpu.csr_times_dense(e.indptr, e.indices, values, e.others, fast)
    plain.csr_times_dense(e.indptr, e.indices, values, e.others, slow)
    np.testing.assert_allclose(fast, slow, atol=1e-5)
    assert not fast[-1].any()


@pytest.mark.parametrize("dim", [16, 24, 32, 48])
@pytest.mark.parametrize("n_steps", [0, 1, 3, 60])
def test_conjugate_gradients_against_the_plain_version(dim: int, n_steps: int) -> None:
    e = equations(dim)
    fast, slow = e.start.copy(), e.start.copy()
    cpu.solve_cg(**e.for_cg, n_steps=n_steps, solution=fast)
    plain.solve_cg(**e.for_cg, n_steps=n_steps, solution=slow)
    np.testing.assert_allclose(fast, slow, atol=2e-3 * np.abs(slow).max())
    assert np.array_equal(fast, e.start) == (n_steps == 0)


def test_conjugate_gradients_arrive_at_the_exact_solution() -> None:
    e = equations(16)
    found, exact = e.start.copy(), np.zeros(e.start.shape)
    cpu.solve_cg(**e.for_cg, n_steps=60, solution=found)
    plain.solve_cholesky(e.indptr, e.indices, *e.wide, exact)
    np.testing.assert_allclose(found, exact, atol=1e-4)


@pytest.mark.parametrize("dim", [1, 5, 16, 33])
def test_cholesky_against_the_plain_version(dim: int) -> None:
    e = equations(dim)
    fast, slow = (np.full(e.start.shape, np.nan) for _ in range(2))
    cpu.solve_cholesky(e.indptr, e.indices, *e.wide, fast)
    plain.solve_cholesky(e.indptr, e.indices, *e.wide, slow)
    np.testing.assert_allclose(fast, slow, rtol=1e-9, atol=1e-12)
    assert not fast[-1].any()


# ---------------------------------------------------------------------- sums over pairs of items


def triangle(n: int) -> NDArray[np.int64]:
    return np.zeros(n * (n + 1) // 2, dtype=np.int64)


@pytest.mark.parametrize("n_items", [1, 7, 40])
def test_sums_over_pairs_against_the_plain_version(n_items: int) -> None:
    rows = random_rows(30, n_items, 0.4, seed=n_items)
    by_item = rows.matrix().T.tocsr()
    by_user = rows.indptr, rows.item_index.astype(np.int64)
    weights = np.random.default_rng(1).integers(-(2**40), 2**40, len(rows.users))
    x = rows.matrix().toarray().astype(np.int64)
    expected = (x.T @ (weights[:, None] * x))[np.triu_indices(n_items)]
    for kernel in (cpu, plain):
        found, added = triangle(n_items), triangle(n_items)
        kernel.co_counts(by_item.indptr.astype(np.int64), by_item.indices.astype(np.int64), *by_user, weights, found)
        kernel.add_pairs(*by_user, weights, n_items, added)
        assert np.array_equal(found, expected)
        assert np.array_equal(added, expected)
        kernel.add_pairs(*by_user, -weights, n_items, added)
        assert not added.any(), "what was added can be taken away"


@pytest.mark.parametrize("n", [0, 1, 40])
def test_gathered_against_the_plain_version(n: int) -> None:
    """Also rows that are not there, and a table that has none."""
    rng = np.random.default_rng(n)
    columns = rng.normal(size=(n, 5)).astype(np.float32)
    rows = rng.integers(-1, n, 17, dtype=np.int32) if n else np.full(17, -1, dtype=np.int32)
    fast, slow = np.full((17, 9), 7.0), np.full((17, 9), 7.0)
    cpu.gathered(columns, rows, 3, fast)
    plain.gathered(columns, rows, 3, slow)
    assert np.array_equal(fast, slow)
    assert (fast[:, :3] == 7.0).all()
    assert (fast[:, 8:] == 7.0).all(), "columns beside it are left alone"
    assert not fast[rows < 0, 3:8].any()
    assert np.array_equal(fast[rows >= 0, 3:8], columns[rows[rows >= 0]])


@pytest.mark.parametrize("n", [0, 1, 40])
def test_squares_against_the_plain_version(n: int) -> None:
    """Of some columns of a block, into a part of a diagonal; on top of what is there."""
    block = np.random.default_rng(n).normal(size=(n, 9))
    fast, slow = np.full((6, 6), 2.0), np.full((6, 6), 2.0)
    cpu.add_squares(block[:, 3:7], np.einsum("ii->i", fast)[1:5])
    plain.add_squares(block[:, 3:7], np.einsum("ii->i", slow)[1:5])
    np.testing.assert_allclose(fast, slow, rtol=1e-12)
    np.testing.assert_allclose(np.diag(fast), [2.0, *(2.0 + (block[:, 3:7] ** 2).sum(axis=0)), 2.0])
    assert (fast[~np.eye(6, dtype=bool)] == 2.0).all()


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 128, 130])
def test_mirrored_against_the_plain_version(n: int) -> None:
    """Sizes around the edges of the tiles; exactly symmetric, and the same bits."""
    rng = np.random.default_rng(n)
    packed, scale = rng.integers(0, 2**40, n * (n + 1) // 2), rng.uniform(0.1, 1.0, n)
    fast, slow = np.full((n, n), np.nan), np.full((n, n), np.nan)
    cpu.mirrored(packed, scale, fast)
    plain.mirrored(packed, scale, slow)
    assert np.array_equal(fast, slow)
    assert np.array_equal(fast, fast.T)
    whole = np.zeros((n, n))
    whole[np.triu_indices(n)] = packed
    np.testing.assert_allclose(fast, scale[:, None] * np.maximum(whole, whole.T) * scale, rtol=1e-15)


# ---------------------------------------------------------------------- bits


def test_the_bits_do_not_depend_on_the_number_of_threads(several_threads: int) -> None:
    e = equations(32, n_rows=400)
    values = np.random.default_rng(1).normal(size=len(e.indices)).astype(np.float32)
    results = []
    for threads in (1, several_threads):
        numba.set_num_threads(threads)
        product, steps, exact = np.empty_like(e.start), e.start.copy(), np.zeros(e.start.shape)
        cpu.csr_times_dense(e.indptr, e.indices, values, e.others, product)
        cpu.solve_cg(**e.for_cg, n_steps=3, solution=steps)
        cpu.solve_cholesky(e.indptr, e.indices, *e.wide, exact)
        whole = np.empty((200, 200))
        cpu.mirrored(np.arange(200 * 201 // 2), np.linspace(0.1, 1.0, 200), whole)
        places = np.arange(200) % 40
        tables = np.random.default_rng(2).random((2, 40, 7))
        index = places.astype(np.int32)
        claimed, nearest = np.empty(200, dtype=np.int32), np.empty(200)
        ends, last = np.full(7, 0.2), np.full(7, 150)
        cpu.claim(tables[0], index, tables[1], index[::-1].copy(), np.arange(200), ends, last, claimed, nearest)
        results.append((product, steps, exact, whole, claimed, nearest))
    for one, other in zip(*results, strict=True):
        assert np.array_equal(one, other)


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    e = equations(16)
    together = e.start.copy()
    cpu.solve_cg(**e.for_cg, n_steps=3, solution=together)
    indices = e.indices.astype(np.int32)
    for row in (0, 7, len(e.start) - 1):
        first, last = e.indptr[row], e.indptr[row + 1]
        alone = e.start[row : row + 1].copy()
        penalty = e.penalty[row : row + 1]
        cpu.solve_cg(np.array([0, last - first]), indices[first:last], e.others, e.diagonal, penalty, 3, alone)
        assert np.array_equal(alone[0], together[row])


def test_no_rows_at_all() -> None:
    nothing = np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64)
    others = np.ones((3, 16), dtype=np.float32)
    out = np.empty((0, 16), dtype=np.float32)
    for kernel in (cpu, plain):
        kernel.csr_times_dense(*nothing, np.empty(0, dtype=np.float32), others, out)
        none = np.empty(0, dtype=np.int32)
        kernel.solve_cg(nothing[0], none, others, others[0], np.empty(0, dtype=np.float32), 3, out)
        pairs = triangle(3)
        kernel.co_counts(np.zeros(4, dtype=np.int64), nothing[1], *nothing, nothing[1], pairs)
        kernel.add_pairs(*nothing, nothing[1], 3, pairs)
        assert not pairs.any()


def test_the_plain_kernels_stand_in_where_numba_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernels.on_cpu() is cpu
    assert kernels.compiles()
    forget_numba(monkeypatch)
    assert kernels.on_cpu() is plain
    assert kernels.pairs_on_cpu() is pairs_plain
    assert not kernels.compiles()
    kernels.use_threads(1)
    assert kernels.threads() == 1


@pytest.mark.parametrize("kind", [ImportError, OSError, AttributeError])
def test_a_numba_that_is_broken_is_told(kind: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be a hundred times as slow otherwise, without a word."""
    break_numba(monkeypatch, kind("Numba needs NumPy 2.4 or less. Got NumPy 9.9."))
    for find in (kernels.on_cpu, kernels.compiles, kernels.pairs_on_cpu, kernels.draws_on_cpu, kernels.threads):
        with pytest.raises(EnvironmentMismatchError, match=r"cannot be used here \(Numba needs NumPy 2.4 or less"):
            find()


@pytest.mark.parametrize("n_rows", [0, 1, 5])
def test_columns_are_added_to_the_last_bit_as_the_plain_version_adds_them(n_rows: int) -> None:
    rng = np.random.default_rng(n_rows)
    rows, columns = rng.permutation(7)[:n_rows], rng.permutation(90)[:40]
    part = rng.normal(size=(n_rows, 40)).astype(np.float32)
    start = rng.normal(size=(7, 90)).astype(np.float32)
    fast, slow = start.copy(), start.copy()
    cpu.add_columns(fast, rows, columns, part, np.float32(0.1))
    plain.add_columns(slow, rows, columns, part, np.float32(0.1))
    assert np.array_equal(fast, slow)
    assert (fast != start).sum() == n_rows * 40


@pytest.mark.parametrize("k", [1, 3, 10, 40])
def test_the_best_of_rows_against_the_plain_version(k: int) -> None:
    rng = np.random.default_rng(k)
    scores = rng.integers(0, 9, size=(50, 30)).astype(np.float32)  # many equal ones
    scores[:, 3] = -np.inf
    lists = [rng.permutation(30)[: rng.integers(0, 31)] for _ in range(50)]
    indptr = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int64)
    left_out = np.concatenate(lists).astype(np.int64)
    fast, slow = np.full((50, k), -9), np.full((50, k), -9)
    cpu.best_of_rows(scores, indptr, left_out, fast)
    plain.best_of_rows(scores, indptr, left_out, slow)
    assert np.array_equal(fast, slow)
    assert k < 10 or (fast == -1).any(), "some have fewer left"
