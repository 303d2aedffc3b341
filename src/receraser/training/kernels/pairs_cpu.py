"""Steps on the pairwise loss, for the CPU (numba): batches are dealt, gradients added up, rows moved.

The rows of a batch lie sorted by user. So the gradient of a user is added up by one thread, in the order of the rows;
that of an item by the thread that owns the item, in the same order. Nothing depends on the number of threads.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from receraser.training.kernels.vectors import add_row, compiled, dot_rows, parallel

__all__ = [
    "adagrad",
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

VECTORS = (
    "565204b7c3bf2873"  # of vectors.py: machine code is kept by the date of this file, so a change there must change it
)

Float32 = NDArray[np.float32]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Keys = NDArray[np.uint64]
Words = NDArray[np.uint32]

_CHUNK = 64  # rows of a batch that one thread takes at a time
_STEP = np.uint64(0x9E3779B97F4A7C15)  # as in receraser.seeds
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_ONE, _S27, _S30, _S31, _S32 = (np.uint64(n) for n in (1, 27, 30, 31, 32))
_LOG2_E = 1.4426950408889634
_LN_2 = 0.6931471805599453
_POWERS = 2.0 ** np.arange(-64, 65)


@compiled
def _draw(key: np.uint64, counter: np.uint64) -> np.uint64:
    """`seeds.draw` for one counter."""
    x = (counter + _ONE) * _STEP + key
    x = (x ^ (x >> _S30)) * _MIX_1
    x = (x ^ (x >> _S27)) * _MIX_2
    return x ^ (x >> _S31)


@compiled
def _place(keys: Keys, row: int, n: int, bits: int) -> int:
    """`seeds.places` for one row."""
    low = np.uint64(bits // 2)
    high = np.uint64(bits) - low
    low_mask, high_mask = (_ONE << low) - _ONE, (_ONE << high) - _ONE
    x = np.uint64(row)
    while True:
        left, right = x >> low, x & low_mask
        for turn in range(0, keys.shape[0], 2):
            left = (left ^ _draw(keys[turn], right)) & high_mask
            right = (right ^ _draw(keys[turn + 1], left)) & low_mask
        x = (left << low) | right
        if x < np.uint64(n):
            return int(x)


@parallel
def places(keys: Keys, n: int, bits: int, out: Int64) -> None:
    """Write the place of every row (`seeds.places`)."""
    for row in numba.prange(n):
        out[row] = _place(keys, row, n, bits)


@parallel
def deal(keys: Keys, n: int, bits: int, batch_size: int, rows: Int32) -> None:
    """Write the rows of every batch, ascending, into `rows`; the places that are left in the last one hold -1."""
    batch = np.empty(n, dtype=np.int32)
    for row in numba.prange(n):
        batch[row] = _place(keys, row, n, bits) // batch_size
    filled = np.zeros(rows.shape[0] // batch_size, dtype=np.int64)
    for row in range(n):
        at = batch[row]
        rows[at * batch_size + filled[at]] = row
        filled[at] += 1
    for at in range(n, rows.shape[0]):
        rows[at] = -1


@parallel
def deal_parts(keys: Keys, indptr: Int64, bits: Int64, numbers: Int64, out: Int64, counts: Int64) -> None:
    """Deal the rows of every user, in a random order, in turn to parts: write the number of a row's; count their rows.

    `bits`, (n_users,): of the numbers that a user's order is drawn by (`seeds.domain_bits`); `numbers`, (n_parts,
    n_users): those of the parts. Who is dealt the first row is random, too.
    """
    n_parts = numbers.shape[0]
    for user in numba.prange(indptr.shape[0] - 1):  # a part is one user's: nobody else counts in it
        first, n = indptr[user], indptr[user + 1] - indptr[user]
        start = np.int64(_draw(keys[0] ^ keys[1], np.uint64(user)) % np.uint64(n_parts))
        for row in range(n):
            number = numbers[(_place(keys, row, n, bits[user]) + start) % n_parts, user]
            out[first + row] = number
            counts[number] += 1


@compiled
def lay_out(parts: Int64, free: Int64, out: Int64) -> None:
    """Write every row into the next free place of its part; `free` says where the first one is, and is used up."""
    for row in range(parts.shape[0]):
        out[row] = free[parts[row]]
        free[parts[row]] += 1


@compiled
def _lacking(key: np.uint64, row: int, held: Words, user: int, n_items: int) -> int:
    """Return an item that the user does not have, each equally likely; there must be one.

    The draw of a row is mixed with the row again until it hits.
    """
    x = key
    while True:
        x = _draw(x, np.uint64(row))
        item = np.int64(((x >> _S32) * np.uint64(n_items)) >> _S32)
        if (held[user, item >> 5] >> np.uint32(item & 31)) & np.uint32(1) == 0:
            return int(item)


@parallel
def triples(
    keys: Keys,
    users: Int64,
    items: Int64,
    weights: Float32,
    held: Words,
    n_items: int,
    places: Int64,
    out_users: Int64,
    out_items: Int64,
    out_negatives: Int64,
    out_weights: Float32,
) -> None:
    """Write every row into its place, with an item that its user lacks for each key; 0 for a row without weight."""
    for row in numba.prange(users.shape[0]):
        place = places[row]
        out_users[place], out_items[place], out_weights[place] = users[row], items[row], weights[row]
        for column in range(keys.shape[0]):
            drawn = _lacking(keys[column], row, held, users[row], n_items) if weights[row] > 0 else 0
            out_negatives[place, column] = drawn


@compiled
def _sigmoid(x: np.float32) -> np.float32:
    """Return 1 / (1 + exp(-x)), by arithmetic alone: libraries differ in the last bit of exp."""
    y = -min(max(float(x), -30.0), 30.0)
    if not y <= 30.0:  # no number
        return np.float32(np.nan)
    n = int(y * _LOG2_E + 64.5) - 64  # rounded; cut off above zero
    r = y - n * _LN_2  # within 0.35
    e = 1.0 + r * (1.0 + r * (0.5 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + r * (1 / 720 + r / 5040))))))
    return np.float32(1.0 / (1.0 + e * _POWERS[n + 64]))


@parallel
def gradients(  # noqa: C901 - one pass over the batch for the users, one for the items
    rows: Int32,
    keys: Keys,
    users: Int32,
    items: Int32,
    everything: NDArray[np.bool_],
    held: Words,
    p: Float32,
    q: Float32,
    n_owners: int,
    of_users: Float32,
    of_items: Float32,
    user_counts: Int32,
    item_counts: Int32,
) -> None:
    """Add up the gradients of a batch's pairwise loss, summed and not yet averaged, and count its triples.

    Parameters
    ----------
    rows
        The batch, as `deal` wrote it.
    keys
        One per item that is drawn as a candidate for each row.
    users, items
        All rows, sorted by user.
    everything, held
        Which users have every item, and which items each of them has (`batches.Held`).
    p, q
        The vectors that are scored.
    n_owners
        In how many parts the items are shared out; a power of two. The result does not depend on it.
    of_users, of_items, user_counts, item_counts
        What is added to; zero for whatever is not in the batch.
    """
    size = rows.shape[0]
    negative = np.empty(size, dtype=np.int32)
    slope = np.empty(size, dtype=np.float32)
    n_keys, n_items = keys.shape[0], q.shape[0]
    for chunk in numba.prange((size + _CHUNK - 1) // _CHUNK):
        drawn = np.empty(n_keys, dtype=np.int64)
        at, end = chunk * _CHUNK, min(size, (chunk + 1) * _CHUNK)
        while 0 < at < end and rows[at] >= 0 and users[rows[at]] == users[rows[at - 1]]:
            at += 1  # the chunk before takes this user to the end
        while at < end and rows[at] >= 0:
            user = users[rows[at]]
            while at < size and rows[at] >= 0 and users[rows[at]] == user:
                row = rows[at]
                if everything[user]:  # there is no negative
                    negative[at] = -1
                    at += 1
                    continue
                for column in range(n_keys):
                    drawn[column] = _lacking(keys[column], row, held, user, n_items)
                other = drawn[0]
                best = dot_rows(p, user, q, other)
                for column in range(1, n_keys):
                    score = dot_rows(p, user, q, drawn[column])
                    if score > best:
                        best, other = score, drawn[column]
                item = items[row]
                pull = _sigmoid(best - dot_rows(p, user, q, item))
                negative[at], slope[at] = other, pull
                add_row(pull, q, other, of_users, user)
                add_row(-pull, q, item, of_users, user)
                user_counts[user] += 1
                at += 1
    for owner in numba.prange(n_owners):
        for at in range(size):
            if rows[at] < 0 or negative[at] < 0:
                continue
            user, item, other = users[rows[at]], items[rows[at]], negative[at]
            if item & (n_owners - 1) == owner:
                add_row(-slope[at], p, user, of_items, item)
                item_counts[item] += 1
            if other & (n_owners - 1) == owner:
                add_row(slope[at], p, user, of_items, other)
                item_counts[other] += 1


@compiled
def _cell(key: np.uint64, cell: int, lowest: int, value: np.float32) -> np.float32:
    """Return what a cell is multiplied with: `value` if its draw (upper 32 bits) is at least `lowest`, else 0."""
    return value if _draw(key, np.uint64(cell)) >> _S32 >= np.uint64(lowest) else np.float32(0.0)


@parallel
def kept_cells(key: np.uint64, first: int, lowest: int, value: np.float32, out: Float32) -> None:
    """Write what cells are multiplied with (`_cell`). The counter of cell c is first + c."""
    for cell in numba.prange(out.shape[0]):
        out[cell] = _cell(key, first + cell, lowest, value)


@parallel
def dropped_gradients(  # noqa: C901 - one pass over the batch for the scores, one for the sums
    users: Int64,
    items: Int64,
    candidates: Int64,
    weights: Float32,
    by_user: bool,
    key: np.uint64,
    first: int,
    lowest: int,
    value: np.float32,
    p: Float32,
    q: Float32,
    n_owners: int,
    of_users: Float32,
    of_items: Float32,
    behind: Float32,
) -> None:
    """Add up the gradients of a batch's pairwise loss, averaged, where every row drops coordinates of its user.

    Parameters
    ----------
    users, items, candidates, weights
        (b,), (b,), (b, n), (b,): the batch; weight 0 leaves a row out. Of its candidates a row is held against the one
        that scores highest, the first one of equals.
    by_user
        Whether all rows of a user that are not left out lie together. If not, they lie in any order.
    key, first, lowest, value
        What the coordinates of the rows' user vectors are multiplied with, as `kept_cells` draws it, row after row.
    p, q
        The vectors that are scored.
    n_owners
        In how many parts users and items are shared out; a power of two. The result does not depend on it.
    of_users, of_items
        What is added to.
    behind
        (b,): by how much the candidate scores higher than the item is written here, for the loss; 0 for what is left
        out.
    """
    size, dim = users.shape[0], p.shape[1]
    negative = np.empty(size, dtype=np.int64)
    slope = np.empty(size, dtype=np.float32)
    kept = np.empty((size, dim), dtype=np.float32)
    for chunk in numba.prange((size + _CHUNK - 1) // _CHUNK):
        vector = np.empty((1, dim), dtype=np.float32)
        start, stop = chunk * _CHUNK, min(size, (chunk + 1) * _CHUNK)
        if by_user:  # a user who begins here is taken to the end; whoever began before is not ours
            while 0 < start < stop and users[start] == users[start - 1]:
                start += 1
            while start < stop < size and users[stop] == users[stop - 1]:
                stop += 1
        for at in range(start, stop):
            if weights[at] == 0:
                behind[at] = 0.0
                continue
            user, item, cell = users[at], items[at], first + at * dim
            for c in range(dim):
                kept[at, c] = _cell(key, cell + c, lowest, value) if lowest > 0 else value
            for c in range(dim):
                vector[0, c] = p[user, c] * kept[at, c]
            other, most = candidates[at, 0], dot_rows(vector, 0, q, candidates[at, 0])
            for column in range(1, candidates.shape[1]):
                score = dot_rows(vector, 0, q, candidates[at, column])
                if score > most:
                    other, most = candidates[at, column], score
            behind[at] = most - dot_rows(vector, 0, q, item)
            negative[at] = other
            slope[at] = _sigmoid(behind[at]) * weights[at] / np.float32(size)
            if by_user:
                for c in range(dim):
                    of_users[user, c] += slope[at] * kept[at, c] * (q[other, c] - q[item, c])
    for owner in numba.prange(n_owners):
        for at in range(size):
            if weights[at] == 0:
                continue
            pull, user, item, other = slope[at], users[at], items[at], negative[at]
            if not by_user and user & (n_owners - 1) == owner:
                for c in range(dim):
                    of_users[user, c] += pull * kept[at, c] * (q[other, c] - q[item, c])
            if item & (n_owners - 1) == owner:
                for c in range(dim):
                    of_items[item, c] -= pull * kept[at, c] * p[user, c]
            if other & (n_owners - 1) == owner:
                for c in range(dim):
                    of_items[other, c] += pull * kept[at, c] * p[user, c]


@parallel
def adagrad(
    table: Float32, gradient: Float32, counts: Int32, squares: Float32, rate: float, decay: float, batch_size: int
) -> None:
    """Move the rows that are in the batch by their mean gradient and L2 penalty; leave gradient and counts at zero."""
    share = np.float32(1.0 / batch_size)
    step = np.float32(rate)
    for row in numba.prange(table.shape[0]):
        if counts[row] == 0:
            continue
        pull = np.float32(decay * counts[row] / batch_size)
        for c in range(table.shape[1]):
            g = share * gradient[row, c] + pull * table[row, c]
            squares[row, c] += g * g
            table[row, c] -= step * g / (np.sqrt(squares[row, c]) + np.float32(1e-10))
            gradient[row, c] = np.float32(0.0)
        counts[row] = 0


@compiled
def adagrad_epoch(
    rows: Int32,
    batch_size: int,
    keys: Keys,
    users: Int32,
    items: Int32,
    everything: NDArray[np.bool_],
    held: Words,
    p: Float32,
    q: Float32,
    n_owners: int,
    of_users: Float32,
    of_items: Float32,
    user_counts: Int32,
    item_counts: Int32,
    user_squares: Float32,
    item_squares: Float32,
    rate: float,
    decay: float,
) -> None:
    """Take a step on every batch, where the parameters themselves are scored: without a way back to Python between."""
    for first in range(0, rows.shape[0], batch_size):
        batch = rows[first : first + batch_size]
        gradients(
            batch, keys, users, items, everything, held, p, q, n_owners, of_users, of_items, user_counts, item_counts
        )
        adagrad(p, of_users, user_counts, user_squares, rate, decay, batch_size)
        adagrad(q, of_items, item_counts, item_squares, rate, decay, batch_size)


@parallel
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
    """Move every row by Adam's rule (`training.optimizers.Adam`), penalty and clearing up as in `adagrad`.

    `rate` is the step size of this step, bias corrections included.
    """
    share = np.float32(1.0 / batch_size)
    step = np.float32(rate)
    for row in numba.prange(table.shape[0]):
        pull = np.float32(decay * counts[row] / batch_size)
        for c in range(table.shape[1]):
            g = share * gradient[row, c] + pull * table[row, c]
            means[row, c] = np.float32(0.9) * means[row, c] + np.float32(0.1) * g
            squares[row, c] = np.float32(0.999) * squares[row, c] + np.float32(0.001) * (g * g)
            table[row, c] -= step * (means[row, c] / (np.sqrt(squares[row, c]) + np.float32(1e-8)))
            gradient[row, c] = np.float32(0.0)
        counts[row] = 0
