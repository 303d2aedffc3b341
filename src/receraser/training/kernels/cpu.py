"""numba kernels: sparse times dense, least squares, sums over pairs of items, the best of many, the nearest shard.

Sums run in a fixed order (`kernels.vectors`).
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from receraser.training.kernels.vectors import add_row, compiled, dot_rows, parallel, sum_rows

__all__ = [
    "add_columns",
    "add_pairs",
    "add_squares",
    "best_of_rows",
    "claim",
    "co_counts",
    "csr_times_dense",
    "gathered",
    "grouped",
    "mirrored",
    "pass_on",
    "scaled_sums",
    "solve_cg",
    "solve_cholesky",
]

VECTORS = (
    "981baf5c83b2ad97"  # of vectors.py: machine code is kept by the date of this file, so a change there must change it
)

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

TILE = 64


@parallel
def csr_times_dense(
    indptr: NDArray[np.int64], indices: NDArray[np.int64], values: Float32, dense: Float32, out: Float32
) -> None:
    """Write the product of a CSR matrix and a dense one into `out`; each row is summed in the order of its entries."""
    for row in numba.prange(out.shape[0]):
        for column in range(out.shape[1]):
            out[row, column] = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            value = values[entry]
            source = indices[entry]
            for column in range(out.shape[1]):
                out[row, column] += value * dense[source, column]


@parallel
def pass_on(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    share: Float32,
    dense: Float32,
    out: Float32,
    total: Float32,
) -> None:
    """Write share[r] times the sum of the neighbours' rows into row r of `out`, and add it to `total`."""
    for row in numba.prange(out.shape[0]):
        sum_rows(indices, indptr[row], indptr[row + 1], dense, out, row)
        for c in range(out.shape[1]):
            out[row, c] *= share[row]
            total[row, c] += out[row, c]


@parallel
def scaled_sums(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], scale: Float64, dense: Float64, out: Float64
) -> None:
    """Write scale[r] times the sum of the rows of `dense` that row r names into row r of `out`; float64 or float32."""
    for row in numba.prange(out.shape[0]):
        sum_rows(indices, indptr[row], indptr[row + 1], dense, out, row)
        for c in range(out.shape[1]):
            out[row, c] *= scale[row]


@parallel
def solve_cg(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    others: Float32,
    diagonal: Float32,
    penalty: Float32,
    n_steps: int,
    solution: Float32,
) -> None:
    """Improve each row of `solution` by conjugate-gradient steps on its normal equations.

    Row r solves (D + sum of q q^T over its entries) x = sum of q over its entries, with D = diag(diagonal) + penalty[r]
    and q being rows of `others`, starting from the x found in `solution`. D is the preconditioner.
    """
    dim = others.shape[1]
    for row in numba.prange(solution.shape[0]):
        work = np.zeros((4, dim), dtype=np.float32)
        residual, direction, product, scaled = 0, 1, 2, 3
        first, last = indptr[row], indptr[row + 1]
        # residual = b - A x, with b = sum of q and A x = D x + sum of q (q.x)
        for c in range(dim):
            work[residual, c] = -(diagonal[c] + penalty[row]) * solution[row, c]
        for entry in range(first, last):
            scale = np.float32(1.0) - dot_rows(others, indices[entry], solution, row)
            add_row(scale, others, indices[entry], work, residual)
        for c in range(dim):
            work[scaled, c] = work[residual, c] / (diagonal[c] + penalty[row])
            work[direction, c] = work[scaled, c]
        rr = dot_rows(work, residual, work, scaled)
        for _ in range(n_steps):
            if not rr >= np.float32(1e-20):  # nor if it is no number
                break
            for c in range(dim):
                work[product, c] = (diagonal[c] + penalty[row]) * work[direction, c]
            for entry in range(first, last):
                scale = dot_rows(others, indices[entry], work, direction)
                add_row(scale, others, indices[entry], work, product)
            step = rr / dot_rows(work, direction, work, product)
            add_row(step, work, direction, solution, row)
            add_row(-step, work, product, work, residual)
            for c in range(dim):
                work[scaled, c] = work[residual, c] / (diagonal[c] + penalty[row])
            new_rr = dot_rows(work, residual, work, scaled)
            turn = new_rr / rr
            for c in range(dim):
                work[direction, c] = work[scaled, c] + turn * work[direction, c]
            rr = new_rr


@compiled
def _add_four(a: Float64, b: Float64, p: Float64, q: Float64, r: Float64, s: Float64) -> None:
    """Add four rows at once: their outer products to the lower half of a, themselves to b.

    Four rows, and two lines of `a`, for one pass over `a`: it is the passes that cost. Above the diagonal, `a` is free.
    """
    dim = b.shape[0]
    for j in range(dim):
        b[j] += (p[j] + q[j]) + (r[j] + s[j])
    for j in range(0, dim - 1, 2):
        k = j + 1
        pj, qj, rj, sj = p[j], q[j], r[j], s[j]
        pk, qk, rk, sk = p[k], q[k], r[k], s[k]
        for c in range(j + 2):
            a[j, c] += (pj * p[c] + qj * q[c]) + (rj * r[c] + sj * s[c])
            a[k, c] += (pk * p[c] + qk * q[c]) + (rk * r[c] + sk * s[c])
    if dim % 2:
        j = dim - 1
        pj, qj, rj, sj = p[j], q[j], r[j], s[j]
        for c in range(dim):
            a[j, c] += (pj * p[c] + qj * q[c]) + (rj * r[c] + sj * s[c])


@compiled
def _solve_positive(a: Float64, b: Float64, column: Float64) -> None:
    """Solve a x = b for a positive definite a, of which the lower half is read; x replaces b. `column`: scratch space.

    By a = L L^T, one column after the other, all that is right of it brought up to date at once: the inner loops run
    along lines of `a`, which the compiler can do several numbers at a time.
    """
    dim = b.shape[0]
    for k in range(dim):
        a[k, k] = np.sqrt(a[k, k])
        for j in range(k + 1, dim):
            a[j, k] /= a[k, k]
            column[j] = a[j, k]
        for j in range(k + 1, dim):
            factor = column[j]
            line, other = a[j, k + 1 : j + 1], column[k + 1 : j + 1]
            for c in range(line.shape[0]):
                line[c] -= factor * other[c]
    for k in range(dim):  # L y = b
        for c in range(k):
            b[k] -= a[k, c] * b[c]
        b[k] /= a[k, k]
    for back in range(dim):  # L^T x = y
        k = dim - 1 - back
        b[k] /= a[k, k]
        factor, line = b[k], a[k]
        for c in range(k):
            b[c] -= factor * line[c]


@parallel
def solve_cholesky(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int64],
    others: Float64,
    gram: Float64,
    penalty: Float64,
    solution: Float64,
) -> None:
    """Solve the same normal equations exactly, row by row, in float64 by a Cholesky factorisation."""
    dim = others.shape[1]
    for row in numba.prange(solution.shape[0]):
        a = gram.copy()
        b = np.zeros(dim)
        column = np.empty(dim)
        first, last = indptr[row], indptr[row + 1]
        fours = first + (last - first) // 4 * 4
        for at in range(first, fours, 4):
            p, q = others[indices[at]], others[indices[at + 1]]
            r, s = others[indices[at + 2]], others[indices[at + 3]]
            _add_four(a, b, p, q, r, s)
        for at in range(fours, last):
            q = others[indices[at]]
            for j in range(dim):
                b[j] += q[j]
                factor = q[j]
                for c in range(j + 1):
                    a[j, c] += factor * q[c]
        for j in range(dim):
            a[j, j] += penalty[row]
        _solve_positive(a, b, column)
        for j in range(dim):
            solution[row, j] = b[j]


@parallel
def co_counts(
    item_indptr: NDArray[np.int64],
    users: NDArray[np.int64],
    user_indptr: NDArray[np.int64],
    items: NDArray[np.int64],
    weights: NDArray[np.int64],
    out: NDArray[np.int64],
) -> None:
    """Add up, for every pair of items i <= j, the weights of the users who have both, into a packed upper triangle.

    The rows come twice: item by item (`users`) and user by user (`items`, ascending). Row i of the triangle begins at
    i n - i (i - 1) / 2.
    """
    n = item_indptr.shape[0] - 1
    for i in numba.prange(n):
        row = out[i * n - i * (i - 1) // 2 - i : (i + 1) * n - i * (i + 1) // 2]  # row[j] for j >= i
        for entry in range(item_indptr[i], item_indptr[i + 1]):
            user = users[entry]
            weight = weights[user]
            at = user_indptr[user + 1] - 1
            while at >= user_indptr[user] and items[at] >= i:
                row[items[at]] += weight
                at -= 1


@compiled
def add_pairs(
    user_indptr: NDArray[np.int64], items: NDArray[np.int64], weights: NDArray[np.int64], n: int, out: NDArray[np.int64]
) -> None:
    """Add every user's weight to all pairs of their items, in a packed upper triangle of n items."""
    for user in range(user_indptr.shape[0] - 1):
        for a in range(user_indptr[user], user_indptr[user + 1]):
            i = items[a]
            start = i * n - i * (i - 1) // 2 - i
            for b in range(a, user_indptr[user + 1]):
                out[start + items[b]] += weights[user]


@parallel
def mirrored(packed: NDArray[np.int64], scale: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Write the whole symmetric matrix of a packed upper triangle, row i and column i times scale[i], into `out`.

    By square tiles: a column of the triangle is spread over all of it, and one of `out` too.
    """
    n = out.shape[0]
    for tile in numba.prange((n + TILE - 1) // TILE):
        first, last = tile * TILE, min(n, (tile + 1) * TILE)
        for i in range(first, last):
            start = i * n - i * (i - 1) // 2 - i
            for j in range(i, n):
                out[i, j] = packed[start + j] * (scale[i] * scale[j])
        for left in range(0, last, TILE):
            for j in range(left, min(last, left + TILE)):
                start = j * n - j * (j - 1) // 2 - j
                for i in range(max(first, j + 1), last):
                    out[i, j] = packed[start + i] * (scale[i] * scale[j])


@compiled
def gathered(columns: Float32, rows: NDArray[np.int32], edge: int, out: Float64) -> None:
    """Write these rows of a table into `out`, from column `edge` on; zeros for a row of -1. By one thread."""
    for place in range(len(rows)):
        row = rows[place]
        if row < 0:
            out[place, edge : edge + columns.shape[1]] = 0.0
            continue
        for c in range(columns.shape[1]):
            out[place, edge + c] = columns[row, c]


@compiled
def add_squares(block: Float64, out: Float64) -> None:
    """Add the squares in each column of a block to `out`, row after row. By one thread."""
    for row in range(block.shape[0]):
        for c in range(block.shape[1]):
            out[c] += block[row, c] * block[row, c]


@parallel
def best_of_rows(
    scores: Float32, indptr: NDArray[np.int64], left_out: NDArray[np.int64], best: NDArray[np.int64]
) -> None:
    """Write the positions of each row's highest scores into `best`, highest first, of equals the first one first.

    Row r leaves out the positions left_out[indptr[r]:indptr[r + 1]]; where too few are left, -1 follows. The best so
    far are kept in order; past the first few positions hardly any is one of them.
    """
    k, n = best.shape[1], scores.shape[1]
    for row in numba.prange(scores.shape[0]):
        out = np.zeros(n, dtype=np.bool_)
        for entry in range(indptr[row], indptr[row + 1]):
            out[left_out[entry]] = True
        values = np.empty(k, dtype=np.float32)
        held = 0
        for position in range(n):
            score = scores[row, position]
            if (held == k and score <= values[k - 1]) or out[position]:
                continue
            at = held if held < k else k - 1
            while at > 0 and values[at - 1] < score:
                values[at] = values[at - 1]
                best[row, at] = best[row, at - 1]
                at -= 1
            values[at] = score
            best[row, at] = position
            held = min(held + 1, k)
        best[row, held:] = -1


@compiled
def add_columns(
    total: Float32, rows: NDArray[np.int64], columns: NDArray[np.int64], part: Float32, weight: np.float32
) -> None:
    """Add to these rows of `total`, in these columns, each at most once, what `part` has times the weight.

    By one thread: there are a few rows of one block of users, too little to share.
    """
    for row in range(len(rows)):
        to = rows[row]
        for column in range(len(columns)):
            total[to, columns[column]] += weight * part[row, column]


@parallel
def claim(
    left: Float64,
    left_index: NDArray[np.int32],
    right: Float64,
    right_index: NDArray[np.int32],
    points: NDArray[np.int64],
    ends: Float64,
    last: NDArray[np.int64],
    claimed: NDArray[np.int32],
    nearest: Float64,
) -> None:
    """Write, for each point, the nearest of the shards that would take it and how far that is; -1 and inf for none.

    Point p is left[left_index[p]] * right[right_index[p]] away from the shards. Shard k takes what is nearer than
    ends[k], and at that distance the points up to last[k].
    """
    for at in numba.prange(points.shape[0]):
        point = points[at]
        a, b = left_index[point], right_index[point]
        best, found = np.int32(-1), np.inf
        for k in range(ends.shape[0]):
            distance = left[a, k] * right[b, k]
            if distance < found and (distance < ends[k] or (distance == ends[k] and point <= last[k])):
                best, found = np.int32(k), distance
        claimed[at], nearest[at] = best, found


@compiled
def grouped(labels: NDArray[np.int32], n_labels: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of label 0, of label 1 and so on, each ascending, and where each begins; not those of -1."""
    bounds = np.zeros(n_labels + 1, dtype=np.int64)
    for label in labels:
        if label >= 0:
            bounds[label + 1] += 1
    for label in range(n_labels):
        bounds[label + 1] += bounds[label]
    order = np.empty(bounds[n_labels], dtype=np.int64)
    free = bounds[:-1].copy()
    for position in range(labels.shape[0]):
        label = labels[position]
        if label >= 0:
            order[free[label]] = position
            free[label] += 1
    return order, bounds
