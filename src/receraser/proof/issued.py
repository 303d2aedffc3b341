"""What a store has signed, read back: certificates and checkpoints out of their envelopes.

The one reader of both, for the store's own history and for the verifier. Whose signatures count is said by the caller,
as a function that opens an envelope: with the keys that a store names, or with those that somebody vouches for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from receraser.errors import ProofError
from receraser.fingerprint import of_bytes
from receraser.proof import merkle
from receraser.proof.certificate import PAYLOAD_TYPE, Certificate
from receraser.proof.fields import decoded
from receraser.proof.ledger import CHECKPOINT_TYPE, check_checkpoint, check_checkpoint_form
from receraser.proof.signing import Envelope, PublicKey, opened, unverified

__all__ = [
    "Checkpoint",
    "Issued",
    "Opening",
    "claimed_certificate",
    "envelope_in",
    "named_signers",
    "opening_with",
    "read_certificate",
    "read_checkpoint",
]

# Takes an envelope and the type its payload must have; returns the payload and the id of the key that signed it.
Opening = Callable[[object, str], tuple[bytes, str]]


@dataclass(frozen=True, eq=False)
class Issued:
    """A certificate as it was signed.

    Attributes
    ----------
    certificate
        What it says.
    sha256
        Of its file.
    signed_by
        The id of the key.
    checked
        Whether that key was at hand, and the signature fits; False says that nobody has looked.
    """

    certificate: Certificate
    sha256: str
    signed_by: str
    checked: bool


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A ledger's root as it was signed: the envelope, what it says, and the id of the key."""

    envelope: Envelope
    store: str
    size: int
    root: str
    time: str
    manifest: str
    signed_by: str

    def check(self, store: str, leaves: Sequence[bytes]) -> None:
        """Raise unless it is of this store, and of a ledger of exactly these leaves."""
        said = {name: value for name, value in vars(self).items() if name not in ("envelope", "signed_by")}
        check_checkpoint(said, store=store, frontier=merkle.Frontier.of(leaves))


def opening_with(keys: Mapping[str, PublicKey]) -> Opening:
    """Return how envelopes are opened with these keys."""
    return lambda envelope, payload_type: opened(envelope, keys, payload_type)


def named_signers(signers: Mapping[str, str]) -> dict[str, PublicKey]:
    """Return the keys that a store names; one that has another id is refused."""
    found = {}
    for name, text in signers.items():
        key = PublicKey.from_hex(text)
        if key.id != name:
            raise ProofError(f"the manifest's field record.signers has the key {key.id} under the id {name}")
        found[name] = key
    return found


def envelope_in(data: bytes, what: str) -> Envelope:
    """Return the envelope in a file: canonical JSON and the end of a line, as it was written."""
    envelope = decoded(what, data.removesuffix(b"\n"))
    if not isinstance(envelope, dict):
        raise ProofError(f"{what} is no signed statement: expected an envelope with payload and signatures")
    return envelope


def read_certificate(data: bytes, opening: Opening) -> Issued:
    """Return the certificate in a file, its signature checked."""
    payload, key = opening(envelope_in(data, "the certificate's file"), PAYLOAD_TYPE)
    return Issued(Certificate.parse(payload), of_bytes(data), key, checked=True)


def claimed_certificate(data: bytes, keys: Mapping[str, PublicKey]) -> Issued:
    """Return the certificate in a file; one whose key is not among these is read too, and said to be unchecked.

    Raises
    ------
    ProofError
        If it is no certificate, or if its key is known and the signature does not fit.
    """
    envelope = envelope_in(data, "the certificate's file")
    payload = unverified(envelope, PAYLOAD_TYPE)
    signatures = envelope["signatures"]
    assert isinstance(signatures, list)  # checked by `unverified`
    names = [str(one["keyid"]) for one in signatures]
    if any(name in keys for name in names):
        return read_certificate(data, opening_with(keys))
    return Issued(Certificate.parse(payload), of_bytes(data), names[0], checked=False)


def read_checkpoint(envelope: object, opening: Opening) -> Checkpoint:
    """Return what a checkpoint says, its signature checked; of which ledger it is says `Checkpoint.check`."""
    payload, key = opening(envelope, CHECKPOINT_TYPE)
    body = decoded("the checkpoint", payload)
    check_checkpoint_form(body)
    assert isinstance(envelope, dict)  # checked when it was opened
    assert isinstance(body, dict)
    return Checkpoint(envelope, signed_by=key, **body)
