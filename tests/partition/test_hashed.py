from __future__ import annotations

import numpy as np
import pytest

from receraser.data.interactions import Interactions
from receraser.errors import UsageError
from receraser.partition.hashed import Hashed, Random
from receraser.protocols import Partitioner
from receraser.seeds import below, derive, id_counters
from tests.contracts.partitioner_contract import PartitionerContract
from tests.contracts.worlds import random_rows

ROWS = random_rows(120, 100, 0.5, seed=1)


class TestHashed(PartitionerContract):
    def make(self) -> Partitioner:
        return Hashed(n_shards=4)

    def test_the_shard_is_the_keyed_hash_of_the_user(self) -> None:
        world = self.world()
        expected = below(derive(1, "partition", "user"), id_counters(world.train.users), 4)
        assert np.array_equal(self.assign(world).train, expected[world.train.user_index])


class TestRandom(PartitionerContract):
    def make(self) -> Partitioner:
        return Random(n_shards=4)

    def test_every_row_for_itself(self) -> None:
        """Neither the user nor the item nor a neighbour says where a row is: all combinations are equally likely."""
        shards = np.full((120, 100), -1)
        shards[ROWS.user_index, ROWS.item_index] = Random(n_shards=4).assign(ROWS, valid=None, seed=3).train
        for one, other in ((shards[:-1], shards[1:]), (shards[:, :-1], shards[:, 1:])):
            both = (one >= 0) & (other >= 0)
            counts = np.bincount(one[both] * 4 + other[both], minlength=16)
            expected = both.sum() / 16
            assert ((counts - expected) ** 2 / expected).sum() < 40, "chi square, 15 degrees of freedom"

    def test_user_and_item_are_not_interchangeable(self) -> None:
        names = [f"n{i}" for i in range(40)]
        there = Interactions.from_pairs([(a, b) for a in names[:20] for b in names[20:]])
        back = Interactions.from_pairs([(b, a) for a in names[:20] for b in names[20:]])
        first, second = (Random(n_shards=4).assign(rows, valid=None, seed=1).train for rows in (there, back))
        same = np.mean(first.reshape(20, 20) == second.reshape(20, 20).T)
        assert 0.15 < same < 0.35


@pytest.mark.parametrize("make", [Hashed, Random])
def test_balanced_by_luck_and_different_for_each_seed(make: type[Hashed]) -> None:
    first, second = (make().assign(ROWS, valid=None, seed=seed) for seed in (1, 2))
    assert first.n_shards == 10
    assert 1.0 <= first.balance < 2.0
    assert 0.05 < np.mean(first.train == second.train) < 0.2


@pytest.mark.parametrize("make", [Hashed, Random])
def test_at_least_one_shard(make: type[Hashed]) -> None:
    with pytest.raises(UsageError, match="n_shards is 0"):
        make(n_shards=0)
