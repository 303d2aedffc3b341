"""Models that leak, each in its own way: what `check-purity` must find out."""

from __future__ import annotations

import os
import time
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from receraser.models.foreign import Rows

Matrix = NDArray[np.float64]
Vectors = tuple[Matrix, Matrix]

DIM = 3


def drawn(rows: Rows, seed: int) -> Vectors:
    """Vectors that depend on what they may."""
    generator = np.random.default_rng(seed)
    counts = np.bincount(rows.item_index, minlength=len(rows.items))
    return generator.normal(size=(len(rows.users), DIM)), generator.normal(size=(len(rows.items), DIM)) * counts[
        :, None
    ]


class GlobalGenerator:
    def fit(self, rows: Rows, seed: int) -> Vectors:
        users, items = drawn(rows, seed)
        return users + np.random.normal(), items  # noqa: NPY002


class StateOnTheClass:
    fits: ClassVar[int] = 0

    def fit(self, rows: Rows, seed: int) -> Vectors:
        type(self).fits += 1
        return drawn(rows, seed + self.fits)


class CacheBySize:
    """What was learned from as many users and items, whichever rows they had."""

    known: ClassVar[dict[object, Vectors]] = {}

    def fit(self, rows: Rows, seed: int) -> Vectors:
        return self.known.setdefault((seed, len(rows.users), len(rows.items)), drawn(rows, seed))


class HashOrder:
    def fit(self, rows: Rows, seed: int) -> Vectors:
        users, items = drawn(rows, seed)
        for place, item in enumerate(set(rows.items)):
            items[rows.items.index(item)] += place
        return users, items


class SumsByThread:
    """Each thread sums up its part, in half precision."""

    variable = "NUMBA_NUM_THREADS"  # differs from worker to worker

    def fit(self, rows: Rows, seed: int) -> Vectors:
        users, items = drawn(rows, seed)
        threads = int(os.environ[self.variable])
        parts = np.array_split(items.ravel() / 3, threads)
        return users, items + sum(float(np.cumsum(part, dtype=np.float16)[-1]) for part in parts if len(part))


class SumsAsTorchDoes(SumsByThread):
    """No leak, though it looks like one: in workers BLAS and torch have one thread, whatever there is."""

    variable = "OMP_NUM_THREADS"


everybody: list[int] = []


class ReadsOtherShards:
    """How popular an item is, wherever."""

    def fit(self, rows: Rows, seed: int) -> Vectors:
        users, items = drawn(rows, seed)
        everybody.extend(rows.item_index.tolist())
        return users, items * np.bincount(everybody, minlength=len(items))[: len(items), None]


class MutatesRows:
    def fit(self, rows: Rows, seed: int) -> Vectors:
        result = drawn(rows, seed)
        rows.item_index.sort()
        rows.item_index[0] = 0
        rows.user_index[::2] = 0
        return result


class WarmStart:
    known: ClassVar[dict[str, Matrix]] = {}

    def fit(self, rows: Rows, seed: int) -> Vectors:
        users, items = drawn(rows, seed)
        for place, item in enumerate(rows.items):
            items[place] += 0.1 * self.known.get(item, np.zeros(DIM))
        self.known.update(zip(rows.items, items, strict=True))
        return users, items


class ByTheDay:
    def fit(self, rows: Rows, seed: int) -> Vectors:
        return drawn(rows, seed + int(time.time() // 86_400))


class ByTheUser:
    def fit(self, rows: Rows, seed: int) -> Vectors:
        return drawn(rows, seed + len(os.environ.get("USER", "") + os.getcwd()))  # noqa: PTH109


class OneBuffer:
    """The same memory for every result."""

    buffer = np.zeros((10_000, DIM))

    def fit(self, rows: Rows, seed: int) -> Vectors:
        users, items = drawn(rows, seed)
        self.buffer[: len(items)] = items
        return users, self.buffer[: len(items)]


class NeedsTwoItems:
    def fit(self, rows: Rows, seed: int) -> Vectors:
        if len(rows.items) < 2:
            raise ZeroDivisionError("nothing to compare")
        return drawn(rows, seed)
