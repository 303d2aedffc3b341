from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.errors import DataError, UsageError
from receraser.partition.balanced import IBP, UBP, InBP
from receraser.partition.hashed import draw_rows, shard_of_ids
from receraser.partition.partition import Embeddings, Partition
from receraser.partition.registry import make_partitioner
from receraser.protocols import Partitioner
from receraser.seeds import derive, draw, id_counters
from tests.contracts.partitioner_contract import PartitionerContract
from tests.contracts.worlds import blocks, random_rows
from tests.partition import plain

ROWS = random_rows(25, 20, 0.3, seed=4)


def vectors_for(rows: Interactions, seed: int = 1, dim: int = 3) -> Embeddings:
    """Vectors without any structure: nothing is equally far from anything else."""
    rng = np.random.default_rng(seed)
    users, items = (rng.normal(size=(len(ids), dim)).astype(np.float32) for ids in (rows.users, rows.items))
    return Embeddings(rows.users, users, rows.items, items)


def block_of(name: str, n_blocks: int) -> int:
    return int(name[1:]) % n_blocks


def assert_blocks_found(rows: Interactions, partition: Partition, n_blocks: int) -> dict[int, int]:
    """Each block in a shard of its own; return which."""
    pairs = {(block_of(user, n_blocks), k) for (user, _), k in zip(rows.pairs(), partition.train.tolist(), strict=True)}
    homes = dict(pairs)
    assert len(pairs) == len(homes) == len(set(homes.values())) == n_blocks
    return homes


class TestUBP(PartitionerContract):
    def make(self) -> Partitioner:
        return UBP(n_shards=4, dim=4)

    def test_balanced(self) -> None:
        """Tested before a user is added: a shard may be over the limit by one user."""
        partition = UBP(n_shards=4, embeddings="file").assign(ROWS, valid=None, seed=1, embeddings=vectors_for(ROWS))
        most = int(np.bincount(ROWS.user_index).max())
        assert partition.sizes.max() < math.ceil(1.2 * len(ROWS) / 4) + most

    def test_balanced_in_users(self) -> None:
        chosen = UBP(n_shards=4, embeddings="file", capacity="users")
        partition = chosen.assign(ROWS, valid=None, seed=1, embeddings=vectors_for(ROWS))
        users = [len(shard.train.users) for shard in partition.shards(ROWS, None)]
        assert max(users) <= math.ceil(1.2 * 25 / 4)


class TestIBP(PartitionerContract):
    def make(self) -> Partitioner:
        return IBP(n_shards=4, dim=4)

    def test_an_item_lives_in_one_shard(self) -> None:
        world = self.world()
        partition = self.assign(world)
        home = dict(zip((item for _, item in world.train.pairs()), partition.train.tolist(), strict=True))
        assert [home[item] for _, item in world.train.pairs()] == partition.train.tolist()
        assert partition.valid is not None
        assert [home[item] for _, item in world.held_out.pairs()] == partition.valid.tolist()
        later = Interactions.from_pairs([("x", "i03"), ("x", "new"), ("y", "i03"), ("u00", "new")])
        shards = dict(zip(later.pairs(), self.place(later, world.train, partition).tolist(), strict=True))
        assert shards["x", "i03"] == shards["y", "i03"] == home["i03"]
        assert shards["x", "new"] == shards["u00", "new"]


class TestInBP(PartitionerContract):
    def make(self) -> Partitioner:
        return InBP(n_shards=4, dim=4)

    def test_no_shard_above_its_capacity(self) -> None:
        for slack in (1.0, 1.2, 1.5):
            chosen = InBP(n_shards=4, embeddings="file", slack=slack)
            partition = chosen.assign(ROWS, valid=None, seed=1, embeddings=vectors_for(ROWS))
            assert partition.sizes.max() <= math.ceil(slack * len(ROWS) / 4)


# ---------------------------------------------------------------------- known answers


@pytest.mark.parametrize("make", [UBP, IBP, InBP])
@pytest.mark.parametrize("n_blocks", [2, 3, 4])
def test_finds_the_blocks(make: type[UBP], n_blocks: int) -> None:
    world = blocks(40, 24, n_blocks)
    partition = make(n_shards=n_blocks, dim=8).assign(world.train, valid=world.held_out, seed=2)
    homes = assert_blocks_found(world.train, partition, n_blocks)
    assert partition.valid is not None
    of_valid = [homes[block_of(user, n_blocks)] for user, _ in world.held_out.pairs()]
    assert partition.valid.tolist() == of_valid


@pytest.mark.parametrize("make", [UBP, IBP, InBP])
def test_newcomers_find_their_block(make: type[UBP]) -> None:
    world = blocks(40, 24, 3)
    chosen = make(n_shards=3, dim=8, slack=1.5)
    partition = chosen.assign(world.train, valid=None, seed=2)
    homes = assert_blocks_found(world.train, partition, 3)
    pairs = [(f"u{user}", f"i{item:02}") for user in range(40, 46) for item in range(user % 3, 24, 6)]
    pairs += [(f"u{user:02}", f"i{item}") for user in range(9) for item in range(user % 3 + 24, 30, 3)]
    later = Interactions.from_pairs(pairs)
    shards = chosen.place(later, held=world.train, partition=partition, seed=2)
    assert shards.tolist() == [homes[block_of(user, 3)] for user, _ in later.pairs()]


@pytest.mark.parametrize(("make", "capacity"), [(UBP, "interactions"), (UBP, "users"), (IBP, "interactions")])
def test_the_algorithm_as_printed(make: type[UBP], capacity: str) -> None:
    """Algorithm 1, and the same for items."""
    given = vectors_for(ROWS)
    ids, index, vectors = (ROWS.users, ROWS.user_index, given.user_vectors)
    if make is IBP:
        ids, index, vectors = (ROWS.items, ROWS.item_index, given.item_vectors)
    rows = np.bincount(index).tolist()
    weights = rows if capacity == "interactions" else [1] * len(ids)
    for seed in range(3):
        chosen = make(n_shards=4, embeddings="file", capacity=capacity, max_iterations=6)
        lots = draw(derive(seed, "partition", "anchors"), id_counters(ids)).tolist()
        expected = plain.cluster(
            [(one,) for one in vectors.tolist()],
            sorted(range(len(ids)), key=lots.__getitem__)[:4],
            weights=weights,
            limit=math.ceil(1.2 * sum(weights) / 4),
            changed=lambda a, b: a != b,
            n_iterations=6,
        )
        partition = chosen.assign(ROWS, valid=None, seed=seed, embeddings=given)
        assert partition.train.tolist() == [expected[point] for point in index]


def test_the_algorithm_for_interactions_as_printed() -> None:
    """Algorithm 2."""
    given = vectors_for(ROWS)
    points = [
        (given.user_vectors[u].tolist(), given.item_vectors[i].tolist())
        for u, i in zip(ROWS.user_index, ROWS.item_index, strict=True)
    ]
    for seed in range(3):
        lots = draw_rows(ROWS, seed, "anchors").tolist()
        expected = plain.cluster(
            points,
            sorted(range(len(points)), key=lots.__getitem__)[:5],
            weights=[1] * len(points),
            limit=math.ceil(1.2 * len(points) / 5),
            changed=lambda a, b: a != b,
            n_iterations=8,
        )
        chosen = InBP(n_shards=5, embeddings="file", max_iterations=8)
        assert chosen.assign(ROWS, valid=None, seed=seed, embeddings=given).train.tolist() == expected


def test_stops_when_hardly_a_row_moves_or_it_takes_too_long() -> None:
    rounds: list[int] = []

    def note(what: str, done: int, total: int) -> None:
        if what == "rounds of clustering":
            rounds.append(done)
            assert total == n

    for n in (3, 40):
        rounds.clear()
        chosen = InBP(n_shards=3, embeddings="file", max_iterations=n)
        chosen.assign(ROWS, valid=None, seed=1, embeddings=vectors_for(ROWS), progress=note)
        assert rounds == list(range(1, len(rounds) + 1))
        assert len(rounds) == n if n == 3 else 3 < len(rounds) < n


# ---------------------------------------------------------------------- validation rows


def test_validation_rows_of_strangers() -> None:
    world = blocks(30, 18, 3)
    strangers = Interactions.from_pairs([("x", "i00"), ("x", "i01"), ("u00", "new"), ("x", "new")])
    x, new = (int(shard_of_ids(IdMap([name]), what, 3, 2)[0]) for name, what in (("x", "user"), ("new", "item")))
    for name in ("ubp", "ibp", "inbp"):
        partition = make_partitioner(name, {"n_shards": 3, "dim": 8}).assign(world.train, valid=strangers, seed=2)
        homes = assert_blocks_found(world.train, partition, 3)
        assert partition.valid is not None
        found = dict(zip(strangers.pairs(), partition.valid.tolist(), strict=True))
        assert found == {
            ("u00", "new"): new if name == "ibp" else homes[0],
            ("x", "i00"): x if name == "ubp" else homes[0],
            ("x", "i01"): x if name == "ubp" else homes[1],
            ("x", "new"): new if name == "ibp" else x,
        }


# ---------------------------------------------------------------------- newcomers


def test_who_finds_no_room_goes_where_least_is() -> None:
    """Without slack a shard takes in what the others have grown by; then it is full."""
    world = blocks(12, 9, 3)
    partition = UBP(n_shards=3, dim=8).assign(world.train, valid=None, seed=2)
    homes = assert_blocks_found(world.train, partition, 3)
    later = Interactions.from_pairs([(f"u{user}", f"i{item:02}") for user in range(12, 42, 3) for item in (0, 3, 6)])
    shards = UBP(n_shards=3, dim=8, slack=1.0).place(later, held=world.train, partition=partition, seed=2)
    assert shards[0] == homes[0]
    after = partition.sizes + np.bincount(shards, minlength=3)
    assert after.max() < 66 / 3 + 3, "over the limit by less than a user"
    assert (np.bincount(shards, minlength=3) > 0).all()


@pytest.mark.parametrize("make", [UBP, InBP])
def test_who_is_known_by_nothing_goes_where_least_is(make: type[UBP]) -> None:
    held = Interactions.from_pairs([("u0", "a"), ("u0", "b"), ("u0", "c"), ("u1", "d"), ("u2", "e"), ("u2", "f")])
    chosen = make(n_shards=3, dim=2)
    partition = Partition(
        3,
        np.array([0, 0, 0, 1, 2, 2], dtype=np.int32),
        landmarks=chosen.assign(held, valid=None, seed=1).landmarks,
    )
    later = Interactions.from_pairs([("x", "new"), ("y", "new"), ("z", "new")])
    shards = chosen.place(later, held=held, partition=partition, seed=1)
    assert shards.tolist() == [1, 1, 2], "the least filled, and of equals the first"


def test_fewer_users_than_shards() -> None:
    rows = Interactions.from_pairs([("u", "a"), ("u", "b"), ("v", "c")])
    partition = UBP(n_shards=5, dim=2).assign(rows, valid=None, seed=1)
    assert sorted(partition.sizes.tolist()) == [0, 0, 0, 1, 2]
    assert partition.landmarks is not None
    assert np.isinf(partition.landmarks.anchors[2:]).all(), "shards without an anchor are far from everything"
    assert np.isfinite(partition.landmarks.anchors[:2]).all()


# ---------------------------------------------------------------------- vectors from elsewhere


@pytest.mark.parametrize("name", ["ubp", "ibp", "inbp", "bekm"])
def test_vectors_from_a_file_are_used(name: str) -> None:
    chosen = make_partitioner(name, {"n_shards": 4, "embeddings": "file"})
    first, second = (vectors_for(ROWS, seed) for seed in (1, 2))
    found = [chosen.assign(ROWS, valid=None, seed=1, embeddings=one).train.tolist() for one in (first, second, first)]
    assert found[0] == found[2] != found[1]


def test_vectors_of_more_than_the_rows_hold() -> None:
    few = ROWS.take(np.arange(len(ROWS)) % 2 == 0)
    chosen = InBP(n_shards=3, embeddings="file")
    given = vectors_for(ROWS)
    own = Embeddings(
        few.users,
        given.user_vectors[given.users.indices(few.users)],
        few.items,
        given.item_vectors[given.items.indices(few.items)],
    )
    of_more, of_own = (chosen.assign(few, valid=None, seed=1, embeddings=one).train for one in (given, own))
    assert np.array_equal(of_more, of_own)


def _broken(change: str) -> Embeddings:
    given = vectors_for(ROWS)
    parts: dict[str, Any] = {
        "users": given.users,
        "user_vectors": given.user_vectors,
        "items": given.items,
        "item_vectors": given.item_vectors,
    }
    if change == "missing users":
        parts |= {"users": IdMap(given.users.ids[2:]), "user_vectors": given.user_vectors[2:]}
    elif change == "missing items":
        parts |= {"items": IdMap(given.items.ids[:-1]), "item_vectors": given.item_vectors[:-1]}
    elif change == "lengths":
        parts |= {"item_vectors": given.item_vectors[:, :2]}
    else:
        given.user_vectors[3, 0] = np.nan
    return Embeddings(**parts)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("missing users", r"2 of the 25 users of the rows have no vector in the embeddings, such as 'u000'"),
        ("missing items", r"1 of the 20 items of the rows have no vector in the embeddings, such as 'i019'"),
        ("lengths", "the vectors of users have 3 numbers, those of items 2"),
        ("nan", "the vectors of 1 users hold a value that is no number, such as that of 'u003'"),
    ],
)
def test_vectors_that_cannot_be_used(change: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        UBP(embeddings="file").assign(ROWS, valid=None, seed=1, embeddings=_broken(change))


def test_vectors_and_the_setting_belong_together() -> None:
    with pytest.raises(UsageError, match="no vectors were handed in"):
        InBP(embeddings="file").assign(ROWS, valid=None, seed=1)
    with pytest.raises(UsageError, match="vectors were handed in, but embeddings is 'wmf'"):
        UBP().assign(ROWS, valid=None, seed=1, embeddings=vectors_for(ROWS))
