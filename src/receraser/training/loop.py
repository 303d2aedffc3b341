"""The only training loop: epochs of steps, a validation after every few, the best weights kept.

The loop knows nothing of models: it runs `Steps`. They are written out for the pairwise loss (`training.pairs`); for
any other `Objective`, which is parameters, batches and a loss, `Descent` makes them with torch's gradients. On CUDA the
step of an objective with batches of one fixed shape is captured once and replayed, since launches cost more than the
work. Validation looks at the shard's own held-out rows; without any, the preset number of epochs runs to its end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import torch

from receraser.errors import TrainingError
from receraser.protocols import Progress
from receraser.training.optimizers import Optimizer

__all__ = ["Descent", "Objective", "Steps", "TrainingLog", "train"]

_CHECK_EVERY = 10  # epochs between looks for a diverged loss when nothing is validated


class Steps(Protocol):
    """What the loop runs."""

    n_batches: int

    @property
    def parameters(self) -> tuple[torch.Tensor, ...]:
        """What is learned, in place."""
        ...

    def run_epoch(self, epoch: int) -> None:
        """Take a step on every batch."""
        ...

    def sound(self) -> bool:
        """Say whether what came of the last epoch is numbers."""
        ...


class Objective(Protocol):
    """A loss over batches, for `Descent`."""

    n_batches: int
    fixed_shape: bool  # every batch has one shape and takes its number as a tensor: the step can be captured

    @property
    def parameters(self) -> tuple[torch.Tensor, ...]:
        """What is learned, in place."""
        ...

    def prepare(self, epoch: int) -> None:
        """Draw the epoch's batches."""
        ...

    def loss(self, number: torch.Tensor) -> torch.Tensor:
        """Return the loss of a batch."""
        ...


@dataclass
class TrainingLog:
    """What happened: epochs run, the epoch whose weights were kept, and (epoch, validation) pairs."""

    epochs_run: int = 0
    best_epoch: int = 0
    curve: list[tuple[int, float]] = field(default_factory=list)


def train(
    steps: Steps,
    *,
    n_epochs: int,
    validate: Callable[[], float] | None,
    validate_every: int,
    patience: int,
    progress: Progress | None = None,
) -> TrainingLog:
    """Train the parameters in place.

    Parameters
    ----------
    validate
        Returns a number, higher is better; None without held-out rows.
    validate_every
        Epochs between validations.
    patience
        Stop after this many validations in a row without a new best.
    """
    log = TrainingLog()
    if steps.n_batches == 0:
        return log
    best: list[torch.Tensor] = []
    best_value = -1.0
    for epoch in range(1, n_epochs + 1):
        steps.run_epoch(epoch)
        log.epochs_run = epoch
        if progress is not None:
            progress("epochs", epoch, n_epochs)
        look_every = validate_every if validate is not None else _CHECK_EVERY
        due = epoch % look_every == 0 or epoch == n_epochs
        if due and not steps.sound():
            raise TrainingError(f"what was learned is no number after epoch {epoch}: try a smaller learning_rate")
        if validate is None or not due:
            continue
        value = validate()
        log.curve.append((epoch, value))
        if value > best_value:
            best_value, log.best_epoch = value, epoch
            best = [parameter.detach().clone() for parameter in steps.parameters]
        elif sum(1 for at, _ in log.curve if at > log.best_epoch) >= patience:
            break
    if validate is None:
        log.best_epoch = log.epochs_run
    for parameter, kept in zip(steps.parameters, best, strict=False):
        with torch.no_grad():
            parameter.copy_(kept)
    return log


class Descent:
    """Steps against the gradient of an objective, eager or as a replayed CUDA graph."""

    def __init__(self, objective: Objective, optimizer: Optimizer) -> None:
        self._objective = objective
        self._optimizer = optimizer
        self._device = objective.parameters[0].device
        self._number = torch.zeros((), dtype=torch.int64, device=self._device)
        self._total = torch.zeros((), dtype=torch.float32, device=self._device)
        self._graph: torch.cuda.CUDAGraph | None = None
        self.n_batches = objective.n_batches
        for parameter in objective.parameters:
            parameter.requires_grad_(True)

    @property
    def parameters(self) -> tuple[torch.Tensor, ...]:
        """What is learned."""
        return self._objective.parameters

    def sound(self) -> bool:
        """Say whether the losses of the last epoch add up to a number."""
        return bool(torch.isfinite(self._total))

    def run_epoch(self, epoch: int) -> None:
        """Run all batches of an epoch."""
        self._objective.prepare(epoch)
        self._number.zero_()
        self._total.zero_()
        capture = self._device.type == "cuda" and self._objective.fixed_shape
        for _ in range(self._objective.n_batches):
            if self._graph is not None:
                self._graph.replay()
            elif capture and epoch > 1:  # the first epoch runs eagerly: it warms up compilers and caches
                self._capture()
                self._graph.replay()  # type: ignore[attr-defined]
            else:
                self._once()

    def _once(self) -> None:
        loss = self._objective.loss(self._number)
        gradients = torch.autograd.grad(loss, self._objective.parameters)
        self._optimizer.step(gradients)
        self._total += loss.detach()
        self._number += 1

    def _capture(self) -> None:
        """Record one step; recording does not run it."""
        torch.cuda.synchronize(self._device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._once()
        self._graph = graph
