"""Training on the pairwise loss, with its gradient written out: what BPR and LightGCN are fitted by.

    deal the epoch's batches -> for each: vectors = propagate(parameters) -> gradient of the vectors
                                -> propagate(gradient) -> Adagrad or Adam

The loss is that of `models.objectives.Pairwise`, which the attention is trained by and which says it in a few lines of
torch; a test holds the two to each other. Here nothing is recorded: a batch costs a few passes over memory. Propagation
is a symmetric linear map (or none), so it is its own backward pass. Vectors that are scored as they are move by
Adagrad, which touches the batch's rows alone; propagated ones by Adam, which touches all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from receraser import seeds
from receraser.data.interactions import Interactions
from receraser.training.batches import Held, draw_keys
from receraser.training.kernels import pairs_on_cpu, threads

__all__ = ["ADAGRAD", "ADAM", "PairSteps", "Propagate", "Rule", "adam_rate"]

Keys = NDArray[np.uint64]

ADAGRAD, ADAM = "adagrad", "adam"
Propagate = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


@dataclass(frozen=True)
class Rule:
    """How parameters move: by which optimizer, how far, and under which L2 penalty of the batch's rows."""

    optimizer: str
    learning_rate: float
    weight_decay: float


class PairSteps:
    """The steps of an epoch, each on one batch of triples.

    Parameters
    ----------
    rows
        What is learned from: every row once an epoch, against the hardest of a few items that its user lacks.
    parameters
        The users' and the items' tables, (n_users, width) and (n_items, width) with a width that is a multiple of 16;
        moved in place.
    propagate
        From tables to the vectors that are scored; None where they are the same.
    """

    def __init__(
        self,
        rows: Interactions,
        *,
        parameters: tuple[torch.Tensor, torch.Tensor],
        rule: Rule,
        batch_size: int,
        n_negatives: int,
        seed: int,
        propagate: Propagate | None = None,
    ) -> None:
        if (rule.optimizer == ADAGRAD) != (propagate is None):
            raise ValueError("Adagrad moves vectors that are scored as they are, Adam vectors that are propagated")
        self.parameters = parameters
        batch_size = min(batch_size, max(len(rows), 1))
        self.n_batches = -(-len(rows) // batch_size)
        self._seed = seed
        self._n_negatives = n_negatives
        if parameters[0].is_cuda:
            from receraser.training.pairs_cuda import OnCUDA

            self._epoch: Epoch = OnCUDA(rows, Held(rows), batch_size, parameters, rule, propagate)
        else:
            self._epoch = OnCPU(rows, Held(rows), batch_size, parameters, rule, propagate)

    def run_epoch(self, epoch: int) -> None:
        """Take a step on every batch."""
        order = seeds.rounds(seeds.derive(self._seed, "shuffle", epoch))
        self._epoch.run(order, draw_keys(self._seed, epoch, self._n_negatives))

    def sound(self) -> bool:
        """Say whether everything learned is a number."""
        return all(bool(torch.isfinite(one).all()) for one in self.parameters)


class Epoch(Protocol):
    """All steps of an epoch, on some device."""

    def run(self, order: Keys, draws: Keys) -> None:
        """Take them: batches dealt by the keys `order`, candidates drawn by the keys `draws`."""
        ...


class OnCPU:
    """The steps on the CPU, by numba's kernels or by plain ones."""

    def __init__(
        self,
        rows: Interactions,
        held: Held,
        batch_size: int,
        parameters: tuple[torch.Tensor, torch.Tensor],
        rule: Rule,
        propagate: Propagate | None,
    ) -> None:
        self._kernels = pairs_on_cpu()
        self._users, self._items = rows.user_index.astype(np.int32), rows.item_index.astype(np.int32)
        self._held = held
        self._batch_size = batch_size
        self._rows = np.full(-(-len(rows) // batch_size) * batch_size, -1, dtype=np.int32)
        self._rule = rule
        self._propagate = propagate
        self._tables = parameters
        n_moments = 1 if rule.optimizer == ADAGRAD else 2
        self._moments = tuple([np.zeros(one.shape, dtype=np.float32) for _ in range(n_moments)] for one in parameters)
        summed = () if propagate is None else parameters  # Adagrad's steps need no table of gradients
        self._gradients = tuple(torch.zeros_like(one) for one in summed)
        self._counts = tuple(np.zeros(len(one), dtype=np.int32) for one in summed)
        self._steps_taken = 0

    def run(self, order: Keys, draws: Keys) -> None:
        """Take the steps of an epoch."""
        n = len(self._users)
        self._kernels.deal(order, n, seeds.domain_bits(n), self._batch_size, self._rows)
        if self._propagate is None:
            squares = [moments[0] for moments in self._moments]
            rule = (self._rule.learning_rate, self._rule.weight_decay)
            whole = (self._rows, self._batch_size, *self._triples(draws), *self._vectors(*self._tables))
            self._kernels.adagrad_epoch(*whole, *squares, *rule)
            return
        for batch in self._rows.reshape(-1, self._batch_size):
            self._step(batch, draws)

    def _triples(self, draws: Keys) -> tuple[NDArray[np.generic], ...]:
        """Return what the triples of a batch are made from."""
        return draws, self._users, self._items, self._held.everything, self._held.near, self._held.words

    def _vectors(self, p: torch.Tensor, q: torch.Tensor) -> tuple[NDArray[np.float32], NDArray[np.float32], int]:
        """Return what is scored, and in how many parts the items are shared out: one for each thread, or a few more."""
        return p.numpy(), q.numpy(), 1 << (threads() - 1).bit_length()

    def _step(self, batch: NDArray[np.int32], draws: Keys) -> None:
        """Take a step by Adam, on vectors that are propagated."""
        assert self._propagate is not None
        vectors = self._propagate(*self._tables)
        sums = [one.numpy() for one in self._gradients]
        self._kernels.gradients(batch, *self._triples(draws), *self._vectors(*vectors), *sums, *self._counts)
        gradients = self._propagate(*self._gradients)
        for one in self._gradients:
            one.zero_()
        self._steps_taken += 1
        rate, decay = adam_rate(self._rule.learning_rate, self._steps_taken), self._rule.weight_decay
        for table, gradient, counts, moments in zip(self._tables, gradients, self._counts, self._moments, strict=True):
            self._kernels.adam(table.numpy(), gradient.numpy(), counts, *moments, rate, decay, self._batch_size)


def adam_rate(learning_rate: float, step: int) -> float:
    """Return how far Adam goes in a step, counted from 1: its bias corrections are in it."""
    return learning_rate * float(np.sqrt(1.0 - 0.999**step)) / (1.0 - 0.9**step)
