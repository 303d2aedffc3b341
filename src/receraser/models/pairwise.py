"""What BPR and LightGCN share: batches of triples, the pairwise loss, the training loop and early stopping.

A model here differs only in how the vectors that are scored come from the parameters: as they are (BPR), or after
propagation over the shard's graph (LightGCN).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch

from receraser.data.interactions import Interactions
from receraser.models.descent import descend
from receraser.models.factors import FactorModel, Learned, Lesson, initial_vectors
from receraser.training.batches import Triples
from receraser.training.losses import bpr, l2
from receraser.training.optimizers import Adagrad, Adam
from receraser.training.sparse import gather

__all__ = ["PairwiseModel"]

Propagate = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


@dataclass(kw_only=True)
class PairwiseModel(FactorModel):
    """Base of the models trained on triples.

    Parameters
    ----------
    n_epochs
        Epochs without validation rows, and at most with them.
    batch_size, learning_rate, weight_decay
        Rows per step; step size; L2 on the parameters of the batch's users and items.
    n_negatives
        Items drawn per row that the user does not have, of which the one that scores highest is used: 1 is the paper's
        uniform sampling, more is dynamic negative sampling (Zhang et al. 2013), which looks at the top of the list.
    initial_scale
        Standard deviation of the initial vectors.
    patience, validate_every
        Stop after `patience` validations without a new best, one every `validate_every` epochs.
    """

    pairwise: ClassVar[bool] = True
    optimizer: ClassVar[type[Adagrad | Adam]]

    n_epochs: int = 50
    batch_size: int = 1024
    learning_rate: float = 0.1
    weight_decay: float = 0.03
    n_negatives: int = 8
    initial_scale: float = 0.01
    patience: int = 10
    validate_every: int = 5

    def _learn(self, lesson: Lesson) -> Learned:
        """Descend on the pairwise loss; the validation rows decide which epoch's weights are kept."""
        rows = lesson.rows
        p, q = (
            torch.from_numpy(initial_vectors(ids, self.dim, self.initial_scale, lesson.seed, what)).to(lesson.device)
            for ids, what in ((rows.users, "user"), (rows.items, "item"))
        )
        propagate = self._propagation(rows, lesson.device)
        objective = _Pairwise(self, rows, lesson.seed, p, q, propagate)
        optimizer = self.optimizer(objective.parameters, self.learning_rate)
        facts = descend(self, objective, optimizer, lesson, vectors=lambda: propagate(p, q))
        with torch.no_grad():
            return (*propagate(p, q), facts)

    def _propagation(self, interactions: Interactions, device: torch.device) -> Propagate:
        """Return the function from the parameters to the vectors that are scored."""
        raise NotImplementedError


class _Pairwise:
    """The pairwise objective, for the training loop."""

    fixed_shape = True

    def __init__(
        self,
        model: PairwiseModel,
        rows: Interactions,
        seed: int,
        p: torch.Tensor,
        q: torch.Tensor,
        propagate: Propagate,
    ) -> None:
        self.parameters = (p, q)
        self._model = model
        self._propagate = propagate
        self._batches = Triples(
            rows, batch_size=model.batch_size, seed=seed, device=p.device, n_negatives=model.n_negatives
        )
        self.n_batches = self._batches.n_batches

    def prepare(self, epoch: int) -> None:
        """Draw the epoch's order and negatives."""
        self._batches.prepare(epoch)

    def loss(self, number: torch.Tensor) -> torch.Tensor:
        """Return the loss of a batch of triples."""
        p, q = self.parameters
        user, item, negatives, weight = self._batches.batch(number)
        size = user.shape[0]
        final_p, final_q = self._propagate(p, q)
        u = gather(final_p, user)  # (batch, dim)
        negative = _hardest(u.detach(), final_q.detach(), negatives)
        both = gather(final_q, torch.cat([item, negative]))  # (2 batch, dim)
        scores = (u * both[:size]).sum(dim=1), (u * both[size:]).sum(dim=1)
        if final_p is p:
            penalised: tuple[torch.Tensor, ...] = (u, both[:size], both[size:])
        else:  # the penalty is on the parameters, not on what propagation made of them
            first = gather(q, torch.cat([item, negative]))
            penalised = (gather(p, user), first[:size], first[size:])
        return bpr(*scores, weight) + self._model.weight_decay * l2(penalised, weight)


def _hardest(users: torch.Tensor, items: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Return, of each user's candidates (batch, n), the one that scores highest now; the first one of equals."""
    if candidates.shape[1] == 1:
        return candidates[:, 0]
    scores = (items[candidates] * users[:, None, :]).sum(dim=2)  # (batch, n)
    return candidates.gather(1, scores.argmax(dim=1, keepdim=True))[:, 0]
