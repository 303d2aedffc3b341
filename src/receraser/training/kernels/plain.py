"""The CPU kernels again, in plain numpy: what the fast ones are held to, and what runs where numba is missing.

Row by row and slow. The results agree with numba's up to rounding, not bit for bit: with or without numba are two
environments.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["csr_times_dense", "solve_cg", "solve_cholesky"]

Float32 = NDArray[np.float32]


def csr_times_dense(
    indptr: NDArray[np.int64], indices: NDArray[np.int64], values: Float32, dense: Float32, out: Float32
) -> None:
    """Write the product of a CSR matrix and a dense one into `out`."""
    out[:] = sp.csr_matrix((values, indices, indptr), shape=(len(out), len(dense))) @ dense


def solve_cg(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int64],
    others: Float32,
    gram: Float32,
    penalty: Float32,
    n_steps: int,
    solution: Float32,
) -> None:
    """Improve each row of `solution` by conjugate-gradient steps on its normal equations."""
    for row, x in enumerate(solution):
        q = others[indices[indptr[row] : indptr[row + 1]]]

        def times(v: Float32, q: Float32 = q, row: int = row) -> Float32:
            return np.asarray(gram @ v + q.T @ (q @ v) + penalty[row] * v)

        residual = q.sum(axis=0) - times(x)
        direction = residual.copy()
        rr = residual @ residual
        for _ in range(n_steps):
            if rr < 1e-20:
                break
            product = times(direction)
            step = rr / (direction @ product)
            x += step * direction
            residual -= step * product
            turn = (residual @ residual) / rr
            direction = residual + turn * direction
            rr = residual @ residual


def solve_cholesky(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int64],
    others: NDArray[np.float64],
    gram: NDArray[np.float64],
    penalty: NDArray[np.float64],
    solution: NDArray[np.float64],
) -> None:
    """Solve the same normal equations exactly, row by row."""
    eye = np.eye(others.shape[1])
    for row in range(len(solution)):
        q = others[indices[indptr[row] : indptr[row + 1]]]
        solution[row] = np.linalg.solve(gram + q.T @ q + penalty[row] * eye, q.sum(axis=0))
