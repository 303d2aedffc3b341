"""Losses as pure functions of scores and vectors. Each names its paper; none holds state.

All return one number for a batch. `weights` (1 for a real row, 0 for padding) lets batches have one fixed shape.
"""

from __future__ import annotations

import torch
from torch.nn.functional import softplus

__all__ = ["bpr", "l2", "non_sampling"]


def bpr(positive: torch.Tensor, negative: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Pairwise loss: mean of -log sigmoid(positive - negative). Rendle et al. 2009, BPR-Opt.

    Examples
    --------
    >>> one = torch.ones(2)
    >>> round(float(bpr(one, one, one)), 4)  # no preference: log 2
    0.6931
    """
    return (weights * softplus(negative - positive)).sum() / weights.shape[0]


def l2(vectors: tuple[torch.Tensor, ...], weights: torch.Tensor) -> torch.Tensor:
    """Half the squared norms of the batch's vectors, averaged over the batch."""
    total = sum(((weights * vector.square().sum(dim=1)).sum() for vector in vectors), start=weights.new_zeros(()))
    return 0.5 * total / weights.shape[0]


def non_sampling(scores: torch.Tensor, users: torch.Tensor, items: torch.Tensor, missing_weight: float) -> torch.Tensor:
    """Squared loss over all pairs without sampling, up to a constant. Chen et al. 2020 (efficient non-sampling MF).

    Weight 1 on the rows, w = `missing_weight` on everything else:
    sum over rows of (1 - w) y^2 - 2 y, plus w * sum((P^T P) * (Q^T Q)).

    Parameters
    ----------
    scores
        Predicted scores of the rows of the batch's users, in any shape; 0 where there is no row.
    users, items
        (n_batch, dim), (n_items, dim): the batch's users, all items.
    """
    rows = ((1.0 - missing_weight) * scores.square() - 2.0 * scores).sum()
    return rows + missing_weight * ((users.T @ users) * (items.T @ items)).sum()
