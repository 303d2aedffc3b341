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
REQUEST = ForgetRequest.of(["p1"], ["i1"], [("p2", "i2")])
FORGET = Pending("forget", TIME, request=REQUEST, hide=True, keep_old=True, subjects_root="a" * 64)
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


def changed(**fields: object) -> bytes:
    """A request as somebody would write it who knows how it is checksummed, and has no key."""
    body = json.loads(FORGET.encode(KEY)) | fields
    del body["checksum"]
    return canonical_json({**body, "checksum": of_bytes(canonical_json(body))}) + b"\n"


@pytest.mark.parametrize("fields", [{"users": ["p9"]}, {"subjects_root": "b" * 64}, {"subjects_root": None}], ids=str)
def test_a_request_that_was_changed_is_refused(fields: dict[str, object]) -> None:
    assert Pending.decode(FORGET.id, changed(**fields)).id == FORGET.id, "anybody may look"
    with pytest.raises(StoreError, match="was not written down with the keys"):
        Pending.decode(FORGET.id, changed(**fields), KEY)


def test_a_root_that_is_none_is_refused() -> None:
    with pytest.raises(StoreError, match="is not as it was written"):
        Pending.decode(FORGET.id, changed(subjects_root="x"))


def test_every_byte_counts() -> None:
    data = FORGET.encode(KEY)
    for at in range(len(data)):
        damaged = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises(StoreError):
            Pending.decode(FORGET.id, damaged, KEY)
    with pytest.raises(StoreError, match="is not as it was written"):
        Pending.decode("0" * 32, data, KEY)
