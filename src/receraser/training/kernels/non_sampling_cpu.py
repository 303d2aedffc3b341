"""The numba kernel of WMF's loss over all pairs: of a batch of users the loss, and its gradient, in one pass.

A user's gradient is added up by one thread, in the order of the rows; that of an item by the thread that owns the item,
in the same order. What all pairs have in common is a product of matrices, over stretches and blocks of fixed sizes.
Products are BLAS's, which must be told to use one thread (`kernels.non_sampling_on_cpu`).
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from receraser.training.kernels.vectors import add_row, dot_rows, parallel

__all__ = ["gradients"]

VECTORS = (
    "981baf5c83b2ad97"  # of vectors.py: machine code is kept by the date of this file, so a change there must change it
)

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]

_STRETCHES, _SUMS = 8, 2**22  # of a table, each with the sum of its own products: so many numbers of them at most
_USERS, _ITEMS = 32, 256  # that one thread takes at a time


@parallel
def _squared(table: Float32, out: Float32) -> None:
    """Write table^T table."""
    n_rows, dim = table.shape
    n = max(1, min(_STRETCHES, n_rows, _SUMS // (dim * dim)))
    found = np.empty((n, dim, dim), dtype=np.float32)
    for stretch in numba.prange(n):
        first, last = n_rows * stretch // n, n_rows * (stretch + 1) // n
        np.dot(table[first:last].T, table[first:last], found[stretch])
    out[:] = 0
    for stretch in range(n):
        out += found[stretch]


@parallel
def gradients(  # noqa: C901 - one pass over the batch for the users, one for the items
    users: Int64,
    indptr: Int64,
    items: Int64,
    p: Float32,
    q: Float32,
    missing_weight: float,
    n_owners: int,
    of_users: Float32,
    of_items: Float32,
    losses: NDArray[np.float64],
) -> None:
    """Write the loss of every user of a batch (`losses.non_sampling`), and the gradient of their sum.

    With w = missing_weight and y = p . q a user loses sum over rows of ((1 - w) y^2 - 2 y), and w p^T (Q^T Q) p for all
    pairs.

    Parameters
    ----------
    users
        (b,): of the batch; user u has the items number items[indptr[u]:indptr[u + 1]].
    p, q
        (b, dim), (n_items, dim): the vectors of the batch's users, those of all items.
    n_owners
        In how many parts the items are shared out; a power of two. The result does not depend on it.
    of_users, of_items, losses
        (b, dim), (n_items, dim), (b,): written.
    """
    n_users, n_items, dim = p.shape[0], q.shape[0], p.shape[1]
    everywhere = np.float32(2.0 * missing_weight)
    curve = np.float32(2.0 * (1.0 - missing_weight))
    begins = np.zeros(n_users + 1, dtype=np.int64)
    for at in range(n_users):
        begins[at + 1] = begins[at] + indptr[users[at] + 1] - indptr[users[at]]
    slopes = np.empty(begins[n_users], dtype=np.float32)
    of_all_items, of_all_users = np.empty((dim, dim), dtype=np.float32), np.empty((dim, dim), dtype=np.float32)
    _squared(q, of_all_items)
    _squared(p, of_all_users)
    for block in numba.prange((n_users + _USERS - 1) // _USERS):
        start, stop = block * _USERS, min(n_users, (block + 1) * _USERS)
        np.dot(p[start:stop], of_all_items, of_users[start:stop])
        for at in range(start, stop):
            loss = missing_weight * np.float64(dot_rows(of_users, at, p, at))
            for c in range(dim):
                of_users[at, c] *= everywhere
            place = begins[at]
            for row in range(indptr[users[at]], indptr[users[at] + 1]):
                score = dot_rows(p, at, q, items[row])
                slope = curve * score - np.float32(2.0)
                loss += 0.5 * np.float64(score) * (np.float64(slope) - 2.0)
                add_row(slope, q, items[row], of_users, at)
                slopes[place] = slope
                place += 1
            losses[at] = loss
    for block in numba.prange((n_items + _ITEMS - 1) // _ITEMS):
        start, stop = block * _ITEMS, min(n_items, (block + 1) * _ITEMS)
        np.dot(q[start:stop], of_all_users, of_items[start:stop])
        for item in range(start, stop):
            for c in range(dim):
                of_items[item, c] *= everywhere
    for owner in numba.prange(n_owners):
        for at in range(n_users):
            place = begins[at]
            for row in range(indptr[users[at]], indptr[users[at] + 1]):
                if items[row] & (n_owners - 1) == owner:
                    add_row(slopes[place], p, at, of_items, items[row])
                place += 1
