"""Every random number of the package, as a pure function of (seed, purpose, counters).

There is no generator object and no state: `derive` turns a root seed and a path of names into a 64-bit key, and
`draw` mixes that key with an array of counters (positions, or `id_counters` of ids). The same integers come out of
numpy here, of torch (`draw_torch`) on any device, and of any kernel that does the same few 64-bit operations, so a
draw never depends on what was drawn before it, on the order of the input, or on what else is computed beside it.

Floats are made from the integers by exact arithmetic only (no log, no cos): library versions and vector widths
cannot change them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

__all__ = [
    "GOLDEN",
    "MIX_1",
    "MIX_2",
    "SQRT_3",
    "below",
    "derive",
    "domain_bits",
    "draw",
    "draw_torch",
    "id_counters",
    "normal",
    "permutation",
    "places",
    "places_by",
    "rounds",
    "signed",
    "uniform",
]

GOLDEN = 0x9E3779B97F4A7C15  # 2**64 / golden ratio: the Weyl step of SplitMix64 (Steele, Lea & Flood 2014)
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB
SQRT_3 = 1.7320508075688772

Counters = NDArray[np.uint64]


def derive(root: int, *path: str | int) -> int:
    """Return the 64-bit key for a purpose under a root seed.

    Examples
    --------
    >>> derive(7, "shard", 3) == derive(7, "shard", 3)
    True
    >>> derive(7, "shard", 3) == derive(7, "shard", 4)
    False
    """
    text = "\x1f".join([str(int(root)), *(f"{type(part).__name__}:{part}" for part in path)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def id_counters(ids: Iterable[str]) -> Counters:
    """Return one 64-bit counter per id, the same wherever and beside whichever other ids it stands."""
    joined = b"".join(hashlib.blake2b(name.encode(), digest_size=8).digest() for name in ids)
    return np.frombuffer(joined, dtype="<u8").astype(np.uint64)


def draw(key: int | Counters, counters: NDArray[np.integer] | Counters) -> Counters:
    """Return one uniform 64-bit integer per counter: SplitMix64's output function at `key + (counter + 1) * step`.

    There may be a key for every counter.

    Examples
    --------
    >>> draw(1, np.array([0, 1], dtype=np.uint64)).tolist()
    [10451216379200822465, 13757245211066428519]
    """
    with np.errstate(over="ignore"):
        x = (counters.astype(np.uint64) + np.uint64(1)) * np.uint64(GOLDEN) + np.asarray(key, dtype=np.uint64)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(MIX_1)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(MIX_2)
    return np.asarray(x ^ (x >> np.uint64(31)), dtype=np.uint64)


def signed(value: int) -> int:
    """Return 64 bits as the int64 that holds them."""
    return value - 2**64 if value >= 2**63 else value


def draw_torch(key: int | torch.Tensor, counters: torch.Tensor) -> torch.Tensor:
    """`draw` for torch: the same 64 bits, held in int64 (torch has no unsigned arithmetic).

    The key may be a tensor too (`signed`): a step that was captured in a CUDA graph draws anew when it changes.
    """

    def shifted(x: torch.Tensor, by: int) -> torch.Tensor:
        return (x >> by) & ((1 << (64 - by)) - 1)  # torch shifts the sign in; the mask makes it a logical shift

    x = (counters + 1) * signed(GOLDEN) + (signed(key) if isinstance(key, int) else key)
    x = (x ^ shifted(x, 30)) * signed(MIX_1)
    x = (x ^ shifted(x, 27)) * signed(MIX_2)
    return x ^ shifted(x, 31)


def below(key: int, counters: NDArray[np.integer] | Counters, bound: int | NDArray[np.integer]) -> NDArray[np.int64]:
    """Return one integer in [0, bound) per counter; `bound` (at most 2**31) may differ per counter.

    The upper 32 bits are scaled by multiplication, so that the same value comes out of int64 arithmetic in torch.
    """
    high = (draw(key, counters) >> np.uint64(32)).astype(np.int64)
    return np.asarray((high * np.asarray(bound, dtype=np.int64)) >> 32, dtype=np.int64)


def uniform(key: int, counters: NDArray[np.integer] | Counters) -> NDArray[np.float64]:
    """Return one float64 in [0, 1) per counter, a multiple of 2**-53."""
    return np.asarray((draw(key, counters) >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def normal(key: int, counters: Counters, dim: int) -> NDArray[np.float32]:
    """Return a (len(counters), dim) table of nearly normal numbers, mean 0 and variance 1.

    Each is the centred sum of the four 16-bit quarters of one draw (Irwin-Hall; within 3.47 standard deviations):
    what initial vectors need, and exact in every environment.
    """
    columns = draw(key, np.arange(dim, dtype=np.uint64))
    with np.errstate(over="ignore"):
        cells = draw(key ^ MIX_1, counters[:, None] + columns[None, :])  # (n, dim)
    total = np.zeros(cells.shape, dtype=np.int64)
    for quarter in range(4):
        total += ((cells >> np.uint64(16 * quarter)) & np.uint64(0xFFFF)).astype(np.int64)
    return ((total - 2 * 65535).astype(np.float64) * (SQRT_3 / 65536.0)).astype(np.float32)


def permutation(key: int, n: int) -> NDArray[np.int64]:
    """Return a random order of range(n): positions sorted by their draws (ties, all but impossible, by position).

    Examples
    --------
    >>> sorted(permutation(3, 5).tolist())
    [0, 1, 2, 3, 4]
    """
    return np.argsort(draw(key, np.arange(n, dtype=np.uint64)) >> np.uint64(1), kind="stable").astype(np.int64)


def rounds(key: int) -> Counters:
    """Return the keys of the four rounds of `places`."""
    return draw(key, np.arange(4, dtype=np.uint64))


def domain_bits(n: int) -> int:
    """Return how many bits the numbers have that `places` works on: few enough to be quick, enough to be mixed well."""
    return max(8, (n - 1).bit_length())


def places(key: int, n: int) -> NDArray[np.int64]:
    """Return a random order of range(n) as the place of each: a keyed bijection, every place computed for itself.

    A Feistel network (Luby & Rackoff 1988) over the next power of two; what falls outside goes through it again until
    it is inside. Nothing is sorted and nothing is kept, so a kernel can compute the place of one row alone.

    Examples
    --------
    >>> sorted(places(3, 5).tolist())
    [0, 1, 2, 3, 4]
    """
    return places_by(rounds(key), n)


def places_by(keys: Counters, n: int) -> NDArray[np.int64]:
    """Return the places by the keys of the rounds."""
    bits = domain_bits(n)
    low, high = np.uint64(bits // 2), np.uint64(bits - bits // 2)
    one = np.uint64(1)
    low_mask, high_mask = (one << low) - one, (one << high) - one
    x = np.arange(n, dtype=np.uint64)
    outside = np.arange(n)
    while len(outside):
        left, right = x[outside] >> low, x[outside] & low_mask
        for turn in (0, 2):
            left = (left ^ draw(int(keys[turn]), right)) & high_mask
            right = (right ^ draw(int(keys[turn + 1]), left)) & low_mask
        x[outside] = (left << low) | right
        outside = outside[x[outside] >= n]
    return x.astype(np.int64)
