"""`FoldedScorer`: items have vectors, nobody else has. Everybody's own vector comes from the items they have."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from receraser.data.ids import IdMap
from receraser.data.interactions import Histories
from receraser.models.factors import score_blocks
from receraser.training.least_squares import FoldIn

__all__ = ["FoldedScorer"]


class FoldedScorer:
    """Items with vectors; whoever is asked about is folded in, and a row they delete is gone from their list at once.

    Parameters
    ----------
    items, vectors
        The vocabulary, and (n_items, rank).
    missing_weight, regularization
        Of the fold-in (`training.least_squares`).
    """

    def __init__(
        self, items: IdMap, vectors: NDArray[np.float32], missing_weight: float, regularization: float
    ) -> None:
        self.items_ = items
        self._vectors = vectors
        self._fold_in = FoldIn(vectors, missing_weight=missing_weight, regularization=regularization)

    def scores(self, histories: Histories) -> torch.Tensor:
        """Return (len(histories), n_items); somebody without items has no preference."""
        return score_blocks(torch.from_numpy(self.people(histories)), torch.from_numpy(self._vectors))

    def people(self, histories: Histories) -> NDArray[np.float32]:
        """Return the vector of everybody, (len(histories), rank); nothing but zeros for somebody without items."""
        users = np.zeros((len(histories), self._vectors.shape[1]), dtype=np.float32)
        lengths = np.diff(histories.indptr)
        some = np.flatnonzero(lengths)
        indptr = np.concatenate([[0], np.cumsum(lengths[some])]).astype(np.int64)
        users[some] = self._fold_in.vectors(indptr, histories.item_index)
        return users
