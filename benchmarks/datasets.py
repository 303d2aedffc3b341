"""The data sets of the benchmarks in their splits, and the interval that shares of a retrain come with.

    load(DIR, "yelp2018")       DIR holds the folder yelp2018, or is that folder

`train` and `valid` are for choices: hyperparameters, merges, epochs. `full` is what the final figures are fitted on,
and `test` what they are measured on, once:

- ml-1m     the files of the paper's authors; final fits take the same train rows as the paper's (72 %)
- yelp2018  the published train and test; a tenth of train is carved off for choices, final fits take all of train
- ml-100k   ratings of any value as rows, the paper's proportions: 72 % train, 8 % valid, 20 % test, at random

No row of them is in this repository; see `receraser data` for where they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from receraser.data.interactions import Interactions

__all__ = ["NAMES", "Dataset", "bootstrap", "load"]

NAMES = ("ml-1m", "ml-100k", "yelp2018")


@dataclass(frozen=True)
class Dataset:
    """One data set, split."""

    name: str
    train: Interactions
    valid: Interactions
    full: Interactions
    test: Interactions
    folder: Path  # where its files are

    @property
    def refits(self) -> bool:
        """Whether final fits take the validation rows too."""
        return len(self.full) > len(self.train)


def load(folder: Path, name: str) -> Dataset:
    """Read a data set from its folder, or from the folder above."""
    from receraser.data.readers import read
    from receraser.data.splits import random_split

    if name not in NAMES:
        raise ValueError(f"unknown data set {name!r}; expected one of {', '.join(NAMES)}")
    home = folder / name if (folder / name).is_dir() else folder
    if name == "ml-1m":
        train, valid, test = (read(home / f"{part}.txt.gz").interactions for part in ("train", "valid", "test"))
        return Dataset(name, train, valid, train, test, home)
    if name == "yelp2018":
        full, test = (read(home / f"{part}.txt.gz").interactions for part in ("train", "test"))
        split = random_split(full, test=0.0, valid=0.1, seed=0)
        return Dataset(name, split.train, split.valid, full, test, home)
    split = random_split(read(next(home.glob("ratings*.csv.gz"))).interactions, test=0.2, valid=0.1, seed=0)
    return Dataset(name, split.train, split.valid, split.train, split.test, home)


def bootstrap(ours: np.ndarray, theirs: np.ndarray, *, draws: int = 1000, seed: int = 0) -> tuple[float, float]:
    """Return the 95 % interval of mean(ours) / mean(theirs), users drawn with replacement, both at once."""
    generator = np.random.default_rng(seed)
    shares = np.empty(draws)
    for number in range(draws):  # one by one: all at once would take gigabytes with many users
        chosen = generator.integers(len(ours), size=len(ours))
        shares[number] = ours[chosen].mean() / theirs[chosen].mean()
    return float(np.quantile(shares, 0.025)), float(np.quantile(shares, 0.975))
