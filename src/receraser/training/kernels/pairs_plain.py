"""The kernels of the pairwise loss again, in plain numpy: what the fast ones are held to, and what runs without numba.

The integers are the same; sums agree up to rounding.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from receraser import seeds

__all__ = [
    "adagrad_epoch",
    "adam",
    "deal",
    "deal_parts",
    "dropped_gradients",
    "gradients",
    "kept_cells",
    "lay_out",
    "places",
    "triples",
]

Float32 = NDArray[np.float32]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Keys = NDArray[np.uint64]
Words = NDArray[np.uint32]


def places(keys: Keys, n: int, bits: int, out: Int64) -> None:  # noqa: ARG001 - numba's cannot compute them
    """Write the place of every row."""
    out[:] = seeds.places_by(keys, n)


def deal(keys: Keys, n: int, bits: int, batch_size: int, rows: Int32) -> None:  # noqa: ARG001
    """Write the rows of every batch, ascending, into `rows`; the places that are left in the last one hold -1."""
    rows[:] = -1
    rows[seeds.places_by(keys, n)] = np.arange(n, dtype=np.int32)
    for batch in rows.reshape(-1, batch_size):
        there = batch >= 0
        batch[:] = np.concatenate([np.sort(batch[there]), batch[~there]])


def deal_parts(keys: Keys, indptr: Int64, bits: Int64, numbers: Int64, out: Int64, counts: Int64) -> None:  # noqa: ARG001
    """Deal the rows of every user, in a random order, in turn to parts: write the number of a row's; count them."""
    n_parts, n_users = numbers.shape
    start = seeds.draw(int(keys[0] ^ keys[1]), np.arange(n_users)) % np.uint64(n_parts)
    for user in range(n_users):
        place = seeds.places_by(keys, int(indptr[user + 1] - indptr[user]))
        out[indptr[user] : indptr[user + 1]] = numbers[(place + int(start[user])) % n_parts, user]
    counts += np.bincount(out, minlength=len(counts))


def lay_out(parts: Int64, free: Int64, out: Int64) -> None:
    """Write every row into the next free place of its part; `free` says where the first one is, and is used up."""
    counts = np.bincount(parts, minlength=len(free))
    before = np.cumsum(counts) - counts
    out[np.argsort(parts, kind="stable")] = np.arange(len(parts)) + np.repeat(free - before, counts)
    free += counts


def triples(
    keys: Keys,
    users: Int64,
    items: Int64,
    weights: Float32,
    near: Keys,  # noqa: ARG001 - the large table knows it too
    held: Words,
    n_items: int,
    places: Int64,
    out_users: Int64,
    out_items: Int64,
    out_negatives: Int64,
    out_weights: Float32,
) -> None:
    """Write every row into its place, with an item that its user lacks for each key; 0 for a row without weight."""
    out_users[places], out_items[places], out_weights[places] = users, items, weights
    rows = np.flatnonzero(weights > 0)
    out_negatives[places] = 0
    out_negatives[places[rows]] = _lacking(keys, rows, users[rows], held, n_items)


def _lacking(keys: Keys, rows: Int64, users: Int64, held: Words, n_items: int) -> Int64:
    found = np.zeros((len(rows), len(keys)), dtype=np.int64)
    for column, key in enumerate(keys):
        x = np.full(len(rows), key, dtype=np.uint64)
        left = np.arange(len(rows))
        while len(left):
            x[left] = seeds.draw(x[left], rows[left])
            item = ((x[left] >> np.uint64(32)).astype(np.int64) * n_items) >> 32
            found[left, column] = item
            word = held[users[left], item >> 5]
            left = left[(word >> (item & 31).astype(np.uint32)) & np.uint32(1) == 1]
    return found


def kept_cells(key: np.uint64, first: int, lowest: int, value: np.float32, out: Float32) -> None:
    """Write `value` into cells whose draw (upper 32 bits) is at least `lowest`, and 0 into the others."""
    drawn = seeds.draw(int(key), np.arange(first, first + len(out))) >> np.uint64(32)
    out[:] = np.where(drawn >= np.uint64(lowest), value, np.float32(0.0))


def gradients(
    rows: Int32,
    keys: Keys,
    users: Int32,
    items: Int32,
    everything: NDArray[np.bool_],
    near: Keys,  # noqa: ARG001
    held: Words,
    p: Float32,
    q: Float32,
    n_owners: int,  # noqa: ARG001
    of_users: Float32,
    of_items: Float32,
    user_counts: Int32,
    item_counts: Int32,
) -> None:
    """Add up the gradients of a batch's pairwise loss, summed and not yet averaged, and count its triples."""
    rows = rows[rows >= 0]
    rows = rows[~everything[users[rows]]]
    user, item = users[rows], items[rows]
    drawn = _lacking(keys, rows.astype(np.int64), user.astype(np.int64), held, len(q))  # (batch, n)
    scores = np.einsum("bnd,bd->bn", q[drawn], p[user])
    other = drawn[np.arange(len(rows)), scores.argmax(axis=1)]
    difference = scores.max(axis=1, initial=-np.inf) - (p[user] * q[item]).sum(axis=1)
    slope = (1.0 / (1.0 + np.exp(-np.clip(difference, -30.0, 30.0)))).astype(np.float32)[:, None]
    np.add.at(of_users, user, slope * (q[other] - q[item]))
    np.add.at(of_items, item, -slope * p[user])
    np.add.at(of_items, other, slope * p[user])
    np.add.at(user_counts, user, 1)
    np.add.at(item_counts, np.concatenate([item, other]), 1)


def dropped_gradients(
    users: Int64,
    items: Int64,
    candidates: Int64,
    weights: Float32,
    by_user: bool,  # noqa: ARG001
    key: np.uint64,
    first: int,
    lowest: int,
    value: np.float32,
    p: Float32,
    q: Float32,
    n_owners: int,  # noqa: ARG001
    of_users: Float32,
    of_items: Float32,
    behind: Float32,
) -> None:
    """Add up the gradients of a batch's pairwise loss, averaged, where every row drops coordinates of its user."""
    kept = np.empty((len(users), p.shape[1]), dtype=np.float32)
    kept_cells(key, first, lowest, value, kept.reshape(-1))
    u = p[users] * kept
    scores = np.einsum("bnd,bd->bn", q[candidates], u)
    other = np.take_along_axis(candidates, scores.argmax(axis=1)[:, None], axis=1)[:, 0]
    behind[:] = np.where(weights > 0, scores.max(axis=1) - (u * q[items]).sum(axis=1), np.float32(0.0))
    share = weights / (1.0 + np.exp(-np.clip(behind, -30.0, 30.0))) / np.float32(max(len(users), 1))
    slope = share.astype(np.float32)[:, None]
    np.add.at(of_users, users, slope * kept * (q[other] - q[items]))
    np.add.at(of_items, items, -slope * u)
    np.add.at(of_items, other, slope * u)


def _adagrad(
    table: Float32, gradient: Float32, counts: Int32, squares: Float32, rate: float, decay: float, batch_size: int
) -> None:
    """Move the rows that are in the batch by their mean gradient and L2 penalty; leave gradient and counts at zero."""
    g = (gradient + decay * counts[:, None] * table) / np.float32(batch_size)
    squares += g * g
    table -= np.float32(rate) * g / (np.sqrt(squares) + np.float32(1e-10))
    gradient[:] = 0.0
    counts[:] = 0


def adagrad_epoch(
    rows: Int32,
    batch_size: int,
    keys: Keys,
    users: Int32,
    items: Int32,
    everything: NDArray[np.bool_],
    near: Keys,
    held: Words,
    p: Float32,
    q: Float32,
    n_owners: int,
    user_squares: Float32,
    item_squares: Float32,
    rate: float,
    decay: float,
) -> None:
    """Take a step on every batch, where the parameters themselves are scored."""
    sums = np.zeros_like(p), np.zeros_like(q)
    counts = np.zeros(len(p), dtype=np.int32), np.zeros(len(q), dtype=np.int32)
    for batch in rows.reshape(-1, batch_size):
        gradients(batch, keys, users, items, everything, near, held, p, q, n_owners, *sums, *counts)
        _adagrad(p, sums[0], counts[0], user_squares, rate, decay, batch_size)
        _adagrad(q, sums[1], counts[1], item_squares, rate, decay, batch_size)


def adam(
    table: Float32,
    gradient: Float32,
    counts: Int32,
    means: Float32,
    squares: Float32,
    rate: float,
    decay: float,
    batch_size: int,
) -> None:
    """Move every row by Adam's rule, penalty and clearing up as in `_adagrad`."""
    g = (gradient + decay * counts[:, None] * table) / np.float32(batch_size)
    means *= np.float32(0.9)
    means += np.float32(0.1) * g
    squares *= np.float32(0.999)
    squares += np.float32(0.001) * (g * g)
    table -= np.float32(rate) * (means / (np.sqrt(squares) + np.float32(1e-8)))
    gradient[:] = 0.0
    counts[:] = 0
