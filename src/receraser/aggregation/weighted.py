"""`WeightedSum`: the scorer of `mean` and `static`. A score is the weighted sum of the submodels' scores.

A submodel has a say only where it holds both the user and the item: whoever and whatever is not in a shard has no
vector there. Somebody known to no submodel at all is folded in by each of them, from the items they have.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from receraser.data.ids import IdMap
from receraser.data.interactions import Histories
from receraser.models.factors import FactorModel

__all__ = ["WeightedSum"]


class WeightedSum:
    """Submodels and a weight for each."""

    def __init__(self, submodels: Sequence[FactorModel], weights: NDArray[np.float32]) -> None:
        self.items_ = IdMap.union([model.items_ for model in submodels])
        self._submodels = submodels
        self._weights = weights
        self._columns = [self.items_.indices(model.items_) for model in submodels]
        self._own_items = [model.items_.indices(self.items_) for model in submodels]  # -1 where the shard has it not

    def scores(self, histories: Histories) -> torch.Tensor:
        """Return (len(histories), n_items), summed in the order of the shards."""
        known = np.zeros(len(histories), dtype=bool)
        for model in self._submodels:
            known |= model.users_.indices(histories.users) >= 0
        total: torch.Tensor | None = None
        parts = zip(self._submodels, self._weights, self._columns, self._own_items, strict=True)
        for model, weight, columns, own in parts:
            vectors = model.vectors(_translated(histories, own), strangers=~known)
            scores = model.scores_of(vectors)  # (n, the shard's items)
            if total is None:
                total = scores.new_zeros((len(histories), len(self.items_)))
            total[:, torch.from_numpy(columns).to(scores.device)] += float(weight) * scores
        return torch.zeros((len(histories), 0)) if total is None else total


def _translated(histories: Histories, own: NDArray[np.int64]) -> Histories:
    """Return the same people with their items in a shard's vocabulary; items it does not hold are dropped."""
    items = own[histories.item_index]
    owner = np.repeat(np.arange(len(histories)), np.diff(histories.indptr))[items >= 0]
    counts = np.bincount(owner, minlength=len(histories))
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Histories(histories.users, indptr, items[items >= 0])
