"""`EASE`: an item's score is a weighted sum over the items somebody has; the weights in closed form. Steck 2019.

With the integer Gram G = X^T X and P = (G + lambda I)^(-1), the weights are B = I - P diag(P)^(-1), with zeros on the
diagonal: an item does not explain itself. One Cholesky factorisation of an n_items x n_items matrix, so the catalogue
must be small enough for it; the sums are whole numbers and a forget is an exact downdate and the same solve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.linalg
import torch
from numpy.typing import NDArray

from receraser import settings
from receraser.data.ids import IdMap
from receraser.data.interactions import Histories, Interactions
from receraser.errors import TrainingError, UsageError
from receraser.fingerprint import Tensors
from receraser.models.additive import AdditiveModel, Solved
from receraser.protocols import Scorer
from receraser.training.counts import counted, recounted, symmetric
from receraser.training.kernels import on_cpu

__all__ = ["EASE"]

_TILE = 1024


@dataclass(kw_only=True)
class EASE(AdditiveModel):
    """Embarrassingly shallow autoencoder.

    Parameters
    ----------
    regularization
        Lambda, in rows: about as many as an item has to have before its weights are trusted.
    max_items
        A larger catalogue is refused: the solve takes 20 bytes for each pair of items, and time that grows with the
        third power of their number.

    Examples
    --------
    >>> rows = Interactions.from_pairs([("u1", "a"), ("u1", "b"), ("u2", "a"), ("u2", "b"), ("u3", "c")])
    >>> weights = EASE(regularization=1.0).fit(rows).state()["weights"]
    >>> bool(weights[0, 1] > 0.5), abs(float(weights[0, 2])), float(weights[0, 0])
    (True, 0.0, 0.0)
    """

    name: ClassVar[str] = "ease"

    regularization: float = 500.0
    max_items: int = 15_000

    def __post_init__(self) -> None:
        settings.check(self, at_least_one=("max_items",))
        if self.regularization <= 0:
            raise UsageError("ease: regularization is 0; expected more, or the weights are not determined")

    def keeps_sums(self, rows: Interactions) -> bool:  # noqa: ARG002
        """Say yes: the weights are a function of nothing else."""
        return True

    def sums(self, rows: Interactions) -> Tensors:
        """Return how often items were taken together."""
        self._check(rows)
        return {"pairs": counted(rows, 0.0)}

    def resummed(self, sums: Tensors, before: Interactions, after: Interactions) -> Tensors:
        """Take away what is gone and add what came."""
        self._check(after)
        return {"pairs": recounted(np.asarray(sums["pairs"], dtype=np.int64), before, after, 0.0)}

    def _check(self, rows: Interactions) -> None:
        n = len(rows.items)
        if n > self.max_items:
            raise UsageError(
                f"ease: {n:,} items need a matrix of {n:,} x {n:,} ({20 * n * n / 2**30:,.1f} GB to solve it); at most "
                f"{self.max_items:,} are taken (setting max_items). --model graphfilter and --model gram make no such "
                "matrix"
            )

    def solve(self, items: IdMap, sums: Tensors, seed: int) -> Solved:  # noqa: ARG002 - nothing is drawn
        """Return the weights."""
        gram = symmetric(np.asarray(sums["pairs"], dtype=np.int64), np.ones(len(items)))
        if not len(items):
            return {"weights": np.zeros((0, 0), dtype=np.float32)}, {}
        gram[np.diag_indices_from(gram)] += self.regularization
        weights = _inverse(gram)
        weights /= -weights.diagonal().copy()  # column j is divided by P[j, j]
        weights[np.diag_indices_from(weights)] = 0.0
        return {"weights": np.ascontiguousarray(weights, dtype=np.float32)}, {}

    def _make_scorer(self, rows: Interactions, state: Tensors) -> Scorer:
        return _Weighted(rows.items, np.asarray(state["weights"], dtype=np.float32))


def _inverse(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the inverse of a symmetric positive definite matrix, in its place."""
    factor, failed = scipy.linalg.lapack.dpotrf(matrix.T, lower=1, overwrite_a=1)
    inverse, failed_too = scipy.linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
    if failed or failed_too:
        raise TrainingError("ease: the matrix of co-occurrences cannot be inverted; try a larger regularization")
    for first in range(0, len(inverse), _TILE):  # LAPACK fills the lower half
        rows = slice(first, first + _TILE)
        lower = np.tril(inverse[rows, rows], -1)
        inverse[rows, rows] = lower + lower.T + np.diag(inverse[rows, rows].diagonal())
        inverse[:first, rows] = inverse[rows, :first].T
    return np.asarray(inverse)


class _Weighted:
    """Scores are sums of the weights of the items somebody has, in the order of the items."""

    def __init__(self, items: IdMap, weights: NDArray[np.float32]) -> None:
        self.items_ = items
        self._weights = weights

    def scores(self, histories: Histories) -> torch.Tensor:
        """Return (len(histories), n_items)."""
        scores = np.empty((len(histories), len(self.items_)), dtype=np.float32)
        ones = np.ones(len(histories.item_index), dtype=np.float32)
        on_cpu().csr_times_dense(histories.indptr, histories.item_index, ones, self._weights, scores)
        return torch.from_numpy(scores)
