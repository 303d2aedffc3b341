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
from receraser.training.kernels import on_cpu

__all__ = ["WeightedSum"]


class WeightedSum:
    """Submodels and a weight for each."""

    def __init__(self, submodels: Sequence[FactorModel], weights: NDArray[np.float32]) -> None:
        self.items_ = IdMap.union([model.items_ for model in submodels])
        self._submodels = submodels
        self._weights = weights
        self._columns = [self.items_.indices(model.items_) for model in submodels]
        self._brought = [torch.from_numpy(columns) for columns in self._columns]
        self._own_items = [model.items_.indices(self.items_) for model in submodels]  # -1 where the shard has it not

    def _columns_on(self, device: torch.device, number: int) -> torch.Tensor:
        """Return a shard's columns there. They are brought to a GPU once, and not for every block of users."""
        if self._brought[number].device != device:
            self._brought[number] = self._brought[number].to(device)
        return self._brought[number]

    def scores(self, histories: Histories) -> torch.Tensor:
        """Return (len(histories), n_items), summed in the order of the shards."""
        holds = [model.users_.indices(histories.users) >= 0 for model in self._submodels]
        strangers = ~np.any(holds, axis=0) if holds else np.ones(len(histories), dtype=bool)
        total: torch.Tensor | None = None
        parts = zip(self._submodels, holds, self._weights, self._columns, self._own_items, strict=True)
        for number, (model, held, weight, columns, own) in enumerate(parts):
            rows = np.flatnonzero(held | strangers)  # nobody else has a vector here
            vectors = model.vectors(_translated(histories, own), strangers=strangers)
            scores = model.scores_of(vectors[rows])  # (len(rows), the shard's items)
            if total is None:
                total = scores.new_zeros((len(histories), len(self.items_)))
            if total.is_cuda:
                places = torch.from_numpy(rows).to(total.device)[:, None], self._columns_on(total.device, number)
                total[places] += float(weight) * scores
            else:
                on_cpu().add_columns(total.numpy(), rows, columns, scores.contiguous().numpy(), weight)
        return torch.zeros((len(histories), 0)) if total is None else total


def _translated(histories: Histories, own: NDArray[np.int64]) -> Histories:
    """Return the same people with their items in a shard's vocabulary; items it does not hold are dropped."""
    items = own[histories.item_index]
    owner = np.repeat(np.arange(len(histories)), np.diff(histories.indptr))[items >= 0]
    counts = np.bincount(owner, minlength=len(histories))
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Histories(histories.users, indptr, items[items >= 0])
