from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from receraser.training.sparse import SymmetricMatrix, _Gather, gather, times_dense


def csr(matrix: sp.csr_matrix) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return (
        torch.from_numpy(matrix.indptr.astype(np.int64)),
        torch.from_numpy(matrix.indices.astype(np.int64)),
        torch.from_numpy(matrix.data.astype(np.float32)),
    )


def random_csr(n_rows: int, n_columns: int, seed: int) -> sp.csr_matrix:
    rng = np.random.default_rng(seed)
    cells = rng.normal(size=(n_rows, n_columns)) * (rng.random((n_rows, n_columns)) < 0.3)
    cells[n_rows // 2] = 0  # a row of nothing
    return sp.csr_matrix(cells.astype(np.float32))


@pytest.mark.parametrize("shape", [(1, 1), (9, 14), (30, 5)])
@pytest.mark.parametrize("dim", [1, 3, 17])
def test_the_product_of_a_sparse_and_a_dense_matrix(shape: tuple[int, int], dim: int) -> None:
    matrix = random_csr(*shape, seed=1)
    dense = np.random.default_rng(2).normal(size=(shape[1], dim)).astype(np.float32)
    found = times_dense(*csr(matrix), torch.from_numpy(dense))
    np.testing.assert_allclose(found, matrix.toarray() @ dense, atol=1e-5)


def test_a_transposed_view_is_multiplied_as_what_it_shows() -> None:
    matrix = random_csr(6, 4, seed=1)
    dense = torch.from_numpy(np.random.default_rng(2).normal(size=(3, 4)).astype(np.float32)).T
    np.testing.assert_allclose(times_dense(*csr(matrix), dense), matrix.toarray() @ dense.numpy(), atol=1e-5)


def test_nothing_times_something() -> None:
    empty = times_dense(*csr(sp.csr_matrix((0, 4), dtype=np.float32)), torch.ones((4, 2)))
    assert empty.shape == (0, 2)
    zero = times_dense(*csr(sp.csr_matrix((3, 4), dtype=np.float32)), torch.full((4, 2), float("inf")))
    assert not zero.any()


def test_a_symmetric_product_and_its_gradient() -> None:
    half = random_csr(8, 8, seed=3)
    matrix = (half + half.T).tocsr()
    rng = np.random.default_rng(4)
    table = torch.from_numpy(rng.normal(size=(8, 3)).astype(np.float32)).requires_grad_()
    weights = torch.from_numpy(rng.normal(size=(8, 3)).astype(np.float32))
    product = SymmetricMatrix(*csr(matrix)) @ table
    dense = torch.from_numpy(matrix.toarray()) @ table
    np.testing.assert_allclose(product.detach(), dense.detach(), atol=1e-5)
    found, expected = (torch.autograd.grad((one.tanh() * weights).sum(), table)[0] for one in (product, dense))
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("look_up", [gather, _Gather.apply], ids=["gather", "as on CUDA"])
def test_looked_up_rows_and_their_gradient(look_up: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
    """An index asked for several times gets the sum of its gradients; one never asked for gets zero."""
    table = torch.arange(10.0).reshape(5, 2).requires_grad_()
    index = torch.tensor([4, 1, 4, 0, 4])
    found = look_up(table, index)
    assert torch.equal(found, table[index])
    weights = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0], [9.0, 10.0]])
    (gradient,) = torch.autograd.grad((found * weights).sum(), table)
    assert gradient.tolist() == [[7.0, 8.0], [3.0, 4.0], [0.0, 0.0], [0.0, 0.0], [15.0, 18.0]]


def test_gradients_add_up_in_the_order_of_the_batch() -> None:
    """Floating-point sums depend on their order: here it is the order in which the rows were asked for."""
    values = torch.tensor([1e8, 1.0, -1e8, 1.0])[:, None]
    table = torch.zeros((1, 1), requires_grad=True)
    index = torch.zeros(4, dtype=torch.int64)
    in_order = np.float32(0)
    for value in values.flatten().tolist():
        in_order += np.float32(value)
    (gradient,) = torch.autograd.grad((gather(table, index) * values).sum(), table)
    assert gradient.item() == in_order == 1.0
