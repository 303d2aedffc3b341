"""Large made-up worlds for measurements: any number of users, items and rows, up to a hundred million and beyond.

A world is a pure function of its four numbers. Each user's items are the first so many different ones of an endless
row of draws, each draw a function of (seed, user, position) alone: the rows do not depend on how many users are made
at a time, and memory is bounded by the chunk, not by the world. `films` makes the small world for people to look at.

What is realistic in it: the popularity of items (Zipf's law with a flattened head and the tail cut), the activity of
users (nearly log-normal) and taste: items have a home group, and users draw from their own group, from a second one
and from everything, so that a factor model has something to learn. Only integers decide: the same rows everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from receraser import seeds
from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.errors import UsageError

__all__ = ["Chunk", "Progress", "heavy_tailed", "large_world", "large_world_interactions", "write_large_world"]

Progress = Callable[[int, int], None]
Ints = NDArray[np.int64]

_CHUNK_ROWS = 1_000_000  # about so many rows at a time, where the caller does not say how many users
_MAX_GROUPS = 64
_OWN, _SECOND = 32_000, 8_000  # of 65,536 draws: so many from the own group, so many from the second, the rest from all
_BITS = 24  # items, and the positions of a user's draws, are numbers below 2**24
_WORD = 63  # (user, item, position) are sorted as one integer of so many bits
_LIMIT = 32  # a user whom 32 draws for each item wanted did not satisfy gets the missing ones by lot
_NAMES_BYTES = 256 * 2**20  # Parquet writes a name once and then its number; only past so many bytes every time


@dataclass(frozen=True, eq=False)
class Chunk:
    """The rows of some consecutive users, sorted by user, then item; users and items are numbers from 0."""

    user_index: NDArray[np.int32]
    item_index: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.user_index)


def large_world(
    n_users: int, n_items: int, n_interactions: int, seed: int = 7, *, chunk_users: int | None = None
) -> Iterator[Chunk]:
    """Make a world of exactly `n_interactions` rows, some users at a time.

    Every user has at least one row and at most half of the items; no pair stands twice. Not every item need occur.

    Parameters
    ----------
    n_users, n_items, n_interactions, seed
        The world; at most 2**24 items.
    chunk_users
        How many users a chunk holds. It changes what memory is needed (some 150 bytes a row), never the rows.
        Left out: as many as have about a million rows.

    Examples
    --------
    >>> chunks = list(large_world(100, 50, 700, seed=1, chunk_users=40))
    >>> [len(np.unique(chunk.user_index)) for chunk in chunks], sum(len(chunk) for chunk in chunks)
    ([40, 40, 20], 700)
    """
    plan = _plan(n_users, n_items, n_interactions, seed)
    step = max(1, _CHUNK_ROWS * n_users // n_interactions) if chunk_users is None else chunk_users
    if step < 1:
        raise UsageError(f"chunk_users is {chunk_users}: expected at least 1")
    return (_rows(plan, np.arange(first, min(first + step, n_users))) for first in range(0, n_users, step))


def large_world_interactions(n_users: int, n_items: int, n_interactions: int, seed: int = 7) -> Interactions:
    """Make the same world in memory: users "u000" and on, items "i000" and on, as wide as the largest number.

    Examples
    --------
    >>> large_world_interactions(100, 50, 700, seed=1)
    Interactions(700 rows, 100 users, 50 items)
    """
    chunks = list(large_world(n_users, n_items, n_interactions, seed))
    item_index = np.concatenate([chunk.item_index for chunk in chunks])
    occurs = np.bincount(item_index, minlength=n_items) > 0
    names = _names("i", n_items)
    # The names are as wide as each other, so that their order is that of the numbers and nothing needs sorting.
    return Interactions(
        IdMap(_names("u", n_users)),
        IdMap(names[i] for i in np.flatnonzero(occurs)),
        np.concatenate([chunk.user_index for chunk in chunks]),
        (np.cumsum(occurs) - 1).astype(np.int32)[item_index],
    )


def write_large_world(
    path: Path,
    n_users: int,
    n_items: int,
    n_interactions: int,
    seed: int = 7,
    *,
    chunk_users: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Write the same world to a Parquet file with the text columns `user` and `item`, one row group a chunk.

    The file appears under its name when it is complete, and not before.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    chunks = large_world(n_users, n_items, n_interactions, seed, chunk_users=chunk_users)
    items = pa.array(_names("i", n_items))
    names = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema([pa.field("user", names, nullable=False), pa.field("item", names, nullable=False)])
    part = path.with_name(path.name + ".part")
    done = 0
    try:
        with pq.ParquetWriter(part, schema, compression="zstd", dictionary_pagesize_limit=_NAMES_BYTES) as writer:
            for chunk in chunks:
                first, last = int(chunk.user_index[0]), int(chunk.user_index[-1])
                users = pa.array(_names("u", n_users, first, last + 1))
                columns = [
                    pa.DictionaryArray.from_arrays(chunk.user_index - np.int32(first), users),
                    pa.DictionaryArray.from_arrays(chunk.item_index, items),
                ]
                writer.write_table(pa.Table.from_arrays(columns, schema=schema), row_group_size=len(chunk))
                done += len(chunk)
                if progress is not None:
                    progress(done, n_interactions)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def heavy_tailed(key: int, n: int, spread: int) -> Ints:
    """Return `n` integers from 65,536 up that are distributed nearly log-normally: most small, a few very large.

    A nearly normal integer (the sum of the four quarters of a draw, as in `seeds.normal`) is the exponent of two, and
    between whole exponents the power is a straight line: no logarithm that another machine might round otherwise.

    Parameters
    ----------
    spread
        In units of 0.2 standard deviations of the natural logarithm (4: 0.8).

    Examples
    --------
    >>> sizes = np.sort(heavy_tailed(1, 1001, 5)) / 65536
    >>> (sizes[[100, 500, 900]] / sizes[500]).round(1).tolist()
    [0.3, 1.0, 3.7]
    """
    cells = seeds.draw(key, np.arange(n))
    total = np.zeros(n, dtype=np.int64)
    for quarter in range(4):
        total += ((cells >> np.uint64(16 * quarter)) & np.uint64(0xFFFF)).astype(np.int64)
    exponent = total * spread // 2  # in units of 2**-16; one standard deviation of `total` is 37,837 of them
    return (65536 + (exponent & 0xFFFF)) << (exponent >> 16)


# ---------------------------------------------------------------------- before any row is drawn


@dataclass(frozen=True, eq=False)
class _Plan:
    """Who takes how many, and what there is to draw from."""

    n_items: int
    activity: Ints  # (n_users,) how many rows each user has
    slots: NDArray[np.int32]  # the items by home group, each as often as it is popular
    low: Ints  # (n_groups + 1,) where the slots of each group begin; last: those of everything
    span: Ints  # (n_groups + 1,) how many slots each group has; last: all
    group_of: Ints  # (n_users,) the own group
    second_of: Ints  # (n_users,) the second one
    draw_key: int
    lot_key: int


def _plan(n_users: int, n_items: int, n_interactions: int, seed: int) -> _Plan:
    most = max(1, n_items // 2)
    if not (1 <= n_items <= 2**_BITS and 1 <= n_users < 2**31):
        raise UsageError(f"a world of {n_users:,} users and {n_items:,} items: expected 1 to 2**31 and 1 to 2**{_BITS}")
    if not n_users <= n_interactions <= n_users * most:
        raise UsageError(
            f"{n_users:,} users and {n_items:,} items with {n_interactions:,} rows: expected {n_users:,} to "
            f"{n_users * most:,} rows, since each user has at least one item and at most half of them"
        )
    n_groups = min(_MAX_GROUPS, max(1, isqrt(n_items) // 2))
    slots, low = _slots(n_items, n_groups, seed)
    sizes = np.cumsum([1000 // (group + 4) for group in range(n_groups)])  # the first groups have more users
    users = np.arange(n_users)
    return _Plan(
        n_items=n_items,
        activity=_activity(n_users, n_interactions, most, seed),
        slots=slots,
        low=np.append(low[:-1], 0),
        span=np.append(np.diff(low), low[-1]),
        group_of=np.searchsorted(sizes, seeds.below(_key(seed, "group"), users, int(sizes[-1])), side="right"),
        second_of=seeds.below(_key(seed, "second group"), users, n_groups),
        draw_key=_key(seed, "draw"),
        lot_key=_key(seed, "lot"),
    )


def _key(seed: int, purpose: str) -> int:
    return seeds.derive(seed, "worlds", purpose)


def _slots(n_items: int, n_groups: int, seed: int) -> tuple[NDArray[np.int32], Ints]:
    """Give each item slots in proportion to (rank + head)^(-3/2), the last one two, and order them by home group.

    Products, quotients and square roots of floats are rounded correctly by every machine: the slots are the same.
    """
    head = n_items // 25 + 4
    place = np.arange(head, n_items + head, dtype=np.float64)
    by_rank = np.floor(2.0 * place[-1] * np.sqrt(place[-1]) / (place * np.sqrt(place))).astype(np.int64)
    weights = np.empty(n_items, dtype=np.int64)
    weights[seeds.permutation(_key(seed, "popularity"), n_items)] = by_rank
    by_group = seeds.permutation(_key(seed, "home group"), n_items)  # dealt out in equal numbers, in this order
    counts = weights[by_group]
    edges = np.arange(n_groups + 1) * n_items // n_groups
    low = np.append(0, np.cumsum(counts))[edges]
    return np.repeat(by_group.astype(np.int32), counts), low


def _activity(n_users: int, n_interactions: int, most: int, seed: int) -> Ints:
    """Share out the rows: one each, the rest by appetite, nobody more than `most`, to the last row."""
    appetite = heavy_tailed(_key(seed, "activity"), n_users, 5)
    activity = np.ones(n_users, dtype=np.int64)
    while left := n_interactions - int(activity.sum()):
        hungry = np.flatnonzero(activity < most)
        more = appetite[hungry] * left // int(appetite[hungry].sum())
        if not more.any():  # fewer rows than mouths: the hungriest first
            hungry = hungry[np.argsort(-appetite[hungry], kind="stable")[:left]]
            more = np.ones(len(hungry), dtype=np.int64)
        activity[hungry] = np.minimum(activity[hungry] + more, most)
    return activity


# ---------------------------------------------------------------------- the rows


def _rows(plan: _Plan, users: Ints) -> Chunk:
    """Draw the rows of some consecutive users; whoever is not satisfied gets twice as many draws, and so on."""
    want = plan.activity[users]
    n_draws = want + want // 2 + 8
    limit = np.minimum(want * _LIMIT + 256, 2**_BITS)
    pending = np.arange(len(users))
    found = []
    while len(pending):
        owner, items = _first_different(plan, users[pending], n_draws[pending], want[pending])
        missing = want[pending] - np.bincount(owner, minlength=len(pending))
        exhausted = n_draws[pending] >= limit[pending]
        for at in np.flatnonzero(exhausted & (missing > 0)).tolist():
            lots = _by_lot(plan, int(users[pending[at]]), items[owner == at], int(missing[at]))
            found.append(pending[at] << _BITS | lots)
        satisfied = exhausted | (missing == 0)
        keep = satisfied[owner]
        found.append(pending[owner[keep]] << _BITS | items[keep])
        pending = pending[~satisfied]
        n_draws = np.minimum(n_draws * 2, limit)
    rows = np.sort(np.concatenate(found))
    return Chunk((users[0] + (rows >> _BITS)).astype(np.int32), (rows & (2**_BITS - 1)).astype(np.int32))


def _first_different(plan: _Plan, users: Ints, n_draws: Ints, want: Ints) -> tuple[Ints, Ints]:
    """Return (position in `users`, item) of the first `want` different items among each user's first `n_draws`."""
    bits = int(n_draws.max()).bit_length()
    if len(users) > 1 and len(users).bit_length() + bits + _BITS > _WORD:  # too many for one integer: by halves
        half = len(users) // 2
        first = _first_different(plan, users[:half], n_draws[:half], want[:half])
        last = _first_different(plan, users[half:], n_draws[half:], want[half:])
        return np.append(first[0], last[0] + half), np.append(first[1], last[1])

    owner = np.repeat(np.arange(len(users)), n_draws)
    position = _within(n_draws)
    rows = (owner << _BITS | _draw_items(plan, users, owner, position)) << bits | position
    rows.sort()
    new = np.append(True, (rows[1:] >> bits) != (rows[:-1] >> bits))  # of the same item, the earliest draw
    rows = rows[new]
    position, items, owner = rows & ((1 << bits) - 1), rows >> bits & (2**_BITS - 1), rows >> (bits + _BITS)

    rows = (owner << bits | position) << _BITS | items
    rows.sort()
    owner = rows >> (bits + _BITS)
    early = _within(np.bincount(owner, minlength=len(users))) < want[owner]
    return owner[early], rows[early] & (2**_BITS - 1)


def _draw_items(plan: _Plan, users: Ints, owner: Ints, position: Ints) -> Ints:
    """One item per draw. Of the 64 bits drawn the low ones choose the group, the high ones the slot in it."""
    everything = np.full(len(users), len(plan.low) - 1)
    choices = np.stack([plan.group_of[users], plan.second_of[users], everything], axis=1).ravel()  # (3 n_users,)
    drawn = seeds.draw(plan.draw_key, (users << _BITS)[owner] + position)
    coin = (drawn & np.uint64(0xFFFF)).astype(np.int64)
    choice = 3 * owner + (coin >= _OWN) + (coin >= _OWN + _SECOND)
    low, span = plan.low[choices][choice], plan.span[choices][choice]
    high = (drawn >> np.uint64(32)).astype(np.int64)
    return np.asarray(plan.slots[low + (high * span >> 32)], dtype=np.int64)


def _by_lot(plan: _Plan, user: int, held: Ints, n: int) -> Ints:
    """Choose `n` of the items a user does not hold, each as likely as the next."""
    free = np.setdiff1d(np.arange(plan.n_items), held)
    lots = seeds.draw(plan.lot_key, (user << _BITS) + free)
    return free[np.argsort(lots, kind="stable")[:n]]


def _within(counts: Ints) -> Ints:
    """Return 0, 1, ... count - 1 for each count, one after the other."""
    ends = np.cumsum(counts)
    return np.asarray(np.arange(ends[-1]) - np.repeat(ends - counts, counts), dtype=np.int64)


def _names(prefix: str, n: int, first: int = 0, last: int | None = None) -> list[str]:
    """Return the ids of the numbers from `first` up to `last`, as wide as the largest of `n` numbers."""
    width = len(str(n - 1))
    return [f"{prefix}{number:0{width}d}" for number in range(first, n if last is None else last)]
