"""Somebody else's model as it is called: what `fit` is handed, and what it must return.

An object with `fit(rows, seed)`, or a class of such objects, or a function; what comes back is a vector for every user
and every item (docs/own-models.md). Where it comes from is in `source`. Numpy is all that is needed here, so that a
process that looks for leaks (`execution.probe`) starts at once.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from receraser.errors import EnvironmentMismatchError, TrainingError, UsageError
from receraser.models.source import find, load, told

if TYPE_CHECKING:
    from receraser.data.interactions import Interactions

__all__ = ["SOURCE", "Rows", "call", "check_source", "checked_values", "parsed", "vectors_of"]

SOURCE = "source_sha256"  # beside the hyperparameters: the source that the object was made of

_OWN = (SOURCE, "device")  # settings that are ours, and not the object's

Vectors = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Rows:
    """What `fit` is handed: all that the model may learn from.

    Attributes
    ----------
    users, items
        The ids, in the order of their UTF-8 bytes; exactly those that occur. Users go by pseudonyms.
    user_index, item_index
        (n,) int32: row k is users[user_index[k]] with items[item_index[k]]; sorted by user, then item; none twice.

    Examples
    --------
    >>> from receraser.data.interactions import Interactions
    >>> rows = Rows.of(Interactions.from_pairs([("u2", "a"), ("u1", "b"), ("u1", "a")]))
    >>> rows.users, rows.items, rows.user_index.tolist(), rows.item_index.tolist()
    (('u1', 'u2'), ('a', 'b'), [0, 0, 1], [0, 1, 0])
    """

    users: tuple[str, ...]
    items: tuple[str, ...]
    user_index: NDArray[np.int32]
    item_index: NDArray[np.int32]

    @classmethod
    def of(cls, table: Interactions) -> Rows:
        """Return a table's rows as arrays of their own: whatever is done to them, the table stays as it is."""
        return cls(table.users.ids, table.items.ids, table.user_index.copy(), table.item_index.copy())

    def __len__(self) -> int:
        return len(self.user_index)


# ---------------------------------------------------------------------- settings


def checked_values(name: str, hyperparameters: Mapping[str, object]) -> dict[str, object]:
    """Return hyperparameters that a configuration can hold, or raise."""
    for key, value in hyperparameters.items():
        if not isinstance(value, (bool, int, float, str)):
            raise UsageError(f"{name}: {key} is {value!r}; expected a number, text, true or false")
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{name}: {key} is {value}; expected a finite number")
    return dict(hyperparameters)


def parsed(texts: Mapping[str, str]) -> dict[str, object]:
    """Read hyperparameters from texts: a whole number, else a number, else true or false, else text.

    Examples
    --------
    >>> parsed({"dim": "8", "penalty": "1e-2", "bias": "true", "loss": "bpr"})
    {'dim': 8, 'penalty': 0.01, 'bias': True, 'loss': 'bpr'}
    """
    found: dict[str, object] = {}
    for key, text in texts.items():
        found[key] = {"true": True, "false": False}.get(text.lower(), text)
        for kind in (float, int):
            try:
                found[key] = kind(text)
            except ValueError:
                continue
    return found


# ---------------------------------------------------------------------- calling it


def call(name: str, settings: Mapping[str, object], rows: Rows, seed: int, *, folder: str | None = None) -> object:
    """Let somebody's object fit these rows, from nothing; return what it returns.

    Parameters
    ----------
    settings
        The hyperparameters. Besides, ours: the source it must be of, and the device, which is handed on to whoever has
        a parameter of that name.
    """
    check_source(name, settings, find(name, folder).sha256)  # before a line of it is run
    found, sha256 = load(name, folder)
    check_source(name, settings, sha256)
    own = {key: value for key, value in settings.items() if key not in _OWN}
    fit: object = found
    if isinstance(found, type):
        own = _accepted(name, found, own, settings)
        with told(f"{name} cannot be made of its hyperparameters", UsageError):
            found, own = found(**own), {}
    if not inspect.isfunction(found):
        fit = getattr(found, "fit", None)
        if own:
            raise UsageError(f"{name} is made already and takes no hyperparameters; found {', '.join(own)}")
    if not callable(fit):
        raise UsageError(f"{name} has no fit(rows, seed), and is no function")
    own = _accepted(name, fit, own, settings, rows, seed)
    with told(f"{name}: fit failed", TrainingError):
        result: object = fit(rows, seed, **own)
    return result


def check_source(name: str, settings: Mapping[str, object], sha256: str) -> None:
    """Raise if settings ask for another source than this one."""
    expected = settings.get(SOURCE, sha256)
    if sha256 != expected:
        raise EnvironmentMismatchError(
            f"the source of the model {name} has changed: its SHA-256 was {str(expected)[:12]}..., now it is "
            f"{sha256[:12]}...; new weights would not fit beside the old ones. Bring the old file back, or refit "
            "everything with: receraser rebuild"
        )


def _accepted(
    name: str,
    function: Callable[..., object],
    own: Mapping[str, object],
    settings: Mapping[str, object],
    *arguments: object,
) -> dict[str, object]:
    """Return the named arguments of a call, with the device where there is a parameter for it; raise if it won't do."""
    try:
        signature = inspect.signature(function)
        if "device" in signature.parameters and "device" in settings:
            own = {**own, "device": settings["device"]}
        signature.bind(*arguments, **own)
    except (TypeError, ValueError) as error:
        given = ", ".join(
            [*(["rows", "seed"] if arguments else []), *(f"{key}={value!r}" for key, value in own.items())]
        )
        raise UsageError(f"{name} cannot be called with ({given}): {error}") from None
    return dict(own)


def vectors_of(name: str, result: object, rows: Rows) -> tuple[Vectors, Vectors]:
    """Return what an object returned as the vectors of the users and of the items, copied; raise if it is not that."""
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        found = f"{len(result)} values" if isinstance(result, (tuple, list)) else type(result).__name__
        raise UsageError(f"{name}: fit returned {found}; expected a pair (user_vectors, item_vectors)")
    users, items = (
        _table(name, what, one, len(ids))
        for what, one, ids in (("user", result[0], rows.users), ("item", result[1], rows.items))
    )
    if users.shape[1] != items.shape[1]:
        raise UsageError(
            f"{name}: the vectors of the users have {users.shape[1]} numbers and those of the items {items.shape[1]}; "
            "expected the same, for their inner product is the score"
        )
    return users, items


def _table(name: str, what: str, given: object, n: int) -> Vectors:
    """Return a table of vectors, checked; a torch tensor will do."""
    if hasattr(given, "detach"):
        given = given.detach().cpu()
    array = np.asarray(given)
    if array.dtype.kind != "f" or array.ndim != 2 or array.shape[0] != n or array.shape[1] < 1:
        raise UsageError(
            f"{name}: the {what} vectors are {array.dtype} of shape {array.shape}; expected floats of shape "
            f"({n}, dim), one row for each {what}"
        )
    with np.errstate(over="ignore"):
        table = np.array(array, dtype=np.float32, order="C")
    if not np.isfinite(table).all():
        raise TrainingError(f"{name}: a {what} vector is no finite number")
    return table
