from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from receraser.config import EngineConfig, resolve
from receraser.data.interactions import Interactions
from receraser.partition.partition import Landmarks, Partition, Shard
from receraser.state import FittedShard, State
from receraser.store.snapshot import Snapshot

SHARDS = 3
CONFIG = resolve(
    EngineConfig(
        model="wmf",
        partition="ubp",
        aggregation="static",
        shards=SHARDS,
        seed=3,
        device="cpu",
        hyperparameters={"dim": 2},
    )
)


def fitted_shard(shard: Shard, offset: float, config: EngineConfig = CONFIG) -> FittedShard:
    """A shard with vectors that nobody has learned."""
    train, first = shard.train, np.float32(offset + 0.25 * shard.id)
    weights = {
        name: np.arange(2 * len(ids), dtype=np.float32).reshape(len(ids), 2) + first
        for name, ids in (("user_vectors", train.users), ("item_vectors", train.items))
    }
    return FittedShard.of(config, shard, weights, facts={"sweeps": shard.id}, seconds=0.5 * shard.id)


@cache
def state_of(word: str = "a", *, valid: bool = True, landmarks: bool = True) -> State:
    """A state of three shards, the last one empty; `word` is in everything that is learned or known."""
    train = Interactions.from_pairs([(f"{word}{u}", f"{word}-item{i}") for u in range(6) for i in range(4) if u != i])
    held = Interactions.from_pairs([(f"{word}{u}", f"{word}-item{u}") for u in range(4)]) if valid else None
    number = float(ord(word[0]))
    marks = Landmarks(np.full((SHARDS, 2), number), train.items, np.full((4, 2), number, dtype=np.float32))
    of_train = np.asarray(train.user_index % 2, dtype=np.int32)
    of_valid = None if held is None else np.zeros(len(held), dtype=np.int32)
    partition = Partition(SHARDS, of_train, of_valid, marks if landmarks else None)
    return State(
        config=CONFIG,
        train=train,
        valid=held,
        partition=partition,
        shards=[fitted_shard(shard, number) for shard in partition.shards(train, held)],
        aggregate={"weights": np.full(SHARDS, number, dtype=np.float32)},
        environment={"python": "3", "word": word},
        aggregate_facts={"epochs": 2, "word": word},
        seconds={"aggregate": 1.5},
    )


@cache
def snapshot_of(word: str = "a", *, valid: bool = True) -> Snapshot:
    return Snapshot(state_of(word, valid=valid), {f"{word}-item0": f"The {word} title"}, word, public_key=True)


def changed(state: State, number: int, offset: float) -> State:
    """The same state with other weights in one shard."""
    shards = list(state.shards)
    shards[number] = fitted_shard(shards[number].shard, offset)
    return replace(state, shards=shards)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "store"
