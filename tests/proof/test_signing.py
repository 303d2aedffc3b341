from __future__ import annotations

import base64
import copy
import hashlib
import json

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from receraser.errors import ProofError, UsageError
from receraser.proof.signing import Envelope, PublicKey, SigningKey, opened, pre_authentication, sealed, unverified

TYPE = "application/vnd.in-toto+json"
KEY = SigningKey(bytes(range(32)))
OTHER = SigningKey(bytes(32))
KEYS = {KEY.public.id: KEY.public}
BOTH = KEYS | {OTHER.public.id: OTHER.public}


# ---------------------------------------------------------------------- keys


@pytest.mark.parametrize(
    ("private", "public", "message", "signature"),
    [
        (
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            (
                "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
                "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
            ),
        ),
        (
            "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "72",
            (
                "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
                "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
            ),
        ),
    ],
)
def test_the_signatures_of_rfc_8032(private: str, public: str, message: str, signature: str) -> None:
    key = SigningKey(bytes.fromhex(private))
    assert key.public == PublicKey.from_hex(public)
    assert key.public.to_hex() == public
    assert key.sign(bytes.fromhex(message)).hex() == signature
    assert key.public.verify(bytes.fromhex(signature), bytes.fromhex(message))


def test_keys_are_random_and_named_by_their_public_half() -> None:
    one, two = SigningKey.generate(), SigningKey.generate()
    assert one.public != two.public
    assert one.public.id == hashlib.sha256(one.public.raw).hexdigest()[:16]
    assert one.public.id in repr(one)
    assert len(repr(one)) < 40, "nothing secret in it"


def test_a_signature_fits_its_data_and_its_key_alone() -> None:
    signature = KEY.sign(b"data")
    assert KEY.public.verify(signature, b"data")
    assert not KEY.public.verify(signature, b"date")
    assert not OTHER.public.verify(signature, b"data")
    assert not KEY.public.verify(b"", b"data")
    assert not KEY.public.verify(signature + b"\x00", b"data")
    assert not KEY.public.verify(signature[:-1], b"data")
    assert not PublicKey(b"\xff" * 32).verify(signature, b"data"), "not a point of the curve"


def test_there_is_one_signature_only() -> None:
    """Adding the order of the group to its second half gives a number that must be refused."""
    signature = KEY.sign(b"data")
    order = 2**252 + 27742317777372353535851937790883648493
    second = (int.from_bytes(signature[32:], "little") + order).to_bytes(32, "little")
    assert not KEY.public.verify(signature[:32] + second, b"data")


def test_keys_are_written_and_read() -> None:
    assert SigningKey.from_pem(KEY.to_pem()).sign(b"data") == KEY.sign(b"data")
    assert PublicKey.from_pem(KEY.public.to_pem()) == KEY.public
    assert PublicKey.from_hex(KEY.public.to_hex()) == KEY.public
    assert KEY.to_pem().startswith(b"-----BEGIN PRIVATE KEY-----\n")
    assert KEY.public.to_pem().startswith(b"-----BEGIN PUBLIC KEY-----\n")


STRANGE = X25519PrivateKey.generate()
STRANGE_PRIVATE = STRANGE.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
)
STRANGE_PUBLIC = STRANGE.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)
WITH_PASSWORD = Ed25519PrivateKey.generate().private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no public key: expected an Ed25519 key as PEM"),
        (b"\xff\x00", "no public key"),
        (KEY.to_pem(), "no public key"),
        (KEY.public.to_pem()[:-40], "no public key"),
        (KEY.public.to_pem().replace(b"MCow", b"MCox"), "no public key"),
        (STRANGE_PUBLIC, "a public key of another kind"),
    ],
)
def test_what_is_no_public_key_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        PublicKey.from_pem(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no private key: expected an Ed25519 key as PEM"),
        (KEY.public.to_pem(), "no private key"),
        (KEY.to_pem()[:-40], "no private key"),
        (STRANGE_PRIVATE, "a private key of another kind"),
        (WITH_PASSWORD, "has a password"),
    ],
)
def test_what_is_no_private_key_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        SigningKey.from_pem(data)


@pytest.mark.parametrize("text", ["", "zz", "00" * 31, "00" * 33, "AB" * 32, "ab " * 32, None, 7])
def test_what_is_no_public_key_in_hex_is_refused(text: object) -> None:
    with pytest.raises(ProofError, match=r"is no public key: expected 64 hexadecimal digits"):
        PublicKey.from_hex(text)  # type: ignore[arg-type]


def test_a_key_has_its_length() -> None:
    with pytest.raises(ProofError, match="has 31 bytes; expected 32"):
        PublicKey(bytes(31))
    with pytest.raises(UsageError, match="has 33 bytes; expected 32"):
        SigningKey(bytes(33))


# ---------------------------------------------------------------------- envelopes


def test_the_bytes_that_are_signed_are_those_of_the_specification() -> None:
    expected = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert pre_authentication("http://example.com/HelloWorld", b"hello world") == expected
    assert pre_authentication("", b"") == b"DSSEv1 0  0 "
    assert pre_authentication("é", b"\x00%d") == b"DSSEv1 2 \xc3\xa9 3 \x00%d", "lengths are of bytes"


def test_an_envelope_has_the_form_of_the_specification() -> None:
    envelope = sealed(TYPE, b"\xff payload", KEY)
    assert envelope == {
        "payloadType": TYPE,
        "payload": base64.b64encode(b"\xff payload").decode(),
        "signatures": [
            {
                "keyid": KEY.public.id,
                "sig": base64.b64encode(KEY.sign(pre_authentication(TYPE, b"\xff payload"))).decode(),
            }
        ],
    }


@given(st.text(max_size=20), st.binary(max_size=50))
def test_what_was_sealed_is_opened(payload_type: str, payload: bytes) -> None:
    envelope = json.loads(json.dumps(sealed(payload_type, payload, KEY)))
    assert opened(envelope, BOTH, payload_type) == (payload, KEY.public.id)


ENVELOPE = sealed(TYPE, b"payload!", KEY)
SIGNATURE = ENVELOPE["signatures"][0]  # type: ignore[index]
SIG: str = SIGNATURE["sig"]
ABSENT = object()


def test_the_envelope_that_is_tampered_with_below_is_good() -> None:
    assert opened(ENVELOPE, KEYS, TYPE) == (b"payload!", KEY.public.id)


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (("more",), 1, "the envelope has the wrong form: found 'more', 'payload', 'payloadType', 'signatures'"),
        (("payload",), ABSENT, "the envelope has the wrong form"),
        (("payloadType",), "text/plain", "holds 'text/plain'; expected 'application/vnd.in-toto"),
        (("payloadType",), None, "holds None"),
        (("payload",), None, "the payload is not in the standard form of base64"),
        (("payload",), "cGF5bG9hZCE", "standard form of base64"),  # without padding
        (("payload",), "cGF5bG9hZCF=", "standard form of base64"),  # unused bits set
        (("payload",), "cGF5bG9hZCE=\n", "standard form of base64"),
        (("payload",), " cGF5bG9hZCE=", "standard form of base64"),
        (("payload",), "cGF5bG9hZCE=====", "standard form of base64"),
        (("payload",), "cGF5_G9hZCE=", "standard form of base64"),  # the form for addresses
        (("payload",), "é", "standard form of base64"),
        (("payload",), "cGF5bG9hZCI=", "signature of key [0-9a-f]{16} does not fit the content"),
        (("payload",), "", "does not fit the content"),
        (("signatures",), [], "has no signature"),
        (("signatures",), {}, "has no signature"),
        (("signatures",), None, "has no signature"),
        (("signatures",), "sig", "has no signature"),
        (("signatures",), ["sig"], "a signature of the envelope has the wrong form: found a str"),
        (("signatures", 0), {}, "a signature of the envelope has the wrong form: found nothing"),
        (("signatures", 0, "cert"), "", "a signature of the envelope has the wrong form"),
        (("signatures", 0, "keyid"), ABSENT, "a signature of the envelope has the wrong form"),
        (("signatures", 0, "keyid"), None, "names the key None; expected an id"),
        (("signatures", 0, "keyid"), "\x1b[2J", "names the key '.x1b.2J'; expected an id"),
        (("signatures", 0, "keyid"), "0" * 16, r"with key 0{16}, which is not trusted here \(trusted: [0-9a-f]{16}\)"),
        (("signatures", 0, "sig"), None, f"signature of key {KEY.public.id} is not in the standard form"),
        (("signatures", 0, "sig"), SIG[:-2], f"signature of key {KEY.public.id} is not in the standard form"),
        (("signatures", 0, "sig"), SIG[:-3] + "B==", "standard form of base64"),
        (("signatures", 0, "sig"), "", "does not fit the content"),
        (("signatures", 0, "sig"), "A" * 86 + "==", "does not fit the content"),
    ],
)
def test_a_tampered_envelope_is_refused(place: tuple[str | int, ...], value: object, reason: str) -> None:
    envelope: Envelope = copy.deepcopy(ENVELOPE)
    *way, last = place
    inner: object = envelope
    for step in way:
        inner = inner[step]  # type: ignore[index]
    if value is ABSENT:
        del inner[last]  # type: ignore[attr-defined]
    else:
        inner[last] = value  # type: ignore[index]
    with pytest.raises(ProofError, match=reason):
        opened(envelope, KEYS, TYPE)


@pytest.mark.parametrize("envelope", [None, [], "{}", 7, {}, {1: 2, "a": 3}])
def test_what_is_no_envelope_is_refused(envelope: object) -> None:
    with pytest.raises(ProofError, match=r"the envelope has the wrong form: found .*; expected payloadType, payload"):
        opened(envelope, KEYS, TYPE)


def test_a_type_is_signed_with_its_payload() -> None:
    """What was signed as one thing cannot be shown as another."""
    envelope = sealed("text/plain", b"payload!", KEY) | {"payloadType": TYPE}
    with pytest.raises(ProofError, match="does not fit the content"):
        opened(envelope, KEYS, TYPE)


def test_the_signer_must_be_trusted() -> None:
    with pytest.raises(ProofError, match=rf"with key {KEY.public.id}, which is not trusted here \(trusted: none\)"):
        opened(ENVELOPE, {}, TYPE)
    with pytest.raises(ProofError, match=rf"signature of key {OTHER.public.id} does not fit"):
        opened(ENVELOPE | {"signatures": [{"keyid": OTHER.public.id, "sig": SIG}]}, BOTH, TYPE)


def test_a_key_under_a_false_name_is_refused() -> None:
    """A table of keys from a damaged store cannot make one key pass for another."""
    forged = sealed(TYPE, b"forged", OTHER)
    forged["signatures"][0]["keyid"] = KEY.public.id  # type: ignore[index]
    with pytest.raises(ProofError, match=f"the key given for {KEY.public.id} is another one: its id is"):
        opened(forged, {KEY.public.id: OTHER.public}, TYPE)


def test_of_several_signatures_one_must_fit() -> None:
    fits = sealed(TYPE, b"payload!", OTHER)["signatures"][0]  # type: ignore[index]
    wrong = {"keyid": KEY.public.id, "sig": base64.b64encode(bytes(64)).decode()}
    unknown = {"keyid": "0" * 16, "sig": SIG}
    assert opened(ENVELOPE | {"signatures": [unknown, wrong, fits]}, BOTH, TYPE) == (b"payload!", OTHER.public.id)
    with pytest.raises(ProofError) as caught:
        opened(ENVELOPE | {"signatures": [unknown, wrong, wrong]}, BOTH, TYPE)
    assert "0" * 16 in str(caught.value)
    assert str(caught.value).count(f"signature of key {KEY.public.id} does not fit") == 1
    with pytest.raises(ProofError, match="wrong form"):
        opened(ENVELOPE | {"signatures": [fits, {"keyid": KEY.public.id}]}, BOTH, TYPE)


def test_what_somebody_claims_can_be_read_without_a_key() -> None:
    forged = ENVELOPE | {"payload": base64.b64encode(b"forged").decode()}
    assert unverified(forged, TYPE) == b"forged"
    with pytest.raises(ProofError, match="holds 'text/plain'"):
        unverified(forged | {"payloadType": "text/plain"}, TYPE)
    with pytest.raises(ProofError, match="has no signature"):
        unverified(forged | {"signatures": []}, TYPE)


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_no_changed_byte_goes_unnoticed(place: int, change: int) -> None:
    """Of the envelope as it is written: it is refused, or no JSON any more."""
    text = bytearray(json.dumps(ENVELOPE).encode())
    text[place % len(text)] ^= change
    try:
        envelope = json.loads(bytes(text).decode())
    except ValueError:
        return
    if envelope != ENVELOPE:  # white space between the parts is not in the envelope
        with pytest.raises(ProofError):
            opened(envelope, KEYS, TYPE)
