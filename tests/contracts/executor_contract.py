"""What every `Executor` must do. Subclass it, call the class Test..., and define a fixture `executor`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np
import pytest

from receraser import fingerprint
from receraser.data.interactions import Interactions
from receraser.errors import UsageError
from receraser.execution.task import (
    Result,
    Task,
    aggregation_task,
    partition_task,
    placement_task,
    submodel_task,
    sums_task,
)
from receraser.execution.toys import toy_submodel
from receraser.models.ease import EASE
from receraser.models.factors import FactorModel
from receraser.models.gram import Gram
from receraser.models.registry import make_factor_model
from receraser.partition.hashed import Random
from receraser.partition.partition import Embeddings, Landmarks, Partition
from receraser.protocols import Executor
from tests.contracts.worlds import blocks, checkerboard

QUICK: dict[str, object] = {"dim": 5, "n_epochs": 4, "validate_every": 2, "batch_size": 40}


@cache
def tasks() -> list[Task]:
    """Tasks of every kind, of several models, sizes and seeds; some have no rows at all."""
    return [*submodels(), *sums(), *partitions(), *placements(), *aggregations()]


def submodels() -> list[Task]:
    world, other = checkerboard(), blocks(12, 15, 3)
    return [
        submodel_task("wmf", {"dim": 5, "n_sweeps": 2}, 1, world.train, world.held_out),
        submodel_task("bpr", QUICK, 2, other.train, other.held_out),
        submodel_task("lightgcn", QUICK, 3, world.train),
        submodel_task("wmf", QUICK | {"solver": "adagrad"}, 4, other.train, Interactions.empty()),
        submodel_task("bpr", QUICK, 5, Interactions.empty()),
        submodel_task("wmf", {"dim": 5, "n_sweeps": 2}, 2, world.train, world.held_out),
    ]


def sums() -> list[Task]:
    world = checkerboard()
    made: list[Task] = []
    for rows in (world.train, Interactions.empty()):
        gram, ease = Gram(rank=4).sums(rows), EASE().sums(rows)
        assert gram is not None
        made += [sums_task("gram", {"rank": 4}, 1, rows.items, gram), sums_task("ease", {}, 1, rows.items, ease)]
    return made


def vectors(rows: Interactions, dim: int = 3) -> Embeddings:
    """Vectors of users and items from nowhere."""
    rng = np.random.default_rng(1)
    p, q = (rng.normal(size=(len(ids), dim)).astype(np.float32) for ids in (rows.users, rows.items))
    return Embeddings(rows.users, p, rows.items, q)


def partitions() -> list[Task]:
    world, other = checkerboard(), blocks(12, 15, 3)
    few: dict[str, object] = {"n_shards": 3, "dim": 4}
    return [
        partition_task("ubp", few, 1, world.train, world.held_out),
        partition_task("inbp", few, 2, other.train),
        partition_task("bekm", few | {"embeddings": "file"}, 3, world.train, None, vectors(world.train)),
        partition_task("blpa", {"n_shards": 3}, 4, other.train, other.held_out),
        partition_task("ibp", few, 5, Interactions.empty(), Interactions.empty()),
    ]


def placements() -> list[Task]:
    world = checkerboard()
    settings: dict[str, object] = {"n_shards": 3, "dim": 4}
    newcomers = Interactions.from_pairs([("new", "i00"), ("new", "i02"), ("newer", "i01"), ("u03", "i00")])
    return [placement_task("ubp", settings, 1, newcomers, world.train, present())]


def present() -> Partition:
    """Where the rows of the checkerboard are: users by turns, and landmarks from nowhere."""
    rows = checkerboard().train
    anchors = np.random.default_rng(2).normal(size=(3, 4))
    landmarks = Landmarks(anchors, rows.items, vectors(rows, 4).item_vectors)
    return Partition(3, (rows.user_index % 3).astype(np.int32), None, landmarks)


def halves(model: str, rows: Interactions) -> list[FactorModel]:
    """Submodels of two shards with vectors from nowhere: tasks must be the same wherever they are made."""
    submodels = []
    for shard in Random(n_shards=2).assign(rows, valid=None, seed=1).shards(rows, None):
        given = vectors(shard.train, 4)
        state = {"user_vectors": given.user_vectors, "item_vectors": given.item_vectors}
        submodels.append(make_factor_model(model, {"dim": 4}).load_state(given.users, given.items, state))
    return submodels


def aggregations() -> list[Task]:
    world, none = checkerboard(), Interactions.empty()
    quick: dict[str, object] = {"n_epochs": 2, "batch_size": 50, "user_batch_size": 10}
    pairwise, squared = halves("bpr", world.train), halves("wmf", world.train)
    return [
        aggregation_task("attention", quick, pairwise, 1, world.train, world.held_out),
        aggregation_task("attention", quick, squared, 2, world.train),
        aggregation_task("static", quick, squared, 3, world.train, world.held_out),
        aggregation_task("static", quick, halves("bpr", none), 4, none),
    ]


def digest(result: Result) -> str:
    """What came out, down to the last bit."""
    ids = {name: list(ids) for name, ids in result.ids.items()}
    return fingerprint.of_tensors(result.arrays) + fingerprint.of_settings(ids)


def digests(results: Iterable[Result]) -> list[str]:
    return [digest(result) for result in results]


class ExecutorContract:
    """How anything that runs tasks must behave."""

    def test_results_come_in_the_order_of_the_tasks(self, executor: Executor) -> None:
        results = executor.run(submodels())
        for task, result in zip(submodels(), results, strict=True):
            assert result.arrays["user_vectors"].shape == (len(task.tables["train"].users), 5)
            assert result.arrays["item_vectors"].shape == (len(task.tables["train"].items), 5)
            assert result.seconds >= 0
        assert results[0].facts == {"sweeps": 2}
        assert results[1].facts["epochs"] == 4
        assert len(set(digests(results))) == len(results)

    def test_every_kind_of_task_is_computed(self, executor: Executor) -> None:
        assert {task.kind for task in tasks()} == {"submodel", "sums", "partition", "placement", "aggregation"}
        for task, result in zip(tasks(), executor.run(tasks()), strict=True):
            if task.kind == "partition":
                assert result.arrays["train"].shape == (len(task.tables["train"]),)
                assert ("valid" in result.arrays) == ("valid" in task.tables)
                assert len(result.ids["landmarks"]) == len(result.arrays["vectors"])
            elif task.kind == "sums":
                assert [len(array) for array in result.arrays.values()] == [len(task.ids["items"])]
            elif task.kind == "placement":
                assert result.arrays["shards"].shape == (len(task.tables["newcomers"]),)
            elif task.kind == "aggregation":
                assert ("weights" if task.settings["aggregation"] == "static" else "transfer") in result.arrays

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
        bad = submodel_task("wmf", {"solver": "guess"}, 1, checkerboard().train)
        with pytest.raises(UsageError, match="unknown solver 'guess'"):
            executor.run([*tasks()[:1], bad])
        assert len(executor.run(tasks()[:1])) == 1

    def test_being_prepared_changes_no_result_and_tells_the_environment(self, executor: Executor) -> None:
        expected = digests(executor.run(tasks()[:2]))
        diverging = toy_submodel("bpr", QUICK | {"learning_rate": 1e38})  # a toy may, where the rows would not
        executor.prepare([toy_submodel("bpr", QUICK), diverging, *aggregations()[-1:]], 2)
        assert executor.environment["device"] == "cpu"
        assert digests(executor.run(tasks()[:2])) == expected
