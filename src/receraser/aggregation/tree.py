"""A fixed binary tree over shards: neighbours are put side by side, cut back to `width` columns, and so on up.

Node (level, i) covers the shards from i 2^level on, 2^level of them; an odd one at the end waits for the next level.
So the tree depends on the number of shards alone. A node is a pure function of the shards below it, whoever computed it
and when: nodes that were cut are kept, as float32, and taken instead of being computed again when none of the shards
below has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
from numpy.typing import NDArray

from receraser.data.ids import IdMap
from receraser.fingerprint import Tensors
from receraser.protocols import Progress
from receraser.training.spectrum import leading

__all__ = ["MergeTree", "holding", "needed"]

Node = tuple[IdMap, NDArray[np.floating]]


def _height(n_shards: int) -> int:
    return max(n_shards - 1, 0).bit_length()


def _name(level: int, i: int) -> str:
    return f"node.{level}.{i}"


def holding(nodes: Tensors, changed: Collection[int], n_shards: int) -> Tensors:
    """Return the nodes below which no shard has changed."""
    kept: dict[str, NDArray[np.generic]] = {}
    for level in range(1, _height(n_shards) + 1):
        for i in range(-(-n_shards >> level)):
            name = _name(level, i)
            if name in nodes and not any(k >> level == i for k in changed):
                kept |= {one: nodes[one] for one in (name, f"{name}.items")}
    return kept


def needed(nodes: Tensors, changed: Collection[int], n_shards: int) -> tuple[Tensors, list[int]]:
    """Return which of these nodes a merge needs when some shards have changed, and which shards themselves.

    Examples
    --------
    >>> some = {f"node.{level}.{i}{end}": np.zeros(0) for level in (1, 2) for i in range(4) for end in ("", ".items")}
    >>> kept, shards = needed(some, [5], 8)
    >>> sorted(kept), shards
    (['node.1.3', 'node.1.3.items', 'node.2.0', 'node.2.0.items'], [4, 5])
    """
    kept: dict[str, NDArray[np.generic]] = {}
    shards: list[int] = []

    def walk(level: int, i: int) -> None:
        below = range(i << level, min((i + 1) << level, n_shards))
        name = _name(level, i)
        if not below:
            return
        if level == 0:
            shards.append(i)
        elif name in nodes and not any(k in changed for k in below):
            kept[name], kept[f"{name}.items"] = nodes[name], nodes[f"{name}.items"]
        else:
            walk(level - 1, 2 * i)
            walk(level - 1, 2 * i + 1)

    walk(_height(n_shards), 0)
    return kept, shards


class MergeTree:
    """Merges the shards, from the leaves up.

    Parameters
    ----------
    leaf
        Returns the items of a shard and its columns.
    width
        How many columns a node keeps.
    known
        Nodes that need not be computed.
    """

    def __init__(
        self, n_shards: int, leaf: Callable[[int], Node], width: int, known: Tensors, progress: Progress | None
    ) -> None:
        self._n_shards = n_shards
        self._leaf = leaf
        self._width = width
        self._known = known
        self._progress = progress
        self._done = 0
        self._total = len(needed(known, (), n_shards)[1]) + len(known) // 2 - 1
        self.nodes: dict[str, NDArray[np.generic]] = {}  # those that were cut now

    def root(self) -> Node:
        """Return what all shards together are: the columns of both halves, not cut and not kept.

        Nobody asks for the root again: every change changes it.
        """
        return self._both(_height(self._n_shards), 0)

    def _node(self, level: int, i: int) -> Node:
        """Return a node, cut back to the width."""
        name = _name(level, i)
        if name in self._known:
            return _decoded(self._known[name], self._known[f"{name}.items"])
        items, columns = self._both(level, i)
        if level and columns.shape[1] > self._width:
            columns = leading(columns, self._width)[0].astype(np.float32)
            ids = np.frombuffer("\n".join(items).encode(), dtype=np.uint8)
            self.nodes |= {name: columns, f"{name}.items": ids}
        return items, columns

    def _both(self, level: int, i: int) -> Node:
        """Return the columns of the two nodes below, or of the one that there is."""
        if level == 0:
            return self._leaf(i)
        left = self._node(level - 1, 2 * i)
        if (2 * i + 1) << (level - 1) >= self._n_shards:
            return left
        both = _side_by_side(left, self._node(level - 1, 2 * i + 1))
        self._done += 1
        if self._progress is not None:
            self._progress("merges", self._done, self._total)
        return both


def _decoded(columns: NDArray[np.generic], ids: NDArray[np.generic]) -> Node:
    text = ids.tobytes().decode()
    return IdMap.ascending(text.split("\n") if text else []), np.asarray(columns, dtype=np.float32)


def _side_by_side(left: Node, right: Node) -> Node:
    """Return the columns of both over the union of their items, zeros where one has not got the item."""
    items = left[0] if left[0] == right[0] else left[0].union(right[0])
    edge = left[1].shape[1]
    columns = np.zeros((len(items), edge + right[1].shape[1]), dtype=np.float32)
    for (ids, own), part in ((left, slice(edge)), (right, slice(edge, None))):
        columns[slice(None) if ids == items else items.indices(ids), part] = own
    return items, columns
