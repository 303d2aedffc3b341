from __future__ import annotations

import itertools
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


def descents(n_steps: int, anneal_over: int | None) -> list[list[torch.Tensor]]:
    """The parameters after every step of Adam down the bowl, and before the first."""
    parameters = start()
    optimizer = Adam(parameters, 0.1, anneal_over=anneal_over)
    found = [[one.detach().clone() for one in parameters]]
    for _ in range(n_steps):
        optimizer.step(torch.autograd.grad(quadratic(parameters), parameters))
        found.append([one.detach().clone() for one in parameters])
    return found


def moves(found: list[list[torch.Tensor]]) -> list[float]:
    """How far each step went."""
    return [
        max(float((b - a).abs().max()) for a, b in zip(one, other, strict=True))
        for one, other in itertools.pairwise(found)
    ]


def test_annealed_steps_set_out_as_others_and_fall_to_zero() -> None:
    plain, annealed = descents(14, None), descents(14, 10)
    for one, other in zip(plain[1], annealed[1], strict=True):
        assert torch.equal(one, other), "the first step is the same"
    assert not torch.equal(plain[2][0], annealed[2][0]), "the second is shorter"
    lengths = moves(annealed)
    assert 0 < lengths[9] < 0.2 * lengths[0], "the last is a tenth of the rate, and no larger"
    assert lengths[10:] == [0.0] * 4, "after the end nothing moves"
    assert min(moves(plain)[10:]) > 0


def test_the_size_of_an_annealed_step_falls_in_a_straight_line() -> None:
    """A gradient that stays the same makes every step of Adam's as long as the rate."""
    parameter = torch.zeros(1, dtype=torch.float64)
    optimizer = Adam([parameter], 0.25, anneal_over=5)
    places = [0.0]
    for _ in range(7):
        optimizer.step([torch.tensor([3.0], dtype=torch.float64)])
        places.append(float(parameter))
    assert -np.diff(places) == pytest.approx([0.25, 0.2, 0.15, 0.1, 0.05, 0.0, 0.0], abs=1e-6)


def test_gradients_are_only_read() -> None:
    for kind in (Adagrad, Adam):
        gradient = torch.tensor([1.0, 2.0])
        kind([torch.zeros(2)], 0.1).step([gradient])
        assert gradient.tolist() == [1.0, 2.0]


def test_a_gradient_for_every_parameter() -> None:
    for kind in (Adagrad, Adam):
        with pytest.raises(ValueError, match="argument"):
            kind([torch.zeros(2), torch.zeros(2)], 0.1).step([torch.ones(2)])
