"""numba kernels: the counters of ids, and nearly normal numbers drawn by them. The same bits as `receraser.seeds`.

An id's counter is BLAKE2b with 8 bytes of digest over its UTF-8 (RFC 7693), a row of numbers four quarters of a 64-bit
draw each: whole numbers until the very end. In Python and numpy it took longer to draw the first vectors of 35,000 ids
than a GPU takes to train them.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from receraser import seeds
from receraser.training.kernels.vectors import compiled, parallel

__all__ = ["counters", "normals"]

Counters = NDArray[np.uint64]

VECTORS = "981baf5c83b2ad97"  # of vectors.py, see `cpu`

_STEP, _MIX_1, _MIX_2 = (np.uint64(n) for n in (seeds.GOLDEN, seeds.MIX_1, seeds.MIX_2))
_SCALE = seeds.SQRT_3 / 65536.0
_ONE, _QUARTER = np.uint64(1), np.uint64(0xFFFF)
_S1, _S16, _S24, _S27, _S30, _S31 = (np.uint64(n) for n in (1, 16, 24, 27, 30, 31))
_S32, _S40, _S48, _S63 = (np.uint64(n) for n in (32, 40, 48, 63))

_BLOCK = 128  # bytes that are mixed at a time
_FIRST = np.array(  # the fractions of the square roots of the first eight primes
    [
        0x6A09E667F3BCC908,
        0xBB67AE8584CAA73B,
        0x3C6EF372FE94F82B,
        0xA54FF53A5F1D36F1,
        0x510E527FADE682D1,
        0x9B05688C2B3E6C1F,
        0x1F83D9ABFB41BD6B,
        0x5BE0CD19137E2179,
    ],
    dtype=np.uint64,
)
_EIGHT_BYTES = np.uint64(0x01010008)  # no key, no tree, a digest of eight bytes
_ORDER = np.array(  # of the words of a block, round by round; twelve rounds, so it begins again
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
    ],
    dtype=np.int64,
)


@compiled
def _stir(v: Counters, a: int, b: int, c: int, d: int, x: np.uint64, y: np.uint64) -> None:
    """Mix two words into four of the sixteen."""
    v[a] = v[a] + v[b] + x
    v[d] ^= v[a]
    v[d] = (v[d] >> _S32) | (v[d] << _S32)
    v[c] = v[c] + v[d]
    v[b] ^= v[c]
    v[b] = (v[b] >> _S24) | (v[b] << _S40)
    v[a] = v[a] + v[b] + y
    v[d] ^= v[a]
    v[d] = (v[d] >> _S16) | (v[d] << _S48)
    v[c] = v[c] + v[d]
    v[b] ^= v[c]
    v[b] = (v[b] >> _S63) | (v[b] << _S1)


@compiled
def _compress(h: Counters, words: Counters, n_bytes: int, last: bool, v: Counters) -> None:
    """Mix a block into the state; `n_bytes` have been read with it."""
    for i in range(8):
        v[i] = h[i]
        v[8 + i] = _FIRST[i]
    v[12] ^= np.uint64(n_bytes)
    if last:
        v[14] = ~v[14]
    for r in range(12):
        m = _ORDER[r % 10]
        for i in range(4):
            _stir(v, i, 4 + i, 8 + i, 12 + i, words[m[2 * i]], words[m[2 * i + 1]])
        for i in range(4):
            x, y = words[m[8 + 2 * i]], words[m[9 + 2 * i]]
            _stir(v, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, x, y)
    for i in range(8):
        h[i] ^= v[i] ^ v[8 + i]


@parallel
def counters(letters: NDArray[np.uint8], starts: NDArray[np.int64], stops: NDArray[np.int64], out: Counters) -> None:
    """Write the counter of each id, whose letters lie between a start and a stop."""
    for one in numba.prange(len(out)):
        h, words, v = _FIRST.copy(), np.empty(16, dtype=np.uint64), np.empty(16, dtype=np.uint64)
        h[0] ^= _EIGHT_BYTES
        size = stops[one] - starts[one]
        for block in range(max(1, -(-size // _BLOCK))):
            words[:] = np.uint64(0)
            first = block * _BLOCK
            for place in range(first, min(size, first + _BLOCK)):
                letter = np.uint64(letters[starts[one] + place])
                words[(place - first) // 8] |= letter << np.uint64(8 * (place % 8))
            read = min(size, first + _BLOCK)
            _compress(h, words, read, read == size, v)
        out[one] = h[0]


@parallel
def normals(key: np.uint64, rows: Counters, columns: Counters, out: NDArray[np.float32]) -> None:
    """Write the number of each pair of a row's counter and a column's."""
    for row in numba.prange(out.shape[0]):
        for column in range(out.shape[1]):
            x = (rows[row] + columns[column] + _ONE) * _STEP + key
            x = (x ^ (x >> _S30)) * _MIX_1
            x = (x ^ (x >> _S27)) * _MIX_2
            x ^= x >> _S31
            total = (x & _QUARTER) + ((x >> _S16) & _QUARTER) + ((x >> _S32) & _QUARTER) + (x >> _S48)
            out[row, column] = np.float32(np.float64(np.int64(total) - 131070) * _SCALE)
