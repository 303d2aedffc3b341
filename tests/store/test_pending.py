"""Requests as they are written down."""

from __future__ import annotations

import json

import pytest

from receraser.data.interactions import Interactions
from receraser.erasure.request import ForgetRequest
from receraser.errors import StoreError
from receraser.fingerprint import canonical_json, of_bytes
from receraser.store.pending import Pending

TIME = "2026-11-15T17:00:00Z"
KEY, OTHER = b"k" * 32, b"o" * 32
FORGET = Pending("forget", TIME, request=ForgetRequest.of(["p1"], ["i1"], [("p2", "i2")]), hide=True, keep_old=True)
ADD = Pending("add", TIME, rows=Interactions.from_pairs([("p1", "i1"), ("p2", "i1")]))
REBUILD = Pending("rebuild", TIME, device="cpu", store="5" * 32)


@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize("one", [FORGET, ADD, REBUILD], ids=lambda one: one.kind)
def test_what_is_written_is_read(one: Pending, key: bytes | None) -> None:
    again = Pending.decode(one.id, one.encode(key), key)
    assert {**vars(again), "rows": None} == {**vars(one), "rows": None}
    assert again.rows == one.rows


@pytest.mark.parametrize("written", [None, OTHER])
def test_somebody_elses_is_refused(written: bytes | None) -> None:
    """Whoever may write to the folder, and has no key, cannot have anybody forgotten."""
    data = FORGET.encode(written)
    with pytest.raises(StoreError, match="was not written down with the keys of this store"):
        Pending.decode(FORGET.id, data, KEY)
    assert Pending.decode(FORGET.id, data).request == FORGET.request, "anybody may look"


def test_a_request_that_was_changed_is_refused() -> None:
    body = json.loads(FORGET.encode(KEY))
    body["users"] = ["p9"]
    del body["checksum"]
    changed = canonical_json({**body, "checksum": of_bytes(canonical_json(body))}) + b"\n"
    assert Pending.decode(FORGET.id, changed).request.users == ("p9",)
    with pytest.raises(StoreError, match="was not written down with the keys"):
        Pending.decode(FORGET.id, changed, KEY)


def test_every_byte_counts() -> None:
    data = FORGET.encode(KEY)
    for at in range(len(data)):
        damaged = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises(StoreError):
            Pending.decode(FORGET.id, damaged, KEY)
    with pytest.raises(StoreError, match="is not as it was written"):
        Pending.decode("0" * 32, data, KEY)
