"""A shard is its own rows: what happens in the others changes nothing in it, nor its files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from receraser.data.interactions import Interactions
from receraser.engine import Engine
from receraser.models.registry import FACTOR_MODELS
from receraser.partition.partition import Partition
from receraser.state import ShardReport
from receraser.store.directory import DirectoryStore
from tests.contracts.worlds import blocks
from tests.forgetting.engines import ONE_OF_EACH_PARTITION, Combination, Here, Pair, assignment, rows_of, state_of
from tests.forgetting.stories import pairs

WORLD = blocks(14, 12, 2)
SHARDED = [one for one in ONE_OF_EACH_PARTITION if one.partition != "whole"]
SHARDS = 3

Assigned = dict[Pair, int]

assigned = st.dictionaries(pairs(), st.integers(0, SHARDS - 1), max_size=40)


def report(model: str, train: Assigned, valid: Assigned) -> list[ShardReport]:
    """Fit rows that were assigned by hand."""
    engine = Combination("hash", "mean", model, shards=SHARDS).engine()

    def table(shards: Assigned) -> tuple[Interactions, np.ndarray]:
        rows = rows_of(shards)
        return rows, np.array([shards[pair] for pair in rows.pairs()], dtype=np.int32)

    (train_rows, of_train), (valid_rows, of_valid) = table(train), table(valid)
    partition = Partition(SHARDS, of_train, of_valid)
    return engine._fit(train_rows, valid_rows, partition, None, None).shards


@pytest.mark.parametrize("model", FACTOR_MODELS)
@given(one=assigned, other=assigned, own_valid=assigned, other_valid=assigned, shard=st.integers(0, SHARDS - 1))
@settings(max_examples=12)
def test_whatever_the_other_shards_hold(
    model: str, one: Assigned, other: Assigned, own_valid: Assigned, other_valid: Assigned, shard: int
) -> None:
    """Under a fixed assignment: other rows, other vocabularies, other validation rows everywhere else."""

    def kept(here: Assigned, elsewhere: Assigned) -> Assigned:
        own = {pair: k for pair, k in here.items() if k == shard}
        return {pair: k for pair, k in elsewhere.items() if k != shard and pair not in own} | own

    before = report(model, one, own_valid)
    after = report(model, kept(one, other), kept(own_valid, other_valid))
    assert after[shard] == before[shard]


@pytest.mark.parametrize("combination", SHARDED, ids=str)
def test_a_forget_and_an_add_leave_the_other_shards_alone(combination: Combination) -> None:
    executor = Here()
    engine = combination.engine(executor).fit(WORLD.train, valid=WORLD.held_out)
    for change in ("forget", "add", "forget a validation row"):
        before = engine.shards
        executor.ran.clear()
        if change == "forget":
            retrained = engine.forget(interactions=[next(iter(WORLD.train.pairs()))]).shards_retrained
        elif change == "add":
            retrained = engine.add(rows_of([("u05", "i02")])).shards_retrained
        else:
            retrained = engine.forget(interactions=[next(iter(WORLD.held_out.pairs()))]).shards_retrained
        assert len(retrained) == 1
        assert len([task for task in executor.ran if task.kind == "submodel"]) == 1
        changed = {own.id for own, earlier in zip(engine.shards, before, strict=True) if own != earlier}
        assert changed == set(retrained)


def test_a_task_holds_the_rows_of_its_shard_and_nothing_else() -> None:
    for combination in SHARDED:
        executor = Here()
        engine = combination.engine(executor).fit(WORLD.train, valid=WORLD.held_out)
        tasks = [task for task in executor.ran if task.kind == "submodel"]
        shards, of_valid = assignment(engine)
        for number, task in enumerate(tasks):
            assert set(task.settings) == {"model", "hyperparameters", "seed"}
            assert (task.ids, task.arrays) == ({}, {})
            assert set(task.tables["train"].pairs()) == {pair for pair, shard in shards.items() if shard == number}
            assert set(task.tables["valid"].pairs()) == {pair for pair, shard in of_valid.items() if shard == number}


def inodes(store: Path, engine: Engine, shard: int) -> dict[str, tuple[str, int, int]]:
    """The names, inodes and times of a shard's files."""
    listed = DirectoryStore(store).manifest()["shards"]
    assert isinstance(listed, list)
    found = {what: (name, (store / "files" / name).stat()) for what, name in listed[shard]["files"].items()}
    return {what: (name, status.st_ino, status.st_mtime_ns) for what, (name, status) in found.items()}


@pytest.mark.parametrize("combination", SHARDED, ids=str)
def test_the_files_of_other_shards_stay_where_they_are(combination: Combination, tmp_path: Path) -> None:
    store = tmp_path / "s"
    combination.engine().fit(WORLD.train, valid=WORLD.held_out).save(store)
    for change in ("forget", "add"):
        before = {shard: inodes(store, Engine.load(store), shard) for shard in range(SHARDS)}
        with Engine.changing(store, executor=Here()) as engine:
            if change == "forget":
                retrained = engine.forget(interactions=[("u02", "i02"), ("u02", "i04")]).shards_retrained
            else:
                retrained = engine.add(rows_of([("u05", "i02")])).shards_retrained
        assert 0 < len(retrained) < SHARDS
        after = {shard: inodes(store, Engine.load(store), shard) for shard in range(SHARDS)}
        for shard in range(SHARDS):
            if shard not in retrained:
                assert after[shard] == before[shard]
            else:
                for what in ("train", "weights"):
                    assert after[shard][what][0] != before[shard][what][0]
                    assert not (store / "files" / before[shard][what][0]).exists()
        assert Engine.load(store).digest == engine.digest == Engine.load(store).digest
        assert state_of(engine).kept_old is False
