from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from receraser.config import EngineConfig
from receraser.data.interactions import Interactions
from receraser.partition.partition import Partition
from receraser.store.snapshot import Snapshot

SHARDS = 3


def snapshot_of(word: str = "a", *, valid: bool = True) -> Snapshot:
    """A snapshot of three shards, the last one empty; `word` is in everything that is stored."""
    train = Interactions.from_pairs([(f"{word}{u}", f"{word}-item{i}") for u in range(6) for i in range(4) if u != i])
    held = Interactions.from_pairs([(f"{word}{u}", f"{word}-item{u}") for u in range(4)])
    of_train = np.asarray(train.user_index % 2, dtype=np.int32)
    rng = np.random.default_rng(len(word))
    return Snapshot(
        config=EngineConfig(model="wmf", seed=3, device="cpu", hyperparameters={"dim": 2}),
        digest=(word * 64)[:64],
        level="L3",
        key_check=word,
        public_key=True,
        train=train,
        valid=held if valid else None,
        partition=Partition(SHARDS, of_train, np.zeros(len(held), dtype=np.int32) if valid else None),
        weights=[{"user_vectors": rng.random((2, 2), dtype=np.float32) + ord(word[0]) + k} for k in range(SHARDS)],
        aggregate={"weight": np.full(SHARDS, ord(word[0]), dtype=np.float32)},
        shards=[{"id": k, "rows": k, "users": k, "items": k, "digest": f"{word}{k}"} for k in range(SHARDS)],
        titles={f"{word}-item0": f"The {word} title"},
        facts=[{"sweeps": k} for k in range(SHARDS)],
        environment={"python": "3"},
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "store"
