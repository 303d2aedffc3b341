"""What every `Executor` must do. Subclass it, call the class Test..., and define a fixture `executor`."""

from __future__ import annotations

import pytest

from receraser import fingerprint
from receraser.data.interactions import Interactions
from receraser.errors import UsageError
from receraser.execution.task import FitResult, FitTask
from receraser.protocols import Executor
from tests.contracts.worlds import blocks, checkerboard


def tasks() -> list[FitTask]:
    """Tasks of several models, sizes and seeds; one has no rows at all."""
    world, other = checkerboard(), blocks(12, 15, 3)
    quick: dict[str, object] = {"dim": 5, "n_epochs": 4, "validate_every": 2, "batch_size": 40}
    return [
        FitTask("wmf", {"dim": 5, "n_sweeps": 2}, 1, world.train, world.held_out),
        FitTask("bpr", quick, 2, other.train, other.held_out),
        FitTask("lightgcn", quick, 3, world.train),
        FitTask("wmf", quick | {"solver": "adagrad"}, 4, other.train, Interactions.empty()),
        FitTask("bpr", quick, 5, Interactions.empty()),
        FitTask("wmf", {"dim": 5, "n_sweeps": 2}, 2, world.train, world.held_out),
    ]


def digests(results: list[FitResult]) -> list[str]:
    return [fingerprint.of_tensors(result.state) for result in results]


class ExecutorContract:
    """How anything that runs tasks must behave."""

    def test_results_come_in_the_order_of_the_tasks(self, executor: Executor) -> None:
        results = executor.run(tasks())
        for task, result in zip(tasks(), results, strict=True):
            assert result.state["user_vectors"].shape == (len(task.train.users), 5)
            assert result.state["item_vectors"].shape == (len(task.train.items), 5)
            assert result.seconds >= 0
        assert results[0].facts == {"sweeps": 2}
        assert results[1].facts["epochs"] == 4
        assert len(set(digests(results))) == len(results)

    def test_a_result_depends_on_its_task_alone(self, executor: Executor) -> None:
        """Not on what ran before, after or beside it."""
        together = digests(executor.run(tasks()))
        assert digests(executor.run(reversed(tasks()))) == together[::-1]
        assert digests(executor.run(tasks()[1:2])) == together[1:2]

    def test_no_tasks(self, executor: Executor) -> None:
        assert executor.run([]) == []

    def test_progress_is_passed_on(self, executor: Executor) -> None:
        told: list[tuple[str, int, int]] = []
        executor.run(tasks()[1:2], progress=lambda *one: told.append(one))
        assert told[-1] == ("epochs", 4, 4)
        assert all(what == "epochs" and total == 4 for what, _, total in told)

    def test_an_error_arrives_as_ours_and_is_no_end(self, executor: Executor) -> None:
        bad = FitTask("wmf", {"solver": "guess"}, 1, checkerboard().train)
        with pytest.raises(UsageError, match="unknown solver 'guess'"):
            executor.run([*tasks()[:1], bad])
        assert len(executor.run(tasks()[:1])) == 1
