"""`Pending`: a request as it is written down before any work begins, and found again after a crash.

Users go by pseudonyms in it: outside ids are not written anywhere. The file is checksummed, and removed when the
request is done.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
from dataclasses import dataclass, field

from receraser.data.interactions import Interactions
from receraser.erasure.request import ForgetRequest
from receraser.errors import ReceraserError, StoreError
from receraser.fingerprint import canonical_json, of_bytes
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
    store: str = ""
    id: str = field(default_factory=lambda: secrets.token_hex(16))

    def encode(self) -> bytes:
        """Return it as it is written."""
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
            "store": self.store,
            "id": self.id,
        }
        return canonical_json({**body, "checksum": of_bytes(canonical_json(body))}) + b"\n"

    @classmethod
    def decode(cls, name: str, data: bytes) -> Pending:
        """Read it back; `name` is its id in the store."""
        try:
            whole = json.loads(data)
            body = {key: value for key, value in whole.items() if key != "checksum"}
            if of_bytes(canonical_json(body)) != whole["checksum"] or body["id"] != name:
                raise ValueError("the checksum")
            if canonical_json(whole) + b"\n" != data:  # the checksum is of the content; this covers every byte
                raise ValueError("the bytes")
            rows = body["rows"]
            return cls(
                kind=body["kind"],
                time=body["time"],
                request=ForgetRequest.of(body["users"], body["items"], [tuple(pair) for pair in body["interactions"]]),
                rows=None if rows is None else decode_rows(base64.b64decode(rows, validate=True)),
                keep_old=body["keep_old"],
                hide=body["hide"],
                device=body["device"],
                store=body["store"],
                id=name,
            )
        except (ValueError, KeyError, TypeError, AttributeError, binascii.Error, ReceraserError):
            raise StoreError(
                f"the store is damaged: the request pending/{name}.json is not as it was written"
            ) from None
