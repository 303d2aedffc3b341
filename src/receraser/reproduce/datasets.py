"""The data sets of the paper in their splits, from a folder that the user names; and made worlds that stand in.

    load(DIR, "yelp2018")       DIR holds the folder yelp2018, or is that folder

`train` and `valid` are for choices: hyperparameters, merges, epochs. `full` is what the final figures are fitted on,
and `test` what they are measured on, once:

- ml-1m     the files of the paper's authors; final fits take the same train rows as the paper's (72 %). They ship
            train and test: valid is whatever else is in ratings.dat, beside which they are to lie
- yelp2018  the published train and test; a tenth of train is carved off for choices, final fits take all of train
- ml-100k, ml-10m   ratings of any value as rows, the paper's proportions: 72 % train, 8 % valid, 20 % test, at random
- synthetic a made world of the shape of ml-10m, and synthetic-USERSxITEMSxROWS one of any shape: for times, since how
  good recommendations are in a made world says nothing about any other

No row of them is in this repository; see `receraser data` for where they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from receraser import fingerprint
from receraser.data.ids import pseudonyms
from receraser.data.interactions import Interactions
from receraser.data.readers import read
from receraser.data.splits import random_split
from receraser.data.worlds import large_world_interactions
from receraser.errors import DataError, UsageError, nearest
from receraser.keys import PUBLIC_KEY

__all__ = ["MADE", "NAMES", "REFITTED", "SYNTHETIC", "Dataset", "check_name", "home_of", "is_made", "load"]

REFITTED = ("yelp2018",)  # published without validation rows: choices are made on a part of train, final fits take all
NAMES = ("ml-1m", "ml-100k", "yelp2018", "ml-10m")
SYNTHETIC = "synthetic"
MADE = "a made world: its times stand in for those of real data of its size, its quality for nothing"
_SHAPE = (71_567, 10_681, 10_000_000)  # MovieLens 10M, as the paper counts it
_OWN = "split at random in the paper's proportions"
_RATINGS = ("u.data", "ratings.dat", "ratings.csv", "ratings.csv.gz")


@dataclass(frozen=True)
class Dataset:
    """One data set, split.

    Attributes
    ----------
    train, valid, full, test
        See the module; `full` is `train` where final fits keep the validation rows out.
    folder
        Where its files are.
    origin
        Where the split comes from, in words.
    """

    name: str
    train: Interactions
    valid: Interactions
    full: Interactions
    test: Interactions
    folder: Path
    origin: str = ""

    @property
    def at_random(self) -> bool:
        """Whether the split is our own, since no files with one were there."""
        return self.origin.endswith(_OWN)

    @property
    def refits(self) -> bool:
        """Whether final fits take the validation rows too."""
        return len(self.full) > len(self.train)

    @property
    def held(self) -> Interactions | None:
        """The validation rows of a final fit, which choose its epochs; None where it takes them too."""
        return None if self.refits else self.valid

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the rows of all parts."""
        parts = {"train": self.train, "valid": self.valid, "full": self.full, "test": self.test}
        return fingerprint.combine({name: fingerprint.of_rows(rows) for name, rows in parts.items()})

    def pseudonymous(self) -> Dataset:
        """Return the same rows with users by their pseudonyms, as an engine without a key of its own has them."""
        train, valid, test = (
            rows.rename_users(pseudonyms(rows.users, PUBLIC_KEY)) for rows in (self.train, self.valid, self.test)
        )
        full = self.full.rename_users(pseudonyms(self.full.users, PUBLIC_KEY)) if self.refits else train
        return replace(self, train=train, valid=valid, full=full, test=test)


def is_made(name: str) -> bool:
    """Say whether a data set is a made world."""
    return name == SYNTHETIC or name.startswith(f"{SYNTHETIC}-")


def check_name(name: str) -> None:
    """Raise unless there is a data set of that name."""
    if is_made(name):
        _shape(name)
    elif name not in NAMES:
        raise UsageError(f"unknown data set {name!r}: {nearest(name, [*NAMES, SYNTHETIC])}")


def load(folder: Path | None, name: str) -> Dataset:
    """Read a data set from its folder, or from the folder above; a made world needs none."""
    check_name(name)
    if is_made(name):
        return _made(name)
    home = _home(folder, name)
    parts = _split_files(home, name)
    if parts is None:
        return _own_split(name, home)
    if len(parts) == 3:
        train, valid, test = parts
        return Dataset(name, train, valid, train, test, home, "the files train, valid and test")
    full, test = parts
    split = random_split(full, test=0.0, valid=0.1, seed=0)
    origin = "the files train and test; a tenth of train was carved off for choices, final fits take all of it"
    return Dataset(name, split.train, split.valid, full, test, home, origin)


def home_of(folder: Path, name: str) -> Path:
    """Return where the files of a data set are to be: in a folder of its name, or in the folder itself."""
    return folder / name if (folder / name).is_dir() else folder


def _home(folder: Path | None, name: str) -> Path:
    """Return the folder with the files of a data set."""
    how = f"get it with: receraser data fetch {name}; receraser data list says where each comes from"
    if folder is None:
        raise UsageError(f"--data is missing: the folder that holds {name}; {how}")
    if not folder.is_dir():
        raise DataError(f"there is no such folder; expected one that holds {name}; {how}", path=str(folder))
    home = home_of(folder, name)
    if not list(_files(home)):
        expected = f"train.txt[.gz] and test.txt[.gz], or one of {', '.join(_RATINGS)}"
        raise DataError(
            f"there is no folder {name} in it and no data of that name; expected {expected}; {how}", path=str(folder)
        )
    return home


def _files(home: Path) -> Iterator[Path]:
    """Yield what could be read in a folder."""
    for pattern in ("train.txt*", *_RATINGS):
        yield from home.glob(pattern)


def _split_files(home: Path, name: str) -> list[Interactions] | None:
    """Return the parts of a split that lies there: train, valid, test; of yelp2018 train and test."""
    wanted = ("train", "test") if name in REFITTED else ("train", "valid", "test")
    paths = [next(iter(sorted(home.glob(f"{part}.txt*"))), None) for part in wanted]
    there = {part: read(path).interactions for part, path in zip(wanted, paths, strict=True) if path is not None}
    ratings = _ratings(home)
    if there.keys() == {"train", "test"} != set(wanted) and ratings is not None:
        there["valid"] = _left_over(read(ratings).interactions, there, ratings)
    return [there[part] for part in wanted] if there.keys() == set(wanted) else None


def _ratings(home: Path) -> Path | None:
    return next((home / one for one in _RATINGS if (home / one).is_file()), None)


def _left_over(whole: Interactions, parts: Mapping[str, Interactions], path: Path) -> Interactions:
    """Return the rows of a table of ratings that are in no part; parts count users and items from 0.

    A user has the number of their id, less 1, an item its place among the ids that occur, by their numbers: so the
    paper's authors counted those of MovieLens 1M.
    """
    try:
        users = np.array([int(one) - 1 for one in whole.users])
        order = np.argsort([int(one) for one in whole.items], kind="stable")
    except ValueError:
        raise DataError("an id is no number, as the files train and test beside it want them", path=str(path)) from None
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    counted = Interactions.from_columns(users[whole.user_index].tolist(), places[whole.item_index].tolist())
    given = Interactions.union(list(parts.values()))
    if len(foreign := given.without(counted)):
        raise DataError(
            f"{len(foreign):,} of {len(given):,} rows of the files train and test are not in it: they are of another "
            "data set; remove them, or put the split of this one there",
            path=str(path),
        )
    return counted.without(given)


def _own_split(name: str, home: Path) -> Dataset:
    """Split a table of ratings at random, in the paper's proportions."""
    path = _ratings(home)
    if path is None:
        raise DataError(f"expected one of {', '.join(_RATINGS)}, or a whole split", path=str(home))
    split = random_split(read(path).interactions, test=0.2, valid=0.1, seed=0)
    origin = f"{path.name}, {_OWN}"
    return Dataset(name, split.train, split.valid, split.train, split.test, home, origin)


def _shape(name: str) -> tuple[int, int, int]:
    if name == SYNTHETIC:
        return _SHAPE
    found = re.fullmatch(rf"{SYNTHETIC}-(\d+)x(\d+)x(\d+)", name)
    if found is None:
        raise UsageError(f"{name!r} is no made world: as in {SYNTHETIC}-1000x500x20000: users, items, rows")
    users, items, rows = (int(one) for one in found.groups())
    return users, items, rows


def _made(name: str) -> Dataset:
    rows = large_world_interactions(*_shape(name))
    split = random_split(rows, test=0.2, valid=0.1, seed=0)
    origin = MADE
    return Dataset(name, split.train, split.valid, split.train, split.test, Path(), origin)
