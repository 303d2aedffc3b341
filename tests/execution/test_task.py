from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from receraser import fingerprint
from receraser.aggregation.attention import Attention
from receraser.aggregation.static import Static
from receraser.errors import UsageError
from receraser.execution.task import (
    aggregation_task,
    partition_from,
    partition_task,
    placement_task,
    run_task,
    submodel_task,
    sums_task,
)
from receraser.models.bpr import BPR
from receraser.models.ease import EASE
from receraser.models.gram import Gram
from receraser.models.wmf import WMF
from receraser.partition.balanced import IBP, UBP, InBP
from receraser.partition.graph import BEKM, BLPA
from receraser.partition.hashed import Random
from receraser.partition.partition import Partition
from tests.contracts.executor_contract import digest, placements, present, vectors
from tests.contracts.worlds import checkerboard, submodels_of

QUICK: dict[str, object] = {"dim": 5, "n_epochs": 4, "validate_every": 2}


# ---------------------------------------------------------------------- a submodel


def test_a_task_is_a_fit() -> None:
    world = checkerboard()
    told: list[tuple[str, int, int]] = []
    result = run_task(
        submodel_task("bpr", QUICK, 3, world.train, world.held_out), progress=lambda *one: told.append(one)
    )
    model = BPR(dim=5, n_epochs=4, validate_every=2).fit(world.train, valid=world.held_out, seed=3)
    assert fingerprint.of_tensors(result.arrays) == fingerprint.of_tensors(model.state())
    assert result.ids == {}
    assert result.facts == model.facts()
    assert result.seconds > 0
    assert told == [("epochs", epoch, 4) for epoch in (1, 2, 3, 4)]


@pytest.mark.parametrize("model", [Gram(rank=4), EASE(regularization=2.0)], ids=lambda model: str(model.name))
def test_a_solve_from_sums_is_a_fit_of_the_rows(model: Gram | EASE) -> None:
    """Of whoever has the sums; over there nothing else is known."""
    world = checkerboard()
    sums = model.sums(world.train)
    assert sums is not None
    task = sums_task(model.name, model.hyperparameters(), 3, world.train.items, sums)
    result = run_task(task)
    fitted = replace(model).fit(world.train, valid=world.held_out, seed=3)
    assert fingerprint.of_tensors(result.arrays) == fingerprint.of_tensors(fitted.state())
    assert result.facts == fitted.facts()
    assert (task.tables, result.ids) == ({}, {})
    over_there = run_task(submodel_task(model.name, model.hyperparameters(), 3, world.train, world.held_out))
    assert digest(over_there) == digest(result)
    with pytest.raises(AssertionError):
        run_task(sums_task("wmf", {}, 3, world.train.items, sums))


def test_everything_in_a_task_matters() -> None:
    world = checkerboard()
    tasks = [
        submodel_task("bpr", QUICK, 3, world.train),
        submodel_task("bpr", QUICK, 4, world.train),
        submodel_task("bpr", QUICK | {"dim": 6}, 3, world.train),
        submodel_task("lightgcn", QUICK, 3, world.train),
        submodel_task("bpr", QUICK, 3, world.held_out),
    ]
    assert len({digest(run_task(task)) for task in tasks}) == len(tasks)


def test_unknown_names() -> None:
    rows = checkerboard().train
    with pytest.raises(UsageError, match="unknown model 'svd'"):
        run_task(submodel_task("svd", {}, 1, rows))
    with pytest.raises(UsageError, match="unknown partition 'thirds'"):
        run_task(partition_task("thirds", {}, 1, rows))
    with pytest.raises(UsageError, match="unknown aggregation 'vote'"):
        run_task(aggregation_task("vote", {}, [WMF(dim=2, n_sweeps=1).fit(rows)], 1, rows))
    with pytest.raises(KeyError):
        run_task(replace(submodel_task("wmf", {}, 1, rows), kind="spell"))


# ---------------------------------------------------------------------- a partition


def same(found: Partition, expected: Partition) -> bool:
    assert found.n_shards == expected.n_shards
    assert np.array_equal(found.train, expected.train)
    assert (found.valid is None) == (expected.valid is None)
    assert found.valid is None or (expected.valid is not None and np.array_equal(found.valid, expected.valid))
    one, other = found.landmarks, expected.landmarks
    assert one is not None
    assert other is not None
    assert one.ids == other.ids
    return fingerprint.of_tensors(one.tensors()) == fingerprint.of_tensors(other.tensors())


@pytest.mark.parametrize("kind", [UBP, IBP, InBP, BEKM])
@pytest.mark.parametrize("valid", [True, False])
def test_a_partition_over_there_is_the_partition_over_here(kind: type[UBP | IBP | InBP | BEKM], valid: bool) -> None:
    world = checkerboard()
    held = world.held_out if valid else None
    result = run_task(partition_task(kind.name, {"n_shards": 3, "dim": 4}, 7, world.train, held))
    expected = kind(n_shards=3, dim=4).assign(world.train, valid=held, seed=7)
    assert same(partition_from(result, 3), expected)
    assert result.facts == {"balance": round(expected.balance, 4)}


def test_labels_that_spread() -> None:
    world = checkerboard()
    result = run_task(partition_task("blpa", {"n_shards": 2}, 7, world.train, world.held_out))
    expected = BLPA(n_shards=2).assign(world.train, valid=world.held_out, seed=7)
    assert same(partition_from(result, 2), expected)


def test_vectors_that_were_handed_in_are_used() -> None:
    world = checkerboard()
    given = vectors(world.train)
    task = partition_task("ubp", {"n_shards": 3, "embeddings": "file"}, 1, world.train, None, given)
    expected = UBP(n_shards=3, embeddings="file").assign(world.train, valid=None, seed=1, embeddings=given)
    assert same(partition_from(run_task(task), 3), expected)
    with pytest.raises(UsageError, match="no vectors were handed in"):
        run_task(partition_task("ubp", {"embeddings": "file"}, 1, world.train))


def test_a_partition_without_landmarks() -> None:
    world = checkerboard()
    result = run_task(partition_task("hash", {"n_shards": 3}, 1, world.train, world.held_out))
    found = partition_from(result, 3)
    assert found.landmarks is None
    assert result.ids == {}
    assert set(result.arrays) == {"train", "valid"}


# ---------------------------------------------------------------------- newcomers


def test_newcomers_go_where_the_partition_puts_them() -> None:
    world = checkerboard()
    (task,) = placements()
    newcomers = task.tables["newcomers"]
    expected = UBP(n_shards=3, dim=4).place(newcomers, held=world.train, partition=present(), seed=1)
    assert run_task(task).arrays["shards"].tolist() == expected.tolist()


def test_newcomers_by_hash_need_no_landmarks() -> None:
    world = checkerboard()
    partitioner = Random(n_shards=3)
    before = partitioner.assign(world.train, valid=None, seed=1)
    task = placement_task("random", {"n_shards": 3}, 1, world.held_out, world.train, before)
    assert task.ids == {}
    expected = partitioner.place(world.held_out, held=world.train, partition=before, seed=1)
    assert run_task(task).arrays["shards"].tolist() == expected.tolist()


# ---------------------------------------------------------------------- an aggregation


@pytest.mark.parametrize("valid", [True, False])
@pytest.mark.parametrize("aggregator", [Attention(n_epochs=2, attention_dim=3), Static(n_epochs=2)])
@pytest.mark.parametrize("model", [BPR(dim=4, n_epochs=2), WMF(dim=4, n_sweeps=2)])
def test_an_aggregation_over_there_is_the_aggregation_over_here(
    model: BPR | WMF, aggregator: Attention | Static, valid: bool
) -> None:
    world = checkerboard()
    held = world.held_out if valid else None
    submodels = submodels_of(model, world.train, Random(n_shards=3).assign(world.train, valid=None, seed=1))
    own = {"n_epochs": 2} | ({"attention_dim": 3} if aggregator.name == "attention" else {})
    result = run_task(aggregation_task(aggregator.name, own, submodels, 5, world.train, held))
    state, facts = aggregator.fit(submodels, world.train, valid=held, seed=5)
    assert fingerprint.of_tensors(result.arrays) == fingerprint.of_tensors(state)
    assert result.facts == facts
    assert (facts["validation"] != []) == valid


def test_more_submodels_than_fingers() -> None:
    """Names of arrays begin with a number: 1 must not be taken for 11."""
    rows = checkerboard().train
    submodels = submodels_of(WMF(dim=2, n_sweeps=1), rows, Random(n_shards=12).assign(rows, valid=None, seed=1))
    result = run_task(aggregation_task("static", {"n_epochs": 1}, submodels, 5, rows))
    state, _ = Static(n_epochs=1).fit(submodels, rows, valid=None, seed=5)
    assert fingerprint.of_tensors(result.arrays) == fingerprint.of_tensors(state)
