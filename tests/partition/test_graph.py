from __future__ import annotations

import math

import numpy as np
import pytest

from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.partition.graph import BEKM, BLPA
from receraser.partition.hashed import shard_of_ids
from receraser.partition.partition import Partition
from receraser.protocols import Partitioner
from tests.contracts.partitioner_contract import PartitionerContract
from tests.contracts.worlds import blocks, random_rows
from tests.partition.test_balanced import assert_blocks_found, block_of, vectors_for

ROWS = random_rows(30, 20, 0.25, seed=8)


class TestBEKM(PartitionerContract):
    def make(self) -> Partitioner:
        return BEKM(n_shards=4, dim=4)


class TestBEKMNearer(PartitionerContract):
    def make(self) -> Partitioner:
        return BEKM(n_shards=4, dim=4, rows="nearer")


class TestBLPA(PartitionerContract):
    def make(self) -> Partitioner:
        return BLPA(n_shards=4)


@pytest.mark.parametrize("chosen", [BEKM(n_shards=3, dim=8), BEKM(n_shards=3, dim=8, rows="nearer"), BLPA(n_shards=3)])
def test_finds_the_blocks_and_newcomers_find_theirs(chosen: BEKM | BLPA) -> None:
    world = blocks(30, 20, 3)
    partition = chosen.assign(world.train, valid=world.held_out, seed=2)
    homes = assert_blocks_found(world.train, partition, 3)
    assert partition.valid is not None
    assert partition.valid.tolist() == [homes[block_of(user, 3)] for user, _ in world.held_out.pairs()]
    later = Interactions.from_pairs([(f"u{u}", f"i{i:02}") for u in range(30, 33) for i in range(u % 3, 20, 6)])
    shards = chosen.place(later, held=world.train, partition=partition, seed=2)
    assert shards.tolist() == [homes[block_of(user, 3)] for user, _ in later.pairs()]


@pytest.mark.parametrize("slack", [1.0, 1.2, 1.6])
@pytest.mark.parametrize("name", ["bekm", "blpa"])
def test_capacity_is_counted_in_nodes(name: str, slack: float) -> None:
    """Of the nodes of a shard users are a part."""
    limit = math.ceil(slack * 50 / 5)
    if name == "bekm":
        chosen = BEKM(n_shards=5, embeddings="file", slack=slack)
        partition = chosen.assign(ROWS, valid=None, seed=1, embeddings=vectors_for(ROWS))
        items = np.zeros(5, dtype=np.int64)  # where they are is not kept
    else:
        partition = BLPA(n_shards=5, slack=slack).assign(ROWS, valid=None, seed=1)
        assert partition.landmarks is not None
        items = np.bincount(partition.landmarks.vectors[:, 0].astype(np.int64), minlength=5)
    users = np.array([len(shard.train.users) for shard in partition.shards(ROWS, None)])
    assert (users + items <= limit).all()


def test_a_row_goes_with_the_node_that_is_nearer_to_its_anchor() -> None:
    """Users at 2 and 10, items at 0 and 10: u0 is further from its anchor than i1 from its own, and so goes with it."""
    rows = Interactions.from_pairs([("u0", "i0"), ("u0", "i1"), ("u1", "i1"), ("u1", "i0")])
    given = vectors_for(rows, dim=1)
    given.user_vectors[:] = [[2.0], [10.0]]
    given.item_vectors[:] = [[0.0], [10.0]]
    by_user, nearer = (
        BEKM(n_shards=2, embeddings="file", slack=1.0, rows=how).assign(rows, valid=None, seed=1, embeddings=given)
        for how in ("user", "nearer")
    )
    low = int(by_user.train[0])
    assert by_user.train.tolist() == [low, low, 1 - low, 1 - low]
    # Anchors: (2 + 0) / 2 = 1 and 10. u0 and i0 are 1 away from theirs, u1 and i1 on theirs.
    assert nearer.train.tolist() == [low, 1 - low, 1 - low, 1 - low]


def test_validation_rows_of_strangers() -> None:
    world = blocks(30, 20, 3)
    strangers = Interactions.from_pairs([("x", "i00"), ("u00", "new"), ("x", "new")])
    x = int(shard_of_ids(IdMap(["x"]), "user", 3, 2)[0])
    for how, of_stranger in (("user", x), ("nearer", None)):
        partition = BEKM(n_shards=3, dim=8, rows=how).assign(world.train, valid=strangers, seed=2)
        home = assert_blocks_found(world.train, partition, 3)[0]
        assert partition.valid is not None
        assert partition.valid.tolist() == [home, home if of_stranger is None else of_stranger, x], "u00, x, x"


def test_label_propagation_as_told() -> None:
    """The same, node by node: wishes by number of neighbours, then by node, granted while there was room."""
    assert (len(ROWS.users), len(ROWS.items)) == (30, 20)
    n_shards, limit = 3, math.ceil(1.2 * 50 / 3)
    for seed in range(4):
        partition = BLPA(n_shards=n_shards, max_iterations=1).assign(ROWS, valid=None, seed=seed)
        start = _start(ROWS, n_shards, seed)
        users = _one_side(ROWS.user_index, ROWS.item_index, start[:30], start[30:], limit, n_shards)
        items = _one_side(ROWS.item_index, ROWS.user_index, start[30:], users, limit, n_shards)
        assert partition.train.tolist() == [users[user] for user in ROWS.user_index]
        assert partition.landmarks is not None
        assert partition.landmarks.vectors[:, 0].tolist() == items


def _start(rows: Interactions, n_shards: int, seed: int) -> list[int]:
    from receraser.seeds import derive, draw, id_counters

    lots = [
        (int(lot), at)
        for at, lot in enumerate(
            np.append(
                draw(derive(seed, "partition", "start", "user"), id_counters(rows.users)),
                draw(derive(seed, "partition", "start", "item"), id_counters(rows.items)),
            )
        )
    ]
    start = [0] * len(lots)
    for place, (_, at) in enumerate(sorted(lots)):
        start[at] = place % n_shards
    return start


def _one_side(
    own: np.ndarray[tuple[int], np.dtype[np.int32]],
    other: np.ndarray[tuple[int], np.dtype[np.int32]],
    labels: list[int],
    of_others: list[int],
    limit: int,
    n_shards: int,
) -> list[int]:
    wishes = []
    for node, label in enumerate(labels):
        counts = [0] * n_shards
        for row in np.flatnonzero(own == node):
            counts[of_others[other[row]]] += 1
        if counts[label] < max(counts):
            wishes.append((-max(counts), node, counts.index(max(counts))))
    room = [limit - (labels + of_others).count(k) for k in range(n_shards)]
    labels = labels.copy()
    for _, node, k in sorted(wishes):
        if room[k] > 0:
            labels[node] = k
            room[k] -= 1
    return labels


def test_labels_come_to_rest_with_neighbours_together() -> None:
    rows = random_rows(60, 40, 0.15, seed=3)
    rounds: list[int] = []
    found = {}
    for n in (1, 30):
        rounds.clear()
        partition = BLPA(n_shards=3, max_iterations=n).assign(
            rows, valid=None, seed=1, progress=lambda _, done, __: rounds.append(done)
        )
        found[n] = _together(rows, partition)
        assert len(rounds) == 1 if n == 1 else len(rounds) < 30
    assert found[30] > found[1] > 1 / 3


def _together(rows: Interactions, partition: Partition) -> float:
    assert partition.landmarks is not None
    return float(np.mean(partition.landmarks.vectors[rows.item_index, 0] == partition.train))


def test_a_newcomer_wishes_only_for_one_shard() -> None:
    """Where most of its items are; if that is full, where fewest users are."""
    held = Interactions.from_pairs([(f"u{n}", item) for n in range(6) for item in ("a" if n < 3 else "b", "c")])
    labels = {"a": 0.0, "b": 1.0, "c": 1.0}
    chosen = BLPA(n_shards=3, slack=1.0)
    marks = chosen.assign(held, valid=None, seed=1).landmarks
    assert marks is not None
    marks.vectors[:, 0] = [labels[item] for item in marks.ids]
    shards = np.array([0 if user < "u3" else 1 for user, _ in held.pairs()], dtype=np.int32)
    later = Interactions.from_pairs([("x", "a"), ("x", "b"), ("x", "c"), ("y", "b"), ("z", "new")])
    placed = chosen.place(later, held=held, partition=Partition(3, shards, landmarks=marks), seed=1)
    # Nine users, three to a shard: 0 and 1 are full. x (two neighbours) and y wish for 1; z for nothing.
    assert placed.tolist() == [2, 2, 2, 2, 2]
    roomy = BLPA(n_shards=3, slack=1.3)  # four to a shard: x has more neighbours there than y
    assert roomy.place(later, held=held, partition=Partition(3, shards, landmarks=marks), seed=1).tolist() == [
        *[1] * 3,
        2,
        2,
    ]
