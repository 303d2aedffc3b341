"""The implicit-feedback normal equations: one solver for WMF's sweeps and for folding a user in.

For every row r (a user, given item vectors Q; or an item, given user vectors) minimise
    sum over its entries (1 - q.x)^2  +  w * sum over all (q.x)^2  +  penalty_r * |x|^2,
that is, solve (w Q^T Q + sum of q q^T + penalty_r I) x = sum of q. Hu et al. 2008; the penalty grows with the number of
entries, penalty_r = lambda * (n_r + w * n_others), after Rendle et al. 2022 ("Revisiting the performance of iALS").
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from receraser.data.interactions import Interactions
from receraser.training.kernels import on_cpu

__all__ = ["FoldIn", "Problem", "fold_in", "pad", "polished"]

_LANES = 16  # the CPU kernel works on vectors padded to a multiple of this
_CG_STEPS = 3  # of a polishing sweep, for each item


class Problem:
    """One side of alternating least squares: for each row of a 0/1 matrix, its normal equations.

    Parameters
    ----------
    matrix
        (n_rows, n_others) CSR of ones.
    missing_weight, regularization
        w and lambda above.
    device
        Where it is solved.
    """

    def __init__(
        self, matrix: sp.csr_matrix, *, missing_weight: float, regularization: float, device: torch.device
    ) -> None:
        n_rows, n_others = matrix.shape
        self._w = missing_weight
        self._device = device
        indptr = matrix.indptr.astype(np.int64)
        penalty = regularization * (np.diff(indptr) + missing_weight * n_others)
        self._indptr = torch.from_numpy(indptr).to(device)
        self._indices = torch.from_numpy(matrix.indices.astype(np.int32)).to(device)
        self._penalty = torch.from_numpy(penalty.astype(np.float32)).to(device)
        self.n_rows = n_rows

    def solve(self, others: torch.Tensor, start: torch.Tensor, *, cg_steps: int) -> torch.Tensor:
        """Return the rows' vectors given the other side's, by a few conjugate-gradient steps from `start` on.

        The part of the equations that all rows have in common is inverted exactly (`_turned`) and is the
        preconditioner: what is left has as many dimensions as the row has entries.
        """
        turned, values, back = _turned(others, self._w)
        solution = start @ back.T
        fixed = (self._indptr, self._indices, turned, values, self._penalty)
        if self._device.type == "cuda":
            from receraser.training.kernels import cuda

            cuda.solve_cg(*fixed, cg_steps, solution)
        else:
            on_cpu().solve_cg(*(one.numpy() for one in fixed), cg_steps, solution.numpy())
        return solution @ back


def _turned(others: torch.Tensor, weight: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the vectors in coordinates in which weight * others^T others is diagonal, that diagonal, and the way back.

    What all rows have in common costs as many operations as there are columns then, not their square. A column of zeros
    (`pad`) stays what it is: its value is set apart from all others.
    """
    gram = (weight * (others.T @ others)).to(device="cpu", dtype=torch.float64)
    empty = gram.diagonal() == 0
    gram.diagonal()[empty] = -1.0
    values, vectors = torch.linalg.eigh(gram)
    back = vectors.T.to(others)
    lowest = 1e-9 * float(values.max().clamp(min=1e-20))  # above zero: it is divided by, and there may be no penalty
    return others @ back.T, values.clamp(min=lowest).to(others), back


def pad(vectors: NDArray[np.float32], device: torch.device) -> torch.Tensor:
    """Widen vectors with zeros to what the kernels need; whatever is learned leaves the zeros alone.

    The CPU's want a multiple of 16, Triton's a power of two.
    """
    width = -(-vectors.shape[1] // _LANES) * _LANES
    if device.type == "cuda":
        width = 1 << (width - 1).bit_length()
    padded = np.zeros((vectors.shape[0], width), dtype=np.float32)
    padded[:, : vectors.shape[1]] = vectors
    return torch.from_numpy(padded).to(device)


class FoldIn:
    """Exact vectors of histories, given the items' vectors; what does not depend on the history is computed once.

    Parameters
    ----------
    items
        (n_items, dim).
    missing_weight, regularization
        w and lambda above.
    """

    def __init__(self, items: NDArray[np.float32], *, missing_weight: float, regularization: float) -> None:
        self._items = items.astype(np.float64)
        self._gram = missing_weight * (self._items.T @ self._items)
        self._always = missing_weight * len(items)
        self._regularization = regularization

    def vectors(self, indptr: NDArray[np.int64], indices: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vector of every history; a history of nothing gives zeros.

        Each vector depends on its own history alone, bit for bit.
        """
        penalty = self._regularization * (np.diff(indptr) + self._always)
        solution = np.zeros((len(indptr) - 1, self._items.shape[1]))
        on_cpu().solve_cholesky(indptr, indices, self._items, self._gram, penalty.astype(np.float64), solution)
        return solution.astype(np.float32)


def fold_in(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int64],
    others: NDArray[np.float32],
    *,
    missing_weight: float,
    regularization: float,
) -> NDArray[np.float32]:
    """Return the exact vector of every history, given the item vectors: `FoldIn` for once."""
    made = FoldIn(others, missing_weight=missing_weight, regularization=regularization)
    return made.vectors(indptr, indices)


def polished(
    items: NDArray[np.float32], rows: Interactions, n_sweeps: int, *, missing_weight: float, regularization: float
) -> NDArray[np.float32]:
    """Return item vectors after so many sweeps over all rows: users given items, then items given users.

    Where the sweeps set out from matters the less the more there are: in the end it is WMF.
    """
    weights = {"missing_weight": missing_weight, "regularization": regularization}
    cpu = torch.device("cpu")
    of_items = Problem(rows.matrix().T.tocsr(), device=cpu, **weights)
    for _ in range(n_sweeps):
        users = FoldIn(items, **weights).vectors(rows.indptr, rows.item_index.astype(np.int64))
        solved = of_items.solve(pad(users, cpu), pad(items, cpu), cg_steps=_CG_STEPS)
        items = solved.numpy()[:, : items.shape[1]].copy()
    return items
