"""The exception tree. Everything the package raises on purpose descends from `ReceraserError`.

::

    ReceraserError                  never raised itself; catch it to catch them all
    ├── UsageError                exit 2  the call itself is wrong: an unknown option, key, model, method or combination
    ├── DataError                 exit 2  the input cannot be used: names file, line and reason
    ├── StoreNotFoundError        exit 2  there is no store in the folder named
    ├── StoreError                exit 1  a store is there but damaged, half-written, in use or in the way
    ├── KeyMismatchError          exit 1  the pseudonym key at hand is not the one the store was made with
    ├── EnvironmentMismatchError  exit 1  weights computed here would not have the bits of those in the store; or
    │                                     a library that computes is broken here
    ├── PurityError               exit 1  somebody's model leaks: it is no pure function of its rows, settings and seed
    ├── ProofError                exit 1  a proof does not hold: a signature, a chain, a commitment, a digest
    └── TrainingError             exit 1  a submodel could not be trained (diverged, a worker died)

A message says what was found, what was expected and what to do next. `exit_code` is the command line's.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "DataError",
    "EnvironmentMismatchError",
    "KeyMismatchError",
    "ProofError",
    "PurityError",
    "ReceraserError",
    "StoreError",
    "StoreNotFoundError",
    "TrainingError",
    "UsageError",
    "nearest",
]


class ReceraserError(Exception):
    """Root of the tree."""

    exit_code = 1


class UsageError(ReceraserError):
    """The call is wrong: an unknown name, an impossible combination, a value out of range."""

    exit_code = 2


class DataError(ReceraserError):
    """The input data cannot be used.

    Parameters
    ----------
    reason
        What was found and what was expected.
    path
        The file, where there is one.
    line
        The 1-based line (for Parquet: row) where it was found.

    Examples
    --------
    >>> str(DataError("the item is missing", path="ratings.csv", line=7))
    'ratings.csv, line 7: the item is missing'
    """

    exit_code = 2

    def __init__(self, reason: str, *, path: str | None = None, line: int | None = None) -> None:
        self.reason = reason
        self.path = path
        self.line = line
        where = ""
        if path is not None:
            where = f"{path}, line {line}: " if line is not None else f"{path}: "
        super().__init__(where + reason)


class StoreNotFoundError(ReceraserError):
    """The folder named holds no store."""

    exit_code = 2


class StoreError(ReceraserError):
    """A store is damaged, half-written, locked, or would be overwritten."""


class KeyMismatchError(ReceraserError):
    """The pseudonym key differs from the one the store was made with."""


class EnvironmentMismatchError(ReceraserError):
    """What bits depend on differs from where the store was computed; or a library that computes is broken here."""


class ProofError(ReceraserError):
    """A proof does not hold, or is none."""


class PurityError(ReceraserError):
    """A model that somebody else wrote depends on more than its rows, its hyperparameters and its seed."""


class TrainingError(ReceraserError):
    """A submodel could not be trained."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the tail of a message about an unknown name: the closest known one, and all of them.

    Examples
    --------
    >>> nearest("wmff", ["bpr", "wmf"])
    "did you mean 'wmf'? (known: bpr, wmf)"
    >>> nearest("x", ["bpr", "wmf"])
    'known: bpr, wmf'
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    listing = f"known: {', '.join(names)}"
    return f"did you mean {close[0]!r}? ({listing})" if close else listing
