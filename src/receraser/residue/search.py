"""What is left of those who were forgotten: in every byte of a store, and wherever else somebody says to look.

Two ways of asking. By the ledger: every user, item and row that is there now is hashed with the ledger's key and held
against the subjects of all forget requests, less those who came back by an add; nobody has to be named. By name: ids
given are looked for as they are and, users, as pseudonyms.

In raw bytes ids of at least six bytes are looked for, between characters that are no letters or digits: shorter ones
stand everywhere by chance. In text (logs; not what the store itself wrote) a shorter id that is named is looked for as
a whole word; if it is a number, in text of no form, and below four digits only after a word that says what it is
(`user=17`, `"item": 17`). In what can be taken apart (`unpacking`) an id is looked for as a whole
field: of any length where the field's name says that users or items are in it, else of six bytes at least. An
interaction is found where a row, a JSON object or a line holds both. A hit names the place, never the id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from receraser.data.ids import key_check
from receraser.errors import ReceraserError
from receraser.partition.registry import PARTITIONS
from receraser.proof.manifest import roles
from receraser.residue.finders import KEPT, ByLedger, ByName, Digests, Finder, Place
from receraser.residue.unpacking import Closed, unpack
from receraser.verify.case import Case
from receraser.verify.checks import Check, checked
from receraser.verify.content import UNFIT
from receraser.verify.words import counted, shown

__all__ = ["residue"]


def residue(
    case: Case,
    *,
    users: Sequence[str] = (),
    items: Sequence[str] = (),
    interactions: Sequence[tuple[str, str]] = (),
    search: Sequence[Path] = (),
    key: bytes | None = None,
) -> list[Check]:
    """Search a store, and other paths; return one check for each way of asking, and one for wishes and digests each.

    Parameters
    ----------
    case
        The store. The ledger's key is taken from its keyring.
    users, items, interactions
        Outside ids to be looked for; without any, the ledger alone says whom.
    search
        Other files and folders: logs, backups, copies.
    key
        The key of the pseudonyms, where it is at hand.
    """
    try:
        return _searched(case, (users, items, interactions), search, key)
    except (*UNFIT, ReceraserError) as error:
        return [Check("residue", ok=False, detail=f"cannot be checked: {error or type(error).__name__}")]


def _searched(
    case: Case,
    named: tuple[Sequence[str], Sequence[str], Sequence[tuple[str, str]]],
    search: Sequence[Path],
    key: bytes | None,
) -> list[Check]:
    if key is not None and key_check(key) != case.manifest["pseudonyms"]["key_check"]:
        key = None
    finders: dict[str, Finder] = {}
    if not any(named) or case.ledger_key is not None:
        finders["residue by the ledger"] = ByLedger(case, key)
    if any(named):
        finders["residue by name"] = ByName(*named, key)
    finders["residue of digests"] = Digests(case)
    closed: list[str] = []
    for place in _places(case, search):
        for piece in unpack(place.where, place.data, kind=place.kind):
            if isinstance(piece, Closed):
                closed.append(f"{piece.where} ({piece.reason})")
            for finder in finders.values():
                finder.look(place, piece)
    aside = sorted({what for finder in finders.values() for what in finder.aside})
    checks = [checked(name, finder.verdict) for name, finder in finders.items()]
    return [*checks, checked("residue in wishes", _wishes, case, aside), checked("residue unopened", _unopened, closed)]


def _wishes(case: Case, aside: Sequence[str]) -> str:
    """Return what is said of wishes: pairs that are stored on purpose, and are no residue."""
    if case.manifest["wishes"] is None:
        return "no wishes are stored"
    asked = f"; among them {', '.join(aside)}" if aside else ""
    return f"{counted(len(case.content.wishes), 'pair')} stored on request, to be kept out of lists{asked}: no residue"


def _unopened(closed: Sequence[str]) -> str:
    """Return what is said of files that could not be taken apart: only their raw bytes were searched."""
    return f"only the raw bytes were searched of {shown(list(closed))}" if closed else "everything could be looked into"


def _places(case: Case, search: Sequence[Path]) -> Iterator[Place]:
    """Yield every file of a store, what it keeps of earlier states, strays, and the paths named besides."""
    manifest = case.manifest
    what = {f"files/{name}": role for name, role in roles(manifest).items()}
    documents = {
        "manifest.json",
        case.evidence.ledger_name,
        *(f"certificates/{one.certificate}.json" for one in case.entries),
    }
    for name, old in case.evidence.kept():
        what |= {file: f"{KEPT}: {role}" for one, role in roles(old).items() if (file := f"files/{one}") not in what}
        what[f"files/{name}"] = f"{KEPT}: its manifest"
    partition = PARTITIONS.get(str(manifest["config"]["partition"]))
    landmarks = "" if partition is None else partition.landmarks_of.removesuffix("s")
    for name, path in case.evidence.everything():
        if path.is_file():
            yield Place(
                f"{what[name]}, {name}" if name in what else name,
                path.read_bytes(),
                own=name in what or name in documents,
                signed=name.startswith(("ledger", "certificates/", "pending/")),
                wishes=name == f"files/{manifest['wishes']}",
                kind=landmarks,
            )
    for given in search:
        for path in sorted(given.rglob("*")) if given.is_dir() else [given]:
            if path.is_file():
                yield Place(str(path), path.read_bytes())
