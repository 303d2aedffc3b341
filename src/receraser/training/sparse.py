"""A fixed sparse matrix times a learned dense one, and rows of a learned table, with gradients whose bits are fixed.

torch's own sparse product promises no order on CUDA, and neither does its scatter in the backward pass of a gather.
Here both are one operation, a CSR matrix times a dense one, summed row by row in a fixed order by our kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from receraser.training.kernels import on_cpu

__all__ = ["SymmetricMatrix", "gather", "times_dense"]


def times_dense(indptr: torch.Tensor, indices: torch.Tensor, values: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    """Return (CSR matrix) @ dense; no gradient is recorded."""
    if dense.is_cuda:
        from receraser.training.kernels import cuda

        return cuda.csr_times_dense(indptr, indices, values, dense)
    out: NDArray[np.float32] = np.empty((indptr.shape[0] - 1, dense.shape[1]), dtype=np.float32)
    on_cpu().csr_times_dense(indptr.numpy(), indices.numpy(), values.numpy(), dense.detach().contiguous().numpy(), out)
    return torch.from_numpy(out)


@dataclass(frozen=True, eq=False)
class SymmetricMatrix:
    """A constant symmetric matrix in CSR form: its product with a table is its own backward pass."""

    indptr: torch.Tensor
    indices: torch.Tensor
    values: torch.Tensor

    def __matmul__(self, dense: torch.Tensor) -> torch.Tensor:
        """Return the product, with a gradient for `dense`."""
        result: torch.Tensor = _SymmetricProduct.apply(dense, self)  # type: ignore[no-untyped-call]
        return result


class _SymmetricProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dense: torch.Tensor, matrix: SymmetricMatrix) -> torch.Tensor:
        ctx.matrix = matrix
        return times_dense(matrix.indptr, matrix.indices, matrix.values, dense)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        matrix = ctx.matrix
        return times_dense(matrix.indptr, matrix.indices, matrix.values, gradient), None


def gather(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Return table[index], (n, dim), with a gradient that adds up in a fixed order."""
    if not table.is_cuda:
        return torch.nn.functional.embedding(index, table)  # with one thread its backward pass is sequential
    result: torch.Tensor = _Gather.apply(table, index)  # type: ignore[no-untyped-call]
    return result


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(index)
        ctx.n_rows = table.shape[0]
        return table.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        (index,) = ctx.saved_tensors
        # The transpose of the gather, as CSR: row r adds up the positions where r was asked for, in their order.
        ordered, position = torch.sort(index, stable=True)
        edges = torch.arange(ctx.n_rows + 1, device=index.device)
        indptr = torch.searchsorted(ordered, edges)
        ones = torch.ones(index.shape[0], dtype=torch.float32, device=index.device)
        return times_dense(indptr, position, ones, gradient), None
