"""Steps on the pairwise loss, for the CPU (numba): batches are dealt, gradients added up, rows moved.

The rows of a batch lie sorted by user. So the gradient of a user is added up by one thread, in the order of the rows;
that of an item by the thread that owns the item, in the same order. Nothing depends on the number of threads.

What costs is not arithmetic but memory: tables of many users and items are in no core's own cache, and a row that
another core wrote last has to come from there. So whatever is needed in a moment is asked for now (`vectors.fetch`).
"""

from __future__ import annotations

from functools import partial

import numba
import numpy as np
from numpy.typing import NDArray

from receraser.training.kernels.vectors import add_row, compiled, dot_rows, fetch, fetch_to_write, parallel

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

VECTORS = (
    "981baf5c83b2ad97"  # of vectors.py: machine code is kept by the date of this file, so a change there must change it
)

Float32 = NDArray[np.float32]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Keys = NDArray[np.uint64]
Words = NDArray[np.uint32]

_CHUNK = 64  # rows of a batch that one thread takes at a time
_SOON, _AHEAD, _FURTHER = 4, 5, 24  # rows ahead at which is asked for vectors that are summed, scored, moved
_STEP = np.uint64(0x9E3779B97F4A7C15)  # as in receraser.seeds
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_ONE, _S6, _S27, _S30, _S31, _S32, _LOW_6 = (np.uint64(n) for n in (1, 6, 27, 30, 31, 32, 63))
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
def _shift(near: Keys) -> int:
    """Return by how many bits a hash is shifted to be the number of a bit of `batches.Held.near`; 0: it has none."""
    shift, columns = 58, near.shape[1]
    while columns > 1:
        shift, columns = shift - 1, columns >> 1
    return shift if columns else 0


@partial(compiled, inlined=True)
def _lacking(key: np.uint64, row: int, near: Keys, shift: int, held: Words, user: int, n_items: int) -> int:
    """Return an item that the user does not have, each equally likely; there must be one.

    The draw of a row is mixed with the row again until it hits.
    """
    x = key
    while True:
        x = _draw(x, np.uint64(row))
        item = np.int64(((x >> _S32) * np.uint64(n_items)) >> _S32)
        if shift > 0:
            bit = (np.uint64(item) * _STEP) >> np.uint64(shift)
            if (near[user, bit >> _S6] >> (bit & _LOW_6)) & _ONE == 0:
                return int(item)
        if (held[user, item >> 5] >> np.uint32(item & 31)) & np.uint32(1) == 0:
            return int(item)


@parallel
def triples(
    keys: Keys,
    users: Int64,
    items: Int64,
    weights: Float32,
    near: Keys,
    held: Words,
    n_items: int,
    places: Int64,
    out_users: Int64,
    out_items: Int64,
    out_negatives: Int64,
    out_weights: Float32,
) -> None:
    """Write every row into its place, with an item that its user lacks for each key; 0 for a row without weight."""
    shift = _shift(near)
    for row in numba.prange(users.shape[0]):
        place = places[row]
        out_users[place], out_items[place], out_weights[place] = users[row], items[row], weights[row]
        for column in range(keys.shape[0]):
            drawn = _lacking(keys[column], row, near, shift, held, users[row], n_items) if weights[row] > 0 else 0
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


@partial(compiled, inlined=True)
def _hardest(
    keys: Keys,
    row: int,
    near: Keys,
    shift: int,
    held: Words,
    user: int,
    p: Float32,
    q: Float32,
    drawn: Int64,
) -> tuple[int, np.float32]:
    """Return, of the items drawn for a row, the one that scores highest, the first of equals; and its score."""
    for column in range(keys.shape[0]):
        drawn[column] = _lacking(keys[column], row, near, shift, held, user, q.shape[0])
        fetch(q, drawn[column])
    other, best = drawn[0], dot_rows(p, user, q, drawn[0])
    for column in range(1, keys.shape[0]):
        score = dot_rows(p, user, q, drawn[column])
        if score > best:
            best, other = score, drawn[column]
    return other, best


@partial(compiled, inlined=True)
def _fetch_own(table: Float32, one: int, other: int, owner: int, n_owners: int) -> None:
    """Ask for the rows of two items that will be written, those that an owner has."""
    if one & (n_owners - 1) == owner:
        fetch_to_write(table, one)
    if other & (n_owners - 1) == owner:
        fetch_to_write(table, other)


@parallel
def gradients(
    rows: Int32,
    keys: Keys,
    users: Int32,
    items: Int32,
    everything: NDArray[np.bool_],
    near: Keys,
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
    everything, near, held
        Which users have every item, and which items each of them has (`batches.Held`).
    p, q
        The vectors that are scored.
    n_owners
        In how many parts the items are shared out; a power of two. The result does not depend on it.
    of_users, of_items, user_counts, item_counts
        What is added to; zero for whatever is not in the batch.
    """
    size, shift = rows.shape[0], _shift(near)
    positive, negative = np.empty(size, dtype=np.int32), np.full(size, -1, dtype=np.int32)
    slope = np.empty(size, dtype=np.float32)
    for chunk in numba.prange((size + _CHUNK - 1) // _CHUNK):
        drawn = np.empty(keys.shape[0], dtype=np.int64)
        at, end = chunk * _CHUNK, min(size, (chunk + 1) * _CHUNK)
        while 0 < at < end and rows[at] >= 0 and users[rows[at]] == users[rows[at - 1]]:
            at += 1  # the chunk before takes this user to the end
        while at < end and rows[at] >= 0:
            user = users[rows[at]]
            while at < size and rows[at] >= 0 and users[rows[at]] == user:
                row, item = rows[at], items[rows[at]]
                if everything[user]:  # there is no negative
                    at += 1
                    continue
                fetch(q, item)
                other, best = _hardest(keys, row, near, shift, held, user, p, q, drawn)
                pull = _sigmoid(best - dot_rows(p, user, q, item))
                positive[at], negative[at], slope[at] = item, other, pull
                add_row(pull, q, other, of_users, user)
                add_row(-pull, q, item, of_users, user)
                user_counts[user] += 1
                at += 1
    for owner in numba.prange(n_owners):
        for at in range(size):
            soon = min(at + _SOON, size - 1)
            if negative[soon] >= 0:
                _fetch_own(of_items, positive[soon], negative[soon], owner, n_owners)
            if negative[at] < 0:
                continue
            user, item, other = users[rows[at]], positive[at], negative[at]
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
            for column in range(candidates.shape[1]):
                fetch(q, candidates[at, column])
            fetch(q, item)
            for c in range(dim):  # which takes about as long as memory does
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
            soon = min(at + _SOON, size - 1)
            if weights[soon] != 0:
                _fetch_own(of_items, items[soon], negative[soon], owner, n_owners)
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


@partial(compiled, inlined=True, error_model="numpy")
def _move(
    table: Float32,
    row: int,
    gradient: Float32,
    at: int,
    squares: Float32,
    count: int,
    rate: float,
    decay: float,
    batch_size: int,
) -> None:
    """Move a row by its mean gradient and L2 penalty, by Adagrad's rule; leave the gradient at zero."""
    share = np.float32(1.0 / batch_size)
    step = np.float32(rate)
    pull = np.float32(decay * count / batch_size)
    for c in range(table.shape[1]):
        g = share * gradient[at, c] + pull * table[row, c]
        squares[row, c] += g * g
        table[row, c] -= step * g / (np.sqrt(squares[row, c]) + np.float32(1e-10))
        gradient[at, c] = np.float32(0.0)


@parallel
def _adagrad_step(  # noqa: C901 - one pass over the batch for the users, one for the items
    rows: Int32,
    keys: Keys,
    users: Int32,
    items: Int32,
    everything: NDArray[np.bool_],
    near: Keys,
    held: Words,
    p: Float32,
    q: Float32,
    user_squares: Float32,
    item_squares: Float32,
    rate: float,
    decay: float,
    before: Float32,
    first: Int32,
    positive: Int32,
    negative: Int32,
    slope: Float32,
    place: Int32,
    own: Int32,
    counts: Int32,
    sums: Float32,
) -> None:
    """Take a step on one batch, of gradients as `gradients` adds them up.

    Users are moved in the first pass, items in the second, each row right after its gradient is complete.

    Parameters
    ----------
    before
        (batch, dim): the vectors of the batch's users as they were, which the items' gradients are made of; a user's
        where their rows begin, which `first` says for every row.
    positive, negative, slope
        (batch,): the items of a row, and what both are moved by; -1 for a row without a negative.
    place
        (n_owners, n): where in the tables of its owner an item is, each owner's items beside each other; -1: nowhere,
        as all are before and afterwards.
    own, counts, sums
        (n_owners, most), (n_owners, most), (n_owners, most, dim): of each owner the items that are in the batch, how
        often they are, and their gradients, which are zero before and afterwards.
    """
    size, dim, n_owners, shift = rows.shape[0], p.shape[1], own.shape[0], _shift(near)
    low, bits = n_owners - 1, 0  # an item's owner is in its low bits
    while n_owners >> bits > 1:
        bits += 1
    for chunk in numba.prange((size + _CHUNK - 1) // _CHUNK):
        drawn = np.empty(keys.shape[0], dtype=np.int64)
        total = np.zeros((1, dim), dtype=np.float32)
        at, end = chunk * _CHUNK, min(size, (chunk + 1) * _CHUNK)
        for nobody in range(at, end):
            if rows[nobody] < 0:
                negative[nobody] = -1
        while 0 < at < end and rows[at] >= 0 and users[rows[at]] == users[rows[at - 1]]:
            at += 1  # the chunk before takes this user to the end
        while at < end and rows[at] >= 0:
            user, begin, count = users[rows[at]], at, 0
            while at < size and rows[at] >= 0 and users[rows[at]] == user:
                if at + 2 * _AHEAD < size and rows[at + 2 * _AHEAD] >= 0:
                    fetch(users, rows[at + 2 * _AHEAD])
                    fetch(items, rows[at + 2 * _AHEAD])
                    later = rows[at + _AHEAD]
                    fetch_to_write(p, users[later])
                    fetch_to_write(user_squares, users[later])
                    fetch(q, items[later])
                if everything[user]:  # there is no negative
                    negative[at] = -1
                    at += 1
                    continue
                item = items[rows[at]]
                other, best = _hardest(keys, rows[at], near, shift, held, user, p, q, drawn)
                pull = _sigmoid(best - dot_rows(p, user, q, item))
                first[at], positive[at], negative[at], slope[at] = begin, item, other, pull
                add_row(pull, q, other, total, 0)
                add_row(-pull, q, item, total, 0)
                count += 1
                at += 1
            if count:
                for c in range(dim):
                    before[begin, c] = p[user, c]
                _move(p, user, total, 0, user_squares, count, rate, decay, size)
    for owner in numba.prange(n_owners):
        mine, n = sums[owner], 0
        for at in range(size):
            soon = min(at + _SOON, size - 1)
            if negative[soon] >= 0 and (positive[soon] & low == owner or negative[soon] & low == owner):
                fetch(before, first[soon])
            if negative[at] < 0:
                continue
            for side in range(2):
                item, pull = (positive[at], -slope[at]) if side == 0 else (negative[at], slope[at])
                if item & low == owner:
                    there = place[owner, item >> bits]
                    if there < 0:
                        there = n
                        place[owner, item >> bits], own[owner, n], counts[owner, n] = n, item, 0
                        n += 1
                    add_row(pull, before, first[at], mine, there)
                    counts[owner, there] += 1
        for number in range(n):
            if number + _FURTHER < n:
                fetch_to_write(q, own[owner, number + _FURTHER])
                fetch_to_write(item_squares, own[owner, number + _FURTHER])
            item = own[owner, number]
            _move(q, item, mine, number, item_squares, counts[owner, number], rate, decay, size)
            place[owner, item >> bits] = -1


@compiled
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
    """Take a step on every batch, where the parameters themselves are scored: without a way back to Python between.

    There is no table of gradients: what a step writes and reads beside the rows that it moves stays in the caches.
    """
    dim, n_items = p.shape[1], (q.shape[0] + n_owners - 1) // n_owners  # of an owner, at most
    most = min(2 * batch_size, n_items)
    before = np.empty((batch_size, dim), dtype=np.float32)
    first, positive = np.empty(batch_size, dtype=np.int32), np.empty(batch_size, dtype=np.int32)
    negative = np.empty(batch_size, dtype=np.int32)
    slope = np.empty(batch_size, dtype=np.float32)
    place = np.full((n_owners, n_items), -1, dtype=np.int32)
    own, counts = np.empty((n_owners, most), dtype=np.int32), np.empty((n_owners, most), dtype=np.int32)
    sums = np.zeros((n_owners, most, dim), dtype=np.float32)
    for start in range(0, rows.shape[0], batch_size):
        batch = rows[start : start + batch_size]
        _adagrad_step(
            batch, keys, users, items, everything, near, held, p, q, user_squares, item_squares, rate, decay,
            before, first, positive, negative, slope, place, own, counts, sums,
        )  # fmt: skip


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
    """Move every row by Adam's rule (`training.optimizers.Adam`), mean gradient, penalty and clearing up as in `_move`.

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
