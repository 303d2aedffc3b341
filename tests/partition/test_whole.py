from __future__ import annotations

import pytest

from receraser.errors import UsageError
from receraser.partition.whole import Whole
from receraser.protocols import Partitioner
from tests.contracts.partitioner_contract import PartitionerContract


class TestWhole(PartitionerContract):
    def make(self) -> Partitioner:
        return Whole()

    def test_everything_is_in_the_one_shard(self) -> None:
        world = self.world()
        (shard,) = self.assign(world).shards(world.train, world.held_out)
        assert shard.id == 0
        assert shard.train == world.train
        assert shard.valid == world.held_out

    def test_looks_at_no_data(self) -> None:
        assert not Whole.remembers_data
        assert Whole.name == "whole"

    def test_two_shards_are_refused(self) -> None:
        with pytest.raises(UsageError, match="one shard; 2 were asked for"):
            Whole(n_shards=2)
