"""What is left of those who were forgotten: in every byte of a store, and wherever else somebody says to look.

Two ways of asking. By the ledger: every user, item and row that is there now is hashed with the ledger's key and held
against the subjects of all forget requests, less those who came back by an add; nobody has to be named. By name: ids
given are looked for as they are and, users, as pseudonyms.

In raw bytes and in text only ids of at least six bytes are looked for, between characters that are no letters or
digits: shorter ones stand everywhere by chance. In what can be taken apart (`unpacking`) ids of any length are, each as
a whole field; in the store's own documents of six bytes at least, since their fields are known and hold such words. An
interaction is found where a row, a JSON object or a line holds both. A hit names the place, never the id.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from receraser.data.ids import key_check, pseudonyms
from receraser.errors import ProofError, UsageError
from receraser.proof import ledger
from receraser.verify.case import Case
from receraser.verify.checks import Check, checked, counted
from receraser.verify.content import roles
from receraser.verify.evidence import shown
from receraser.verify.unpacking import Closed, Column, Fields, Groups, Piece, Raw, Table, Text, unpack

__all__ = ["Named", "residue"]

SHORTEST = 6  # bytes
_WIDEST = 8  # values side by side that are tried as user and item
_WORDS = [re.compile(one) for one in (r"[^\s,;|=\"'\[\]{}()<>]+", r"[\w@.+-]+", r"\w+")]
_PSEUDONYM = re.compile(rb"(?<![0-9A-Za-z])[0-9a-f]{32}(?![0-9A-Za-z])")

Hits = dict[str, list[str]]  # places, by what was found there


@dataclass(frozen=True)
class Named:
    """Whom and what somebody asks for, by outside ids."""

    users: Sequence[str] = ()
    items: Sequence[str] = ()
    interactions: Sequence[tuple[str, str]] = ()

    def __bool__(self) -> bool:
        return bool(self.users or self.items or self.interactions)


@dataclass(frozen=True, eq=False)
class _Place:
    """Something to be searched: its name, its bytes, and what it is to the store."""

    where: str
    data: bytes
    own: bool = True  # written by the store: users go by pseudonyms in its tables
    document: bool = False  # of a known form, whose short fields are words and numbers of our own
    wishes: bool = False


def residue(
    case: Case, *, named: Named | None = None, search: Sequence[Path] = (), key: bytes | None = None
) -> list[Check]:
    """Search a store, and the paths given besides; return one check for each way of asking.

    Parameters
    ----------
    case
        The store. The ledger's key is taken from its keyring.
    named
        Ids to be looked for.
    search
        Other files and folders: logs, backups, copies.
    key
        The key of the pseudonyms, where it is at hand.
    """
    if key is not None and key_check(key) != case.manifest["pseudonyms"]["key_check"]:
        key = None
    finders: dict[str, _Finder | ProofError] = {}
    try:
        finders["residue by the ledger"] = _ByLedger.of(case, key)
    except ProofError as error:
        finders["residue by the ledger"] = error
    if named:
        finders["residue by name"] = _ByName.of(named, key)
    digests = _Digests(case)
    closed: list[str] = []
    for place in _places(case, search):
        for piece in unpack(place.where, place.data):
            if isinstance(piece, Closed):
                closed.append(f"{piece.where} ({piece.reason})")
            for finder in (*finders.values(), digests):
                if not isinstance(finder, ProofError):
                    finder.look(place, piece)
    where = f"the store and {counted(len(search), 'path')} besides" if search else "the store"
    checks = [
        Check(name, ok=False, detail=str(finder))
        if isinstance(finder, ProofError)
        else checked(name, finder.verdict, where, closed)
        for name, finder in finders.items()
    ]
    aside = [one for finder in finders.values() if not isinstance(finder, ProofError) for one in finder.aside]
    return [
        *checks,
        checked("residue of digests", digests.verdict),
        Check("residue in wishes", True, _wishes(case, aside)),
    ]


def _wishes(case: Case, aside: Sequence[str]) -> str:
    """Return what is said of wishes: pairs that are stored on purpose."""
    if case.manifest["wishes"] is None:
        return "no wishes are stored"
    asked = f"; among them: {shown(sorted(set(aside)))}" if aside else ""
    return (
        f"{counted(len(case.content.wishes), 'pair')} stored on request, to be kept out of lists: no residue, and no "
        f"part of the rows{asked}"
    )


# ---------------------------------------------------------------------- where to look


def _places(case: Case, search: Sequence[Path]) -> Iterator[_Place]:
    """Yield every file of a store, what its manifest keeps of earlier states, strays, and the paths named besides."""
    manifest = case.manifest
    what = {f"files/{name}": role for name, role in roles(manifest).items()}
    documents = {"manifest.json", "ledger"}
    for name, old in case.evidence.kept():
        documents.add(f"files/{name}")
        what |= {
            f"files/{one}": f"an earlier state, kept: {role}"
            for one, role in roles(old).items()
            if f"files/{one}" not in what
        }
        what[f"files/{name}"] = "an earlier state, kept: its manifest"
    for name, path in case.evidence.everything():
        if not path.is_file():
            continue
        yield _Place(
            f"{what[name]}, {name}" if name in what else name,
            path.read_bytes(),
            own=name in what or name in documents or name.startswith(("certificates/", "pending/")),
            document=name in documents or name.startswith("certificates/"),
            wishes=name == f"files/{manifest['wishes']}",
        )
    for path in search:
        if not path.exists():
            raise UsageError(f"--search {path}: there is no such file or folder")
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                yield _Place(str(file), file.read_bytes(), own=False)


# ---------------------------------------------------------------------- how to look


@dataclass(eq=False)
class _Finder:
    """Looks at pieces, and remembers what it found where."""

    hits: Hits = field(default_factory=dict)
    aside: list[str] = field(default_factory=list)  # found among the wishes

    def look(self, place: _Place, piece: Piece) -> None:
        """Look at one piece."""
        for what in self.found(place, piece):
            if place.wishes and isinstance(piece, (Table, Groups)):
                self.aside.append(what)
            else:
                self.hits.setdefault(what, [])
                if piece.where not in self.hits[what]:
                    self.hits[what].append(piece.where)

    def found(self, place: _Place, piece: Piece) -> Iterable[str]:
        """Yield what is found in a piece."""
        raise NotImplementedError

    def about(self) -> str:
        """Return what was looked for."""
        raise NotImplementedError

    def verdict(self, where: str, closed: Sequence[str]) -> str:
        """Return that nothing was found; raise what was."""
        unopened = f"; not looked into: {shown(list(closed))}" if closed else ""
        if self.hits:
            told = [f"{what}: {' and '.join(_few(places))}" for what, places in sorted(self.hits.items())]
            raise ProofError(f"found: {shown(told)}{unopened}")
        return f"{self.about()}: nothing found in {where}{unopened}"


def _few(places: Sequence[str]) -> list[str]:
    return [*places[:3], *([f"{len(places) - 3} more places"] if len(places) > 3 else [])]


def _long(text: str) -> bool:
    return len(text.encode(errors="replace")) >= SHORTEST


class _ByName(_Finder):
    """Looks for ids that were given."""

    def __init__(
        self, users: Sequence[Sequence[str]], items: Sequence[str], pairs: Sequence[tuple[Sequence[str], str]]
    ) -> None:
        super().__init__()
        self._single = [(f"user {n} of those named", names) for n, names in enumerate(users, 1)]
        self._single += [(f"item {n} of those named", [item]) for n, item in enumerate(items, 1)]
        self._pairs = [(f"interaction {n} of those named", *pair) for n, pair in enumerate(pairs, 1)]

    @classmethod
    def of(cls, named: Named, key: bytes | None) -> _ByName:
        def names(user: str) -> list[str]:
            return [user] if key is None else [user, *pseudonyms([user], key)]

        made = cls(
            [names(one) for one in named.users], named.items, [(names(user), item) for user, item in named.interactions]
        )
        made._keyless = key is None and bool(named.users or named.interactions)
        return made

    _keyless = False

    def about(self) -> str:
        n = len(self._single) + len(self._pairs)
        if self._keyless:
            raise ProofError(
                "users were looked for as they are named, and not found; as pseudonyms they could not be: the store's key "
                "is not at hand (--keys)"
            )
        return f"{counted(n, 'subject')}, users also as pseudonyms; in raw bytes and text only ids of {SHORTEST} bytes or more"

    def found(self, place: _Place, piece: Piece) -> Iterator[str]:
        for label, names in self._single:
            if any(_stands(name, place, piece) for name in names):
                yield label
        for label, users, item in self._pairs:
            if any(_together(user, item, piece) for user in users):
                yield label


def _stands(name: str, place: _Place, piece: Piece) -> bool:
    """Say whether an id stands in a piece."""
    if isinstance(piece, Raw):
        digits = place.document and name.isdecimal()  # sizes and counts
        return _long(name) and not digits and _in_bytes(name, piece.data)
    return isinstance(piece, Fields) and name in piece.values and (_long(name) or not place.document)


def _in_bytes(name: str, data: bytes) -> bool:
    """Say whether an id stands between what is no letter and no digit."""
    token, start = name.encode(), 0
    while (at := data.find(token, start)) >= 0:
        around = data[max(at - 1, 0) : at] + data[at + len(token) : at + len(token) + 1]
        if not re.search(rb"[0-9A-Za-z]", around):
            return True
        start = at + 1
    return False


def _together(user: str, item: str, piece: Piece) -> bool:
    """Say whether a user and an item stand side by side in a piece."""
    if isinstance(piece, Groups):
        return any(user in row and item in row for row in piece.rows)
    if isinstance(piece, Text):
        seldom = _long(user) or _long(item)
        return seldom and user in piece.text and any(_both(user, item, line) for line in piece.text.splitlines())
    if not isinstance(piece, Table):
        return False
    masks = [_holding(piece.columns, name) for name in (user, item)]
    return bool(masks[0] is not None and masks[1] is not None and (masks[0] & masks[1]).any())


def _both(user: str, item: str, line: str) -> bool:
    data = line.encode(errors="replace")
    return _in_bytes(user, data) and _in_bytes(item, data)


def _holding(columns: Sequence[Column], name: str) -> NDArray[np.bool_] | None:
    """Return the rows that hold a value in any column; None where none does."""
    found = [column.index == column.values.index(name) for column in columns if name in column.values]
    return np.logical_or.reduce(found) if found else None


class _ByLedger(_Finder):
    """Looks for the subjects of forget requests, by their keyed hashes."""

    def __init__(self, gone: Mapping[bytes, int], ledger_key: bytes, key: bytes | None, n_entries: int) -> None:
        super().__init__()
        self._gone = gone
        self._key = key
        self._n_entries = n_entries
        self._user, self._item = (_hasher(ledger_key, kind) for kind in ("user", "item"))
        self._pair = hmac.new(ledger_key, _prefixed("receraser ledger subject", "interaction"), "sha256")

    @classmethod
    def of(cls, case: Case, key: bytes | None) -> _ByLedger:
        """Return one for all who were forgotten and did not come back."""
        ledger_key = case.ledger_key
        if ledger_key is None:
            raise ProofError(
                "cannot be checked: the key of the ledger is not at hand, or was shredded; name the folder of keys with "
                "--keys, or those to look for with --user, --item and --interaction"
            )
        gone: dict[bytes, int] = {}
        others, n = 0, 0
        for entry in case.entries:
            if entry.action not in ("forget", "add") or not entry.subjects:
                continue
            if entry.key != ledger.key_check(ledger_key):
                others += entry.action == "forget"
                continue
            hashes = [bytes.fromhex(one) for one in entry.subjects]
            n += entry.action == "forget"
            for one in hashes:
                if entry.action == "forget":
                    gone[one] = entry.index
                else:
                    gone.pop(one, None)
        if others:
            raise ProofError(
                f"cannot be checked: {counted(others, 'forget request')} entered with another key of the ledger, which is "
                "not at hand or was shredded; name those to look for with --user, --item and --interaction"
            )
        return cls(gone, ledger_key, key, n)

    def about(self) -> str:
        by = "" if self._key is not None else ", outside ids not among them: the store's key is not at hand"
        return f"{counted(len(self._gone), 'subject')} of {counted(self._n_entries, 'forget request')}{by}"

    def found(self, place: _Place, piece: Piece) -> Iterator[str]:
        if not self._gone:
            return
        if isinstance(piece, Fields):
            yield from self._singles(value for value in piece.values if _long(value) or not place.document)
        elif isinstance(piece, Raw):
            yield from self._singles({one.decode() for one in _PSEUDONYM.findall(piece.data)})
        elif isinstance(piece, Text):
            yield from self._singles({word for form in _WORDS for word in form.findall(piece.text) if _long(word)})
        elif isinstance(piece, Table):
            yield from self._rows(place, piece)
        elif isinstance(piece, Groups):
            yield from self._groups(piece)

    def _singles(self, values: Iterable[str]) -> Iterator[str]:
        for value in values:
            for hashed, what in ((self._user, "user"), (self._item, "item")):
                yield from self._named(hashed(value), what)
            if self._key is not None:
                yield from self._named(self._user(pseudonyms([value], self._key)[0]), "user")

    def _rows(self, place: _Place, table: Table) -> Iterator[str]:
        """Try every row of the first two columns as a user and an item."""
        if len(table.columns) < 2:
            return
        users, items = table.columns[:2]
        both = (users.index >= 0) & (items.index >= 0)
        cells = np.unique(np.stack([users.index[both], items.index[both]]), axis=1)
        names = [_prefixed(value) for value in items.values]
        starts = np.flatnonzero(np.diff(cells[0], prepend=-1)).tolist()
        for start, stop in zip(starts, [*starts[1:], cells.shape[1]], strict=True):
            user, own = users.values[cells[0, start]], cells[1, start:stop].tolist()
            for name in self._both_names(user, own=place.own):
                yield from self._pairs(name, (names[item] for item in own))

    def _groups(self, groups: Groups) -> Iterator[str]:
        for row in groups.rows:
            if len(row) <= _WIDEST:
                for n, user in enumerate(row):
                    for name in self._both_names(user, own=False):
                        yield from self._pairs(name, (_prefixed(item) for item in (*row[:n], *row[n + 1 :])))

    def _both_names(self, user: str, *, own: bool) -> list[str]:
        """Return a user as written and, where it may be an outside id, as a pseudonym."""
        return [user] if own or self._key is None else [user, *pseudonyms([user], self._key)]

    def _pairs(self, user: str, items: Iterable[bytes]) -> Iterator[str]:
        begun = self._pair.copy()
        begun.update(_prefixed(user))
        gone = self._gone
        for item in items:
            code = begun.copy()
            code.update(item)
            if (found := code.digest()[:16]) in gone:
                yield from self._named(found, "interaction")

    def _named(self, hashed: bytes, what: str) -> Iterator[str]:
        if hashed in self._gone:
            yield f"{what} forgotten by entry {self._gone[hashed]}"


def _prefixed(*parts: str) -> bytes:
    """Return texts with their lengths before them, as `ledger.subject_hash` takes them."""
    encoded = [part.encode(errors="replace") for part in parts]
    return b"".join(len(one).to_bytes(8, "little") + one for one in encoded)


def _hasher(key: bytes, kind: str) -> Callable[[str], bytes]:
    begun = hmac.new(key, _prefixed("receraser ledger subject", kind), "sha256")

    def hashed(name: str) -> bytes:
        code = begun.copy()
        code.update(_prefixed(name))
        return code.digest()[:16]

    return hashed


class _Digests(_Finder):
    """Looks for plain digests where only commitments may stand, and for those of earlier states anywhere.

    Whoever knows the survivors and an old digest can test guesses about what was forgotten.
    """

    def __init__(self, case: Case) -> None:
        super().__init__()
        manifest = case.manifest
        self._old = {old["digest"] for _, old in case.evidence.kept()}
        self._old |= {shard["digest"] for _, old in case.evidence.kept() for shard in old["shards"]}
        shards = {shard["digest"] for shard in manifest["shards"]}
        self._old -= shards | {manifest["digest"]}  # shards that did not change have the digest they had
        try:
            data = {case.content.data}
        except ProofError:
            data = set()
        self._now = {manifest["digest"], *shards, *data, *manifest["files"]}

    def found(self, place: _Place, piece: Piece) -> Iterator[str]:
        if not isinstance(piece, Raw):
            return
        hexes = {one.decode() for one in re.findall(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])", piece.data)}
        if hexes & self._old and "an earlier state, kept" not in place.where:
            yield "the digest of an earlier state"
        if hexes & self._now:
            if "certificates/" in place.where or place.where == "ledger" or "pending/" in place.where:
                yield "a digest that is no commitment"
            elif not place.own:
                yield _PRESENT

    def verdict(self, *_: object) -> str:
        present = self.hits.pop(_PRESENT, [])
        if self.hits:
            raise ProofError(shown([f"{what}: {' and '.join(_few(places))}" for what, places in self.hits.items()]))
        note = (
            f"; the digest of the present state stands in {' and '.join(_few(present))}: destroy that copy before the next "
            "forget, when it would let guesses be tested"
            if present
            else ""
        )
        return f"certificates and ledger hold commitments only, and no digest of an earlier state was found{note}"


_PRESENT = "the digest of the present state"
