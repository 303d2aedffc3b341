"""Who is forgotten: users, items and interactions drawn from the rows, the same ones for every method compared.

A draw depends on the rows' ids and a seed alone. Sets of users grow: who is gone at five percent is gone at ten.
`core` and `edge` are the sets of CURE4Rec (Chen et al. 2024) for ml-100k: its most and its least connected users, in
files beside the data. Those list test rows too; here a user is forgotten, and test rows are no part of any fit.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from receraser import fingerprint
from receraser.data.ids import IdMap, pseudonyms
from receraser.data.interactions import Interactions
from receraser.data.readers import read
from receraser.erasure.request import ForgetRequest
from receraser.errors import DataError, UsageError
from receraser.keys import PUBLIC_KEY
from receraser.reproduce.cell import Cell
from receraser.reproduce.datasets import Dataset, home_of
from receraser.seeds import derive, draw, id_counters, permutation

__all__ = ["CURE4REC", "batch_of", "gone_in", "has_forget_sets", "requests", "sets_digest", "without"]

CURE4REC = "ml-100k-cure4rec"
_MAP = "users_map.csv"  # their ids, and those of the data set
LEVELS = ("interactions", "users", "items")


def requests(rows: Interactions, level: str, n: int, seed: int) -> list[ForgetRequest]:
    """Return n single requests, drawn without replacement; fewer where there are fewer.

    Examples
    --------
    >>> rows = Interactions.from_pairs([("u1", "a"), ("u1", "b"), ("u2", "b")])
    >>> [len(one.users) for one in requests(rows, "users", 5, seed=1)]
    [1, 1]
    """
    if level == "users":
        return [ForgetRequest.of(users=[name]) for name in _ordered(rows.users, seed, "user")[:n]]
    if level == "items":
        return [ForgetRequest.of(items=[name]) for name in _ordered(rows.items, seed, "item")[:n]]
    if level != "interactions":
        raise UsageError(f"unknown level {level!r}; expected one of {', '.join(LEVELS)}")
    at = permutation(derive(seed, "reproduce", "interaction"), len(rows))[:n]
    pairs = [(rows.users.ids[rows.user_index[one]], rows.items.ids[rows.item_index[one]]) for one in at]
    return [ForgetRequest.of(interactions=[pair]) for pair in pairs]


def batch_of(data: Dataset, who: str, size: float, seed: int) -> ForgetRequest:
    """Return several users at once: so many (from 1 on) or such a share (below 1); random, or a set of CURE4Rec."""
    if who == "random":
        n = round(size) if size >= 1 else max(1, round(size * len(data.full.users)))
        return ForgetRequest.of(users=_ordered(data.full.users, seed, "user")[:n])
    return ForgetRequest.of(users=_listed(data, who, size))


def gone_in(data: Dataset, cell: Cell) -> ForgetRequest:
    """Return what a cell's fit does not see: that of the requests or of the batch that its extras name, or nothing."""
    extras = cell.extras
    if "level" in extras:
        return ForgetRequest.union(requests(data.full, str(extras["level"]), int(extras["n"]), cell.seed))
    if "who" in extras:
        return batch_of(data, str(extras["who"]), float(extras["size"]), cell.seed)
    return ForgetRequest()


def without(rows: Interactions, request: ForgetRequest) -> Interactions:
    """Return the survivors."""
    return rows.take(~request.cells(rows)) if request else rows


def has_forget_sets(folder: Path | None) -> bool:
    """Say whether the forget sets of CURE4Rec lie beside the data, which is in that folder or in one of its own."""
    return folder is not None and _sets(home_of(folder, "ml-100k")) is not None


def sets_digest(data: Dataset) -> str:
    """Return the SHA-256 over the files of the forget sets; "" where there are none."""
    home = _sets(data.folder)
    if home is None:
        return ""
    files = [home / _MAP, *sorted(home.glob("unlearn_*"))]
    return fingerprint.combine({one.name: fingerprint.of_bytes(_bytes(one)) for one in files})


def _ordered(ids: IdMap, seed: int, what: str) -> list[str]:
    """Return ids in a drawn order."""
    draws: NDArray[np.uint64] = draw(derive(seed, "reproduce", what), id_counters(ids))
    return ids.take(np.argsort(draws, kind="stable"))


def _sets(home: Path) -> Path | None:
    """Return the folder of the forget sets, given that of the data; None where there is none."""
    return next((one / CURE4REC for one in (home.parent, home) if (one / CURE4REC).is_dir()), None)


def _listed(data: Dataset, who: str, share: float) -> list[str]:
    """Return the pseudonyms of a forget set, by the ids that the data set has."""
    home = _sets(data.folder)
    if home is None:
        expected = data.folder.parent / CURE4REC
        raise DataError(f"expected the folder {CURE4REC}, with its forget sets, beside the data", path=str(expected))
    mapped = _mapped(home / _MAP)
    named = read(home / f"unlearn_{who}_{round(100 * share)}.txt.gz").interactions.users
    unknown = [one for one in named if one not in mapped]
    if unknown:
        found = f"{len(unknown)} users of the set {who} are not in it; expected a line for each"
        raise DataError(f"{found}; get both files from one copy of {CURE4REC}", path=str(home / _MAP))
    return [name for name in pseudonyms([mapped[one] for one in named], PUBLIC_KEY) if name in data.full.users]


def _mapped(path: Path) -> dict[str, str]:
    """Return the data set's ids by those of the forget sets."""
    mapped = {}
    for number, line in enumerate(_bytes(path).decode(errors="replace").splitlines(), start=1):
        theirs, comma, ours = line.partition(",")
        if line.strip() and not comma:
            raise DataError("expected two ids with a comma between them", path=str(path), line=number)
        mapped[theirs.strip()] = ours.partition(",")[0].strip()
    return mapped


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(
            f"a file of the forget sets cannot be read: {error.strerror or error}", path=str(path)
        ) from None
