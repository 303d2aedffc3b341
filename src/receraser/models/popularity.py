"""Popularity: the same list for everybody. The yardstick any personalised model has to beat; not a base model."""

from __future__ import annotations

from typing import Self

import numpy as np
import torch

from receraser.data.ids import IdMap
from receraser.data.interactions import Histories, Interactions

__all__ = ["Popularity"]


class Popularity:
    """Scores an item by how many users have it.

    Examples
    --------
    >>> rows = Interactions.from_pairs([("u1", "a"), ("u1", "b"), ("u2", "b")])
    >>> Popularity().fit(rows).scores(Histories.of(["u1"], rows, rows.items)).tolist()
    [[1.0, 2.0]]
    """

    items_: IdMap
    counts_: torch.Tensor

    def fit(self, interactions: Interactions) -> Self:
        """Count."""
        self.items_ = interactions.items
        self.counts_ = torch.from_numpy(interactions.item_counts.astype(np.float32))
        return self

    def scores(self, histories: Histories) -> torch.Tensor:
        """Return the same row for every user."""
        return self.counts_.expand(len(histories), -1)
