"""What a forget or an add does to the rows of a state: pure functions from a state to the tables of the next one.

Survivors stay in their shards; shards that lose or gain a row are affected and will be retrained; what a data-driven
partition keeps for newcomers loses the vectors of whatever has vanished.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from receraser.data.interactions import Interactions, kept_of
from receraser.erasure.plan import Plan
from receraser.partition.partition import Partition
from receraser.partition.registry import PARTITIONS
from receraser.state import State

__all__ = ["Change", "joined", "without"]


@dataclass(frozen=True, eq=False)
class Change:
    """The tables of the next state, the shard of each row, and the shards to retrain, ascending."""

    train: Interactions
    valid: Interactions | None
    partition: Partition
    affected: tuple[int, ...]


def without(state: State, planned: Plan) -> Change:
    """Return what is left without the rows of a plan."""
    stay = ~planned.train_rows
    train = state.train.take(stay)
    valid, of_valid = state.valid, state.partition.valid
    if valid is not None and of_valid is not None and planned.valid_rows is not None:
        valid, of_valid = valid.take(~planned.valid_rows), of_valid[~planned.valid_rows]
    landmarks = state.partition.landmarks
    if landmarks is not None:
        of_users = PARTITIONS[state.config.partition].landmarks_of == "users"
        landmarks = landmarks.among(train.users if of_users else train.items)
    of_train = kept_of(state.partition.train, stay)
    return Change(train, valid, Partition(state.config.shards, of_train, of_valid, landmarks), planned.shards)


def joined(state: State, new: Interactions, shards: NDArray[np.int32]) -> Change:
    """Return what there is when new rows have joined their shards; a row held for validation moves to training."""
    train = Interactions.union([state.train, new])
    of_train = np.empty(len(train), dtype=np.int32)
    of_train[train.positions(state.train)] = state.partition.train
    of_train[train.positions(new)] = shards
    affected = set(shards.tolist())
    valid, of_valid = state.valid, state.partition.valid
    if valid is not None and of_valid is not None:
        both = valid.holds(new)
        affected |= set(of_valid[both].tolist())
        valid, of_valid = valid.take(~both), of_valid[~both]
    partition = Partition(state.config.shards, of_train, of_valid, state.partition.landmarks)
    return Change(train, valid, partition, tuple(sorted(affected)))
