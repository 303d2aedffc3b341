"""`Case`: what follows from a store's evidence, each thing derived once, when a check first asks for it.

Nothing here decides. What cannot be derived raises, and every check that needed it says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from receraser.errors import ProofError, ReceraserError
from receraser.fingerprint import of_bytes
from receraser.proof.certificate import ACTIONS
from receraser.proof.issued import Issued, named_signers, read_certificate
from receraser.proof.keyring import Keyring
from receraser.proof.ledger import Entry, read_entries
from receraser.proof.manifest import Manifest
from receraser.proof.signing import PublicKey
from receraser.store.layout import is_pending
from receraser.store.pending import Pending
from receraser.verify.content import Content, recompute
from receraser.verify.evidence import Evidence
from receraser.verify.signatures import Vouchers

__all__ = ["Case", "Entered", "Requests"]

_KINDS = ("add", "forget", "rebuild")


@dataclass(frozen=True, eq=False)
class Entered(Issued):
    """A certificate, and the entry of the ledger that names it."""

    entry: Entry


@dataclass(frozen=True, eq=False)
class Requests:
    """What is written down in a store: requests that wait, how many need nothing done, what is wrong with others."""

    waiting: list[Pending]
    settled: int
    faults: list[str]


class Case:
    """One store, and whom its signatures are expected of.

    Parameters
    ----------
    evidence
        What lies there.
    vouchers
        The keys that somebody vouches for.
    keyring
        The operator's keys, where they are at hand: they tell whether the store is the operator's own.
    """

    def __init__(self, evidence: Evidence, vouchers: Vouchers | None = None, keyring: Keyring | None = None) -> None:
        self.evidence = evidence
        self.vouchers = vouchers or Vouchers()
        self.keyring = keyring

    @property
    def manifest(self) -> Manifest:
        """What the manifest says, whatever else is wrong with it."""
        if self.evidence.manifest is None:
            raise ProofError("cannot be checked: nothing can be made of the manifest")
        return self.evidence.manifest

    @property
    def store(self) -> str:
        """The id of the store."""
        return self.manifest["record"]["store"]

    @cached_property
    def content(self) -> Content:
        """What the files hold."""
        return recompute(self.manifest, self.evidence.get)

    @cached_property
    def entries(self) -> list[Entry]:
        """The entries of the ledger that the manifest covers."""
        head, data = self.manifest["record"]["ledger"], self.evidence.ledger()
        if len(data) < head["bytes"]:
            raise ProofError(f"the ledger has {len(data)} bytes; expected {head['bytes']}")
        return read_entries(data[: head["bytes"]])

    @cached_property
    def leaves(self) -> list[bytes]:
        """The leaves of the ledger's tree."""
        return [entry.leaf() for entry in self.entries]

    # ------------------------------------------------------------------ keys and signatures

    @cached_property
    def ledger_key(self) -> bytes | None:
        """The key of the subjects' hashes in the ledger, where it is at hand: then the store is the operator's own."""
        return None if self.keyring is None else self.keyring.ledger_key(self.store, create=False)

    @cached_property
    def signers(self) -> dict[str, PublicKey]:
        """The keys that the store names."""
        return named_signers(self.manifest["record"]["signers"])

    @cached_property
    def bound(self) -> bool:
        """Whether every signature must be by a key that somebody vouches for."""
        return self.vouchers.bind(self.signers, own=self.ledger_key is not None)

    @cached_property
    def signed(self) -> bool:
        """Whether anything in the store claims to be signed."""
        record = self.manifest["record"]
        claims = record["checkpoint"] or record["certificate"] or record["signers"] or record["after"]
        return bool(claims) or any(entry.certificate for entry in self.entries)

    def opened(self, envelope: object, kind: str) -> tuple[bytes, str]:
        """Return the payload of an envelope and the id of the key that signed it."""
        return self.vouchers.open(envelope, kind, self.signers, bound=self.bound)

    # ------------------------------------------------------------------ requests

    @property
    def request_key(self) -> bytes | None:
        """The key that requests must be written with, where it is at hand; nothing binds those of an unsigned store."""
        return self.ledger_key if self.manifest["record"]["signers"] else None

    @cached_property
    def requests(self) -> Requests:
        """The requests that are written down; settled are those done, or asked of a store that this one replaced."""
        done, folder = self.manifest["record"]["done"], self.evidence.path / "pending"
        waiting, settled, faults = [], 0, []
        for path in sorted(folder.iterdir()) if folder.is_dir() else []:
            if not is_pending(name := f"pending/{path.name}"):
                continue  # a stray
            try:
                one = Pending.decode(path.stem, data := path.read_bytes())
                if one.kind not in _KINDS or (one.kind == "add") != (one.rows is not None):
                    faults.append(f"{name} asks for {one.kind!r}; expected one of {', '.join(_KINDS)}")
                elif one.id == done or one.store not in ("", self.store):
                    settled += 1
                else:
                    waiting.append(Pending.decode(path.stem, data, self.request_key))
            except (ReceraserError, OSError) as error:
                faults.append(str(error))
        return Requests(waiting, settled, faults)

    # ------------------------------------------------------------------ certificates

    @cached_property
    def issued(self) -> tuple[list[Entered], list[str]]:
        """The certificates that entries name, and what is wrong with the others."""
        found, faults = [], []
        for entry in self.entries:
            if entry.certificate is not None:
                try:
                    one = read_certificate(self.evidence.certificate(entry.certificate), self.opened)
                    found.append(Entered(**vars(one), entry=entry))
                except ReceraserError as error:
                    faults.append(f"entry {entry.index}: {error}")
        return found, faults

    @property
    def newest(self) -> Entered:
        """The certificate of the last change."""
        changes = [entry for entry in self.entries if entry.action in ACTIONS]
        if not changes or changes[-1].certificate is None:
            last = f"entry {changes[-1].index} ({changes[-1].action})" if changes else "the empty ledger"
            raise ProofError(f"nobody certified the state: {last} has no certificate")
        found, faults = self.issued
        if not found or found[-1].entry is not changes[-1]:
            raise ProofError(f"cannot be checked: {faults[-1]}")
        return found[-1]

    def handed(self, data: bytes) -> Entered:
        """Return the certificate in a file that was brought along; it must be one of this store's."""
        name = of_bytes(data)
        entry = next((entry for entry in self.entries if entry.certificate == name), None)
        one = read_certificate(data, self.opened)
        if entry is not None:
            return Entered(**vars(one), entry=entry)
        if one.certificate.store != self.store:
            raise ProofError(f"it is of another store: {one.certificate.store}; this one is {self.store}")
        raise ProofError(
            f"it is signed (key {one.signed_by}) as entry {one.certificate.ledger['index']} of this store, but none of "
            f"its {len(self.entries)} entries names {name}: the ledger was rewritten, or this is an older copy"
        )
