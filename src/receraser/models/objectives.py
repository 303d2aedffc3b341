"""The losses of the base models as objectives for the training loop: pairwise (BPR, LightGCN) and non-sampling (WMF).

An objective knows which rows it learns from and how batches are drawn; what is learned, and how user and item vectors
come from it, is the caller's: the vectors themselves (BPR), vectors propagated over a graph (LightGCN), or frozen
submodels put together by attention. So an aggregation is trained by its base model's own loss, not by a copy of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from receraser.data.interactions import Interactions
from receraser.seeds import derive, draw_torch, signed
from receraser.training.batches import Triples, UserBatches
from receraser.training.kernels import pairs_on_cpu
from receraser.training.losses import bpr, l2, non_sampling
from receraser.training.sparse import gather

__all__ = ["NonSampling", "Pairwise", "Vectors"]

Vectors = Callable[[], tuple[torch.Tensor, torch.Tensor]]


class Pairwise:
    """BPR-Opt over triples: every row once per epoch, against the hardest of a few drawn items.

    Parameters
    ----------
    rows, batch_size, n_negatives, seed
        What the triples are drawn from, and how (`training.batches.Triples`).
    parameters, vectors
        What is learned, and the (n_users, dim), (n_items, dim) vectors it stands for at the moment.
    weight_decay, penalised
        L2 on the batch's rows of these two tables; None for the vectors that are scored.
    dropout
        Share of the coordinates of a row's user vector that is dropped, drawn anew for every row.
    """

    fixed_shape = True

    def __init__(
        self,
        rows: Interactions,
        *,
        batch_size: int,
        n_negatives: int,
        seed: int,
        parameters: Sequence[torch.Tensor],
        vectors: Vectors,
        weight_decay: float = 0.0,
        penalised: tuple[torch.Tensor, torch.Tensor] | None = None,
        dropout: float = 0.0,
    ) -> None:
        self.parameters = tuple(parameters)
        self._vectors = vectors
        self._weight_decay = weight_decay
        self._penalised = penalised
        self._dropout = dropout
        self._seed = seed
        device = self.parameters[0].device
        self._key = torch.zeros((), dtype=torch.int64, device=device)
        self._batches = Triples(rows, batch_size=batch_size, seed=seed, device=device, n_negatives=n_negatives)
        self.n_batches = self._batches.n_batches

    def prepare(self, epoch: int) -> None:
        """Draw the epoch's order and negatives."""
        self._batches.prepare(epoch)
        self._key.fill_(signed(derive(self._seed, "dropout", epoch)))

    def loss(self, number: torch.Tensor) -> torch.Tensor:
        """Return the loss of a batch of triples."""
        user, item, negatives, weight = self._batches.batch(number)
        size = user.shape[0]
        p, q = self._vectors()
        u = gather(p, user)  # (batch, dim)
        if self._dropout:
            cells = torch.arange(u.numel(), device=u.device) + number * u.numel()
            u = u * _kept(self._key, cells, self._dropout).reshape(u.shape)
        negative = _hardest(u.detach(), q.detach(), negatives)
        both = gather(q, torch.cat([item, negative]))  # (2 batch, dim)
        loss = bpr((u * both[:size]).sum(dim=1), (u * both[size:]).sum(dim=1), weight)
        if not self._weight_decay:
            return loss
        if self._penalised is not None:  # the penalty is on the parameters, not on what was made of them
            u, both = gather(self._penalised[0], user), gather(self._penalised[1], torch.cat([item, negative]))
        return loss + self._weight_decay * l2((u, both[:size], both[size:]), weight)


def _hardest(users: torch.Tensor, items: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Return, of each user's candidates (batch, n), the one that scores highest now; the first one of equals."""
    if candidates.shape[1] == 1:
        return candidates[:, 0]
    if not users.is_cuda:
        found = torch.empty(len(users), dtype=torch.int64)
        pairs_on_cpu().hardest(users.numpy(), items.contiguous().numpy(), candidates.numpy(), found.numpy())
        return found
    scores = (items[candidates] * users[:, None, :]).sum(dim=2)  # (batch, n)
    return candidates.gather(1, scores.argmax(dim=1, keepdim=True))[:, 0]


def _kept(key: int | torch.Tensor, cells: torch.Tensor, dropout: float) -> torch.Tensor:
    """Return 0 for the cells that are dropped and what makes up for them for the others; cells count up by one."""
    lowest, value = int(dropout * 2**32), 1.0 / (1.0 - dropout)
    if not cells.is_cuda:
        made = torch.empty(len(cells), dtype=torch.float32)
        first = int(cells[0]) if len(cells) else 0
        pairs_on_cpu().kept_cells(np.uint64(int(key) % 2**64), first, lowest, np.float32(value), made.numpy())
        return made
    high = (draw_torch(key, cells) >> 32) & 0xFFFFFFFF
    return (high >= lowest).to(torch.float32) * value


class NonSampling:
    """Squared loss over all pairs, by batches of users, with dropout on the users' vectors (Chen et al. 2020).

    Parameters
    ----------
    rows, batch_size, seed
        `batch_size` counts users (`training.batches.UserBatches`).
    missing_weight, dropout
        The weight of a pair that is not among the rows; the share of coordinates dropped.
    parameters, vectors
        What is learned, and the vectors it stands for at the moment.
    """

    fixed_shape = False

    def __init__(
        self,
        rows: Interactions,
        *,
        batch_size: int,
        seed: int,
        missing_weight: float,
        dropout: float,
        dim: int,
        parameters: Sequence[torch.Tensor],
        vectors: Vectors,
    ) -> None:
        self.parameters = tuple(parameters)
        self._vectors = vectors
        self._seed = seed
        self._missing_weight = missing_weight
        self._dropout = dropout
        device = self.parameters[0].device
        self._batches = UserBatches(rows, batch_size=batch_size, seed=seed, device=device)
        self.n_batches = self._batches.n_batches
        self._shape = (len(rows.users), dim)
        self._mask: torch.Tensor | None = None

    def prepare(self, epoch: int) -> None:
        """Shuffle the users and draw which coordinates of their vectors are dropped."""
        self._batches.prepare(epoch)
        if self._dropout:
            cells = torch.arange(self._shape[0] * self._shape[1], device=self.parameters[0].device)
            self._mask = _kept(derive(self._seed, "dropout", epoch), cells, self._dropout).reshape(self._shape)

    def loss(self, number: torch.Tensor) -> torch.Tensor:
        """Return the loss of a batch of users."""
        p, q = self._vectors()
        user, place, item = self._batches.batch(int(number))
        vectors = gather(p, user)  # (b, dim)
        if self._mask is not None:
            vectors = vectors * self._mask[user]
        scores = (gather(vectors, place) * gather(q, item)).sum(dim=1)  # (n_rows,)
        return non_sampling(scores, vectors, q, self._missing_weight)
