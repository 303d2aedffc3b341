"""Ids as text, the dense integers that stand for them, and the pseudonyms that replace users' ids.

An id is text as read (an integer is its decimal digits), compared and ordered as UTF-8 bytes; no type is inferred, so
"9", "09" and "9.0" are three ids. `IdMap` is the only place where ids become dense integers and back. `pseudonyms`
is called once, at the engine's border: below it, no outside user id exists.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence, Sized
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
        vars(self)["ids"] = tuple(sorted(set(ids)))

    @classmethod
    def ascending(cls, ids: Iterable[str]) -> IdMap:
        """Make one of ids that are in order already, each once: some of another map's, say."""
        made = cls.__new__(cls)
        vars(made)["ids"] = tuple(ids)
        return made

    @classmethod
    def from_text(cls, text: bytes) -> IdMap:
        """Make one of what `text` gave; the ids become strings only if somebody asks for them."""
        made = cls.__new__(cls)
        vars(made)["text"] = text
        return made

    @classmethod
    def union(cls, maps: Sequence[IdMap]) -> IdMap:
        """Return the ids that stand in some of the maps.

        Examples
        --------
        >>> IdMap.union([IdMap(["9", "10"]), IdMap(["11", "9"])]).ids
        ('10', '11', '9')
        """
        numbers = [one for one in (each.numbers for each in maps) if one is not None]
        if len(numbers) < len(maps):
            return cls(name for each in maps for name in each)
        merged = np.sort(np.concatenate([np.empty(0, dtype=np.uint64), *numbers]), kind="stable")
        new = np.ones(len(merged), dtype=bool)
        new[1:] = merged[1:] != merged[:-1]
        return cls._of_numbers(merged[new])

    @classmethod
    def _of_numbers(cls, numbers: NDArray[np.uint64]) -> IdMap:
        wide = np.full((len(numbers), 9), ord("\n"), dtype=np.uint8)
        wide[:, :8] = numbers.astype(">u8").view(np.uint8).reshape(-1, 8)
        made = cls.from_text(wide[wide != 0][:-1].tobytes())
        vars(made)["numbers"] = numbers
        return made

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """All ids, in order."""
        return tuple(self.text.decode().split("\n")) if self.text else ()

    @cached_property
    def text(self) -> bytes:
        """All ids, in order, as UTF-8, joined by newlines, which no id can hold."""
        joined = "\n".join(self.ids)
        if joined.count("\n") != max(0, len(self.ids) - 1) or self.ids[:1] == ("",):
            raise ValueError("an id is empty or holds a line break")
        return joined.encode()

    @property
    def bounds(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where in `text` each id begins and ends."""
        breaks = np.flatnonzero(np.frombuffer(self.text, dtype=np.uint8) == ord("\n"))
        few = slice(len(self))  # nothing at all has no id in it
        return np.append(0, breaks + 1)[few], np.append(breaks, len(self.text))[few]

    @cached_property
    def numbers(self) -> NDArray[np.uint64] | None:
        """The ids as whole numbers in the same order: their bytes, filled up with zeros. None if one has over eight.

        Where whole vocabularies are compared, this is ten times as quick as strings are.
        """
        letters = np.frombuffer(self.text, dtype=np.uint8)
        starts, stops = self.bounds
        lengths = stops - starts
        if len(lengths) and (lengths.max() > 8 or not letters.all()):
            return None
        numbers = np.zeros(len(lengths), dtype=np.uint64)
        for place in range(int(lengths.max(initial=0))):
            there = lengths > place
            numbers[there] |= letters[starts[there] + place].astype(np.uint64) << np.uint64(56 - 8 * place)
        if (numbers[1:] <= numbers[:-1]).any():
            raise ValueError("ids are not in order, or one stands twice")
        return numbers

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.ids)}

    @cached_property
    def _size(self) -> int:
        if "ids" in vars(self):
            return len(self.ids)
        return self.text.count(b"\n") + 1 if self.text else 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.index_of(name) >= 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IdMap):
            return NotImplemented
        strings = "ids" in vars(self) and "ids" in vars(other)
        return self.ids == other.ids if strings else self.text == other.text

    def __hash__(self) -> int:
        return hash(self.ids)

    def __repr__(self) -> str:
        return f"IdMap({len(self)} ids)"

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

    def places(self, other: IdMap) -> NDArray[np.int64]:
        """Return the dense integers here of all ids of another map, each of which is here too."""
        if self.numbers is None or other.numbers is None:
            found = np.arange(len(self)) if other == self else self.indices(other)
            assert not (found < 0).any(), "an id is missing here"
        else:
            found = np.minimum(np.searchsorted(self.numbers, other.numbers), len(self) - 1)
            assert (self.numbers[found] == other.numbers).all(), "an id is missing here"
        return found

    def some(self, indices: NDArray[np.integer]) -> IdMap:
        """Return the ids at the given positions, ascending, as a map of their own."""
        if len(indices) == len(self):
            return self
        return IdMap.ascending(self.take(indices)) if self.numbers is None else self._of_numbers(self.numbers[indices])

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
