"""Leading eigenvectors of a large symmetric matrix by block Krylov iteration, in a fixed number of steps.

The matrix is given by what it does to a block of columns; it is never asked for its entries. From a fixed start (drawn
per id, so that an id's numbers do not depend on the others) the blocks S, A S, A^2 S, ... are made orthonormal one
after another, and the eigenvectors of A are looked for in the space they span (Musco & Musco 2015: it holds the answer
of as many steps of subspace iteration, and better ones). No convergence test, no warm start: the result is a pure
function of matrix and start.

`refined` is for who has columns that nearly span the answer: a few applications, and no growing basis.

Dense products are cut into blocks of rows of a fixed size, each done by one thread; sums over the blocks run in order.
So the bits do not depend on the number of threads, given a BLAS of one thread as in the workers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
from numpy.typing import NDArray

from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.seeds import derive
from receraser.training.kernels import on_cpu, threads
from receraser.training.normals import normal_for
from receraser.training.pool import spread
from receraser.training.spectrum import signs

__all__ = ["Operator", "blocked", "draw_block", "gap_after", "leading_eigenvectors", "refined", "rows_gram"]

Matrix = NDArray[np.float64]  # on the way to it, float32
Operator = Callable[[Matrix], Matrix]

_ROWS = 1024  # of a block in dense products
_TILE = 32  # columns that go through a pass over the rows together: what they are added to stays in the cache
_LEAST = 16  # columns of the first block
_NOTHING = 1e-7  # a column that loses all but this share of its length was in the space already
_LITTLE = 1e-3  # ... and one that loses all but this share is looked at twice
_NO_VALUE = 1e-10  # an eigenvalue of this share of the largest is rounding noise


def leading_eigenvectors(apply: Operator, start: Matrix, rank: int, n_steps: int) -> tuple[Matrix, Matrix]:
    """Return the eigenvectors (n, rank) of the largest eigenvalues, orthonormal, and the values, largest first.

    Parameters
    ----------
    apply
        Returns A times a block of columns; A is symmetric and has no negative eigenvalue.
    start
        (n, b): the first block; the space has at most b * n_steps dimensions.
    n_steps
        How often A is applied.

    Returns
    -------
    vectors, values
        Directions that do not exist (rank beyond that of A) are zero, and so are their values. One value more than
        `rank` is returned, to see the gap.

    Examples
    --------
    >>> found, values = leading_eigenvectors(lambda x: np.diag([1.0, 4.0, 9.0]) @ x, np.ones((3, 1)), 1, 3)
    >>> np.abs(np.round(found.T, 6)).tolist(), np.round(values, 6).tolist()
    ([[0.0, 0.0, 1.0]], [9.0, 4.0])
    """
    n, width = start.shape
    basis = np.zeros((n, width * n_steps))
    small = np.zeros((width * n_steps, width * n_steps))  # what A is in the basis; the upper half
    block, lengths = start, _lengths(start)
    for step in range(n_steps):
        own = slice(width * step, width * (step + 1))
        basis[:, own] = _orthonormal(block, basis[:, : own.start], lengths)
        block = apply(basis[:, own])
        lengths = _lengths(block)
        filled = basis[:, : own.stop]
        small[: own.stop, own] = _inner(filled, block)
        if own.stop < len(small):
            block = block - _times(filled, small[: own.stop, own])
    small = np.triu(small) + np.triu(small, 1).T
    values, turns = _eigen(small)
    return _as_asked(_times(basis, turns[:, :rank]), values, rank)


def refined(apply: Operator, start: Matrix, rank: int, n_passes: int) -> tuple[Matrix, Matrix]:
    """Return the same from columns that nearly span the answer, by applying A so many times to them.

    Between two applications columns are only brought to length 1, and all but the last one are in float32: they only
    prepare it. The last one, Y = A S, serves twice: A is taken for Y (S^T Y)^-1 Y^T, which is nearer to it than what A
    is within the space of S, at no further application (Nystroem's approximation; Gittens & Mahoney 2016). For few
    applications: with each of them columns come nearer to each other.

    Examples
    --------
    >>> start = np.array([[0.1, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> found, values = refined(lambda x: np.diag([1.0, 4.0, 9.0]) @ x, start, 2, 3)
    >>> np.abs(np.round(found.T, 2)).tolist(), np.round(values, 3).tolist()
    ([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]], [9.0, 4.0, 0.0])
    """
    narrow = cast("Matrix", start.astype(np.float32))
    for _ in range(n_passes - 1):
        narrow = apply(narrow)
        lengths = _lengths(narrow)
        narrow /= np.where(lengths > 0, lengths, 1.0).astype(np.float32)
    start = narrow.astype(np.float64)
    image = apply(start)
    small = _inner(start, image)
    values, turns = _eigen((small + small.T) / 2)
    there = values > values[:1] * _NO_VALUE
    roots = _times(image, np.where(there, turns / np.sqrt(np.where(there, values, 1.0)), 0.0))  # roots roots^T: A
    values, turns = _eigen(_inner(roots, roots))
    there = values > values[:1] * _NO_VALUE
    turns = np.where(there, turns / np.sqrt(np.where(there, values, 1.0)), 0.0)
    return _as_asked(_times(roots, turns[:, :rank]), values, rank)


def _eigen(small: Matrix) -> tuple[Matrix, Matrix]:
    """Return the eigenvalues of a small symmetric matrix, largest first and none below zero, and the eigenvectors."""
    values, turns = np.linalg.eigh(small)  # ascending
    return np.maximum(values[::-1], 0.0), turns[:, ::-1]


def _as_asked(found: Matrix, values: Matrix, rank: int) -> tuple[Matrix, Matrix]:
    """Return so many vectors, their signs fixed, zeros for those that do not exist, and one value more than that."""
    found *= signs(found)
    found[:, values[: found.shape[1]] <= values[:1] * _NO_VALUE] = 0.0
    missing = rank - found.shape[1]
    if missing > 0:
        found = np.hstack([found, np.zeros((len(found), missing))])
    return found, np.concatenate([values, np.zeros(max(0, rank + 1 - len(values)))])[: rank + 1]


def draw_block(ids: IdMap, width: int, seed: int) -> Matrix:
    """Return the first block: at least `width` columns of normal draws; an id's numbers do not depend on other ids.

    Of an eigenvalue that stands m times, a block of fewer than m columns would find fewer than m vectors; so there are
    some columns even where few vectors are asked for.
    """
    width = max(width, _LEAST)
    return normal_for(ids, derive(seed, "krylov"), width).astype(np.float64)


def rows_gram(rows: Interactions, weights: NDArray[np.number], scale: Matrix) -> Operator:
    """Return the operator S X^T W X S: X the rows as a matrix, W users' weights and S items' scales on diagonals.

    Two passes over the rows, which are looked at as lists of names: nothing is multiplied entry by entry, and no matrix
    of items by items is made. In float64, or in float32 where the columns are.

    Examples
    --------
    >>> rows = Interactions.from_pairs([("u1", "a"), ("u1", "b"), ("u2", "b")])
    >>> rows_gram(rows, np.array([1, 2]), np.array([1.0, 0.5]))(np.eye(2)).tolist()
    [[1.0, 0.5], [0.5, 0.75]]
    """
    kernels, turned = on_cpu(), rows.matrix().T.tocsr()
    by_user = rows.indptr, rows.item_index
    by_item = turned.indptr.astype(np.int64), turned.indices.astype(np.int32, copy=False)

    def apply(columns: Matrix) -> Matrix:
        kind = columns.dtype
        of_users, of_items = weights.astype(kind), scale.astype(kind)
        image = np.empty_like(columns)
        for first in range(0, columns.shape[1], _TILE):
            own = slice(first, first + _TILE)
            given = np.ascontiguousarray(columns[:, own] * of_items[:, None])
            between, tile = (np.empty((n, given.shape[1]), dtype=kind) for n in (len(of_users), len(of_items)))
            kernels.scaled_sums(*by_user, of_users, given, between)
            kernels.scaled_sums(*by_item, of_items, between, tile)
            image[:, own] = tile
        return image

    return apply


def gap_after(values: Matrix, rank: int) -> float | None:
    """Return how far the last singular value that was kept is above the first that was not; None for no such one.

    Takes eigenvalues: their roots are the singular values.
    """
    if len(values) <= rank or rank < 1 or values[rank] <= 0:
        return None
    return round(float(np.sqrt(values[rank - 1] / values[rank])), 4)


def _orthonormal(block: Matrix, basis: Matrix, lengths: Matrix) -> Matrix:
    """Return orthonormal columns that span the block; zeros where there is nothing more.

    What the basis spans is taken away from the block already; `lengths` are those of its columns before. Where little
    was left of them, rounding has left much of the basis too, and it is taken away once more.
    """
    block = block / np.where(lengths > 0, lengths, 1.0)
    for _ in range(2):
        values, turns = np.linalg.eigh(_inner(block, block))
        there = values > _NOTHING**2 * max(float(values[-1]), 1.0)
        block = _times(block, np.where(there, turns / np.sqrt(np.where(there, values, 1.0)), 0.0))
        if not there.any() or values[there].min() > _LITTLE**2:
            break
        block = block - _times(basis, _inner(basis, block))
    return block


def _lengths(columns: Matrix) -> Matrix:
    return np.asarray(np.sqrt(np.square(columns, dtype=np.float64).sum(axis=0)))


def _times(tall: Matrix, small: Matrix) -> Matrix:
    """Return the product of a tall matrix and a small one."""
    return blocked(lambda rows: tall[rows] @ small, len(tall), small.shape[1])


def _inner(left: Matrix, right: Matrix) -> Matrix:
    """Return left^T right, summed over blocks of rows in order."""
    total = np.zeros((left.shape[1], right.shape[1]))
    for part in spread(lambda rows: left[rows].T @ right[rows], _blocks(len(left)), threads()):
        total += part
    return total


def blocked(function: Callable[[slice], Matrix], n: int, width: int) -> Matrix:
    """Return the rows that a function gives block by block, side by side over threads."""
    out = np.empty((n, width))

    def fill(rows: slice) -> None:
        out[rows] = function(rows)

    spread(fill, _blocks(n), threads())
    return out


def _blocks(n: int) -> list[slice]:
    return [slice(start, min(start + _ROWS, n)) for start in range(0, n, _ROWS)]
