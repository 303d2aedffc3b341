"""numba kernels of the attention: a softmax over the shards that hold somebody, the weighted sums, and the way back.

Sums run in a fixed order (`kernels.vectors`).
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from receraser.training.kernels.vectors import add_row, compiled, dot_rows, parallel

__all__ = ["weighted", "weights_back"]

VECTORS = (
    "6bef974891641153"  # of vectors.py: machine code is kept by the date of this file, so a change there must change it
)

Float32 = NDArray[np.float32]

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
def weighted(
    indptr: NDArray[np.int64],
    places: NDArray[np.int64],
    vectors: Float32,
    hidden: Float32,
    to_logit: Float32,
    weights: Float32,
    out: Float32,
) -> None:
    """Weigh the vectors of each group by a softmax over what a network says of them; write their sums into `out`.

    Group g has the vectors number places[indptr[g]:indptr[g + 1]], at least one.

    Parameters
    ----------
    hidden, to_logit
        (n, width), (1, width): the hidden layer, which is cut off at zero in place, and what makes one number of it.
    weights
        (n,): written.
    """
    for group in numba.prange(indptr.shape[0] - 1):
        first, last = indptr[group], indptr[group + 1]
        most = np.float32(-np.inf)
        for at in range(first, last):
            place = places[at]
            for c in range(hidden.shape[1]):
                hidden[place, c] = max(hidden[place, c], np.float32(0.0))
            weights[place] = dot_rows(hidden, place, to_logit, 0)
            most = max(most, weights[place])
        total = 0.0
        for at in range(first, last):
            loud = _exp(float(weights[places[at]]) - float(most))
            weights[places[at]] = loud
            total += loud
        for c in range(out.shape[1]):
            out[group, c] = np.float32(0.0)
        for at in range(first, last):
            weights[places[at]] = np.float32(weights[places[at]] / total)
            add_row(weights[places[at]], vectors, places[at], out, group)


@parallel
def weights_back(
    indptr: NDArray[np.int64],
    places: NDArray[np.int64],
    vectors: Float32,
    hidden: Float32,
    weights: Float32,
    of_out: Float32,
    of_both: Float32,
) -> None:
    """Write the gradients of what `weighted` was given, from that of its sums: its backward pass.

    Parameters
    ----------
    of_both
        (n, dim + width): what the sums say of the vectors; then the gradient of a vector's logit in the columns where
        its hidden layer is above zero, 0 elsewhere. Beside each other, for the product that comes next.
    """
    dim = of_out.shape[1]
    for group in numba.prange(indptr.shape[0] - 1):
        first, last = indptr[group], indptr[group + 1]
        mean = np.float32(0.0)
        for at in range(first, last):
            place = places[at]
            said = dot_rows(of_out, group, vectors, place)
            of_both[place, dim] = said
            mean += weights[place] * said
            for c in range(dim):
                of_both[place, c] = weights[place] * of_out[group, c]
        for at in range(first, last):
            place = places[at]
            slope = weights[place] * (of_both[place, dim] - mean)
            for c in range(hidden.shape[1]):
                of_both[place, dim + c] = slope if hidden[place, c] > 0 else np.float32(0.0)
