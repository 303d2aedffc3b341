"""The steps of `training.pairs` on a GPU: three launches for a batch of BPR, and a whole epoch in one CUDA graph.

Launches are what costs: the work of a batch takes about 20 microseconds, and so would a handful of launches. The first
epoch runs step by step, which lets Triton compile; the second is recorded while nothing runs, and from then on an epoch
is one replay. What changes from epoch to epoch (the order of the rows, the keys, Adam's step sizes) lies in buffers.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from receraser import seeds
from receraser.data.interactions import Interactions
from receraser.training.batches import Held
from receraser.training.kernels import pairs_cuda as kernels
from receraser.training.pairs import ADAGRAD, Propagate, Rule, adam_rate

__all__ = ["OnCUDA"]

Keys = NDArray[np.uint64]


class OnCUDA:
    """All steps of an epoch on a GPU."""

    def __init__(
        self,
        rows: Interactions,
        held: Held,
        batch_size: int,
        parameters: tuple[torch.Tensor, torch.Tensor],
        rule: Rule,
        propagate: Propagate | None,
    ) -> None:
        device = self._device = parameters[0].device
        self._n_rows = len(rows)
        self._users = torch.from_numpy(rows.user_index.astype(np.int64)).to(device)
        self._items = torch.from_numpy(rows.item_index.astype(np.int64)).to(device)
        self._everything = torch.from_numpy(held.everything.astype(np.int8)).to(device)
        self._words = torch.from_numpy(held.words.view(np.int32)).to(device)
        self._batch_size = batch_size
        self._n_batches = -(-len(rows) // batch_size)
        self._rows = torch.full((self._n_batches * batch_size,), -1, dtype=torch.int64, device=device)
        self._number = torch.arange(len(rows), device=device)
        self._rule = rule
        self._propagate = propagate
        self._tables = parameters
        self._sums = tuple(torch.zeros(one.shape, dtype=torch.int64, device=device) for one in parameters)
        self._counts = tuple(torch.zeros(len(one), dtype=torch.int32, device=device) for one in parameters)
        n_moments = 1 if rule.optimizer == ADAGRAD else 2
        self._moments = tuple([torch.zeros_like(one) for _ in range(n_moments)] for one in parameters)
        self._gradients = tuple(torch.zeros_like(one) for one in parameters)
        self._rates = torch.zeros(self._n_batches, dtype=torch.float32, device=device)
        self._keys: torch.Tensor | None = None
        self._graph: torch.cuda.CUDAGraph | None = None
        self._epochs = 0

    def run(self, order: Keys, draws: Keys) -> None:
        """Take the steps of an epoch."""
        places = kernels.places(order, self._n_rows, seeds.domain_bits(self._n_rows), self._device)
        self._rows[places] = self._number
        keys = kernels.device_keys(draws, self._device)
        if self._keys is None:
            self._keys = keys
        self._keys.view(torch.int64).copy_(keys.view(torch.int64))
        if self._rule.optimizer != ADAGRAD:
            first = self._epochs * self._n_batches + 1
            rates = [adam_rate(self._rule.learning_rate, first + step) for step in range(self._n_batches)]
            self._rates.copy_(torch.tensor(rates, dtype=torch.float32))
        self._epochs += 1
        if self._epochs == 1:
            self._all_steps()
            return
        if self._graph is None:
            torch.cuda.synchronize(self._device)
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._all_steps()
        self._graph.replay()

    def _all_steps(self) -> None:
        for number in range(self._n_batches):
            self._step(number)

    def _step(self, number: int) -> None:
        assert self._keys is not None
        vectors = self._tables if self._propagate is None else self._propagate(*self._tables)
        kernels.gradients(
            self._rows[number * self._batch_size : (number + 1) * self._batch_size],
            self._keys,
            self._users,
            self._items,
            self._everything,
            self._words,
            *vectors,
            *self._sums,
            *self._counts,
        )
        rule = self._rule
        gradients = self._sums
        if rule.optimizer != ADAGRAD:
            for sums, floats in zip(self._sums, self._gradients, strict=True):
                kernels.settle(sums, floats)
            gradients = self._gradients if self._propagate is None else self._propagate(*self._gradients)
        for table, gradient, counts, moments in zip(self._tables, gradients, self._counts, self._moments, strict=True):
            rest = (rule.weight_decay, self._batch_size)
            if rule.optimizer == ADAGRAD:
                kernels.adagrad(table, gradient, counts, moments[0], rule.learning_rate, *rest)
            else:
                kernels.adam(table, gradient, counts, moments[0], moments[1], self._rates[number], *rest)
