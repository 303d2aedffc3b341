from __future__ import annotations

import pytest

from receraser import fingerprint
from receraser.errors import UsageError
from receraser.execution.task import FitTask, run_task
from receraser.models.bpr import BPR
from tests.contracts.worlds import checkerboard

QUICK: dict[str, object] = {"dim": 5, "n_epochs": 4, "validate_every": 2}


def test_a_task_is_a_fit() -> None:
    world = checkerboard()
    told: list[tuple[str, int, int]] = []
    result = run_task(
        FitTask("bpr", QUICK, 3, world.train, world.held_out), progress=lambda *one: told.append(one)
    )  # fmt: skip
    model = BPR(dim=5, n_epochs=4, validate_every=2).fit(world.train, valid=world.held_out, seed=3)
    assert fingerprint.of_tensors(result.state) == fingerprint.of_tensors(model.state())
    assert result.facts == model.facts()
    assert result.seconds > 0
    assert told == [("epochs", epoch, 4) for epoch in (1, 2, 3, 4)]


def test_everything_in_a_task_matters() -> None:
    world = checkerboard()
    tasks = [
        FitTask("bpr", QUICK, 3, world.train),
        FitTask("bpr", QUICK, 4, world.train),
        FitTask("bpr", QUICK | {"dim": 6}, 3, world.train),
        FitTask("lightgcn", QUICK, 3, world.train),
        FitTask("bpr", QUICK, 3, world.held_out),
    ]
    assert len({fingerprint.of_tensors(run_task(task).state) for task in tasks}) == len(tasks)


def test_an_unknown_model() -> None:
    with pytest.raises(UsageError, match="unknown model 'svd'"):
        run_task(FitTask("svd", {}, 1, checkerboard().train))
