"""What looks at pieces of a store for `residue`: by ids, by the ledger's hashes, and for digests.

A finder remembers what it found and where; its verdict is a sentence, or a `ProofError` that names the places.
"""

from __future__ import annotations

import contextlib
import hmac
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from receraser.data.ids import pseudonyms
from receraser.errors import ProofError
from receraser.proof import ledger
from receraser.residue.unpacking import Column, Fields, Groups, Piece, Raw, Table, Text
from receraser.verify.case import Case
from receraser.verify.words import counted, shown

__all__ = ["ByLedger", "ByName", "Digests", "Finder", "Place"]

SHORTEST = 6  # bytes of an id that is looked for in bytes of any kind
SHORTEST_NUMBER = (
    4  # digits of an id that is looked for in text as it stands; a shorter one only after "user=" and such
)
KEPT = "an earlier state, kept"

_MOST_PLACES = 3
_WIDEST = 8  # values side by side that are tried as user and item
_WORDS = [re.compile(one) for one in (r"[^\s,;|=\"'\[\]{}()<>]+", r"[\w@.+-]+", r"\w+")]
_TOLD = {  # what stands before an id and says what it is: user=, "user_id": , /users/
    kind: rb"(?<![0-9A-Za-z])(?i:" + words + rb")(?:(?i:[_ -]?id)?[\"']?\s{0,2}[:=#]\s{0,2}[\"']?|(?i:s?/))"
    for kind, words in (("user", rb"user|uid|person"), ("item", rb"item|movie|film"))
}
_PSEUDONYM = 32  # digits
_PREFIX = 12  # digits of a digest, as messages show it
_PRESENT = "the digest of the present state"


@dataclass(frozen=True, eq=False)
class Place:
    """Something to be searched.

    Attributes
    ----------
    where, data
        Its name for people, and its bytes.
    own
        Written by the store: users go by pseudonyms in it.
    signed
        Where commitments may stand, and no digest.
    wishes
        The file of pairs that are stored on request.
    kind
        What ids in it are where nothing in it tells: "user", "item" or "".
    """

    where: str
    data: bytes
    own: bool = False
    signed: bool = False
    wishes: bool = False
    kind: str = ""


class Finder:
    """Looks at pieces, and remembers what it found where."""

    def __init__(self) -> None:
        self.hits: dict[str, list[str]] = {}
        self.aside: set[str] = set()  # interactions found among the wishes

    def look(self, place: Place, piece: Piece) -> None:
        """Look at one piece."""
        for what in self.found(place, piece):
            if place.wishes and isinstance(piece, Table):
                self.aside.add(what)
            elif piece.where not in self.hits.setdefault(what, []):
                self.hits[what].append(piece.where)

    def found(self, place: Place, piece: Piece) -> Iterable[str]:
        """Yield what is found in a piece."""
        raise NotImplementedError

    def nothing(self) -> str:
        """Return what is said where nothing was found."""
        raise NotImplementedError

    def verdict(self) -> str:
        """Return that nothing was found; raise what was."""
        if self.hits:
            raise ProofError(shown([f"{what}: {_listed(places)}" for what, places in sorted(self.hits.items())]))
        return self.nothing()


def _listed(places: Sequence[str]) -> str:
    more = [f"{len(places) - _MOST_PLACES} more places"] if len(places) > _MOST_PLACES else []
    return " and ".join([*places[:_MOST_PLACES], *more])


def _long(text: str) -> bool:
    return len(text.encode(errors="replace")) >= SHORTEST


# ---------------------------------------------------------------------- by ids


class ByName(Finder):
    """Looks for ids, users also as pseudonyms.

    Parameters
    ----------
    users, items, interactions
        As the outside names them.
    key
        Of the pseudonyms; None where it is not at hand.
    """

    def __init__(
        self,
        users: Sequence[str],
        items: Sequence[str],
        interactions: Sequence[tuple[str, str]],
        key: bytes | None,
    ) -> None:
        super().__init__()

        def names(user: str) -> list[str]:
            return [user] if key is None else [user, *pseudonyms([user], key)]

        self._single = [("user", f"user {n} of those named", names(user)) for n, user in enumerate(users, 1)]
        self._single += [("item", f"item {n} of those named", [item]) for n, item in enumerate(items, 1)]
        self._pairs = [
            (f"interaction {n} of those named", names(user), item) for n, (user, item) in enumerate(interactions, 1)
        ]
        self._keyless = key is None and bool(users or interactions)

    def found(self, place: Place, piece: Piece) -> Iterator[str]:
        """Yield the subjects that stand in a piece."""
        for kind, label, names in self._single:
            if any(_stands(kind, name, place, piece) for name in names):
                yield label
        for label, users, item in self._pairs:
            if any(_together(user, item, piece) for user in users):
                yield label

    def nothing(self) -> str:
        """Return that nothing was found; users without pseudonyms are not looked for."""
        if self._keyless:
            raise ProofError(
                "users were not found as they are named, and could not be looked for as pseudonyms: the store's key is "
                "not at hand; name its folder with --keys"
            )
        n = len(self._single) + len(self._pairs)
        names = [
            *(names[0] for _, _, names in self._single),
            *(one for _, of, item in self._pairs for one in (of[0], item)),
        ]
        short = (
            f"; an id of fewer than {SHORTEST_NUMBER} digits was looked for as a whole field and in text after user=, "
            "item= or the like: elsewhere in text it was not searched"
        )
        return (
            f"nothing of {counted(n, 'subject')}, users also as pseudonyms; in bytes that are no text only ids of "
            f"{SHORTEST} bytes or more were looked for{short if any(map(_everywhere, names)) else ''}"
        )


def _stands(kind: str, name: str, place: Place, piece: Piece) -> bool:
    """Say whether a user or an item stands in a piece."""
    if isinstance(piece, Raw):
        if _long(name):
            a_size = place.own and name.isdecimal()  # numbers in our own documents are no ids
            return not a_size and _in_bytes(name, piece.data)
        if place.own or not piece.is_text:
            return False
        return _told(kind, name, piece.data) or (not name.isdecimal() and _as_word(name, piece.data))
    if isinstance(piece, Text):  # of no form: a number may be an id
        text = not place.own and name.isdecimal() and not _everywhere(name)
        return text and _as_word(name, piece.text.encode(errors="replace"))
    return isinstance(piece, Fields) and name in piece.values and _may_be(kind, name, piece)


def _may_be(kind: str, name: str, fields: Fields) -> bool:
    """Say whether what stands there can be a user, or an item: by the column's name, or else by its length."""
    return fields.kind == kind or (not fields.kind and _long(name))


def _in_bytes(name: str, data: bytes) -> bool:
    """Say whether an id stands somewhere between what is no letter and no digit."""
    token, start = name.encode(), 0
    while (at := data.find(token, start)) >= 0:
        around = data[max(at - 1, 0) : at] + data[at + len(token) : at + len(token) + 1]
        if not re.search(rb"[0-9A-Za-z]", around):
            return True
        start = at + 1
    return False


def _everywhere(name: str) -> bool:
    """Say whether this is a number so short that it stands everywhere by chance."""
    return name.isdecimal() and len(name) < SHORTEST_NUMBER


def _as_word(name: str, data: bytes, before: bytes = b"") -> bool:
    """Say whether an id of any length stands somewhere as a whole word; a number is none within a decimal one.

    Examples
    --------
    >>> _as_word("u0050", b"forget user=u0050 done"), _as_word("u0050", b"u0050-b"), _as_word("1234", b"1234.5 ms")
    (True, False, False)
    """
    token = name.encode(errors="replace")
    if token not in data:
        return False
    around = (rb"(?<![0-9][.])", rb"(?![.][0-9])") if name.isdecimal() else (b"", b"")
    word = rb"(?<![0-9A-Za-z_-])" + around[0] + re.escape(token) + rb"(?![0-9A-Za-z_-])" + around[1]
    return re.search(before + word, data) is not None


def _told(kind: str, name: str, data: bytes) -> bool:
    """Say whether an id stands after a word that says what it is.

    Examples
    --------
    >>> _told("user", "17", b'{"user_id": 17}'), _told("user", "17", b"item=17"), _told("user", "17", b"17 users")
    (True, False, False)
    """
    return _as_word(name, data, _TOLD[kind])


def _together(user: str, item: str, piece: Piece) -> bool:
    """Say whether a user and an item stand side by side in a piece."""
    if isinstance(piece, Groups):
        return any(user in row and item in row for row in piece.rows)
    if isinstance(piece, Table):
        rows = [_holding(piece.columns, *one) for one in (("user", user), ("item", item))]
        return rows[0] is not None and rows[1] is not None and bool((rows[0] & rows[1]).any())
    if isinstance(piece, Text) and user in piece.text and item in piece.text:
        told = _everywhere(user) and _everywhere(item)
        lines = (line.encode(errors="replace") for line in piece.text.splitlines())
        return any(
            _in_line("user", user, line, told=told) and _in_line("item", item, line, told=told) for line in lines
        )
    return False


def _in_line(kind: str, name: str, line: bytes, *, told: bool) -> bool:
    """Say whether a user or an item stands in a line; `told`: only after a word that says what it is."""
    if told:
        return _told(kind, name, line)
    return _in_bytes(name, line) if _long(name) else _as_word(name, line)


def _holding(columns: Sequence[Column], kind: str, name: str) -> NDArray[np.bool_] | None:
    """Return which rows hold a user, or an item, in a column that may hold such; None where none does."""
    columns = [column for column in columns if column.kind == kind] or columns
    found = [column.index == column.values.index(name) for column in columns if name in column.values]
    return np.logical_or.reduce(found) if found else None


# ---------------------------------------------------------------------- by the ledger


class ByLedger(Finder):
    """Looks for the subjects of forget requests that did not come back by an add, by their keyed hashes.

    Parameters
    ----------
    case
        The store; its keyring has the ledger's key.
    key
        Of the pseudonyms; None where it is not at hand.
    """

    def __init__(self, case: Case, key: bytes | None) -> None:
        super().__init__()
        ledger_key = case.ledger_key or b""
        check = ledger.key_check(ledger_key) if ledger_key else None
        self._gone: dict[bytes, int] = {}
        self._requests, self._out_of_reach, self._shredded = 0, 0, 0
        for entry in case.entries:
            hashes = [bytes.fromhex(one) for one in entry.subjects]
            if entry.action == "shred":
                self._shredded, self._out_of_reach = self._shredded + self._out_of_reach, 0
            elif entry.action == "forget" and (not entry.key or entry.key != check):
                self._out_of_reach += 1
            elif entry.action == "forget":
                self._requests += 1
                self._gone |= dict.fromkeys(hashes, entry.index)
            elif entry.action == "add":
                for one in hashes:
                    self._gone.pop(one, None)
        self._key = key
        self._clean: dict[str, set[str]] = {"": set(), "user": set(), "item": set()}  # what need not be hashed again
        self._user, self._item = (_hasher(ledger_key, kind) for kind in ("user", "item"))
        self._pair = hmac.new(ledger_key, _prefixed("receraser ledger subject", "interaction"), "sha256")

    def nothing(self) -> str:
        """Return that nothing was found; entries by a key that is not at hand are not looked for."""
        found = f"nothing of {counted(len(self._gone), 'subject')} of {counted(self._requests, 'forget request')}"
        if self._out_of_reach:
            raise ProofError(
                f"{counted(self._out_of_reach, 'forget request')} cannot be checked: the key by which the ledger names "
                "their subjects is not at hand, or there was none; name the folder of keys with --keys, or subjects "
                f"with --user, --item and --interaction ({found})"
            )
        by = "" if self._key is not None else "; outside ids were not looked for: the store's key is not at hand"
        gone = f"; {self._shredded} more cannot be recognised by anybody: the ledger's key was shredded"
        return f"{found}, less those who came back by an add{by}{gone if self._shredded else ''}"

    def found(self, place: Place, piece: Piece) -> Iterator[str]:
        """Yield what stands in a piece and was forgotten."""
        if not self._gone:
            return
        if isinstance(piece, Fields):
            yield from self._singles(piece.kind, (value for value in piece.values if piece.kind or _long(value)))
        elif isinstance(piece, Raw):
            yield from self._singles("user", (one for one in piece.hexes if len(one) == _PSEUDONYM))
        elif isinstance(piece, Text):
            yield from self._singles("", {word for form in _WORDS for word in form.findall(piece.text) if _long(word)})
        elif isinstance(piece, Table):
            yield from self._rows(place, piece)
        elif isinstance(piece, Groups):
            yield from self._groups(piece)

    def _singles(self, kind: str, values: Iterable[str]) -> Iterator[str]:
        known = self._clean[kind]
        for value in values:
            if value in known:
                continue
            found = []
            if kind != "item":
                found += [("user", self._user(name)) for name in self._names(value, own=False)]
            if kind != "user":
                found.append(("item", self._item(value)))
            hits = [f"{what} forgotten by entry {self._gone[code]}" for what, code in found if code in self._gone]
            if not hits:
                known.add(value)
            yield from hits

    def _rows(self, place: Place, table: Table) -> Iterator[str]:
        """Try the user and the item of every row."""
        of_kind = {kind: [one for one in table.columns if one.kind == kind] for kind in ("user", "item")}
        if not of_kind["user"] or not of_kind["item"]:
            return
        users, items = of_kind["user"][0], of_kind["item"][0]
        both = (users.index >= 0) & (items.index >= 0)
        keys = np.unique(users.index[both] * max(len(items.values), 1) + items.index[both])
        of_user, of_item = np.divmod(keys, max(len(items.values), 1))
        encoded = [_prefixed(value) for value in items.values]
        bounds = [*np.flatnonzero(np.diff(of_user, prepend=-1)).tolist(), len(keys)]
        for start, stop in pairwise(bounds):
            for name in self._names(users.values[of_user[start]], own=place.own):
                yield from self._pairs(name, [encoded[item] for item in of_item[start:stop].tolist()])

    def _groups(self, groups: Groups) -> Iterator[str]:
        for row in groups.rows:
            for n, user in enumerate(row if len(row) <= _WIDEST else ()):
                others = [_prefixed(item) for item in (*row[:n], *row[n + 1 :])]
                for name in self._names(user, own=False):
                    yield from self._pairs(name, others)

    def _names(self, user: str, *, own: bool) -> list[str]:
        """Return a user as written and, where that may be an outside id, as a pseudonym."""
        return [user] if own or self._key is None else [user, *pseudonyms([user], self._key)]

    def _pairs(self, user: str, items: Iterable[bytes]) -> Iterator[str]:
        begun, gone = self._pair.copy(), self._gone
        begun.update(_prefixed(user))
        for item in items:  # as many times as there are rows
            code = begun.copy()
            code.update(item)
            if (found := code.digest()[:16]) in gone:
                yield f"interaction forgotten by entry {gone[found]}"


def _prefixed(*parts: str) -> bytes:
    """Return texts with their lengths before them, as `ledger.subject_hash` takes them."""
    encoded = [part.encode(errors="replace") for part in parts]
    return b"".join(len(one).to_bytes(8, "little") + one for one in encoded)


def _hasher(key: bytes, kind: str) -> Callable[[str], bytes]:
    """Return what makes the ledger's hash of one name; begun once, which for a million of them matters."""
    begun = hmac.new(key, _prefixed("receraser ledger subject", kind), "sha256")

    def hashed(name: str) -> bytes:
        code = begun.copy()
        code.update(_prefixed(name))
        return code.digest()[:16]

    return hashed


# ---------------------------------------------------------------------- digests


class Digests(Finder):
    """Looks for plain digests where only commitments may stand, and for those of earlier states anywhere.

    Everything is deterministic: whoever knows the survivors and an old digest can test guesses about who was forgotten.
    """

    def __init__(self, case: Case) -> None:
        super().__init__()
        manifest = case.manifest
        shards = {shard["digest"] for shard in manifest["shards"]}
        self._state = {manifest["digest"], *shards}
        kept = [old for _, old in case.evidence.kept()]
        self._old = {old["digest"] for old in kept} | {shard["digest"] for old in kept for shard in old["shards"]}
        self._old -= self._state  # a shard that did not change has the digest it had
        self._plain = {*self._state, *self._old, *manifest["files"]}
        with contextlib.suppress(ProofError):  # the files may be damaged, and can be searched all the same
            self._plain.add(case.content.data)

    def found(self, place: Place, piece: Piece) -> Iterator[str]:
        """Yield digests that should not be where they are."""
        if not isinstance(piece, Raw):
            return
        hexes = piece.hexes
        if place.signed and hexes & self._plain:
            yield "a digest instead of a commitment"
        elif hexes & self._old and KEPT not in place.where:
            yield "the digest of an earlier state"
        elif not place.own and self._begins(piece.data, self._old):
            yield "the beginning of the digest of an earlier state"
        elif not place.own and self._begins(piece.data, self._state):
            yield _PRESENT

    @staticmethod
    def _begins(data: bytes, digests: Iterable[str]) -> bool:
        return any(digest[:_PREFIX].encode() in data for digest in digests)

    def verdict(self) -> str:
        """Return that nothing was found; a digest of the present state is told, and is no residue yet."""
        self._noted = self.hits.pop(_PRESENT, [])
        return super().verdict()

    def nothing(self) -> str:
        """Return that nothing was found."""
        note = (
            f"; that of the present state stands in {_listed(self._noted)}: once somebody is forgotten it lets guesses "
            "about them be tested"
        )
        return f"only commitments in what is signed, and no digest of an earlier state{note if self._noted else ''}"
