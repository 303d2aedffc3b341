"""The CPU kernels again, in plain numpy: what the fast ones are held to, and what runs where numba is missing.

Row by row and slow. The results agree with numba's up to rounding, not bit for bit: with or without numba are two
environments.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = [
    "add_columns",
    "add_pairs",
    "add_squares",
    "best_of_rows",
    "claim",
    "co_counts",
    "csr_times_dense",
    "gathered",
    "grouped",
    "mirrored",
    "pass_on",
    "scaled_sums",
    "solve_cg",
    "solve_cholesky",
]

Float32 = NDArray[np.float32]

_BLOCK = 8_192  # points looked at at a time: their distances stay in the cache


def csr_times_dense(
    indptr: NDArray[np.int64], indices: NDArray[np.int64], values: Float32, dense: Float32, out: Float32
) -> None:
    """Write the product of a CSR matrix and a dense one into `out`."""
    out[:] = sp.csr_matrix((values, indices, indptr), shape=(len(out), len(dense))) @ dense


def pass_on(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    share: Float32,
    dense: Float32,
    out: Float32,
    total: Float32,
) -> None:
    """Write share[r] times the sum of the neighbours' rows into row r of `out`, and add it to `total`."""
    csr_times_dense(indptr, indices.astype(np.int64), np.repeat(share, np.diff(indptr)), dense, out)
    total += out


def scaled_sums(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    scale: NDArray[np.float64],
    dense: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Write scale[r] times the sum of the rows of `dense` that row r names into row r of `out`; float64 or float32."""
    ones = np.ones(len(indices), dtype=dense.dtype)
    out[:] = (sp.csr_matrix((ones, indices, indptr), shape=(len(out), len(dense))) @ dense) * scale[:, None]


def solve_cg(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    others: Float32,
    diagonal: Float32,
    penalty: Float32,
    n_steps: int,
    solution: Float32,
) -> None:
    """Improve each row of `solution` by preconditioned conjugate-gradient steps on its normal equations."""
    for row, x in enumerate(solution):
        q = others[indices[indptr[row] : indptr[row + 1]]]
        own = diagonal + penalty[row]
        residual = q.sum(axis=0) - own * x - q.T @ (q @ x)
        direction = residual / own
        rr = residual @ direction
        for _ in range(n_steps):
            if not rr >= 1e-20:  # nor if it is no number
                break
            product = own * direction + q.T @ (q @ direction)
            step = rr / (direction @ product)
            x += step * direction
            residual -= step * product
            new_rr = residual @ (residual / own)
            direction = residual / own + (new_rr / rr) * direction
            rr = new_rr


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


def co_counts(
    item_indptr: NDArray[np.int64],
    users: NDArray[np.int64],  # noqa: ARG001
    user_indptr: NDArray[np.int64],
    items: NDArray[np.int64],
    weights: NDArray[np.int64],
    out: NDArray[np.int64],
) -> None:
    """Add up, for every pair of items i <= j, the weights of the users who have both, into a packed upper triangle."""
    add_pairs(user_indptr, items, weights, len(item_indptr) - 1, out)


def add_pairs(
    user_indptr: NDArray[np.int64], items: NDArray[np.int64], weights: NDArray[np.int64], n: int, out: NDArray[np.int64]
) -> None:
    """Add every user's weight to all pairs of their items, in a packed upper triangle of n items."""
    for user in range(len(user_indptr) - 1):
        own = items[user_indptr[user] : user_indptr[user + 1]]
        for a, i in enumerate(own):
            out[i * n - i * (i - 1) // 2 - i + own[a:]] += weights[user]


def mirrored(packed: NDArray[np.int64], scale: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Write the whole symmetric matrix of a packed upper triangle, row i and column i times scale[i], into `out`."""
    n = len(out)
    upper = np.triu_indices(n)
    out[upper] = packed
    out[upper[1], upper[0]] = packed
    out *= scale[:, None] * scale


def gathered(columns: Float32, rows: NDArray[np.int32], edge: int, out: NDArray[np.float64]) -> None:
    """Write these rows of a table into `out`, from column `edge` on; zeros for a row of -1."""
    part = out[:, edge : edge + columns.shape[1]]
    part[:] = 0.0
    part[rows >= 0] = columns[rows[rows >= 0]]


def add_squares(block: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Add the squares in each column of a block to `out`."""
    out += (block * block).sum(axis=0)


def best_of_rows(
    scores: Float32, indptr: NDArray[np.int64], left_out: NDArray[np.int64], best: NDArray[np.int64]
) -> None:
    """Write the positions of each row's highest scores into `best`, highest first, of equals the first one first."""
    best[:] = -1
    for row, own in enumerate(scores):
        there = np.ones(len(own), dtype=bool)
        there[left_out[indptr[row] : indptr[row + 1]]] = False
        places = np.flatnonzero(there)
        found = places[np.argsort(-own[places], kind="stable")][: best.shape[1]]
        best[row, : len(found)] = found


def add_columns(
    total: Float32, rows: NDArray[np.int64], columns: NDArray[np.int64], part: Float32, weight: np.float32
) -> None:
    """Add to these rows of `total`, in these columns, each at most once, what `part` has times the weight."""
    total[np.ix_(rows, columns)] += weight * part


def claim(
    left: NDArray[np.float64],
    left_index: NDArray[np.int32],
    right: NDArray[np.float64],
    right_index: NDArray[np.int32],
    points: NDArray[np.int64],
    ends: NDArray[np.float64],
    last: NDArray[np.int64],
    claimed: NDArray[np.int32],
    nearest: NDArray[np.float64],
) -> None:
    """Write, for each point, the nearest of the shards that would take it and how far that is; -1 and inf for none."""
    for start in range(0, len(points), _BLOCK):
        block = points[start : start + _BLOCK]
        with np.errstate(invalid="ignore"):
            distances = left[left_index[block]] * right[right_index[block]]  # (b, n_shards)
        taken = (distances < ends) | ((distances == ends) & (block[:, None] <= last))
        distances = np.where(taken, distances, np.inf)
        best = distances.argmin(axis=1)  # the first of equals
        found = np.take_along_axis(distances, best[:, None], axis=1)[:, 0]
        claimed[start : start + _BLOCK] = np.where(found < np.inf, best, -1)
        nearest[start : start + _BLOCK] = found


def grouped(labels: NDArray[np.int32], n_labels: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of label 0, of label 1 and so on, each ascending, and where each begins; not those of -1."""
    order = np.argsort(labels.astype(np.min_scalar_type(-n_labels)), kind="stable")  # small numbers are sorted faster
    bounds = np.searchsorted(labels, np.arange(n_labels + 1), sorter=order)
    return order[bounds[0] :], bounds - bounds[0]
