"""`Case`: what can be derived of a store's evidence, each thing once, when a check first asks for it.

Nothing here decides. What cannot be derived raises, and every check that needed it says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from receraser.errors import ProofError, ReceraserError
from receraser.fingerprint import of_bytes
from receraser.proof.certificate import ACTIONS, PAYLOAD_TYPE, Certificate
from receraser.proof.fields import decoded
from receraser.proof.keyring import Keyring
from receraser.proof.ledger import Entry, read_entries
from receraser.proof.signing import PublicKey
from receraser.verify.content import Content, recompute
from receraser.verify.evidence import Evidence, Manifest
from receraser.verify.signatures import Vouchers, named_signers

__all__ = ["Case", "Issued"]


@dataclass(frozen=True, eq=False)
class Issued:
    """A certificate that the ledger names: its entry, its file's SHA-256, what it says, and the key that signed it."""

    entry: Entry
    sha256: str
    certificate: Certificate
    key: str


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

    @cached_property
    def content(self) -> Content:
        """What the files hold."""
        return recompute(self.manifest, self.evidence.get)

    # ------------------------------------------------------------------ the ledger

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

    @cached_property
    def changes(self) -> list[Entry]:
        """The entries that changed the state."""
        return [entry for entry in self.entries if entry.action in ACTIONS]

    # ------------------------------------------------------------------ signatures

    @cached_property
    def signers(self) -> dict[str, PublicKey]:
        """The keys that the store names."""
        return named_signers(self.manifest["record"]["signers"])

    @cached_property
    def bound(self) -> bool:
        """Whether every signature must be by a key that somebody vouches for."""
        return self.vouchers.bind(self.signers, own=self.own is not None)

    @property
    def own(self) -> Keyring | None:
        """The operator's keys, if the store is the operator's own: its ledger's key is among them."""
        return None if self.ledger_key is None else self.keyring

    @cached_property
    def ledger_key(self) -> bytes | None:
        """The key of the subjects' hashes in the ledger, where it is at hand."""
        if self.keyring is None:
            return None
        return self.keyring.ledger_key(self.manifest["record"]["store"], create=False)

    @cached_property
    def signed(self) -> bool:
        """Whether anything in the store claims to be signed."""
        record = self.manifest["record"]
        claims = record["checkpoint"] or record["certificate"] or record["signers"] or record["after"]
        return bool(claims) or any(entry.certificate for entry in self.entries)

    def opened(self, envelope: object, kind: str) -> tuple[bytes, str]:
        """Return the payload of an envelope and the id of the key that signed it."""
        return self.vouchers.open(envelope, kind, self.signers, bound=self.bound)

    # ------------------------------------------------------------------ certificates

    @cached_property
    def issued(self) -> tuple[list[Issued], list[str]]:
        """The certificates that entries name, and what is wrong with the others."""
        found, faults = [], []
        for entry in self.entries:
            if entry.certificate is not None:
                try:
                    found.append(self._issued(entry, entry.certificate))
                except ReceraserError as error:
                    faults.append(f"entry {entry.index}: {error}")
        return found, faults

    def _issued(self, entry: Entry, name: str) -> Issued:
        certificate, key = self._certificate(self.evidence.certificate(name))
        return Issued(entry, name, certificate, key)

    def _certificate(self, data: bytes) -> tuple[Certificate, str]:
        payload, key = self.opened(decoded("the certificate's file", data.removesuffix(b"\n")), PAYLOAD_TYPE)
        return Certificate.parse(payload), key

    @property
    def newest(self) -> Issued:
        """The certificate of the last change."""
        if not self.changes or self.changes[-1].certificate is None:
            last = f"entry {self.changes[-1].index} ({self.changes[-1].action})" if self.changes else "the empty ledger"
            raise ProofError(f"nobody certified the state: {last} has no certificate")
        found, faults = self.issued
        if not found or found[-1].entry is not self.changes[-1]:
            raise ProofError(f"cannot be checked: {faults[-1]}")
        return found[-1]

    def handed(self, data: bytes) -> Issued:
        """Return the certificate in a file that was brought along; it must be one of this store's."""
        name = of_bytes(data)
        entry = next((entry for entry in self.entries if entry.certificate == name), None)
        certificate, key = self._certificate(data)
        if entry is not None:
            return Issued(entry, name, certificate, key)
        own = self.manifest["record"]["store"]
        if certificate.store != own:
            raise ProofError(f"it is of another store: {certificate.store}; this one is {own}")
        raise ProofError(
            f"it is signed (key {key}) as entry {certificate.ledger['index']} of this store, but none of its "
            f"{len(self.entries)} entries names {name}: the ledger was rewritten, or this is an older copy"
        )
