"""Powers that come out the same everywhere: made of square roots and products, which IEEE 754 rounds exactly.

A library's own power function rounds as it likes, and otherwise on another kind of CPU: numpy's differs between AVX2
and AVX-512 in one value of twenty. Bits of the models depend on it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["power"]

_BITS = 24  # of the exponent's fraction; the rest is cut off


def power(values: NDArray[np.generic], exponent: float) -> NDArray[np.float64]:
    """Return values ** exponent, for positive values and an exponent that is not negative.

    x^p is the product of x^(1/2), x^(1/4), ... over the binary digits of p.

    Examples
    --------
    >>> power(np.array([4, 16]), 0.5).tolist(), power(np.array([2.0]), 3.0).tolist()
    ([2.0, 4.0], [8.0])
    >>> bool(np.isclose(power(np.array([7.0]), 0.35), 7.0**0.35)[0])
    True
    """
    if exponent < 0:
        raise ValueError(f"the exponent is {exponent}; expected one that is not negative")
    base = values.astype(np.float64)
    whole = int(exponent)
    digits = int((exponent - whole) * 2**_BITS)
    result = np.ones_like(base)
    for _ in range(whole):
        result *= base
    root = base
    for place in range(_BITS - 1, -1, -1):
        root = np.sqrt(root)
        if digits >> place & 1:
            result = result * root
    return result
