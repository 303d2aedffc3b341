"""Adagrad and Adam, written out: a few element-wise lines whose result depends on nothing but their inputs.

torch's own choose between several implementations by device and version; these do not, and can be captured in a CUDA
graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

__all__ = ["Adagrad", "Adam", "Optimizer"]


class Optimizer(Protocol):
    """Moves parameters against their gradients, in place."""

    def step(self, gradients: Sequence[torch.Tensor]) -> None:
        """Take one step."""
        ...


class Adagrad:
    """Duchi et al. 2011: every coordinate has its own, shrinking step."""

    def __init__(self, parameters: Sequence[torch.Tensor], learning_rate: float) -> None:
        self._parameters = list(parameters)
        self._rate = learning_rate
        self._squares = [torch.zeros_like(p) for p in parameters]

    @torch.no_grad()
    def step(self, gradients: Sequence[torch.Tensor]) -> None:
        """Take one step."""
        for p, g, total in zip(self._parameters, gradients, self._squares, strict=True):
            total.addcmul_(g, g)
            p.addcdiv_(g, total.sqrt().add_(1e-10), value=-self._rate)


class Adam:
    """Kingma & Ba 2015, in the efficient form of their Section 2 (epsilon joins before the bias correction).

    The bias corrections are tensors on the device, so that a captured step counts them up.

    Parameters
    ----------
    anneal_over
        Let the step size fall to zero in a straight line over so many steps; None: it stays.
    """

    def __init__(
        self, parameters: Sequence[torch.Tensor], learning_rate: float, *, anneal_over: int | None = None
    ) -> None:
        self._parameters = list(parameters)
        self._rate = learning_rate
        self._anneal_over = anneal_over
        self._means = [torch.zeros_like(p) for p in parameters]
        self._squares = [torch.zeros_like(p) for p in parameters]
        device = self._parameters[0].device
        self._powers = torch.ones(2, dtype=torch.float64, device=device)  # beta1^t, beta2^t
        self._betas = torch.tensor([0.9, 0.999], dtype=torch.float64, device=device)
        self._taken = torch.zeros((), dtype=torch.float64, device=device)

    @torch.no_grad()
    def step(self, gradients: Sequence[torch.Tensor]) -> None:
        """Take one step."""
        self._powers.mul_(self._betas)
        left = 1.0 - self._powers
        rate = self._rate * left[1].sqrt() / left[0]
        if self._anneal_over is not None:
            rate = rate * (1.0 - self._taken / self._anneal_over).clamp_(min=0.0)
            self._taken += 1.0
        rate = rate.to(torch.float32)
        for p, g, mean, square in zip(self._parameters, gradients, self._means, self._squares, strict=True):
            mean.mul_(0.9).add_(g, alpha=0.1)
            square.mul_(0.999).addcmul_(g, g, value=0.001)
            p.sub_(rate * (mean / (square.sqrt() + 1e-8)))
