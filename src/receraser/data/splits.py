"""Train, validation and test: at random, per user, the last ones, by time. Pure functions of the rows and a seed.

Chance comes from draws keyed on the ids of a row's user and item, so a row's draw does not depend on the order of the
input or on which other rows there are. `valid` is always a fraction of what is left after `test`: the paper's split is
`test=0.2, valid=0.1`, a fifth for test and a tenth of the rest for validation. Nothing here is used by a fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from receraser.data.interactions import Interactions
from receraser.errors import DataError, UsageError
from receraser.seeds import derive, draw, id_counters

__all__ = ["Split", "leave_last_split", "per_user_split", "random_split", "time_split"]

_TRAIN, _VALID, _TEST = 0, 1, 2
Parts = NDArray[np.int8]


@dataclass(frozen=True)
class Split:
    """Three tables that share no row and together hold all of them; each has vocabularies of its own."""

    train: Interactions
    valid: Interactions
    test: Interactions


def random_split(rows: Interactions, *, test: float, valid: float = 0.0, seed: int) -> Split:
    """Split single interactions at random: the rows with the smallest draws are test, the next ones validation.

    Sizes are exact: floor(test * n) rows, then floor(valid * what is left).

    Examples
    --------
    >>> rows = Interactions.from_pairs([(user, item) for user in range(10) for item in range(10)])
    >>> split = random_split(rows, test=0.2, valid=0.1, seed=7)
    >>> len(split.train), len(split.valid), len(split.test)
    (72, 8, 20)
    """
    test_share, valid_share = _share(test, "test"), _share(valid, "valid")
    n_test = int(test_share * len(rows))
    n_valid = int(valid_share * (len(rows) - n_test))
    order = np.argsort(_draws(rows, seed, "random"), kind="stable")
    parts: Parts = np.full(len(rows), _TRAIN, dtype=np.int8)
    parts[order[:n_test]] = _TEST
    parts[order[n_test : n_test + n_valid]] = _VALID
    return _cut(rows, parts)


def per_user_split(rows: Interactions, *, test: float, valid: float = 0.0, seed: int) -> Split:
    """Split each user's rows at random, in the given fractions, rounded to the nearest (halves up).

    Every user keeps at least one row in train.
    """
    test_share, valid_share = _share(test, "test"), _share(valid, "valid")
    sizes = np.diff(rows.indptr)
    n_test = np.minimum(_rounded(sizes, test_share), sizes - 1)
    n_valid = np.minimum(_rounded(sizes - n_test, valid_share), sizes - n_test - 1)
    order = np.lexsort((_draws(rows, seed, "per user"), rows.user_index))
    return _cut(rows, _head_parts(rows, order, n_test, n_valid))


def leave_last_split(rows: Interactions, n_test: int = 1, n_valid: int = 0) -> Split:
    """Put each user's latest `n_test` rows into test and the `n_valid` before them into validation.

    Of rows of equal time the one with the greater item id (by its bytes) is later. Every user keeps at least one row
    in train; a user with too few rows gives to test first.

    Examples
    --------
    >>> rows = Interactions.from_columns(["u", "u", "u"], ["a", "b", "c"], timestamps=[3, 1, 2])
    >>> list(leave_last_split(rows).test.pairs())
    [('u', 'a')]
    """
    for count, what in ((n_test, "n_test"), (n_valid, "n_valid")):
        if count < 0:
            raise UsageError(f"{what} is {count}; a count of rows cannot be negative")
    times = _times(rows)
    sizes = np.diff(rows.indptr)
    tests = np.minimum(n_test, sizes - 1)
    valids = np.minimum(n_valid, sizes - tests - 1)
    order = np.lexsort((-rows.item_index.astype(np.int64), -times, rows.user_index))  # latest first
    return _cut(rows, _head_parts(rows, order, tests, valids))


def time_split(rows: Interactions, *, test: float, valid: float = 0.0) -> Split:
    """Split all rows at points in time: the latest are test, those before them validation.

    Rows of one time are never parted: those that share the border's time all stay in the earlier part, so that a later
    part may be smaller than asked for, never larger.
    """
    test_share, valid_share = _share(test, "test"), _share(valid, "valid")
    times = _times(rows)
    parts: Parts = np.full(len(rows), _TRAIN, dtype=np.int8)
    latest = _latest(times, test_share)
    parts[latest] = _TEST
    rest = np.flatnonzero(~latest)
    parts[rest[_latest(times[rest], valid_share)]] = _VALID
    return _cut(rows, parts)


def _share(fraction: float, what: str) -> Fraction:
    """Return a fraction as it is written (0.29 is 29/100, whatever float64 makes of it), checked."""
    if not 0 <= fraction < 1:  # NaN fails as well
        raise UsageError(f"{what} is {fraction}; a fraction of at least 0 and less than 1 is expected")
    return Fraction(str(float(fraction)))


def _draws(rows: Interactions, seed: int, kind: str) -> NDArray[np.uint64]:
    """Return one 64-bit draw per row, from the seed and the row's two ids alone."""
    users = draw(derive(seed, "split", kind, "user"), id_counters(rows.users))
    items = id_counters(rows.items)
    with np.errstate(over="ignore"):
        cells = users[rows.user_index] + items[rows.item_index]
    return draw(derive(seed, "split", kind, "row"), cells)


def _rounded(sizes: NDArray[np.int64], share: Fraction) -> NDArray[np.int64]:
    """Return share * size to the nearest integer, halves up, in exact arithmetic."""
    distinct, position = np.unique(sizes, return_inverse=True)
    return np.array([int(share * size + Fraction(1, 2)) for size in distinct.tolist()], dtype=np.int64)[position]


def _head_parts(
    rows: Interactions, order: NDArray[np.intp], n_test: NDArray[np.int64], n_valid: NDArray[np.int64]
) -> Parts:
    """Give the first rows of each user in `order` (which keeps users together) to test, the next to validation."""
    users = rows.user_index[order]
    rank = np.arange(len(rows)) - rows.indptr[users]
    parts: Parts = np.full(len(rows), _TRAIN, dtype=np.int8)
    parts[order[rank < (n_test + n_valid)[users]]] = _VALID
    parts[order[rank < n_test[users]]] = _TEST
    return parts


def _times(rows: Interactions) -> NDArray[np.float64]:
    if rows.timestamps is None:
        raise DataError(
            "a split by time needs timestamps, and these rows have none; read them from a file that has a timestamp "
            "column, with keep_timestamps=True"
        )
    if not np.isfinite(rows.timestamps).all():
        raise DataError("a split by time needs finite timestamps")
    return rows.timestamps


def _latest(times: NDArray[np.float64], share: Fraction) -> NDArray[np.bool_]:
    """Return which rows are later than the one that the share's border falls on."""
    count = int(share * len(times))
    if count == 0:
        return np.zeros(len(times), dtype=bool)
    return np.asarray(times > np.sort(times)[len(times) - count - 1])


def _cut(rows: Interactions, parts: Parts) -> Split:
    return Split(*(rows.take(parts == part) for part in (_TRAIN, _VALID, _TEST)))
