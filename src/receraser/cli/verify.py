"""`receraser verify`: whether a store is what was signed, and papers about it are what they claim to be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from receraser.cli import options
from receraser.cli.console import Bar, count, print_json, print_lines, say, warn
from receraser.cli.papers import KeyFolder, keyring_to_read
from receraser.errors import ProofError, UsageError, nearest

if TYPE_CHECKING:
    from receraser.verify.case import Case
    from receraser.verify.checks import Check

__all__ = ["verify"]

_WAYS = ("affected", "all", "sample", "none")


def verify(
    store: options.Store,
    keys: KeyFolder = None,
    trust: Annotated[
        list[Path],
        typer.Option("--trust", metavar="PATH", help="A signer's public key (PEM), or a folder of them; repeatable."),
    ] = [],  # noqa: B006
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A certificate: is it one of this store's?")
    ] = None,
    receipt: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A receipt: does it open a certificate of this store?")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A checkpoint kept elsewhere: did the ledger only grow since?")
    ] = None,
    replay: Annotated[
        str, typer.Option(metavar="WAY", help="Fit again and compare bits: affected, all, sample or none.")
    ] = "none",
    residue: Annotated[
        bool, typer.Option("--residue", help="Search every byte for what is left of those who were forgotten.")
    ] = False,
    user: Annotated[
        list[str], typer.Option("--user", metavar="U", help="With --residue: look for this user; repeatable.")
    ] = [],  # noqa: B006
    item: Annotated[
        list[str], typer.Option("--item", metavar="I", help="With --residue: look for this item; repeatable.")
    ] = [],  # noqa: B006
    interaction: Annotated[
        list[str], typer.Option("--interaction", metavar="U,I", help="With --residue: look for this row; repeatable.")
    ] = [],  # noqa: B006
    search: Annotated[
        list[Path], typer.Option("--search", metavar="PATH", help="With --residue: look here too; repeatable.")
    ] = [],  # noqa: B006
    as_json: options.AsJson = False,
) -> None:
    """Verify a store and what was signed.

    Every check is made even if another fails, and says what it found. Nothing is changed. Exit 0: all hold; 1: one does
    not; 2: there is no such store.
    """
    _check_options(replay, residue=residue, named=[*user, *item, *interaction], search=search)
    papers = _papers({"certificate": certificate, "receipt": receipt, "checkpoint": checkpoint})
    with Bar("checking the store") as bar:
        case, checks = _checks(store, keys, trust, papers)
        if replay != "none":
            from receraser.verify.replay import replayed

            checks.append(replayed(case, replay, papers.get("certificate"), progress=bar.update))
        if residue:
            checks += _searched(case, keys, user, item, interaction, search)
    _tell(checks, notes=_notes(case, checks, replay=replay), as_json=as_json)
    if not all(one.ok for one in checks):
        raise typer.Exit(1)


def _check_options(replay: str, *, residue: bool, named: list[str], search: list[Path]) -> None:
    """Raise where options do not fit together."""
    if replay not in _WAYS:
        raise UsageError(f"--replay {replay!r}: {nearest(replay, _WAYS)}")
    if (named or search) and not residue:
        raise UsageError("--user, --item, --interaction and --search say what to search for; add --residue")
    missing = next((path for path in search if not path.exists()), None)
    if missing is not None:
        raise UsageError(f"--search {missing}: there is no such file or folder")


def _papers(paths: dict[str, Path | None]) -> dict[str, bytes]:
    """Return the content of the files that were brought along, by the names of their options."""
    found = {}
    for name, path in paths.items():
        try:
            if path is not None:
                found[name] = path.read_bytes()
        except OSError as error:
            raise UsageError(f"--{name} {path}: {error.strerror}") from None
    return found


def _checks(store: Path, keys: Path | None, trust: list[Path], papers: dict[str, bytes]) -> tuple[Case, list[Check]]:
    """Make the checks of a store, and of papers that were brought along."""
    from receraser.verify.checks import Check, checked, examine
    from receraser.verify.papers import check_certificate, check_receipt, check_witness
    from receraser.verify.signatures import Vouchers

    ring = keyring_to_read(keys)
    untrusted = []
    try:
        vouchers = Vouchers.of(trust, ring, named=keys is not None)
    except ProofError as error:  # a statement about keys that is forged
        vouchers = Vouchers(source="--trust" if trust else "the folder of keys", named=True)
        untrusted = [Check("trust", ok=False, detail=str(error))]
    case, checks = examine(store, vouchers=vouchers, keyring=ring)
    known = {
        "certificate": ("certificate", check_certificate),
        "receipt": ("receipt", check_receipt),
        "checkpoint": ("witness", check_witness),
    }
    return case, untrusted + checks + [
        checked(known[name][0], known[name][1], case, data) for name, data in papers.items()
    ]


def _searched(
    case: Case, keys: Path | None, users: list[str], items: list[str], interactions: list[str], search: list[Path]
) -> list[Check]:
    """Search for what is left of those who were forgotten."""
    from receraser.residue.search import residue

    return residue(
        case,
        users=[options.id_given(one, "--user") for one in users],
        items=[options.id_given(one, "--item") for one in items],
        interactions=[options.pair_given(one, "--interaction") for one in interactions],
        search=search,
        key=_pseudonym_key(case, keys),
    )


def _pseudonym_key(case: Case, keys: Path | None) -> bytes | None:
    """Return the key of the store's pseudonyms, where it is at hand: the public one, or one in the folder of keys."""
    from receraser.keys import PUBLIC_KEY, has_key, load_key

    if case.evidence.manifest is not None and case.manifest["pseudonyms"]["public_key"]:
        return PUBLIC_KEY
    ring = keyring_to_read(keys)
    return load_key(ring.folder) if ring is not None and has_key(ring.folder) else None


def _notes(case: Case, checks: list[Check], *, replay: str) -> list[str]:
    """Return what does not follow although every check holds."""
    if not all(one.ok for one in checks):
        return []
    notes, unknown = [], sorted(case.signers.keys() - case.vouchers.keys.keys())
    if unknown:
        notes.append(
            f"nobody here vouches for key {', '.join(unknown)}: give --trust with the operator's public key, got by "
            "another way than the store"
        )
    if replay == "none":
        notes.append("that the weights were learned from these rows is shown by --replay all, which fits them again")
    return notes


def _tell(checks: list[Check], *, notes: list[str], as_json: bool) -> None:
    ok = all(one.ok for one in checks)
    if as_json:
        print_json({"ok": ok, "checks": [vars(one) for one in checks]})
        return
    width = max(len(one.name) for one in checks)
    print_lines([f"{'ok  ' if one.ok else 'FAIL'}  {one.name:<{width}}  {one.detail}" for one in checks])
    failed = sum(not one.ok for one in checks)
    say(
        f"all {len(checks)} checks hold"
        if ok
        else f"{failed} of {count(len(checks), 'check')} {'does' if failed == 1 else 'do'} not hold"
    )
    for note in notes:
        warn(note)
