"""numba kernels of the attention: people's vectors moved, weighed by a softmax and added up; and the way back.

People are taken in blocks, each by one thread from the first product to the last sum: what is in between is some
hundred kilobytes, which a core's own cache holds. Sums run in a fixed order (`kernels.vectors`), over blocks and
stretches of blocks that depend on nothing but who is in which shard. Products are BLAS's, which must be told to use one
thread (`kernels.attention_on_cpu`): with several it sums in another order, and waits for ours.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from receraser.training.kernels.vectors import compiled, dot_rows, parallel

__all__ = ["STRETCHES", "backward", "forward"]

VECTORS = (
    "981baf5c83b2ad97"  # of vectors.py: machine code is kept by the date of this file, so a change there must change it
)

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]

STRETCHES = 8  # of blocks, at most, on the way back: each adds up its own
_LOG2_E = 1.4426950408889634
_LN_2 = 0.6931471805599453
_POWERS = 0.5 ** np.arange(128)


@compiled
def _exp(x: float) -> float:
    """Return e^x for x <= 0, by arithmetic alone: libraries differ in the last bit. 1e-26 for whatever is smaller."""
    y = max(x, -60.0)
    if not y >= -60.0:  # no number
        return np.nan
    n = int(y * _LOG2_E - 0.5)  # rounded
    r = y - n * _LN_2  # within 0.35
    e = 1.0 + r * (1.0 + r * (0.5 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + r * (1 / 720 + r / 5040))))))
    return float(e * _POWERS[-n])


@parallel
def forward(
    table: Float32,
    edges: Int64,
    indptr: Int64,
    places: Int64,
    size: int,
    to_both: Float32,
    to_logit: Float32,
    both: Float32,
    weights: Float32,
    out: Float32,
) -> None:
    """Move everybody's vectors, weigh them by a softmax over what a network says of them, and write their sums.

    Parameters
    ----------
    table
        (n, dim + 1): the vectors, shard after shard, in each person after person, and a 1 behind each.
    edges
        (n_shards, n_blocks + 1): where in the table the people of a block begin.
    indptr, places
        Person g has the vectors number places[indptr[g]:indptr[g + 1]], shard by shard, at least one.
    size
        People of a block; the last one may have fewer.
    to_both
        (n_shards, dim + 1, dim + width): what makes a moved vector and its hidden layer, before it is cut off at zero.
    to_logit
        (1, dim + width): zeros, and what makes one number of the hidden layer.
    both, weights, out
        (n, dim + width), (n,), (n_people, dim): written; the way back wants them.
    """
    n_people, dim = out.shape
    for block in numba.prange(edges.shape[1] - 1):
        for shard in range(edges.shape[0]):
            first, last = edges[shard, block], edges[shard, block + 1]
            if first < last:
                np.dot(table[first:last], to_both[shard], both[first:last])
        for person in range(block * size, min(n_people, (block + 1) * size)):
            first, last = indptr[person], indptr[person + 1]
            most = np.float32(-np.inf)
            for at in range(first, last):
                place = places[at]
                for c in range(dim, both.shape[1]):
                    both[place, c] = max(both[place, c], np.float32(0.0))
                weights[place] = dot_rows(both, place, to_logit, 0)
                most = max(most, weights[place])
            total = 0.0
            for at in range(first, last):
                loud = _exp(float(weights[places[at]]) - float(most))
                weights[places[at]] = loud
                total += loud
            for c in range(dim):
                out[person, c] = np.float32(0.0)
            for at in range(first, last):
                place = places[at]
                weights[place] = np.float32(weights[place] / total)
                for c in range(dim):
                    out[person, c] += weights[place] * both[place, c]


@parallel
def backward(  # noqa: C901 - a block of people from the gradients to the products
    table: Float32,
    edges: Int64,
    indptr: Int64,
    places: Int64,
    size: int,
    both: Float32,
    weights: Float32,
    of_out: Float32,
    found: Float32,
) -> None:
    """Add up table^T [A | B] of every shard, the backward pass of `forward`: what it wrote is handed on.

    Of a vector A is its weight times the gradient of the person's sum; B is the gradient of its logit in the columns
    where its hidden layer is above zero, 0 elsewhere. They are never written down as a whole.

    Parameters
    ----------
    of_out
        The gradient of `out`.
    found
        (n_stretches, n_shards, dim + 1, dim + width), zeros: every stretch of blocks adds to its own. Their sum is what
        is wanted.
    """
    n_people, dim = of_out.shape
    n_shards, n_blocks, width = edges.shape[0], edges.shape[1] - 1, both.shape[1]
    most = 0  # rows of a block
    for block in range(n_blocks):
        most = max(most, (edges[:, block + 1] - edges[:, block]).sum())
    for stretch in numba.prange(found.shape[0]):
        space = np.empty((most, width), dtype=np.float32)  # A and B of a block, shard after shard
        product = np.empty((table.shape[1], width), dtype=np.float32)
        shift = np.empty(n_shards, dtype=np.int64)  # from the rows of the table to those of the block
        for block in range(n_blocks * stretch // found.shape[0], n_blocks * (stretch + 1) // found.shape[0]):
            before = 0
            for shard in range(n_shards):
                shift[shard] = before - edges[shard, block]
                before += edges[shard, block + 1] - edges[shard, block]
            for person in range(block * size, min(n_people, (block + 1) * size)):
                first, last = indptr[person], indptr[person + 1]
                mean, shard = np.float32(0.0), 0
                for at in range(first, last):
                    place = places[at]
                    while place >= edges[shard, n_blocks]:
                        shard += 1
                    row = place + shift[shard]
                    said = dot_rows(of_out, person, both, place)
                    space[row, dim] = said
                    mean += weights[place] * said
                    for c in range(dim):
                        space[row, c] = weights[place] * of_out[person, c]
                shard = 0
                for at in range(first, last):
                    place = places[at]
                    while place >= edges[shard, n_blocks]:
                        shard += 1
                    row = place + shift[shard]
                    slope = weights[place] * (space[row, dim] - mean)
                    for c in range(dim, width):
                        space[row, c] = slope if both[place, c] > 0 else np.float32(0.0)
            for shard in range(n_shards):
                first, last = edges[shard, block], edges[shard, block + 1]
                if first < last:
                    own = space[first + shift[shard] : last + shift[shard]]
                    np.dot(table[first:last].T, own, product)
                    found[stretch, shard] += product
