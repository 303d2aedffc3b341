"""What BPR and LightGCN share: batches of triples, the pairwise loss, the training loop and early stopping.

A model here differs only in how the vectors that are scored come from the parameters: as they are (BPR), or after
propagation over the shard's graph (LightGCN).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from receraser.data.interactions import Interactions
from receraser.models.descent import descend
from receraser.models.factors import FactorModel, Learned, Lesson, initial_vectors
from receraser.models.objectives import Pairwise, Vectors
from receraser.training.least_squares import pad
from receraser.training.loop import Objective
from receraser.training.pairs import PairSteps, Propagate, Rule

__all__ = ["PairwiseModel"]


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
    optimizer: ClassVar[str]

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
            pad(initial_vectors(ids, self.dim, self.initial_scale, lesson.seed, what), lesson.device)
            for ids, what in ((rows.users, "user"), (rows.items, "item"))
        )
        propagate = self._propagation(rows, lesson.device)
        steps = PairSteps(
            rows,
            parameters=(p, q),
            rule=Rule(self.optimizer, self.learning_rate, self.weight_decay),
            batch_size=self.batch_size,
            n_negatives=self.n_negatives,
            seed=lesson.seed,
            propagate=propagate,
        )

        def vectors() -> tuple[torch.Tensor, torch.Tensor]:
            return (p, q) if propagate is None else propagate(p, q)

        facts = descend(self, steps, lesson, vectors=vectors)
        return (*vectors(), facts)

    def _propagation(self, interactions: Interactions, device: torch.device) -> Propagate | None:
        """Return the symmetric map from the parameters to the vectors that are scored; None if they are the same."""
        raise NotImplementedError

    def objective(
        self,
        rows: Interactions,
        seed: int,
        *,
        parameters: Sequence[torch.Tensor],
        vectors: Vectors,
        penalised: tuple[torch.Tensor, torch.Tensor] | None = None,
        dropout: float | None = None,
        user_parts: int = 0,
    ) -> Objective:
        """Return the pairwise loss of these rows; L2 on the tables `penalised`, if any; dropout only if asked for."""
        return Pairwise(
            rows,
            batch_size=self.batch_size,
            n_negatives=self.n_negatives,
            seed=seed,
            parameters=parameters,
            vectors=vectors,
            weight_decay=self.weight_decay if penalised is not None else 0.0,
            penalised=penalised,
            dropout=dropout or 0.0,
            user_parts=user_parts,
        )
