from __future__ import annotations

import numpy as np
import pytest

from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.partition.partition import Embeddings, Landmarks, Partition

TRAIN = Interactions.from_pairs([("u", "a"), ("u", "b"), ("v", "b"), ("w", "c")])
VALID = Interactions.from_pairs([("u", "c"), ("x", "a")])


def shards(*numbers: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    return np.array(numbers, dtype=np.int32)


def test_a_shard_holds_its_rows_with_vocabularies_of_its_own() -> None:
    found = Partition(3, shards(2, 0, 0, 2), shards(0, 2)).shards(TRAIN, VALID)
    assert [shard.id for shard in found] == [0, 1, 2]
    assert [list(shard.train.pairs()) for shard in found] == [
        [("u", "b"), ("v", "b")],
        [],
        [("u", "a"), ("w", "c")],
    ]
    assert found[0].train.items.ids == ("b",)
    assert found[2].train.users.ids == ("u", "w")
    assert [list(shard.valid.pairs()) for shard in found if shard.valid is not None] == [[("u", "c")], [], [("x", "a")]]


def test_without_validation_rows() -> None:
    assert [shard.valid for shard in Partition(2, shards(0, 1, 0, 1)).shards(TRAIN, None)] == [None, None]


def test_no_rows() -> None:
    found = Partition(2, shards()).shards(Interactions.empty(), None)
    assert [len(shard.train) for shard in found] == [0, 0]


@pytest.mark.parametrize(
    ("train", "valid"), [([0, 3], None), ([-1, 0], None), ([0, 1], [3]), ([0, 1], [-1]), ([5, 5], [0])]
)
def test_there_are_no_shards_but_those_counted(train: list[int], valid: list[int] | None) -> None:
    with pytest.raises(ValueError, match="outside 0 to 2"):
        Partition(3, shards(*train), None if valid is None else shards(*valid))


@pytest.mark.parametrize(
    ("partition", "valid"),
    [
        (Partition(1, shards(0, 0, 0)), None),
        (Partition(1, shards(0, 0, 0, 0, 0)), None),
        (Partition(1, shards(0, 0, 0, 0)), VALID),
        (Partition(1, shards(0, 0, 0, 0), shards(0, 0)), None),
        (Partition(1, shards(0, 0, 0, 0), shards(0)), VALID),
    ],
)
def test_other_tables_than_those_partitioned_are_refused(partition: Partition, valid: Interactions | None) -> None:
    with pytest.raises(ValueError, match="not the tables that were partitioned"):
        partition.shards(TRAIN, valid)


def test_shards_are_int32() -> None:
    with pytest.raises(ValueError, match="int64, not int32"):
        Partition(3, np.array([0, 1]))


def test_sizes_and_balance() -> None:
    partition = Partition(3, shards(2, 0, 0, 0))
    assert partition.sizes.tolist() == [3, 0, 1]
    assert partition.balance == 3 / (4 / 3)
    assert Partition(3, shards()).balance == 1.0


def test_landmarks_of_what_has_vanished_vanish() -> None:
    vectors = np.arange(6, dtype=np.float32).reshape(3, 2)
    marks = Landmarks(np.zeros((2, 2)), IdMap(["a", "b", "c"]), vectors)
    left = marks.among(IdMap(["a", "c", "d"]))
    assert left.ids.ids == ("a", "c")
    assert left.vectors.tolist() == [[0, 1], [4, 5]]
    assert left.anchors is marks.anchors
    assert marks.among(IdMap("abcd")) is marks
    assert {name: array.shape for name, array in left.tensors().items()} == {"anchors": (2, 2), "vectors": (2, 2)}


def test_vectors_follow_their_users_to_other_names() -> None:
    vectors = np.array([[1.0], [2.0], [3.0]], dtype=np.float32)
    given = Embeddings(IdMap(["u", "v", "w"]), vectors, IdMap(["a"]), vectors[:1])
    renamed = given.renamed({"u": "z", "v": "x", "w": "y"})
    assert renamed.users.ids == ("x", "y", "z")
    assert renamed.user_vectors[:, 0].tolist() == [2.0, 3.0, 1.0]
    assert renamed.items == given.items


def test_a_shard_without_rows_has_no_anchor() -> None:
    """That of a shard with a single user is that user's own vector: it must not outlive them."""
    marks = Landmarks(np.array([[1.0], [2.0], [3.0]]), IdMap(["a"]), np.ones((1, 1), dtype=np.float32))
    kept = Partition(3, np.array([0, 2, 0], dtype=np.int32), landmarks=marks).landmarks
    assert kept is not None
    assert kept.anchors.tolist() == [[1.0], [np.inf], [3.0]]
    assert marks.anchors.tolist() == [[1.0], [2.0], [3.0]]
