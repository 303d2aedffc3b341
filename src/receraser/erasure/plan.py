"""What a request means for a fitted state: the rows that go, the shards to retrain, the path, the time it takes.

Pure: it looks at tables and changes nothing, so it serves a dry run and the forget itself alike.

All paths lead to the same bits; the plan takes the cheapest:

- "nothing": no row is held of what was asked for;
- "downdate": an additive model whose sums are at hand; what the rows added is taken away, and the model solved anew;
- "core": a model whose solve sets out from a core of its users, none of whom is concerned: it sets out there again;
- "shards": the affected shards are retrained, and only what depends on them is aggregated again;
- "refit": most shards are affected (or there is but one), so it costs about what a fit costs;
- "rebuild": everything from nothing, with a new partition: asked for, or due by the store's policy.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from receraser.data.interactions import Index, Interactions
from receraser.erasure.request import ForgetRequest
from receraser.partition.partition import Partition

__all__ = [
    "CORE",
    "DOWNDATE",
    "NOTHING",
    "REBUILD",
    "REFIT",
    "SHARDS",
    "Plan",
    "cheapest",
    "estimated_seconds",
    "plan",
    "share_of_pairs",
]

NOTHING, DOWNDATE, CORE = "nothing", "downdate", "core"
SHARDS, REFIT, REBUILD = "shards", "refit", "rebuild"


@dataclass(frozen=True, eq=False)
class Plan:
    """What will go, and what has to be learned again because of it.

    Attributes
    ----------
    train_rows, valid_rows
        Per row of the tables planned for, whether it goes; `valid_rows` is None without such a table.
    shards
        The shards to retrain, ascending: those that lose a training row or a validation row.
    unknown
        The part of the request for which nothing is held.
    users_left_empty, items_left_empty
        How many users and items lose their last training row.
    """

    train_rows: NDArray[np.bool_]
    valid_rows: NDArray[np.bool_] | None
    shards: tuple[int, ...]
    unknown: ForgetRequest
    users_left_empty: int
    items_left_empty: int

    @property
    def rows_removed(self) -> int:
        """How many training rows go."""
        return int(np.count_nonzero(self.train_rows))

    @property
    def valid_rows_removed(self) -> int:
        """How many validation rows go."""
        return 0 if self.valid_rows is None else int(np.count_nonzero(self.valid_rows))


def plan(request: ForgetRequest, train: Interactions, valid: Interactions | None, partition: Partition) -> Plan:
    """Say what a request does to the tables and to the shards they were cut into.

    Examples
    --------
    >>> rows = Interactions.from_pairs([("u1", "a"), ("u1", "b"), ("u2", "b"), ("u3", "c")])
    >>> shards = Partition(3, np.array([0, 0, 1, 2], dtype=np.int32))
    >>> found = plan(ForgetRequest.of(users=["u2", "u9"], items=["a"]), rows, None, shards)
    >>> found.shards, found.rows_removed, found.users_left_empty, found.items_left_empty
    ((0, 1), 2, 1, 1)
    >>> found.unknown.users
    ('u9',)
    """
    sizes = [None if one is None else len(one) for one in (train, valid, partition.train, partition.valid)]
    if sizes[:2] != sizes[2:]:
        raise ValueError("these are not the tables that were partitioned")
    train_rows = request.cells(train)
    gone = np.flatnonzero(train_rows)
    affected = partition.train[gone]
    valid_rows = None
    if valid is not None and partition.valid is not None:
        valid_rows = request.cells(valid)
        affected = np.concatenate([affected, partition.valid[valid_rows]])
    return Plan(
        train_rows,
        valid_rows,
        shards=tuple(np.unique(affected).tolist()),
        unknown=request.unknown(train, valid),
        users_left_empty=_left_empty(train.user_index[gone], np.diff(train.indptr)),
        items_left_empty=_left_empty(train.item_index[gone], train.item_counts),
    )


def _left_empty(gone: Index, counts: NDArray[np.int64]) -> int:
    """Count who has no row left: `gone` names, row by row, whose row goes; `counts` says how many everybody has."""
    who, lost = np.unique(gone, return_counts=True)
    return int(np.count_nonzero(lost == counts[who]))


def cheapest(shards: Sequence[int], n_shards: int, share: float | None = None, *, core: bool = False) -> str:
    """Return the path to take.

    Parameters
    ----------
    shards
        The affected ones, of `n_shards`.
    share
        For an additive model with its sums at hand: how much of them has to be taken away and added
        (`share_of_pairs`); None otherwise.
    core
        Whether what the solve set out from is at hand, and still holds.

    Examples
    --------
    >>> cheapest([3], 32), cheapest(range(20), 32), cheapest([0], 1), cheapest([0], 1, 0.01)
    ('shards', 'refit', 'refit', 'downdate')
    >>> cheapest([0], 1, core=True)
    'core'
    """
    if not shards:
        return NOTHING
    if share is not None and share < 0.5:
        return DOWNDATE
    if core:
        return CORE
    return REFIT if 2 * len(shards) > n_shards else SHARDS


def share_of_pairs(rows: Interactions, touched: NDArray[np.bool_]) -> float:
    """Return what share of all pairs of a user's items belongs to users with a touched row.

    Examples
    --------
    >>> rows = Interactions.from_pairs([("u1", "a"), ("u1", "b"), ("u2", "b")])
    >>> share_of_pairs(rows, np.array([False, False, True]))
    0.2
    """
    pairs = np.diff(rows.indptr).astype(np.float64) ** 2
    users = np.unique(rows.user_index[touched])
    return float(pairs[users].sum() / pairs.sum()) if len(pairs) else 0.0


def estimated_seconds(
    shards: Sequence[int],
    seconds_by_shard: Sequence[float | None],
    aggregate_seconds: float | None,
    n_workers: int,
) -> float | None:
    """Return about how long it takes to retrain some shards side by side and then to aggregate.

    Parameters
    ----------
    shards
        The shards to retrain.
    seconds_by_shard
        How long each shard of the partition took the last time; one that was not measured is taken for an average one.
    aggregate_seconds
        How long the aggregation took the last time.
    n_workers
        How many shards are trained at a time; the longest are begun first.

    Returns
    -------
    float | None
        None where there is nothing to go by; 0 where there is nothing to do.

    Examples
    --------
    >>> estimated_seconds((0, 2, 3), [4.0, 8.0, 3.0, None], 0.5, n_workers=2)
    7.5
    """
    if n_workers < 1:
        raise ValueError(f"{n_workers} workers; expected at least 1")
    if not shards:
        return 0.0
    measured = [seconds for seconds in seconds_by_shard if seconds is not None]
    if not measured or aggregate_seconds is None:
        return None
    average = sum(measured) / len(measured)
    expected = [average if (seconds := seconds_by_shard[k]) is None else seconds for k in shards]
    busy_until = [0.0] * min(n_workers, len(shards))
    for seconds in sorted(expected, reverse=True):
        heapq.heapreplace(busy_until, busy_until[0] + seconds)
    return max(busy_until) + aggregate_seconds
