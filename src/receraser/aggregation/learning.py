"""What the learned aggregations share: the submodels lined up, and the base model's own loss to learn by.

An aggregation is learned on all training rows, from nothing, with the submodels frozen; validation rows choose the
epoch, as they do for a base model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from receraser.data.ids import IdMap
from receraser.errors import TrainingError
from receraser.models.descent import descend
from receraser.models.factors import FactorModel, Lesson
from receraser.models.objectives import Vectors
from receraser.models.registry import make_factor_model
from receraser.training.loop import Descent, Objective
from receraser.training.optimizers import Adagrad, Adam, Optimizer

__all__ = ["OPTIMIZERS", "LinedUp", "learn"]

OPTIMIZERS: Mapping[str, type[Adagrad | Adam]] = {"adagrad": Adagrad, "adam": Adam}


class LinedUp:
    """The users (or items) of all submodels in one order, and where a submodel has none.

    Attributes
    ----------
    vectors
        (n_shards, n, dim): zeros where a shard does not hold the user.
    absent
        (n_shards, n): where that is.
    """

    def __init__(
        self, parts: Sequence[tuple[IdMap, NDArray[np.float32]]], everybody: IdMap, device: torch.device
    ) -> None:
        dim = max(own.shape[1] for _, own in parts)  # all the same, but for submodels that somebody else wrote
        vectors = np.zeros((len(parts), len(everybody), dim), dtype=np.float32)
        absent = np.ones((len(parts), len(everybody)), dtype=bool)
        for k, (ids, own) in enumerate(parts):
            at = everybody.indices(ids)
            vectors[k, at, : own.shape[1]] = own
            absent[k, at] = False
        self.vectors = torch.from_numpy(vectors).to(device)
        self.absent = torch.from_numpy(absent).to(device)

    @classmethod
    def users(cls, submodels: Sequence[FactorModel], lesson: Lesson) -> LinedUp:
        """Line up the users."""
        return cls([(m.users_, m.user_vectors_) for m in submodels], lesson.rows.users, lesson.device)

    @classmethod
    def items(cls, submodels: Sequence[FactorModel], lesson: Lesson) -> LinedUp:
        """Line up the items."""
        return cls([(m.items_, m.item_vectors_) for m in submodels], lesson.rows.items, lesson.device)


class Settings(Protocol):
    """The settings that a learned aggregation has."""

    n_epochs: int
    patience: int
    validate_every: int
    batch_size: int
    user_batch_size: int
    n_negatives: int
    optimizer: str
    learning_rate: float
    weight_decay: float
    dropout: float


def learn(
    settings: Settings,
    base: FactorModel,
    lesson: Lesson,
    parameters: Mapping[str, torch.Tensor],
    vectors: Vectors,
    *,
    dim: int,
    norm: Callable[[Sequence[torch.Tensor]], torch.Tensor],
    anneal: bool = False,
    user_parts: int = 0,
) -> dict[str, object]:
    """Train the parameters in place by the loss of the base model, plus weight_decay * norm(parameters).

    Parameters
    ----------
    vectors, dim
        The user and item vectors that the parameters make of the submodels at the moment, and their length.
    anneal
        Let Adam's step size fall to zero in a straight line over the epochs.
    user_parts
        Let a batch of a pairwise loss have rows of few users, each user's dealt into so many parts; 0: rows at random.
    """
    own: dict[str, object] = {"n_negatives": settings.n_negatives, "dim": dim}
    base = base.teacher()
    own["batch_size"] = settings.batch_size if base.pairwise else settings.user_batch_size
    known = base.hyperparameters()
    teacher = make_factor_model(base.name, known | {key: value for key, value in own.items() if key in known})
    learned = tuple(parameters.values())
    loss = teacher.objective(
        lesson.rows,
        lesson.seed,
        parameters=learned,
        vectors=vectors,
        dropout=settings.dropout,
        user_parts=user_parts,
    )
    objective = _Penalised(loss, settings.weight_decay, norm)
    if anneal:
        n_steps = settings.n_epochs * objective.n_batches
        optimizer: Optimizer = Adam(learned, settings.learning_rate, anneal_over=n_steps)
    else:
        optimizer = OPTIMIZERS[settings.optimizer](learned, settings.learning_rate)
    facts = descend(settings, Descent(objective, optimizer), lesson, vectors=vectors)
    for name, one in parameters.items():
        if not torch.isfinite(one).all():
            raise TrainingError(f"the aggregation's {name} is no number; try a smaller learning_rate")
    return facts


class _Penalised:
    """An objective, and a penalty on everything learned."""

    def __init__(
        self, objective: Objective, weight: float, norm: Callable[[Sequence[torch.Tensor]], torch.Tensor]
    ) -> None:
        self._objective = objective
        self._weight = weight
        self._norm = norm
        self.n_batches = objective.n_batches
        self.fixed_shape = objective.fixed_shape

    @property
    def parameters(self) -> tuple[torch.Tensor, ...]:
        return self._objective.parameters

    def prepare(self, epoch: int) -> None:
        self._objective.prepare(epoch)

    def loss(self, number: torch.Tensor) -> torch.Tensor:
        return self._objective.loss(number) + self._weight * self._norm(self.parameters)
