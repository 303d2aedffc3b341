"""Ranking metrics as pure functions of hits: recall, NDCG, precision, hit rate, reciprocal rank, average precision.

Every function takes `hits`, a (n_users, depth) table of booleans (is the item at this rank one of the user's held-out
items?), `n_truth`, how many held-out items each user has, and the cut `k` (at most depth); it returns one float64 per
user. The definitions are those of trec_eval: the recall is hits over all held-out items, the ideal of NDCG is cut at
min(|truth|, k), and the average precision is divided by all held-out items.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from receraser.errors import UsageError, nearest

__all__ = ["METRICS", "average_precision", "by_name", "hit_rate", "ndcg", "precision", "recall", "reciprocal_rank"]

Hits = NDArray[np.bool_]
Counts = NDArray[np.int64]
PerUser = NDArray[np.float64]


def recall(hits: Hits, n_truth: Counts, k: int) -> PerUser:
    """Return the share of the held-out items found among the first k.

    Examples
    --------
    >>> recall(np.array([[True, False, True]]), np.array([4]), 3).tolist()
    [0.5]
    """
    return np.asarray(hits[:, :k].sum(axis=1) / n_truth)


def precision(hits: Hits, n_truth: Counts, k: int) -> PerUser:
    """Return the share of the first k that are held-out items."""
    return np.asarray(hits[:, :k].sum(axis=1) / float(k))


def hit_rate(hits: Hits, n_truth: Counts, k: int) -> PerUser:
    """Return 1 where at least one held-out item is among the first k."""
    return np.asarray(hits[:, :k].any(axis=1), dtype=np.float64)


def ndcg(hits: Hits, n_truth: Counts, k: int) -> PerUser:
    """Return the discounted gain over that of the best possible list of length k.

    Examples
    --------
    >>> ndcg(np.array([[True, False], [False, True]]), np.array([1, 1]), 2).round(4).tolist()
    [1.0, 0.6309]
    """
    discount = 1.0 / np.log2(np.arange(2, k + 2, dtype=np.float64))
    ideal = np.concatenate([[0.0], np.cumsum(discount)])[np.minimum(n_truth, k)]
    depth = min(k, hits.shape[1])
    return np.asarray((hits[:, :depth] * discount[:depth]).sum(axis=1) / ideal)


def reciprocal_rank(hits: Hits, n_truth: Counts, k: int) -> PerUser:
    """Return 1 / (rank of the first held-out item), 0 where none is among the first k."""
    cut = hits[:, :k]
    return np.asarray(np.where(cut.any(axis=1), 1.0 / (cut.argmax(axis=1) + 1.0), 0.0))


def average_precision(hits: Hits, n_truth: Counts, k: int) -> PerUser:
    """Return the sum of the precisions at the ranks of the hits, over the number of held-out items."""
    cut = hits[:, :k]
    ranks = np.arange(1, cut.shape[1] + 1, dtype=np.float64)
    return np.asarray((cut * (np.cumsum(cut, axis=1) / ranks)).sum(axis=1) / n_truth)


METRICS: dict[str, Callable[[Hits, Counts, int], PerUser]] = {
    "recall": recall,
    "ndcg": ndcg,
    "precision": precision,
    "hit_rate": hit_rate,
    "mrr": reciprocal_rank,
    "map": average_precision,
}


def by_name(name: str) -> tuple[Callable[[Hits, Counts, int], PerUser], int]:
    """Return the function and the cut of a name such as "ndcg@20".

    Examples
    --------
    >>> by_name("ndcg@20")[1]
    20
    """
    metric, _, cut = name.partition("@")
    if metric not in METRICS:
        raise UsageError(f"unknown metric {metric!r}: {nearest(metric, METRICS)}")
    if not cut.isdecimal() or int(cut) < 1:
        raise UsageError(f"the metric {name!r} needs a cut of at least 1, as in '{metric}@20'")
    return METRICS[metric], int(cut)
