"""GraphEraser's two partitions (Chen et al. 2022), on the graph whose nodes are users and items, its edges the rows.

`BEKM` is balanced k-means on the nodes' embeddings, `BLPA` label propagation with a capacity. Both divide nodes, and
count capacity in nodes; what is divided in the end are rows, and a row goes where its user went.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from receraser import settings
from receraser.data.interactions import Interactions
from receraser.partition.clustered import Clustered, capacity
from receraser.partition.greedy import Distances, Floats, Ints, assign_greedily
from receraser.partition.hashed import shard_of_ids
from receraser.partition.newcomers import Side, folded_distances, join, place_rows
from receraser.partition.partition import Embeddings, Landmarks, Partition
from receraser.partition.space import Points, Shards, distance_table
from receraser.protocols import Progress
from receraser.seeds import Counters, derive, draw, id_counters

__all__ = ["BEKM", "BLPA"]


@dataclass(kw_only=True)
class BEKM(Clustered):
    """Balanced embedding k-means: users and items are points of one space.

    Parameters
    ----------
    rows
        "user": a row lives where its user does. "nearer": where both its nodes are, or else with the one that is nearer
        to its own anchor.

    Examples
    --------
    >>> BEKM().user_atomic, BEKM(rows="nearer").user_atomic
    (True, False)
    """

    name: ClassVar[str] = "bekm"

    rows: str = "user"

    def __post_init__(self) -> None:
        super().__post_init__()
        settings.check(self, choices={"rows": ("user", "nearer")})

    @property
    def user_atomic(self) -> bool:
        """Whether all rows of a user live in one shard."""
        return self.rows == "user"

    def assign(
        self,
        interactions: Interactions,
        *,
        valid: Interactions | None,
        seed: int,
        embeddings: Embeddings | None = None,
        progress: Progress | None = None,
    ) -> Partition:
        """Cluster the nodes and divide the rows by them; a validation row without a node by its user's keyed hash."""
        of_users, of_items = self._vectors(interactions, valid, seed, embeddings, progress)
        vectors = np.vstack([of_users, of_items])
        shards, anchors = self._cluster(
            Points(vectors),
            _draw_nodes(interactions, seed, "anchors"),
            weights=np.ones(len(vectors), dtype=np.int64),
            rows=np.append(Side.users(interactions).n_rows, Side.items(interactions).n_rows),
            progress=progress,
        )
        apart = None
        if self.rows == "nearer":
            apart = np.take_along_axis(distance_table(vectors, anchors), shards[:, None], axis=1)[:, 0]
        nodes = _Nodes(interactions, shards, self.n_shards, seed, apart)
        marks = Landmarks(anchors, interactions.items, of_items)
        return Partition(self.n_shards, nodes.divide(interactions), nodes.divide_if_any(valid), marks)

    def place(
        self,
        newcomers: Interactions,
        *,
        held: Interactions,
        partition: Partition,
        seed: int,  # noqa: ARG002
    ) -> NDArray[np.int32]:
        """Return the shard of the user's other rows; a new user goes to the nearest anchor with room, counted in users.

        With rows="nearer" every row is placed for itself, by the nearer of its nodes, with room counted in rows: which
        shard the nodes went to is not kept.
        """
        marks = partition.landmarks
        assert marks is not None, "a data-driven partition has landmarks"
        if self.rows == "nearer":
            return place_rows(newcomers, held, partition, (marks.anchors, marks.anchors), np.minimum, self._limit)
        side = Side.users(newcomers)
        return join(
            side,
            Side.users(held),
            partition,
            lambda: folded_distances(side, marks, marks.anchors),
            self._limit,
            by_rows=False,
        )


@dataclass(kw_only=True)
class BLPA:
    """Balanced label propagation: a node wishes to be where most of its neighbours are, and moves while there is room.

    First all users wish, then all items: neighbours are on the other side, and if both sides moved at once they would
    change places for ever. So each move brings more neighbours together, and the nodes come to rest.

    Parameters
    ----------
    slack
        How many nodes a shard may hold, as a multiple of the mean. With 1 there is next to no room to move into.
    max_iterations
        After how many rounds of wishes the nodes stay where they are.

    Examples
    --------
    >>> rows = Interactions.from_pairs([("u1", "a"), ("u2", "a"), ("u3", "b"), ("u4", "b")])
    >>> BLPA(n_shards=2).assign(rows, valid=None, seed=1).train.tolist()
    [0, 0, 1, 1]
    """

    name: ClassVar[str] = "blpa"
    remembers_data: ClassVar[bool] = True
    landmarks_of: ClassVar[str] = "items"
    user_atomic: ClassVar[bool] = True

    n_shards: int = 10
    slack: float = 1.2
    max_iterations: int = 30

    def __post_init__(self) -> None:
        settings.check(self, at_least_one=["n_shards", "slack", "max_iterations"])

    def assign(
        self,
        interactions: Interactions,
        *,
        valid: Interactions | None,
        seed: int,
        embeddings: Embeddings | None = None,  # noqa: ARG002
        progress: Progress | None = None,
    ) -> Partition:
        """Let labels spread from a balanced start by lot; a row lives where its user does."""
        order = np.argsort(_draw_nodes(interactions, seed, "start"), kind="stable")
        labels = np.empty(len(order), dtype=np.int32)
        labels[order] = np.arange(len(order)) % self.n_shards
        of_users, of_items = np.split(labels, [len(interactions.users)])
        user, item = interactions.user_index, interactions.item_index
        for iteration in range(self.max_iterations):
            users_then, items_then = of_users, of_items
            of_users = self._grant(_count(user, of_items[item], len(of_users), self.n_shards), of_users, of_items)
            of_items = self._grant(_count(item, of_users[user], len(of_items), self.n_shards), of_items, of_users)
            if progress is not None:
                progress("rounds of wishes", iteration + 1, self.max_iterations)
            if np.array_equal(of_users, users_then) and np.array_equal(of_items, items_then):
                break
        nodes = _Nodes(interactions, np.append(of_users, of_items), self.n_shards, seed)
        marks = Landmarks(np.empty((self.n_shards, 0)), interactions.items, of_items[:, None].astype(np.float32))
        return Partition(self.n_shards, nodes.divide(interactions), nodes.divide_if_any(valid), marks)

    def _grant(self, neighbours: Ints, labels: Shards, of_others: Shards) -> Shards:
        """Return the labels of one side after its wishes: granted by number of neighbours, while there is room."""
        wishes = _wishes(neighbours)
        own = np.take_along_axis(neighbours, labels[:, None], axis=1)[:, 0]
        wishes[own == neighbours.max(axis=1)] = np.inf  # already among the best
        everybody = np.append(labels, of_others)
        room = self._limit(len(everybody)) - np.bincount(everybody, minlength=self.n_shards)
        granted = assign_greedily(Distances.of_table(wishes), np.ones(len(labels), dtype=np.int64), room)
        return np.where(granted >= 0, granted, labels)

    def _limit(self, total: int) -> int:
        return capacity(self.slack, total, self.n_shards)

    def place(
        self,
        newcomers: Interactions,
        *,
        held: Interactions,
        partition: Partition,
        seed: int,  # noqa: ARG002
    ) -> NDArray[np.int32]:
        """Return the shard of the user's other rows; a new user goes where most of its items are, if there is room."""
        marks = partition.landmarks
        assert marks is not None, "a data-driven partition has landmarks"
        labels = np.append(marks.vectors[:, 0].astype(np.int64), self.n_shards)  # unknown items: one more label
        known = labels[marks.ids.indices(newcomers.items)]

        def look() -> Floats:
            counts = _count(newcomers.user_index, known[newcomers.item_index], len(newcomers.users), self.n_shards + 1)
            return _wishes(counts[:, : self.n_shards])

        return join(Side.users(newcomers), Side.users(held), partition, look, self._limit, by_rows=False)


class _Nodes:
    """The shards of the nodes (users first, then items), and what follows from them for rows."""

    def __init__(
        self, graph: Interactions, shards: Shards, n_shards: int, seed: int, apart: Floats | None = None
    ) -> None:
        if apart is None:  # users alone count
            apart = np.repeat([0.0, np.inf], [len(graph.users), len(graph.items)])
        n_users = len(graph.users)
        self._graph, self._n_shards, self._seed = graph, n_shards, seed
        # One more on each side, for nodes that are not in the graph: nowhere, and infinitely far away.
        self._users = np.append(shards[:n_users], np.int32(-1)), np.append(apart[:n_users], np.inf)
        self._items = np.append(shards[n_users:], np.int32(-1)), np.append(apart[n_users:], np.inf)

    def divide(self, rows: Interactions) -> Shards:
        """Return the shard of each row: that of the node nearer to its anchor, by keyed hash where there is none."""
        user = self._graph.users.indices(rows.users)[rows.user_index]
        item = self._graph.items.indices(rows.items)[rows.item_index]
        of_item = self._items[1][item] < self._users[1][user]
        found = np.where(of_item, self._items[0][item], self._users[0][user])
        by_hash = shard_of_ids(rows.users, "user", self._n_shards, self._seed)[rows.user_index]
        return np.where(found >= 0, found, by_hash)

    def divide_if_any(self, rows: Interactions | None) -> Shards | None:
        """Do the same where there are rows."""
        return None if rows is None else self.divide(rows)


def _draw_nodes(graph: Interactions, seed: int, purpose: str) -> Counters:
    """Return one uniform 64-bit integer per node, a function of its id and of which side it is on."""
    users = draw(derive(seed, "partition", purpose, "user"), id_counters(graph.users))
    return np.append(users, draw(derive(seed, "partition", purpose, "item"), id_counters(graph.items)))


def _count(index: NDArray[np.integer], labels: NDArray[np.integer], n: int, n_labels: int) -> Ints:
    """Return how many neighbours of each node carry each label, (n, n_labels)."""
    cells = index.astype(np.int64) * n_labels + labels
    return np.bincount(cells, minlength=n * n_labels).reshape(n, n_labels)


def _wishes(neighbours: Ints) -> Floats:
    """Return what `assign_greedily` takes: only the shard most neighbours are in, the more of them the nearer."""
    best = neighbours.argmax(axis=1)[:, None]  # the lowest of equals
    most = np.take_along_axis(neighbours, best, axis=1)
    wishes = np.full(neighbours.shape, np.inf)
    np.put_along_axis(wishes, best, np.where(most > 0, -most.astype(np.float64), np.inf), axis=1)
    return wishes
