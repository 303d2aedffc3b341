"""The checks of a store, one after the other. Each says what it found; none stops the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec

from receraser.errors import ReceraserError
from receraser.proof.keyring import Keyring
from receraser.verify.case import Case
from receraser.verify.content import UNFIT
from receraser.verify.evidence import Evidence
from receraser.verify.signatures import Vouchers
from receraser.verify.signed import check_certificates, check_ledger, check_newest, check_signed_root, check_signers
from receraser.verify.state import (
    check_content,
    check_files,
    check_level,
    check_manifest,
    check_pending,
    check_strays,
    check_wishes,
)

__all__ = ["CHECKS", "Check", "check_content", "checked", "examine"]

P = ParamSpec("P")

_TRIES = 3

# What is checked, in the order in which it is told.
CHECKS: Mapping[str, Callable[[Case], str]] = {
    "manifest": check_manifest,  # its checksum, its form, its very bytes
    "files": check_files,  # each is there, of its size, and what its name says
    "strays": check_strays,  # and nothing lies beside them
    "content": check_content,  # rows, assignment, configuration and weights give the digest, shard by shard
    "level": check_level,  # the level that is said is the one that follows
    "wishes": check_wishes,  # what people asked not to be shown can be read
    "ledger": check_ledger,  # every entry, in order, under the root that the manifest covers
    "signers": check_signers,  # whose keys signed, and who vouches for them
    "checkpoint": check_signed_root,  # the ledger's root and the manifest, signed
    "certificates": check_certificates,  # each one: its hash, its signature, its place in the ledger, its parent
    "state": check_newest,  # the newest is about what lies here: commitments, level, configuration, environment
    "pending": check_pending,  # requests that are waiting
}


@dataclass(frozen=True)
class Check:
    """One check: whether it holds, and what was found."""

    name: str
    ok: bool
    detail: str


def checked(name: str, check: Callable[P, str], *arguments: P.args, **options: P.kwargs) -> Check:
    """Run a check; what it raises is what it found."""
    try:
        return Check(name, ok=True, detail=check(*arguments, **options))
    except ReceraserError as error:
        return Check(name, ok=False, detail=str(error))
    except (*UNFIT, RecursionError) as error:
        return Check(name, ok=False, detail=f"cannot be checked: {type(error).__name__} {error}")


def examine(
    store: Path, *, vouchers: Vouchers | None = None, keyring: Keyring | None = None
) -> tuple[Case, list[Check]]:
    """Check a store; raises only where there is none. Where somebody publishes meanwhile, it is begun anew."""
    for _ in range(_TRIES):
        case = Case(Evidence(store), vouchers, keyring)
        order = sorted(CHECKS, key=lambda name: name != "content")  # it reads the files, once
        done = {name: checked(name, CHECKS[name], case) for name in order}
        if all(one.ok for one in done.values()) or Evidence(store).text == case.evidence.text:
            break
    return case, [done[name] for name in CHECKS]
