"""Ids as text, the dense integers that stand for them, and the pseudonyms that replace users' ids.

An id is text as read (an integer is its decimal digits), compared and ordered as UTF-8 bytes; no type is inferred, so
"9", "09" and "9.0" are three ids. `IdMap` is the only place where ids become dense integers and back. `pseudonyms`
is called once, at the engine's border: below it, no outside user id exists.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sized
from functools import cached_property
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from receraser.errors import DataError

__all__ = ["MAX_ID_BYTES", "IdMap", "id_problem", "id_text", "key_check", "pseudonyms"]

MAX_ID_BYTES = 256
_MISSING = frozenset({"nan", "null", "none", "<na>"})


def id_problem(text: str) -> str | None:
    """Say what is wrong with an id, or return None for a good one.

    Refused: nothing at all, the words by which other programs write a missing value, ids over 256 bytes, commas and
    control characters (they would break `--interaction U,I`, files and terminals), and white space at either end.

    Examples
    --------
    >>> id_problem("u 17") is None
    True
    >>> id_problem("a,b")
    "the id 'a,b' holds a comma"
    """
    if not text:
        return "the id is missing"
    if text.isalnum() and text.isascii() and text.lower() not in _MISSING and len(text) <= MAX_ID_BYTES:
        return None  # nearly every id there is
    if text.lower() in _MISSING:
        return f"the id {text!r} is a missing value written as text"
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return f"the id {text!r} holds a lone surrogate, which is no text"
    if size > MAX_ID_BYTES:
        return f"the id {text[:20]!r}... is {size} bytes long (at most {MAX_ID_BYTES})"
    if "," in text:
        return f"the id {text!r} holds a comma"
    if any(c < " " or "\x7f" <= c <= "\x9f" or c in "\u2028\u2029\ufeff" for c in text):
        return f"the id {text!r} holds a control character"
    if text != text.strip():
        return f"the id {text!r} begins or ends with white space"
    return None


def id_text(value: str | int | np.integer) -> str:
    """Return an id given to the library as text; integers in decimal, everything else refused.

    Examples
    --------
    >>> id_text(42)
    '42'
    """
    if isinstance(value, str):
        text = value
    elif isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_)):
        text = str(int(value))
    else:
        raise DataError(f"an id is text or an integer; found {value!r} of type {type(value).__name__}")
    problem = id_problem(text)
    if problem is not None:
        raise DataError(problem)
    return text


_FEW = 64  # ids that are looked up one by one


class IdMap:
    """Ids and the dense integers that stand for them: position in the order of the ids' UTF-8 bytes.

    Examples
    --------
    >>> items = IdMap(["9", "10"])
    >>> items.ids
    ('10', '9')
    >>> items.index_of("9"), items.index_of("11")
    (1, -1)
    """

    def __init__(self, ids: Iterable[str]) -> None:
        # Python orders str by code point, which for valid text is the order of the UTF-8 bytes.
        self.ids: tuple[str, ...] = tuple(sorted(set(ids)))

    @classmethod
    def ascending(cls, ids: Iterable[str]) -> IdMap:
        """Make one of ids that are in order already, each once: some of another map's, say."""
        made = cls(())
        made.ids = tuple(ids)
        return made

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.ids)}

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.index_of(name) >= 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdMap) and self.ids == other.ids

    def __hash__(self) -> int:
        return hash(self.ids)

    def __repr__(self) -> str:
        return f"IdMap({len(self.ids)} ids)"

    def index_of(self, name: str) -> int:
        """Return the dense integer of an id, or -1 for an unknown one."""
        if "_index" in vars(self):
            return self._index.get(name, -1)
        at = bisect_left(self.ids, name)  # they are in order: for a few there is no need of a dictionary of all
        return at if at < len(self.ids) and self.ids[at] == name else -1

    def indices(self, names: Iterable[str]) -> NDArray[np.int64]:
        """Return the dense integers of many ids, -1 for the unknown ones."""
        if isinstance(names, Sized) and len(names) <= _FEW:
            return np.fromiter(map(self.index_of, names), dtype=np.int64)
        return np.fromiter(map(self._index.get, names, repeat(-1)), dtype=np.int64)

    def take(self, indices: NDArray[np.integer]) -> list[str]:
        """Return the ids at the given positions."""
        return list(map(self.ids.__getitem__, indices.tolist()))


def pseudonyms(ids: Iterable[str], key: bytes) -> list[str]:
    """Return the keyed hash of each user id (BLAKE2b, 16 bytes, as 32 hex digits); without the key, no way back.

    Examples
    --------
    >>> pseudonyms(["u1"], b"k" * 32) == pseudonyms(["u1"], b"k" * 32) != pseudonyms(["u1"], b"q" * 32)
    True
    """
    return [
        hashlib.blake2b(name.encode(), key=key, digest_size=16, person=b"receraser-user").hexdigest() for name in ids
    ]


def key_check(key: bytes) -> str:
    """Return a short value by which a store recognises its pseudonym key without holding it."""
    return hashlib.blake2b(b"check", key=key, digest_size=8, person=b"receraser-check").hexdigest()
