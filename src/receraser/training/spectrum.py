"""The deterministic spectral toolbox: square roots, leading directions, and merging of factors, in float64.

Everything here is a pure function of its input in canonical order: one eigen-decomposition of a small symmetric matrix
(LAPACK, in a worker with one thread and pinned code paths), no start vector, no iteration count, no warm start. Where
a GPU is asked for, the products of tall matrices are taken there, whole; the small one is decomposed on the CPU. The
sign of a direction is fixed by its largest coordinate. Nearly equal eigenvalues leave the directions between them to
rounding: the space they span, and so every score, is not affected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from receraser.training.kernels import on_cpu, threads
from receraser.training.pool import spread

if TYPE_CHECKING:
    import torch

__all__ = ["Group", "Tall", "leading", "signs", "square_root", "whitened"]

Matrix = NDArray[np.float64]

_BLOCK = 512  # rows, at most
_STRETCHES = 8  # pieces of work, or twice as many: as many for each of two, four or eight threads
_MOST_THREADS = 8  # with more it is no quicker: measured with 16 cores
_NOISE = 1e-7  # singular values below this share of the largest are rounding noise of a product of both sides
_ROUNDED = 2.0**-12  # ... or where columns that were orthogonal have been rounded to float32, to one part in 2^24


@dataclass(frozen=True)
class Group:
    """Some columns beside each other; `orthogonal`: all of them to each other, as those that `leading` returns are."""

    columns: slice
    orthogonal: bool


class Tall(Protocol):
    """A tall matrix that nobody has to hold in one piece: it writes down the rows that it is asked for."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        ...

    @property
    def groups(self) -> Sequence[Group]:
        """Its columns, from left to right, in groups."""
        ...

    def write(self, rows: slice, out: Matrix) -> None:
        """Write some rows; from several threads at a time."""
        ...

    def on(self, device: torch.device) -> torch.Tensor:
        """Return all of it on a GPU, as float64."""
        ...


def leading(
    columns: NDArray[np.floating] | Tall,
    rank: int,
    dtype: type[np.floating] = np.float64,
    device: torch.device | None = None,
) -> tuple[NDArray[Any], Matrix]:
    """Return U S of the `rank` leading singular directions of a tall matrix, and all singular values, largest first.

    What comes back is (n, rank) with Y Y^T the best approximation of X X^T of that rank (Eckart & Young 1936). Columns
    beyond the true rank are zero. Computed in float64, whatever `dtype` comes back, over blocks of a fixed size
    that are added up in a fixed order: how many are computed side by side changes nothing. Products of columns that are
    orthogonal to each other are taken to be zero, though rounding to float32 has left something of them: what is found
    below that is noise, and is zero too.

    Parameters
    ----------
    columns
        A tall matrix, or what writes it down.
    rank
        How many directions are kept.
    dtype
        Of what is kept.
    device
        A GPU that takes the products, of all rows at once: other last bits, the same ones every time.

    Examples
    --------
    >>> kept, values = leading(np.array([[3.0, 0.0], [0.0, -2.0], [0.0, 0.0]]), 1)
    >>> kept.tolist(), values.tolist()
    ([[3.0], [0.0], [0.0]], [3.0, 2.0])
    """
    groups = (
        [Group(slice(0, columns.shape[1]), orthogonal=False)] if isinstance(columns, np.ndarray) else columns.groups
    )
    if device is not None and device.type != "cpu" and min(columns.shape):
        return _leading_there(columns, groups, rank, dtype, device)
    n, width = columns.shape
    stretches = _stretches(n)
    add_squares = on_cpu().add_squares

    def squared(stretch: Sequence[slice]) -> Matrix:
        total, space, product = np.zeros((width, width)), np.empty((_BLOCK, width)), np.empty(width * width)
        for rows in stretch:
            _add_products(_widened(columns, rows, space), groups, total, product, add_squares)
        return total

    n_threads = min(threads(), _MOST_THREADS)
    gram = np.zeros((width, width))
    for part in spread(squared, stretches, n_threads):
        gram += part
    chosen, singular = _directions(gram, groups, rank)
    kept = np.zeros((n, rank), dtype=dtype)

    def project(stretch: Sequence[slice]) -> tuple[Matrix, Matrix]:
        space, made = np.empty((_BLOCK, width)), np.empty((_BLOCK, chosen.shape[1]))
        for rows in stretch:
            block = _widened(columns, rows, space)
            kept[rows, : chosen.shape[1]] = np.matmul(block, chosen, out=made[: len(block)])
        own = kept[stretch[0].start : stretch[-1].stop]
        return own.min(axis=0), own.max(axis=0)

    extremes = np.array(spread(project, stretches, n_threads))
    turned = signs(extremes.reshape(-1, rank))  # it asks for no more than these

    def turn(stretch: Sequence[slice]) -> None:
        kept[stretch[0].start : stretch[-1].stop] *= turned

    spread(turn, stretches, n_threads)
    return kept, singular


def _leading_there(
    columns: NDArray[np.floating] | Tall,
    groups: Sequence[Group],
    rank: int,
    dtype: type[np.floating],
    device: torch.device,
) -> tuple[NDArray[Any], Matrix]:
    """Do the same with the products of a GPU, in one piece each."""
    import torch

    if isinstance(columns, np.ndarray):
        tall = torch.from_numpy(np.require(columns, requirements=["C", "W"])).to(device).to(torch.float64)
    else:
        tall = columns.on(device)
    gram = (tall.T @ tall).cpu().numpy()  # (width, width)
    for group in groups:
        if group.orthogonal:
            own = gram[group.columns, group.columns]
            own[:] = np.diag(own.diagonal())
    chosen, singular = _directions(gram, groups, rank)
    kind = torch.float32 if dtype is np.float32 else torch.float64
    made = (tall @ torch.from_numpy(chosen).to(device)).to(kind)  # (n, at most rank)
    turned = signs(torch.stack([made.amin(dim=0), made.amax(dim=0)]).cpu().numpy())
    kept = np.zeros((len(made), rank), dtype=dtype)
    kept[:, : chosen.shape[1]] = made.cpu().numpy()
    kept[:, : chosen.shape[1]] *= turned
    return kept, singular


def _directions(gram: Matrix, groups: Sequence[Group], rank: int) -> tuple[Matrix, Matrix]:
    """Return the leading eigenvectors of X^T X, zeros where there is only noise, and the singular values of X."""
    values, vectors = np.linalg.eigh(gram)  # ascending; of the lower half
    singular = np.sqrt(np.maximum(values[::-1], 0.0))
    chosen = vectors[:, ::-1][:, :rank].copy()  # (width, min(rank, width))
    noise = _ROUNDED if any(group.orthogonal for group in groups) else _NOISE
    chosen[:, singular[: chosen.shape[1]] <= (singular[0] * noise if len(gram) else 0.0)] = 0.0
    return chosen, singular


def _add_products(
    block: Matrix,
    groups: Sequence[Group],
    total: Matrix,
    product: Matrix,
    add_squares: Callable[[Matrix, Matrix], None],
) -> None:
    """Add what a block of rows has to the lower half of X^T X; `product` is space for one of its parts."""
    diagonal = np.einsum("ii->i", total)  # a view that can be written to, which `np.diagonal` is not
    for left, right in combinations_with_replacement(groups, 2):
        if left is right and left.orthogonal:
            add_squares(block[:, left.columns], diagonal[left.columns])
        else:
            at_left, at_right = block[:, left.columns], block[:, right.columns]
            shape = at_right.shape[1], at_left.shape[1]
            made = np.matmul(at_right.T, at_left, out=product[: shape[0] * shape[1]].reshape(shape))
            total[right.columns, left.columns] += made


def _widened(columns: NDArray[np.floating] | Tall, rows: slice, space: Matrix) -> Matrix:
    """Return a block as float64, written into space that there is: threads that ask for new memory wait in a queue."""
    wide = space[: rows.stop - rows.start]
    if isinstance(columns, np.ndarray):
        wide[:] = columns[rows]
    else:
        columns.write(rows, wide)
    return wide


def _stretches(n: int) -> list[list[slice]]:
    """Return blocks of rows in stretches of equal length, for a few threads; a function of the number of rows alone."""
    if n <= _BLOCK:
        return [[slice(0, n)]] if n else []
    many = _STRETCHES * (1 if n <= _STRETCHES * _BLOCK else 2)
    edges = [n * i // many for i in range(many + 1)]
    return [_blocks(first, last) for first, last in pairwise(edges)]


def _blocks(first: int, last: int) -> list[slice]:
    """Return as few blocks as there can be, of equal length."""
    many = -(-(last - first) // _BLOCK)
    edges = [first + (last - first) * i // many for i in range(many + 1)]
    return [slice(start, stop) for start, stop in pairwise(edges)]


def signs(columns: Matrix) -> Matrix:
    """Return 1 or -1 per column: the coordinate that is largest in size becomes positive; a column with both stays."""
    if not len(columns):
        return np.ones(columns.shape[1])
    return np.where(-columns.min(axis=0) > columns.max(axis=0), -1.0, 1.0)


def square_root(symmetric: Matrix) -> Matrix:
    """Return the symmetric square root of a positive semi-definite matrix.

    Examples
    --------
    >>> square_root(np.array([[4.0, 0.0], [0.0, 9.0]])).tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    values, vectors = np.linalg.eigh(symmetric)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def whitened(columns: Matrix) -> Matrix:
    """Return X (X^T X)^(-1/2): the same space with equal weight on all its directions; those of no length stay zero.

    Examples
    --------
    >>> whitened(np.array([[4.0, 0.0], [0.0, -9.0], [0.0, 0.0]])).tolist()
    [[1.0, 0.0], [0.0, -1.0], [0.0, 0.0]]
    """
    values, vectors = np.linalg.eigh(columns.T @ columns)
    singular = np.sqrt(np.maximum(values, 0.0))
    there = singular > (singular[-1] * _NOISE if len(singular) else 0.0)
    inverse = np.where(there, 1.0 / np.where(there, singular, 1.0), 0.0)
    return np.asarray(columns @ ((vectors * inverse) @ vectors.T))
