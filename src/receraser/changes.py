"""What a forget or an add does to the rows of a state: pure functions from a state to the tables of the next one.

Survivors stay in their shards; shards that lose or gain a row are affected and will be retrained; what a data-driven
partition keeps for newcomers loses the vectors of whatever has vanished.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from receraser.data.interactions import Interactions, kept_of
from receraser.erasure.plan import Plan
from receraser.partition.partition import Partition, Shard
from receraser.partition.registry import PARTITIONS
from receraser.state import State

__all__ = ["Change", "Tables", "joined", "without"]


class Tables(NamedTuple):
    """All rows of a state, and the shard of each."""

    train: Interactions
    valid: Interactions | None
    partition: Partition


@dataclass(frozen=True, eq=False)
class Change:
    """The shards to retrain, ascending, with the rows that they have in the next state; and all rows of that state.

    Either is made when it is first asked for, and then kept. To make the tables takes long where there are many rows;
    the shards do not wait for them, so it is done while workers fit these.
    """

    affected: tuple[int, ...]
    make_shards: Callable[[], list[Shard]]
    make_tables: Callable[[], Tables]

    @cached_property
    def shards(self) -> list[Shard]:
        """The affected shards, as they will be."""
        return self.make_shards()

    @cached_property
    def tables(self) -> Tables:
        """All rows, as they will be, and the shard of each."""
        return self.make_tables()


def without(state: State, planned: Plan) -> Change:
    """Return what is left without the rows of a plan."""
    if len(state.shards) == 1 and planned.shards:  # its rows are all rows
        tables = _tables_without(state, planned)
        return Change(planned.shards, lambda: tables.partition.shards(tables.train, tables.valid), lambda: tables)
    return Change(planned.shards, lambda: _shards_without(state, planned), lambda: _tables_without(state, planned))


def _shards_without(state: State, planned: Plan) -> list[Shard]:
    """Return the affected shards without the rows that go: a shard's rows stand in the order of the table of all."""
    valid_rows = planned.valid_rows
    left = []
    for was in (state.shards[k].shard for k in planned.shards):
        valid = was.valid
        if valid is not None and valid_rows is not None and state.partition.valid is not None:
            valid = valid.take(~valid_rows[state.partition.valid == was.id])
        left.append(Shard(was.id, was.train.take(~planned.train_rows[state.partition.train == was.id]), valid))
    return left


def _tables_without(state: State, planned: Plan) -> Tables:
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
    return Tables(train, valid, Partition(state.config.shards, of_train, of_valid, landmarks))


def joined(state: State, new: Interactions, shards: NDArray[np.int32]) -> Change:
    """Return what there is when new rows have joined their shards; a row held for validation moves to training."""
    train = Interactions.union([state.train, new])
    of_train = np.empty(len(train), dtype=np.int32)
    of_train[train.positions(state.train)] = state.partition.train
    of_train[train.positions(new)] = shards
    found = set(shards.tolist())
    valid, of_valid = state.valid, state.partition.valid
    if valid is not None and of_valid is not None:
        both = valid.holds(new)
        found |= set(of_valid[both].tolist())
        valid, of_valid = valid.take(~both), of_valid[~both]
    tables = Tables(train, valid, Partition(state.config.shards, of_train, of_valid, state.partition.landmarks))
    affected = tuple(sorted(found))
    return Change(affected, lambda: [tables.partition.shard(k, train, valid) for k in affected], lambda: tables)
