from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from receraser.training.optimizers import Adagrad, Adam, Optimizer

SHAPES = [(4, 3), (5,)]


def quadratic(parameters: Sequence[torch.Tensor]) -> torch.Tensor:
    """A bowl, other in every direction."""
    rng = np.random.default_rng(1)
    total = torch.zeros((), dtype=parameters[0].dtype)
    for parameter in parameters:
        steep = torch.from_numpy(rng.uniform(0.5, 3.0, parameter.shape)).to(parameter.dtype)
        centre = torch.from_numpy(rng.normal(size=parameter.shape)).to(parameter.dtype)
        total = total + (steep * (parameter - centre) ** 2).sum()
    return total


def start() -> list[torch.Tensor]:
    rng = np.random.default_rng(2)
    return [torch.from_numpy(rng.normal(size=shape).astype(np.float32)).requires_grad_() for shape in SHAPES]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda p: Adagrad(p, 0.1), lambda p: torch.optim.Adagrad(p, lr=0.1, eps=1e-10)),
        (lambda p: Adam(p, 0.01), lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.9, 0.999), eps=1e-8)),
    ],
    ids=["adagrad", "adam"],
)
def test_the_same_steps_as_torch(
    ours: Callable[[list[torch.Tensor]], Optimizer], theirs: Callable[[list[torch.Tensor]], torch.optim.Optimizer]
) -> None:
    mine, other = start(), start()
    first, second = ours(mine), theirs(other)
    for _ in range(50):
        first.step(torch.autograd.grad(quadratic(mine), mine))
        second.zero_grad()
        quadratic(other).backward()  # type: ignore[no-untyped-call]
        second.step()
        for one, two in zip(mine, other, strict=True):
            torch.testing.assert_close(one, two, atol=1e-6, rtol=1e-6)
    assert quadratic(mine) < quadratic(start())


def test_the_first_step_has_the_length_of_the_learning_rate() -> None:
    for kind in (Adagrad, Adam):
        parameter = torch.zeros(3)
        kind([parameter], 0.25).step([torch.tensor([4.0, -0.5, 0.0])])
        assert parameter.tolist() == pytest.approx([-0.25, 0.25, 0.0], abs=1e-6)


def test_gradients_are_only_read() -> None:
    for kind in (Adagrad, Adam):
        gradient = torch.tensor([1.0, 2.0])
        kind([torch.zeros(2)], 0.1).step([gradient])
        assert gradient.tolist() == [1.0, 2.0]


def test_a_gradient_for_every_parameter() -> None:
    for kind in (Adagrad, Adam):
        with pytest.raises(ValueError, match="argument"):
            kind([torch.zeros(2), torch.zeros(2)], 0.1).step([torch.ones(2)])
