"""Signatures: Ed25519 keys, and the DSSE envelope around what is signed.

An envelope carries the payload, its type and signatures, each with the id of its key; what is signed is the type and
the payload together (PAE of DSSE v1), so that a checkpoint cannot be shown as a certificate. Opening one is strict:
what is not written as it should be is refused before any signature is looked at. Which keys are trusted is said by the
caller. A key in a file is an operator's, and a bad one is wrong usage; one in a store or a statement is evidence, and a
bad one is a proof that does not hold.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from receraser.errors import ProofError, UsageError

__all__ = ["Envelope", "PublicKey", "SigningKey", "opened", "pre_authentication", "sealed", "unverified"]

Envelope = dict[str, object]

_ID = re.compile("[0-9a-f]{16}")


@dataclass(frozen=True)
class PublicKey:
    """The half of a key that checks signatures.

    Parameters
    ----------
    raw
        The 32 bytes of the Ed25519 key.

    Examples
    --------
    >>> key = PublicKey.from_hex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    >>> key.id
    '21fe31dfa154a261'
    """

    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) != 32:
            raise ProofError(f"a public key has {len(self.raw)} bytes; expected 32")

    @property
    def id(self) -> str:
        """The name of the key: the first 16 hex digits of its SHA-256."""
        return hashlib.sha256(self.raw).hexdigest()[:16]

    def verify(self, signature: bytes, data: bytes) -> bool:
        """Say whether the signature is this key's over the data."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, data)
        except InvalidSignature:
            return False
        return True

    def to_pem(self) -> bytes:
        """Return the key as PEM."""
        return Ed25519PublicKey.from_public_bytes(self.raw).public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    @classmethod
    def from_pem(cls, data: bytes) -> Self:
        """Return the key in a PEM file's content."""
        try:
            key = serialization.load_pem_public_key(data)
        except (ValueError, UnsupportedAlgorithm):
            raise UsageError("this is no public key: expected an Ed25519 key as PEM") from None
        if not isinstance(key, Ed25519PublicKey):
            raise UsageError("this is a public key of another kind: expected an Ed25519 key")
        return cls(key.public_bytes_raw())

    def to_hex(self) -> str:
        """Return the key as 64 hex digits."""
        return self.raw.hex()

    @classmethod
    def from_hex(cls, text: str) -> Self:
        """Return the key written by `to_hex`."""
        try:
            raw = bytes.fromhex(text)
        except (TypeError, ValueError):
            raw = b""
        if len(raw) != 32 or raw.hex() != text:
            raise ProofError(f"{text!r} is no public key: expected 64 hexadecimal digits")
        return cls(raw)


class SigningKey:
    """The half of a key that signs. Shown or printed, it tells its id and nothing else.

    Parameters
    ----------
    private
        The 32 secret bytes of the Ed25519 key (its seed).

    Examples
    --------
    >>> key = SigningKey.generate()
    >>> key.public.verify(key.sign(b"data"), b"data")
    True
    """

    def __init__(self, private: bytes) -> None:
        if len(private) != 32:
            raise UsageError(f"a private key has {len(private)} bytes; expected 32")
        self._key = Ed25519PrivateKey.from_private_bytes(private)
        self.public = PublicKey(self._key.public_key().public_bytes_raw())

    @classmethod
    def generate(cls) -> Self:
        """Return a new random key."""
        return cls(Ed25519PrivateKey.generate().private_bytes_raw())

    def sign(self, data: bytes) -> bytes:
        """Return the signature over the data, 64 bytes; the same every time."""
        return self._key.sign(data)

    def to_pem(self) -> bytes:
        """Return the private key as PEM (PKCS #8), without a password: for a file that its owner alone may read."""
        return self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    @classmethod
    def from_pem(cls, data: bytes) -> Self:
        """Return the key in a PEM file's content."""
        try:
            key = serialization.load_pem_private_key(data, password=None)
        except TypeError:
            raise UsageError("this private key has a password: expected one without") from None
        except (ValueError, UnsupportedAlgorithm):
            raise UsageError("this is no private key: expected an Ed25519 key as PEM") from None
        if not isinstance(key, Ed25519PrivateKey):
            raise UsageError("this is a private key of another kind: expected an Ed25519 key")
        return cls(key.private_bytes_raw())

    def __repr__(self) -> str:
        return f"SigningKey(id={self.public.id!r})"


def pre_authentication(payload_type: str, payload: bytes) -> bytes:
    """Return the bytes that are signed: PAE of DSSE v1.

    Examples
    --------
    >>> pre_authentication("http://example.com/HelloWorld", b"hello world")
    b'DSSEv1 29 http://example.com/HelloWorld 11 hello world'
    """
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def sealed(payload_type: str, payload: bytes, key: SigningKey) -> Envelope:
    """Return the envelope around a payload, signed.

    Examples
    --------
    >>> key = SigningKey.generate()
    >>> envelope = sealed("text/plain", b"done", key)
    >>> opened(envelope, {key.public.id: key.public}, "text/plain") == (b"done", key.public.id)
    True
    """
    signature = key.sign(pre_authentication(payload_type, payload))
    return {
        "payloadType": payload_type,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": key.public.id, "sig": base64.b64encode(signature).decode()}],
    }


def opened(envelope: object, keys: Mapping[str, PublicKey], payload_type: str) -> tuple[bytes, str]:
    """Return the payload of an envelope and the id of the key whose signature fits.

    Parameters
    ----------
    envelope
        As read from JSON.
    keys
        The trusted keys, by their ids.
    payload_type
        What the payload must be.

    Raises
    ------
    ProofError
        If the envelope is malformed or of another type, or if no signature is a trusted key's and fits.
    """
    payload, signatures = _parts(envelope, payload_type)
    signed = pre_authentication(payload_type, payload)
    for name, signature in signatures:
        if name in keys and keys[name].id != name:
            raise ProofError(f"the key given for {name} is another one: its id is {keys[name].id}")
        if name in keys and keys[name].verify(signature, signed):
            return payload, name
    raise ProofError("; ".join(_complaint(name, keys) for name in dict(signatures)))


def unverified(envelope: object, payload_type: str) -> bytes:
    """Return the payload of a well-formed envelope without looking at its signatures: what somebody claims.

    For finding out which keys to ask for; what it says is not to be believed before `opened` has returned it.
    """
    return _parts(envelope, payload_type)[0]


def _parts(envelope: object, payload_type: str) -> tuple[bytes, list[tuple[str, bytes]]]:
    """Return the payload of a well-formed envelope, and its signatures, each with the id of its key."""
    content = _mapping(envelope, ("payloadType", "payload", "signatures"), "the envelope")
    if content["payloadType"] != payload_type:
        raise ProofError(f"the envelope holds {content['payloadType']!r}; expected {payload_type!r}")
    payload = _decoded(content["payload"], "the payload")
    listed = content["signatures"]
    if not isinstance(listed, list) or not listed:
        raise ProofError("the envelope has no signature: expected a list of at least one")
    signatures = []
    for one in listed:
        parts = _mapping(one, ("keyid", "sig"), "a signature of the envelope")
        name = parts["keyid"]
        if not isinstance(name, str) or not _ID.fullmatch(name):
            raise ProofError(f"a signature of the envelope names the key {name!r}; expected an id of 16 hex digits")
        signatures.append((name, _decoded(parts["sig"], f"the signature of key {name}")))
    return payload, signatures


def _complaint(name: str, keys: Mapping[str, PublicKey]) -> str:
    """Say why a signature does not count."""
    if name in keys:
        return f"the signature of key {name} does not fit the content: one of the two was changed"
    return f"signed with key {name}, which is not trusted here (trusted: {', '.join(sorted(keys)) or 'none'})"


def _mapping(value: object, expected: tuple[str, ...], what: str) -> dict[str, object]:
    if not isinstance(value, dict) or set(value) != set(expected):
        found = ", ".join(sorted(map(repr, value))) if isinstance(value, dict) else f"a {type(value).__name__}"
        raise ProofError(f"{what} has the wrong form: found {found or 'nothing'}; expected {', '.join(expected)}")
    return value


def _decoded(value: object, what: str) -> bytes:
    """Return the bytes of base64 text written in the one canonical way."""
    try:
        data = base64.b64decode(value, validate=True) if isinstance(value, str) else None
    except (binascii.Error, ValueError):
        data = None
    if data is None or base64.b64encode(data).decode() != value:
        raise ProofError(f"{what} is not in the standard form of base64")
    return data
