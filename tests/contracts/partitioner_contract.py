"""What every `Partitioner` must do. Subclass it, call the class Test..., and say how to make one."""

from __future__ import annotations

import random

import numpy as np
import pytest

from receraser.data.interactions import Interactions
from receraser.partition.partition import Partition
from receraser.protocols import Partitioner
from tests.contracts.worlds import World, blocks, edges


class PartitionerContract:
    """How a partition of rows into shards must behave.

    `remembers_data` says whether the shard of a row depends on the other rows; where it does not, the survivors of a
    forget stay where they are.
    """

    def make(self) -> Partitioner:
        raise NotImplementedError

    def world(self) -> World:
        return blocks(30, 20, 3)

    def assign(self, world: World, seed: int = 1) -> Partition:
        return self.make().assign(world.train, valid=world.held_out, seed=seed)

    def test_every_row_lives_in_one_shard(self) -> None:
        world, partitioner = self.world(), self.make()
        shards = self.assign(world).shards(world.train, world.held_out)
        assert [shard.id for shard in shards] == list(range(partitioner.n_shards))
        for whole, parts in (
            (world.train, [shard.train for shard in shards]),
            (world.held_out, [shard.valid for shard in shards if shard.valid is not None]),
        ):
            assert sum(len(part) for part in parts) == len(whole)
            assert Interactions.union(parts) == whole

    def test_the_table_of_shards(self) -> None:
        world, partitioner = self.world(), self.make()
        partition = self.assign(world)
        assert partition.n_shards == partitioner.n_shards
        assert partition.valid is not None
        for shards, rows in ((partition.train, world.train), (partition.valid, world.held_out)):
            assert shards.shape == (len(rows),)
            assert shards.dtype == np.int32

    def test_a_pure_function_of_rows_and_seed(self) -> None:
        world = self.world()
        train, held_out = (list(table.pairs()) for table in (world.train, world.held_out))
        random.Random(1).shuffle(train)
        random.Random(2).shuffle(held_out)
        mixed = World(Interactions.from_pairs(train), Interactions.from_pairs(held_out))
        first, again = self.assign(world), self.assign(mixed)
        assert first.valid is not None
        assert again.valid is not None
        assert np.array_equal(first.train, again.train)
        assert np.array_equal(first.valid, again.valid)

    def test_without_validation_rows(self) -> None:
        world = self.world()
        partition = self.make().assign(world.train, valid=None, seed=1)
        assert partition.valid is None
        assert np.array_equal(partition.train, self.assign(world).train)

    @pytest.mark.parametrize("name", edges())
    def test_tables_at_the_edge(self, name: str) -> None:
        rows = edges()[name]
        partition = self.make().assign(rows, valid=Interactions.empty(), seed=1)
        assert partition.n_shards == self.make().n_shards, "a constant, never a function of the data"
        assert partition.train.shape == (len(rows),)
        assert partition.valid is not None
        assert partition.valid.shape == (0,)

    def test_survivors_stay_where_they_are(self) -> None:
        if getattr(self.make(), "remembers_data", True):
            pytest.skip("the shard of a row depends on the other rows")
        world = self.world()
        before = dict(zip(world.train.pairs(), self.assign(world).train.tolist(), strict=True))
        gone = world.train.take(np.arange(len(world.train)) % 3 == 0)
        left = world.train.without(gone)
        after = self.make().assign(left, valid=None, seed=1)
        assert {pair: before[pair] for pair in left.pairs()} == dict(
            zip(left.pairs(), after.train.tolist(), strict=True)
        )
