"""`WeightedSum`: the scorer of `mean` and `static`. A score is the weighted sum of the submodels' scores.

A submodel has a say only where it holds both the user and the item: whoever and whatever is not in a shard has no
vector there. Somebody known to no submodel at all is folded in by each of them, from the items they have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from receraser.data.ids import IdMap
from receraser.data.interactions import Histories
from receraser.models.factors import Brought, FactorModel
from receraser.training.kernels import on_cpu

__all__ = ["WeightedSum"]


class WeightedSum:
    """Submodels and a weight for each."""

    def __init__(self, submodels: Sequence[FactorModel], weights: NDArray[np.float32]) -> None:
        self.items_ = IdMap.union([model.items_ for model in submodels])
        self._voices = [
            _Voice(model, weight, self.items_.indices(model.items_), model.items_.indices(self.items_))
            for model, weight in zip(submodels, weights, strict=True)
        ]

    def scores(self, histories: Histories) -> torch.Tensor:
        """Return (len(histories), n_items), summed in the order of the shards."""
        holds = [one.model.users_.indices(histories.users) >= 0 for one in self._voices]
        strangers = ~np.any(holds, axis=0)
        total: torch.Tensor | None = None
        for one, held in zip(self._voices, holds, strict=True):
            rows = np.flatnonzero(held | strangers)  # nobody else has a vector here
            scores = one.scores(histories, rows, strangers[rows])
            if total is None:
                total = scores.new_zeros((len(histories), len(self.items_)))
            one.add(scores, rows, total)
        return torch.zeros((len(histories), 0)) if total is None else total


@dataclass(frozen=True, eq=False)
class _Voice:
    """One submodel, and where its items are among all items."""

    model: FactorModel
    weight: np.float32
    columns: NDArray[np.int64]  # of its items, among all
    own: NDArray[np.int64]  # of all items, among its own; -1 where it has not got one
    _on_device: Brought = field(default_factory=Brought, repr=False)  # columns

    def scores(self, histories: Histories, rows: NDArray[np.int64], strangers: NDArray[np.bool_]) -> torch.Tensor:
        """Return (len(rows), its items): what it says of some of these people."""
        return self.model.scores_of(self.model.vectors(_translated(histories, rows, self.own), strangers=strangers))

    def add(self, scores: torch.Tensor, rows: NDArray[np.int64], total: torch.Tensor) -> None:
        """Add them to the sum over all submodels, where they belong."""
        if total.is_cuda:
            columns = self._on_device.on(total.device, self.columns)
            total[torch.from_numpy(rows).to(total.device)[:, None], columns] += float(self.weight) * scores
        else:
            on_cpu().add_columns(total.numpy(), rows, self.columns, scores.contiguous().numpy(), self.weight)


def _translated(histories: Histories, rows: NDArray[np.int64], own: NDArray[np.int64]) -> Histories:
    """Return some of these people, with their items in a shard's vocabulary; items it does not hold are dropped."""
    place = np.full(len(histories), -1)
    place[rows] = np.arange(len(rows))
    owner, items = np.repeat(place, np.diff(histories.indptr)), own[histories.item_index]
    kept = (owner >= 0) & (items >= 0)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(owner[kept], minlength=len(rows)))]).astype(np.int64)
    return Histories(tuple(histories.users[row] for row in rows), indptr, items[kept])
