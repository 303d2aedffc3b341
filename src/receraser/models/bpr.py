"""BPR-MF: matrix factorisation learned from pairs of items. Rendle et al. 2009, trained with Adagrad."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from receraser.data.interactions import Interactions
from receraser.models.pairwise import PairwiseModel
from receraser.training.pairs import ADAGRAD, Propagate

__all__ = ["BPR"]


@dataclass(kw_only=True)
class BPR(PairwiseModel):
    """Bayesian personalised ranking: an item the user has should score above one they have not.

    Examples
    --------
    >>> rows = Interactions.from_pairs([("u1", "a"), ("u1", "b"), ("u2", "a"), ("u3", "c")])
    >>> BPR(dim=4, n_epochs=2).fit(rows, seed=1).user_vectors_.shape
    (3, 4)
    """

    name: ClassVar[str] = "bpr"
    optimizer: ClassVar[str] = ADAGRAD

    def _propagation(self, interactions: Interactions, device: torch.device) -> Propagate | None:  # noqa: ARG002
        return None
