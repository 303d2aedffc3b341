"""`Interactions`: who took what, as a frozen table that is checked when made, and `Histories`, a batch of users.

The rows are kept in canonical order (by the user's id bytes, then the item's) without duplicates, and the
vocabularies hold exactly the ids that occur in the rows: two tables of the same rows are equal down to their bytes,
whatever order or file they came from, and an item that vanishes leaves no trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from receraser.data.ids import IdMap, id_text
from receraser.errors import DataError

__all__ = ["Histories", "Interactions", "kept_of"]

_MOST_PIECES = 1000

Index = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Interactions:
    """A frozen set of (user, item) rows. Make one with `from_pairs`, `from_columns` or a reader.

    Attributes
    ----------
    users, items
        The vocabularies: exactly the ids that occur.
    user_index, item_index
        (n,) int32, sorted by user, then item; no pair twice.
    timestamps
        (n,) float64 or None. Only splits by time use them; they are no part of what is fitted or stored.

    Examples
    --------
    >>> rows = Interactions.from_pairs([("u1", "b"), ("u1", "a"), ("u2", "a"), ("u1", "a")])
    >>> len(rows), rows.items.ids, list(rows.pairs())
    (3, ('a', 'b'), [('u1', 'a'), ('u1', 'b'), ('u2', 'a')])
    """

    users: IdMap
    items: IdMap
    user_index: Index
    item_index: Index
    timestamps: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        n = len(self.user_index)
        if len(self.item_index) != n or (self.timestamps is not None and len(self.timestamps) != n):
            raise ValueError("the columns differ in length")
        for array in (self.user_index, self.item_index):
            if array.dtype != np.int32:
                raise ValueError(f"the indices are {array.dtype}, not int32")
            array.flags.writeable = False
        step = np.diff(self._keys())
        if n > 1 and step.min() <= 0:
            raise ValueError("the rows are not in canonical order, or one stands twice; use Interactions.from_indices")
        for index, ids, what in ((self.user_index, self.users, "user"), (self.item_index, self.items, "item")):
            outside = n > 0 and (index.min() < 0 or index.max() >= len(ids))
            if outside or not _used(index, len(ids)).all():
                raise ValueError(f"the {what} vocabulary is not exactly the {what}s of the rows")

    def _keys(self) -> NDArray[np.int64]:
        return self.user_index.astype(np.int64) * max(len(self.items), 1) + self.item_index

    # ------------------------------------------------------------------ making

    @classmethod
    def from_indices(
        cls,
        users: Sequence[str],
        items: Sequence[str],
        user_index: NDArray[np.integer],
        item_index: NDArray[np.integer],
        timestamps: NDArray[np.float64] | None = None,
    ) -> Interactions:
        """Make a table from ids in any order and indices into them; sorts, merges duplicates, drops unused ids.

        Of merged duplicates the latest timestamp is kept.
        """
        if len(user_index) != len(item_index) or (timestamps is not None and len(timestamps) != len(user_index)):
            raise ValueError("the columns differ in length")
        user_map, user_dense = _compact(users, user_index)
        item_map, item_dense = _compact(items, item_index)
        n_items = max(len(item_map), 1)
        keys = user_dense.astype(np.int64)
        keys *= n_items
        keys += item_dense
        if timestamps is None:
            keys.sort()
        else:
            order = np.argsort(keys)
            keys, timestamps = keys[order], timestamps[order]
        first = np.ones(len(keys), dtype=bool)  # the first of a run of equal keys
        first[1:] = keys[1:] != keys[:-1]
        if timestamps is not None and len(keys):
            timestamps = np.maximum.reduceat(timestamps, np.flatnonzero(first))
        keys = keys[first]
        bounds = np.arange(len(user_map) + 1, dtype=np.int64) * n_items  # user u's keys: bounds[u] to bounds[u + 1]
        counts = np.diff(np.searchsorted(keys, bounds))
        keys -= np.repeat(bounds[:-1], counts)  # what is left is the item
        owners = np.repeat(np.arange(len(user_map), dtype=np.int32), counts)
        return cls(user_map, item_map, owners, keys.astype(np.int32), timestamps)

    @classmethod
    def from_columns(
        cls,
        users: Iterable[str | int],
        items: Iterable[str | int],
        timestamps: Sequence[float] | None = None,
    ) -> Interactions:
        """Make a table from two columns of ids (text or integers)."""
        user_ids, user_index = _encode(users)
        item_ids, item_index = _encode(items)
        if len(user_index) != len(item_index):
            raise DataError(f"{len(user_index)} users but {len(item_index)} items: the columns must be equally long")
        times = None if timestamps is None else np.asarray(timestamps, dtype=np.float64)
        return cls.from_indices(user_ids, item_ids, user_index, item_index, times)

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[str | int, str | int]]) -> Interactions:
        """Make a table from (user, item) pairs."""
        rows = list(pairs)
        return cls.from_columns([user for user, _ in rows], [item for _, item in rows])

    @classmethod
    def union(cls, tables: Sequence[Interactions]) -> Interactions:
        """Return the rows of several tables as one; timestamps are dropped."""
        return cls.from_indices(*_stacked(tables))

    @classmethod
    def joined(cls, tables: Sequence[Interactions]) -> tuple[Interactions, NDArray[np.int32]]:
        """Return the rows of several tables that share none as one, and the place of each row's table."""
        places = np.repeat(np.arange(len(tables), dtype=np.int32), [len(table) for table in tables])
        return cls.labelled(*_stacked(tables), places)

    @classmethod
    def labelled(
        cls,
        users: Sequence[str],
        items: Sequence[str],
        user_index: NDArray[np.integer],
        item_index: NDArray[np.integer],
        labels: NDArray[np.int32],
    ) -> tuple[Interactions, NDArray[np.int32]]:
        """Make a table from rows in any order, each with a label; return it, and the labels in its order.

        A row may not stand twice: it would have two labels.
        """
        made = cls.from_indices(users, items, user_index, item_index, labels.astype(np.float64))
        if len(made) != len(labels) or made.timestamps is None:
            raise ValueError("a row stands twice")
        return cls(made.users, made.items, made.user_index, made.item_index), made.timestamps.astype(np.int32)

    @classmethod
    def empty(cls) -> Interactions:
        """Return the table of no rows."""
        return cls.from_pairs([])

    # ------------------------------------------------------------------ looking

    def __len__(self) -> int:
        return len(self.user_index)

    def __eq__(self, other: object) -> bool:
        """Equal rows; timestamps do not count."""
        return (
            isinstance(other, Interactions)
            and self.users == other.users
            and self.items == other.items
            and np.array_equal(self.user_index, other.user_index)
            and np.array_equal(self.item_index, other.item_index)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Interactions({len(self)} rows, {len(self.users)} users, {len(self.items)} items)"

    def pairs(self) -> Iterable[tuple[str, str]]:
        """Yield the (user, item) ids, in canonical order."""
        for u, i in zip(self.user_index.tolist(), self.item_index.tolist(), strict=True):
            yield self.users.ids[u], self.items.ids[i]

    @cached_property
    def indptr(self) -> NDArray[np.int64]:
        """(n_users + 1,): the rows of user u are indptr[u] to indptr[u + 1]."""
        counts = np.bincount(self.user_index, minlength=len(self.users))
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])

    @cached_property
    def item_counts(self) -> NDArray[np.int64]:
        """(n_items,): the number of rows of each item."""
        return np.bincount(self.item_index, minlength=len(self.items)).astype(np.int64)

    @property
    def density(self) -> float:
        """The share of all pairs of a user and an item that are rows; 0 without rows."""
        return len(self) / max(1, len(self.users) * len(self.items))

    def matrix(self) -> sp.csr_matrix:
        """Return the (n_users, n_items) matrix of ones, float32."""
        data = np.ones(len(self), dtype=np.float32)
        shape = (len(self.users), len(self.items))
        return sp.csr_matrix((data, self.item_index, self.indptr), shape=shape)

    # ------------------------------------------------------------------ new tables

    def take(self, rows: NDArray[np.bool_] | NDArray[np.integer]) -> Interactions:
        """Return the table of some of the rows, with vocabularies of its own."""
        if rows.dtype == np.bool_:
            return self._kept(np.asarray(rows, dtype=bool))
        times = None if self.timestamps is None else self.timestamps[rows]
        return Interactions.from_indices(
            self.users.ids, self.items.ids, self.user_index[rows], self.item_index[rows], times
        )

    def _kept(self, rows: NDArray[np.bool_]) -> Interactions:
        """Return the rows that a mask says; they are in canonical order as they are, so nothing is sorted."""
        gone, pieces = _gaps(rows)
        columns = []
        for ids, index, counts in (
            (self.users, self.user_index, lambda: np.diff(self.indptr)),
            (self.items, self.item_index, lambda: self.item_counts),
        ):
            kept = _cut(index, rows, pieces)
            if gone is None:
                left = np.bincount(kept, minlength=len(ids))
            else:  # few rows go: to count them is quicker than to count what stays
                left = counts() - np.bincount(index[gone], minlength=len(ids))
            used = left > 0
            if not used.all():
                number = np.cumsum(used, dtype=np.int32) - np.int32(1)
                ids = ids.some(np.flatnonzero(used))
                if pieces is not None and index is self.user_index:
                    _renumber(kept, pieces, number)
                else:
                    kept = number[kept]
            columns.append((ids, kept, left[used].astype(np.int64)))
        (users, user_index, of_users), (items, item_index, of_items) = columns
        times = None if self.timestamps is None else self.timestamps[rows]
        made = object.__new__(Interactions)  # not checked again: it is a part of a table that was
        for index in (user_index, item_index):
            index.flags.writeable = False
        vars(made).update(users=users, items=items, user_index=user_index, item_index=item_index, timestamps=times)
        vars(made).update(indptr=np.concatenate([[0], np.cumsum(of_users)]).astype(np.int64), item_counts=of_items)
        return made

    def without(self, other: Interactions) -> Interactions:
        """Return the rows that are not among the rows of `other`."""
        return self.take(~self.holds(other))

    def holds(self, other: Interactions) -> NDArray[np.bool_]:
        """Return, per row of this table, whether `other` has it too."""
        held = np.zeros(len(self), dtype=bool)
        at = self.positions(other)
        held[at[at >= 0]] = True
        return held

    def positions(self, other: Interactions) -> NDArray[np.int64]:
        """Return, per row of `other`, its position in this table; -1 where this table does not have it."""
        if not len(other):
            return np.empty(0, dtype=np.int64)
        users = self.users.indices(other.users.ids)[other.user_index]
        items = self.items.indices(other.items.ids)[other.item_index]
        own = self._keys()
        keys = users * max(len(self.items), 1) + items
        at = np.minimum(np.searchsorted(own, keys), max(len(own) - 1, 0))
        found = (users >= 0) & (items >= 0) & (own[at] == keys if len(own) else False)
        return np.where(found, at, -1)

    def rename_users(self, names: Sequence[str]) -> Interactions:
        """Return the same rows with users.ids[i] replaced by names[i] (how pseudonyms come in)."""
        if len(set(names)) != len(self.users):
            raise ValueError("the new names must be distinct, one per user")
        return Interactions.from_indices(names, self.items.ids, self.user_index, self.item_index, self.timestamps)


@dataclass(frozen=True, eq=False)
class Histories:
    """A batch of users as a scorer sees them: a name, and the items they have, as indices into one vocabulary.

    Attributes
    ----------
    users
        Pseudonyms; "" stands for somebody who is known only by the items passed in.
    indptr, item_index
        The items of users[i] are item_index[indptr[i]:indptr[i + 1]], sorted, without duplicates.
    """

    users: tuple[str, ...]
    indptr: NDArray[np.int64]
    item_index: NDArray[np.int64]

    @classmethod
    def of(cls, users: Sequence[str], interactions: Interactions, items: IdMap) -> Histories:
        """Look up the rows of some users, in the vocabulary `items`; an unknown user has none."""
        # Ascending where known: both vocabularies are sorted. Mostly they are one.
        same = interactions.items == items
        to_items = np.arange(len(items)) if same else items.indices(interactions.items.ids)
        rows = interactions.users.indices(users)
        known = rows >= 0
        lengths = np.zeros(len(rows), dtype=np.int64)
        lengths[known] = np.diff(interactions.indptr)[rows[known]]
        owner = np.repeat(np.arange(len(rows)), lengths)
        first = interactions.indptr[:-1][rows[known]] if len(interactions) else np.empty(0, dtype=np.int64)
        before = np.cumsum(lengths) - lengths
        entry = np.arange(len(owner)) - np.repeat(before, lengths) + np.repeat(first, lengths[known])
        found = to_items[interactions.item_index[entry]]
        owner, found = owner[found >= 0], found[found >= 0]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(rows)))]).astype(np.int64)
        return cls(tuple(users), indptr, found)

    @classmethod
    def from_lists(cls, users: Sequence[str], lists: Sequence[NDArray[np.int64]]) -> Histories:
        """Make a batch from one array of item indices per user; items unknown to the vocabulary (-1) are dropped."""
        known = [np.unique(one[one >= 0]) for one in lists]
        indptr = np.concatenate([[0], np.cumsum([len(one) for one in known])]).astype(np.int64)
        joined = np.concatenate(known) if known else np.empty(0)
        return cls(tuple(users), indptr, joined.astype(np.int64))

    def __len__(self) -> int:
        return len(self.users)

    def part(self, start: int, stop: int) -> Histories:
        """Return the users from `start` up to `stop`."""
        indptr = self.indptr[start : stop + 1]
        return Histories(self.users[start:stop], indptr - indptr[0], self.item_index[indptr[0] : indptr[-1]])


def _gaps(rows: NDArray[np.bool_]) -> tuple[NDArray[np.int64] | None, list[slice] | None]:
    """Return the few rows that a mask drops, and the few stretches that it keeps; None for what is not few.

    Somebody's rows lie together, so that without them a long table is two pieces: to copy them takes a fraction of what
    a look at every row of the mask takes.
    """
    if len(rows) - np.count_nonzero(rows) > len(rows) // 64:
        return None, None
    gone = np.flatnonzero(~rows)
    first = gone[np.diff(gone, prepend=-2) != 1]
    if len(first) > _MOST_PIECES:
        return gone, None
    last = gone[np.diff(gone, append=len(rows) + 2) != 1]
    edges = zip([0, *(last + 1).tolist()], [*first.tolist(), len(rows)], strict=True)
    return gone, [slice(start, stop) for start, stop in edges if start < stop]


def kept_of(column: Index, rows: NDArray[np.bool_]) -> Index:
    """Return column[rows]; where a mask keeps all but a few stretches, by copying what is between them.

    Examples
    --------
    >>> kept_of(np.arange(4, dtype=np.int32), np.array([True, False, True, True])).tolist()
    [0, 2, 3]
    """
    return _cut(column, rows, _gaps(rows)[1])


def _cut(column: Index, rows: NDArray[np.bool_], pieces: list[slice] | None) -> Index:
    return column[rows] if pieces is None else np.concatenate([column[:0], *(column[one] for one in pieces)])


def _renumber(kept: Index, pieces: list[slice], number: Index) -> None:
    """Give the users of some pieces of a table, one behind the other, new numbers.

    Whoever has vanished had their rows between two pieces: within one all numbers fall by as much.
    """
    at = 0
    for one in pieces:
        own = kept[at : at + one.stop - one.start]
        fallen = own[0] - number[own[0]]
        if fallen:
            own -= fallen
        at += len(own)


def _stacked(
    tables: Sequence[Interactions],
) -> tuple[list[str], list[str], NDArray[np.int64], NDArray[np.int64]]:
    """Return the users, the items and the indices into them of several tables, one behind the other."""
    users = [name for table in tables for name in table.users]
    items = [name for table in tables for name in table.items]
    user_at = np.cumsum([0, *(len(table.users) for table in tables)])
    item_at = np.cumsum([0, *(len(table.items) for table in tables)])
    user_index = [table.user_index + start for table, start in zip(tables, user_at, strict=False)]
    item_index = [table.item_index + start for table, start in zip(tables, item_at, strict=False)]
    none = np.empty(0, dtype=np.int64)
    return users, items, np.concatenate([none, *user_index]), np.concatenate([none, *item_index])


def _compact(ids: Sequence[str], index: NDArray[np.integer]) -> tuple[IdMap, Index]:
    """Drop ids no row uses, order the rest canonically, and renumber the rows."""
    used = np.flatnonzero(_used(index, len(ids))).tolist()
    kept = IdMap(ids[i] for i in used)
    renumber = np.full(len(ids), -1, dtype=np.int32)
    renumber[used] = kept.indices(ids[i] for i in used)
    return kept, renumber[index]


def _used(index: NDArray[np.integer], n: int) -> NDArray[np.bool_]:
    """Return which of range(n) occur."""
    used = np.zeros(n, dtype=bool)
    used[index] = True
    return used


def _encode(values: Iterable[str | int]) -> tuple[list[str], NDArray[np.int64]]:
    """Return the distinct ids by first appearance, and the number of each value's id."""
    codes: dict[str, int] = {}
    index = np.fromiter((codes.setdefault(id_text(value), len(codes)) for value in values), dtype=np.int64)
    return list(codes), index
