"""`Pending`: a request as it is written down before any work begins, and found again after a crash.

Users go by pseudonyms in it: outside ids are not written anywhere. Of the receipts that were handed over when it was
made it keeps the root alone, which its certificate commits to: with a nonce, whoever gets hold of the store could test
guesses. The file is checksummed, and removed when the request is done.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass, field

from receraser.data.interactions import Interactions
from receraser.erasure.request import ForgetRequest
from receraser.errors import ReceraserError, StoreError
from receraser.fingerprint import canonical_json, of_bytes
from receraser.proof.fields import hexadecimal
from receraser.store.encoding import decode_rows, encode_rows

__all__ = ["Pending"]


@dataclass(frozen=True, eq=False)
class Pending:
    """One request.

    Attributes
    ----------
    kind
        "forget", "add" or "rebuild".
    time
        When it was made.
    request
        What is to be forgotten; by pseudonyms.
    rows
        What is to be added; by pseudonyms.
    keep_old
        Whether the state before is to be kept.
    hide
        Whether the items of forgotten interactions are to be kept out of their users' lists.
    device
        Where a rebuild is to compute; "" for where it was.
    subjects_root
        What its certificate is to commit to: the root of the receipts that were handed over for it; None where there
        were none.
    store
        The id of the store it was made to: one that takes that store's place has nothing to do with it.
    id
        Drawn; names it in the store.
    """

    kind: str
    time: str
    request: ForgetRequest = field(default_factory=ForgetRequest)
    rows: Interactions | None = None
    keep_old: bool = False
    hide: bool = False
    device: str = ""
    subjects_root: str | None = None
    store: str = ""
    id: str = field(default_factory=lambda: secrets.token_hex(16))

    def encode(self, key: bytes | None = None) -> bytes:
        """Return it as it is written; with the key of the store's ledger, so that nobody else can write one."""
        body = {
            "kind": self.kind,
            "time": self.time,
            "users": list(self.request.users),
            "items": list(self.request.items),
            "interactions": [list(pair) for pair in self.request.interactions],
            "rows": None if self.rows is None else base64.b64encode(encode_rows(self.rows)).decode(),
            "keep_old": self.keep_old,
            "hide": self.hide,
            "device": self.device,
            "subjects_root": self.subjects_root,
            "store": self.store,
            "id": self.id,
        }
        body["mac"] = "" if key is None else _mac(key, canonical_json(body))
        return canonical_json({**body, "checksum": of_bytes(canonical_json(body))}) + b"\n"

    @classmethod
    def decode(cls, name: str, data: bytes, key: bytes | None = None) -> Pending:
        """Read it back; `name` is its id in the store. With a key, it must have been written with that key."""
        try:
            whole = json.loads(data)
            body = {key: value for key, value in whole.items() if key != "checksum"}
            if of_bytes(canonical_json(body)) != whole["checksum"] or body["id"] != name:
                raise ValueError("the checksum")
            if canonical_json(whole) + b"\n" != data:  # the checksum is of the content; this covers every byte
                raise ValueError("the bytes")
            rows, mac = body["rows"], body.pop("mac")
            if key is not None and not hmac.compare_digest(mac, _mac(key, canonical_json(body))):
                raise StoreError(
                    f"the request pending/{name}.json was not written down with the keys of this store, so it will not "
                    "be done; receraser pending show says what it asks for, receraser pending withdraw takes it back"
                )
            return cls(
                kind=body["kind"],
                time=body["time"],
                request=ForgetRequest.of(body["users"], body["items"], [tuple(pair) for pair in body["interactions"]]),
                rows=None if rows is None else decode_rows(base64.b64decode(rows, validate=True)),
                keep_old=body["keep_old"],
                hide=body["hide"],
                device=body["device"],
                subjects_root=_root(body.get("subjects_root")),  # earlier versions wrote none
                store=body["store"],
                id=name,
            )
        except StoreError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, binascii.Error, ReceraserError):
            raise StoreError(
                f"the store is damaged: the request pending/{name}.json is not as it was written"
            ) from None


def _root(value: object) -> str | None:
    """Return the root of the receipts, which is one or nothing."""
    if value is not None:
        hexadecimal(64)("subjects_root", value)
    return None if value is None else str(value)


def _mac(key: bytes, body: bytes) -> str:
    """Return what only somebody with the key can write."""
    return hmac.new(key, b"receraser pending request\n" + body, hashlib.sha256).hexdigest()
