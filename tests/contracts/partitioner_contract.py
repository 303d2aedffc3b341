"""What every `Partitioner` must do. Subclass it, call the class Test..., and say how to make one."""

from __future__ import annotations

import random

import numpy as np
import pytest
from numpy.typing import NDArray

from receraser import settings
from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.partition.partition import Partition
from receraser.partition.registry import make_partitioner
from receraser.protocols import Partitioner
from tests.contracts.worlds import World, blocks, edges


class PartitionerContract:
    """How a partition of rows into shards must behave.

    `remembers_data` says whether the shard of a row depends on the other rows; where it does not, the survivors of a
    forget stay where they are, and who comes later goes where they would have gone at first.
    """

    def make(self) -> Partitioner:
        raise NotImplementedError

    def world(self) -> World:
        return blocks(30, 20, 3)

    def assign(self, world: World, seed: int = 1) -> Partition:
        return self.make().assign(world.train, valid=world.held_out, seed=seed)

    def place(self, newcomers: Interactions, held: Interactions, partition: Partition) -> NDArray[np.int32]:
        return self.make().place(newcomers, held=held, partition=partition, seed=1)

    # ------------------------------------------------------------------ assign

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
        if first.landmarks is not None:
            assert again.landmarks is not None
            assert first.landmarks.ids == again.landmarks.ids
            assert np.array_equal(first.landmarks.anchors, again.landmarks.anchors)
            assert np.array_equal(first.landmarks.vectors, again.landmarks.vectors)

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

    @pytest.mark.parametrize("name", edges())
    def test_tables_at_the_edge_with_strangers_to_validate(self, name: str) -> None:
        rows, strangers = edges()[name], Interactions.from_pairs([("x", "a"), ("u", "y"), ("x", "y"), ("w", "c")])
        partition = self.make().assign(rows, valid=strangers.without(rows), seed=1)
        assert partition.valid is not None
        assert len(partition.valid) == len(strangers.without(rows))

    def test_a_user_lives_in_one_shard_if_it_says_so(self) -> None:
        if not self.make().user_atomic:
            pytest.skip("rows of a user are in several shards")
        world = self.world()
        partition = self.assign(world)
        home = dict(zip((user for user, _ in world.train.pairs()), partition.train.tolist(), strict=True))
        assert [home[user] for user, _ in world.train.pairs()] == partition.train.tolist()
        assert partition.valid is not None
        assert [home[user] for user, _ in world.held_out.pairs()] == partition.valid.tolist()

    def test_survivors_stay_where_they_are(self) -> None:
        if self.make().remembers_data:
            pytest.skip("the shard of a row depends on the other rows")
        world = self.world()
        before = dict(zip(world.train.pairs(), self.assign(world).train.tolist(), strict=True))
        gone = world.train.take(np.arange(len(world.train)) % 3 == 0)
        left = world.train.without(gone)
        after = self.make().assign(left, valid=None, seed=1)
        assert {pair: before[pair] for pair in left.pairs()} == dict(
            zip(left.pairs(), after.train.tolist(), strict=True)
        )

    def test_what_is_kept_of_the_data_is_said(self) -> None:
        partition = self.assign(self.world())
        if not self.make().remembers_data:
            assert partition.landmarks is None
            return
        assert partition.landmarks is not None
        assert len(partition.landmarks.anchors) == self.make().n_shards
        assert partition.landmarks.anchors.dtype == np.float64
        assert len(partition.landmarks.ids) == len(partition.landmarks.vectors)
        assert partition.landmarks.vectors.dtype == np.float32

    # ------------------------------------------------------------------ place

    def later(self) -> Interactions:
        """Rows of people held, of strangers with items held, and of strangers with strange items."""
        known = list(self.world().held_out.pairs())[::2]
        strangers = [(f"x{n}", f"i{item:02}") for n in range(3) for item in range(n, 20, 3)]
        return Interactions.from_pairs([*known, *strangers, ("y", "new"), ("u00", "new"), ("y", "newer")])

    def test_newcomers_are_placed(self) -> None:
        world, later = self.world(), self.later()
        partition = self.assign(world)
        before = partition.train.copy()
        shards = self.place(later, world.train, partition)
        assert shards.shape == (len(later),)
        assert shards.dtype == np.int32
        assert set(shards.tolist()) <= set(range(partition.n_shards))
        assert np.array_equal(partition.train, before), "who is held stays"
        assert np.array_equal(shards, self.place(later, world.train, self.assign(world))), "a pure function"
        mixed = list(later.pairs())
        random.Random(3).shuffle(mixed)
        assert np.array_equal(shards, self.place(Interactions.from_pairs(mixed), world.train, partition))

    def test_nobody_comes(self) -> None:
        world = self.world()
        shards = self.place(Interactions.empty(), world.train, self.assign(world))
        assert shards.shape == (0,)
        assert shards.dtype == np.int32

    def test_newcomers_to_nothing(self) -> None:
        nothing = Interactions.empty()
        partition = self.make().assign(nothing, valid=None, seed=1)
        assert len(self.place(self.later(), nothing, partition)) == len(self.later())

    def test_newcomers_find_their_shard_by_what_is_left_of_the_landmarks(self) -> None:
        world = self.world()
        partition = self.assign(world)
        if partition.landmarks is None:
            pytest.skip("there are none")
        few = partition.landmarks.among(IdMap(partition.landmarks.ids.ids[:2]))
        thin = Partition(partition.n_shards, partition.train.copy(), landmarks=few)
        assert len(self.place(self.later(), world.train, thin)) == len(self.later())

    def test_newcomers_of_a_user_held_live_with_that_user(self) -> None:
        if not self.make().user_atomic:
            pytest.skip("rows of a user are in several shards")
        world, later = self.world(), self.later()
        partition = self.assign(world)
        home = dict(zip((user for user, _ in world.train.pairs()), partition.train.tolist(), strict=True))
        shards = self.place(later, world.train, partition).tolist()
        for (user, _), shard in zip(later.pairs(), shards, strict=True):
            assert home.setdefault(user, shard) == shard, "strangers, too, have one home"

    def test_without_memory_newcomers_go_where_they_would_have_gone_at_first(self) -> None:
        if self.make().remembers_data:
            pytest.skip("the shard of a row depends on the other rows")
        world, later = self.world(), self.later()
        together = Interactions.union([world.train, later])
        whole = self.make().assign(together, valid=None, seed=1)
        shards = self.place(later, world.train, self.assign(world))
        assert np.array_equal(whole.train[together.positions(later)], shards)

    # ------------------------------------------------------------------ settings

    def test_made_again_from_its_settings(self) -> None:
        partitioner = self.make()
        assert make_partitioner(partitioner.name, settings.values(partitioner)) == partitioner
