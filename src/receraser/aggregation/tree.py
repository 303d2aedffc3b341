"""A fixed binary tree over shards: neighbours are put side by side, cut back to some `width` columns, and so on up.

Node (level, i) covers the shards from i 2^level on, 2^level of them; an odd one at the end waits for the next level.
So the tree depends on the number of shards alone. A node is a pure function of the shards below it, whoever computed it
and when: nodes that were cut are kept, as float32, and taken instead of being computed again when none of the shards
below has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from receraser.data.ids import IdMap
from receraser.fingerprint import Tensors
from receraser.protocols import Progress
from receraser.training.kernels import on_cpu, threads
from receraser.training.pool import spread
from receraser.training.spectrum import Group, leading

if TYPE_CHECKING:
    import torch

__all__ = ["MergeTree", "holding", "needed"]

Columns = NDArray[np.floating]
Places = NDArray[np.int64]


class Node(NamedTuple):
    """The places of a node's items among all items, ascending, and its columns, a row for each."""

    at: Places
    columns: Columns
    cut: bool  # its columns are those of `leading`: orthogonal to each other


def _too_wide(n_columns: int, width: int) -> bool:
    """Say whether a node is cut back to the width: not one of up to a third more."""
    return 3 * n_columns > 4 * width


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
    items, columns
        Return the items of a shard and its columns, a row for each. Called from threads that `leading` takes too
        (`training.pool.spread`): they must not wait for it.
    width
        How many columns a node is cut back to. One of up to a third more is left as it is: to cut it costs more than it
        saves above it (two shards of 64 columns each, where the width is 96 or more).
    known
        Nodes that need not be computed.
    device
        Where nodes are cut.
    """

    def __init__(
        self,
        n_shards: int,
        items: Callable[[int], IdMap],
        columns: Callable[[int], Columns],
        width: int,
        known: Tensors,
        progress: Progress | None,
        device: torch.device | None = None,
    ) -> None:
        self._device = device
        self._n_shards = n_shards
        self._columns = columns
        self._width = width
        self._progress = progress
        self._done = 0
        self._known, shards = needed(known, (), n_shards)
        self._total = len(shards) + len(self._known) // 2 - 1
        # Ids are looked up here, once; from here on items are numbers.
        heads = [name for name in self._known if not name.endswith(".items")]
        maps = {name: IdMap.from_text(self._known[f"{name}.items"].tobytes()) for name in heads}
        maps |= {_name(0, k): items(k) for k in shards}
        self.items = IdMap.union(list(maps.values()))
        self._places = {name: self.items.places(own) for name, own in maps.items()}
        self.nodes: dict[str, NDArray[np.generic]] = {}  # those that were cut now

    def root(self) -> Columns | _Beside:
        """Return what all shards together are: the columns of both halves, a row for each of `items`.

        Not cut and not kept: nobody asks for the root again, since every change changes it.
        """
        return self._both(_height(self._n_shards), 0)[1]

    def _node(self, level: int, i: int) -> Node:
        """Return a node, cut back to the width."""
        name = _name(level, i)
        if name in self._known:
            return Node(self._places[name], np.asarray(self._known[name], dtype=np.float32), cut=True)
        at, columns, cut = self._both(level, i)
        if level and _too_wide(columns.shape[1], self._width):
            columns, cut = leading(columns, self._width, np.float32, self._device)[0], True
            text = np.frombuffer(self.items.some(at).text, dtype=np.uint8)
            self.nodes |= {name: columns, f"{name}.items": text}
        return Node(at, columns if isinstance(columns, np.ndarray) else columns.whole(), cut)

    def _leaves(self, shards: Sequence[int]) -> list[Node]:
        """Return shards, one or two, made side by side."""
        made = spread(self._columns, shards, min(threads(), 2))
        return [Node(self._places[_name(0, k)], columns, cut=False) for k, columns in zip(shards, made, strict=True)]

    def _both(self, level: int, i: int) -> tuple[Places, Columns | _Beside, bool]:
        """Return the columns of the two nodes below, or of the one that there is; those of a shard as they are."""
        if level == 0:  # there is one shard and no more
            return self._leaves([i])[0]
        below = [k for k in (2 * i, 2 * i + 1) if k << (level - 1) < self._n_shards]
        nodes = [self._node(level - 1, k) for k in below] if level > 1 else self._leaves(below)
        if len(nodes) == 1:
            return nodes[0]
        at, beside = _side_by_side(*nodes)
        self._done += 1
        if self._progress is not None:
            self._progress("merges", self._done, self._total)
        return at, beside, False


class _Beside:
    """The columns of two nodes, rounded to float32, over the union of their items; zeros where one has not got it.

    Not laid out on the CPU: `leading` goes through it block by block, and a block of it fits into the cache.
    """

    def __init__(self, at: Places, nodes: Sequence[Node]) -> None:
        self._parts: list[tuple[NDArray[np.float32], NDArray[np.int32]]] = []  # columns, and of which item a row is
        edge = 0
        self.groups: list[Group] = []
        for own, columns, cut in nodes:
            row = np.full(len(at), -1, dtype=np.int32)
            row[np.searchsorted(at, own) if len(own) < len(at) else slice(None)] = np.arange(len(own))
            self._parts.append((np.ascontiguousarray(columns, dtype=np.float32), row))
            self.groups.append(Group(slice(edge, edge + columns.shape[1]), cut))
            edge += columns.shape[1]
        self._gathered = on_cpu().gathered
        self.shape = len(at), sum(columns.shape[1] for columns, _ in self._parts)

    def write(self, rows: slice, out: NDArray[np.float64]) -> None:
        """Write some rows."""
        edge = 0
        for columns, row in self._parts:
            self._gathered(columns, row[rows], edge, out)
            edge += columns.shape[1]

    def on(self, device: torch.device) -> torch.Tensor:
        """Return it laid out on a GPU; float32 travels there, and becomes float64."""
        import torch

        laid_out = torch.empty(self.shape, dtype=torch.float64, device=device)
        for (columns, row), group in zip(self._parts, self.groups, strict=True):
            nothing = torch.zeros((1, columns.shape[1]), device=device)
            there = torch.cat([torch.from_numpy(np.require(columns, requirements=["W"])).to(device), nothing])
            # Whoever has not got an item has its place at the end, where nothing is.
            place = torch.from_numpy(np.where(row < 0, len(columns), row)).to(device)
            laid_out[:, group.columns] = there.index_select(0, place)
        return laid_out

    def whole(self) -> Columns:
        """Return it laid out: a node so narrow that it is not cut."""
        laid_out = np.empty(self.shape)
        self.write(slice(0, self.shape[0]), laid_out)
        return laid_out.astype(np.float32)


def _side_by_side(left: Node, right: Node) -> tuple[Places, _Beside]:
    """Return the columns of both over the union of their items."""
    at = left.at if np.array_equal(left.at, right.at) else _union(left.at, right.at)
    return at, _Beside(at, (left, right))


def _union(left: Places, right: Places) -> Places:
    """Return the numbers in either, ascending. They are places, so a mark for each is quicker than sorting."""
    held = np.zeros(max(left.max(initial=-1), right.max(initial=-1)) + 1, dtype=bool)
    held[left] = held[right] = True
    return np.flatnonzero(held)
