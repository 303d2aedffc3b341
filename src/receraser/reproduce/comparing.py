"""What differences are worth: means with their spread over seeds, shares with a paired bootstrap over users, p-values.

Two models are compared on the same users, so users are drawn for both at once: what is easy for both cancels out.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from receraser.seeds import below, derive

__all__ = ["Share", "Spread", "bootstrap", "paired_p"]

_BLOCK = 50  # draws whose counts are multiplied at a time
PerUser = NDArray[np.floating]


@dataclass(frozen=True)
class Spread:
    """The mean over seeds, and half the range."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return statistics.mean(self.values)

    @property
    def half(self) -> float:
        """Half of what lies between the lowest and the highest."""
        return (max(self.values) - min(self.values)) / 2

    def text(self, digits: int = 4) -> str:
        """Return mean ± half range; of one seed the value alone, for it has no spread.

        Examples
        --------
        >>> Spread((0.25, 0.26)).text(), Spread((0.25,)).text()
        ('0.2550 ± 0.0050', '0.2500')
        """
        mean = f"{self.mean:.{digits}f}"
        return mean if len(self.values) == 1 else f"{mean} ± {self.half:.{digits}f}"


@dataclass(frozen=True)
class Share:
    """The mean share of a baseline over seeds, and the lowest and the highest end of the seeds' intervals."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, pairs: Sequence[tuple[PerUser, PerUser]]) -> Share:
        """Compare ours with theirs, seed by seed."""
        ends = [bootstrap(ours, theirs) for ours, theirs in pairs]
        mean = statistics.mean(float(ours.mean() / theirs.mean()) for ours, theirs in pairs)
        return cls(mean, min(low for low, _ in ends), max(high for _, high in ends))

    @property
    def text(self) -> str:
        """Return it for a table.

        Examples
        --------
        >>> Share(0.974, 0.969, 0.981).text
        '97.4 % [96.9, 98.1]'
        """
        return f"{100 * self.mean:.1f} % [{100 * self.low:.1f}, {100 * self.high:.1f}]"


def bootstrap(ours: PerUser, theirs: PerUser, *, draws: int = 1000, seed: int = 0) -> tuple[float, float]:
    """Return the 95 % interval of mean(ours) / mean(theirs), users drawn with replacement, both at once.

    Examples
    --------
    >>> values = np.linspace(0.1, 0.5, 50)
    >>> low, high = bootstrap(0.9 * values, values)
    >>> round(low, 6), round(high, 6)
    (0.9, 0.9)
    """
    counts = _drawn(len(ours), draws, seed)
    both = np.stack([ours, theirs], axis=1).astype(np.float64)
    sums = np.concatenate([counts[at : at + _BLOCK].astype(np.float64) @ both for at in range(0, draws, _BLOCK)])
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = sums[:, 0] / sums[:, 1]
    low, high = np.nanquantile(shares, (0.025, 0.975)) if np.isfinite(shares).any() else (np.nan, np.nan)
    return float(low), float(high)


@lru_cache(maxsize=2)
def _drawn(n: int, draws: int, seed: int) -> NDArray[np.uint8]:
    """Return how often each of n users is drawn, (draws, n): the same for every comparison of as many users."""
    counts = np.empty((draws, n), dtype=np.uint8)
    for number in range(draws):
        chosen = below(derive(seed, "bootstrap", number), np.arange(n), n)
        counts[number] = np.minimum(np.bincount(chosen, minlength=n), 255)
    return counts


def paired_p(ours: PerUser, theirs: PerUser) -> float:
    """Return the two-sided p-value of the paired t-test over users, as in the paper's Table 3; 1 for equal ones."""
    from scipy.stats import ttest_rel

    if np.array_equal(ours, theirs):
        return 1.0
    return float(ttest_rel(ours.astype(np.float64), theirs.astype(np.float64)).pvalue)
