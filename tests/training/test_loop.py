from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

from receraser.errors import TrainingError
from receraser.training.loop import Descent, TrainingLog, train


class Counting:
    """One parameter; what happened to it is written down."""

    fixed_shape = False

    def __init__(self, n_batches: int = 3, losses: Callable[[int], float] = lambda epoch: 1.0) -> None:
        self.parameters = (torch.zeros(2), torch.zeros(1))
        self.n_batches = n_batches
        self.seen: list[tuple[int, int]] = []
        self._losses = losses
        self._epoch = 0

    def prepare(self, epoch: int) -> None:
        self._epoch = epoch

    def loss(self, number: torch.Tensor) -> torch.Tensor:
        self.seen.append((self._epoch, int(number)))
        return self._losses(self._epoch) * (self.parameters[0].sum() + 2 * self.parameters[1].sum())


class Plain:
    """Adds the gradient: the parameters count the steps."""

    def __init__(self, parameters: tuple[torch.Tensor, ...]) -> None:
        self._parameters = parameters

    def step(self, gradients: Sequence[torch.Tensor]) -> None:
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            with torch.no_grad():
                parameter.add_(gradient)


def run(
    curve: Sequence[float] | None = None,
    *,
    n_epochs: int = 10,
    every: int = 1,
    patience: int = 3,
    objective: Counting | None = None,
    told: list[tuple[str, int, int]] | None = None,
) -> tuple[TrainingLog, Counting]:
    """Train with validations that return the values given, one after the other."""
    objective = objective or Counting()
    values = iter(curve or [])
    log = train(
        Descent(objective, Plain(objective.parameters)),
        n_epochs=n_epochs,
        validate=None if curve is None else lambda: next(values),
        validate_every=every,
        patience=patience,
        progress=None if told is None else lambda *one: told.append(one),
    )
    return log, objective


def test_without_validation_every_epoch_runs_every_batch() -> None:
    log, objective = run(n_epochs=4)
    assert log == TrainingLog(epochs_run=4, best_epoch=4, curve=[])
    assert objective.seen == [(epoch, number) for epoch in (1, 2, 3, 4) for number in (0, 1, 2)]
    assert objective.parameters[0].tolist() == [12.0, 12.0]
    assert objective.parameters[1].tolist() == [24.0]


def test_the_weights_of_the_best_epoch_are_kept() -> None:
    log, objective = run([0.1, 0.5, 0.4, 0.3, 0.45, 0.6], n_epochs=10)
    assert (log.epochs_run, log.best_epoch) == (5, 2)
    assert log.curve == [(1, 0.1), (2, 0.5), (3, 0.4), (4, 0.3), (5, 0.45)]
    assert objective.parameters[0].tolist() == [6.0, 6.0], "three batches, two epochs"
    assert objective.parameters[1].tolist() == [12.0]


def test_a_new_best_starts_the_patience_anew() -> None:
    log, objective = run([0.1, 0.0, 0.0, 0.2, 0.0, 0.0, 0.0], n_epochs=20)
    assert (log.epochs_run, log.best_epoch) == (7, 4)
    assert objective.parameters[0].tolist() == [12.0, 12.0]


def test_the_first_of_equals_is_the_best() -> None:
    log, _ = run([0.5, 0.5, 0.5], n_epochs=3, patience=5)
    assert (log.epochs_run, log.best_epoch) == (3, 1)


def test_a_validation_of_nothing_right_is_still_a_best() -> None:
    log, objective = run([0.0, 0.0], n_epochs=9, patience=1)
    assert (log.epochs_run, log.best_epoch) == (2, 1)
    assert objective.parameters[0].tolist() == [3.0, 3.0]


def test_the_weights_that_are_kept_are_copies_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later steps do not move them, and no graph of what they were computed from hangs on to them."""
    kept: list[torch.Tensor] = []
    clone = torch.Tensor.clone

    def recorded(self: torch.Tensor) -> torch.Tensor:
        kept.append(clone(self))
        return kept[-1]

    monkeypatch.setattr(torch.Tensor, "clone", recorded)
    log, objective = run([0.1, 0.5, 0.4, 0.3], n_epochs=4)
    monkeypatch.undo()
    assert log.best_epoch == 2
    assert [one.tolist() for one in kept] == [[3.0, 3.0], [6.0], [6.0, 6.0], [12.0]], "epochs 1 and 2, as they were"
    assert not any(one.requires_grad or one.grad_fn is not None for one in kept)
    places = {parameter.data_ptr() for parameter in objective.parameters}
    assert not places & {one.data_ptr() for one in kept}
    with torch.no_grad():
        objective.parameters[0].add_(100)
    assert kept[2].tolist() == [6.0, 6.0]


def test_parameters_stay_the_tensors_they_were() -> None:
    """Optimizers and captured steps hold on to them: the best weights are copied into them, without a graph."""
    objective = Counting()
    before = [(id(one), one.data_ptr()) for one in objective.parameters]
    run([0.5, 0.1, 0.1, 0.1], objective=objective)
    assert [(id(one), one.data_ptr()) for one in objective.parameters] == before
    assert all(one.is_leaf and one.grad_fn is None for one in objective.parameters)


@pytest.mark.parametrize("patience", [1, 2, 4])
def test_patience_counts_validations(patience: int) -> None:
    log, _ = run([0.5] + [0.1] * 9, n_epochs=30, every=3, patience=patience)
    assert log.epochs_run == 3 * (1 + patience)
    assert [epoch for epoch, _ in log.curve] == list(range(3, 3 * (2 + patience), 3))


def test_the_last_epoch_is_validated_too() -> None:
    log, objective = run([0.1, 0.2, 0.3], n_epochs=7, every=3)
    assert log.curve == [(3, 0.1), (6, 0.2), (7, 0.3)]
    assert log.best_epoch == 7
    assert objective.parameters[0].tolist() == [21.0, 21.0]


def test_progress_is_told_every_epoch() -> None:
    told: list[tuple[str, int, int]] = []
    run(n_epochs=3, told=told)
    assert told == [("epochs", 1, 3), ("epochs", 2, 3), ("epochs", 3, 3)]


@pytest.mark.parametrize("n_batches", [0, 2])
def test_nothing_to_do(n_batches: int) -> None:
    log, objective = run([0.5], n_epochs=0 if n_batches else 5, objective=Counting(n_batches))
    assert log == TrainingLog()
    assert objective.parameters[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(("curve", "n_epochs", "at"), [(None, 3, 3), (None, 15, 10), (None, 12, 10), ([0.5] * 9, 9, 4)])
def test_a_diverged_loss_is_an_error(bad: float, curve: list[float] | None, n_epochs: int, at: int) -> None:
    """It is looked for with every validation; without any, every ten epochs and after the last."""
    objective = Counting(losses=lambda epoch: bad if epoch >= min(at, 4) else 1.0)
    with pytest.raises(TrainingError, match=f"no number after epoch {at}: try a smaller learning_rate"):
        run(curve, n_epochs=n_epochs, patience=20, objective=objective)


def test_a_loss_that_diverges_in_the_last_epochs_is_an_error() -> None:
    objective = Counting(losses=lambda epoch: float("nan") if epoch == 13 else 1.0)
    with pytest.raises(TrainingError, match="after epoch 13"):
        run(n_epochs=13, objective=objective)
