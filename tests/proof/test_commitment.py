from __future__ import annotations

import hashlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receraser.errors import ProofError
from receraser.proof.commitment import NONCE_BYTES, commit, new_nonce, opens

NONCE = bytes(range(32))


def test_a_commitment_is_what_its_page_says() -> None:
    """Anybody can compute it: the parts, each with its length before it in eight bytes, little-endian."""
    parts = [b"receraser commitment", b"digest", NONCE, b"value"]
    expected = hashlib.sha256(b"".join(len(one).to_bytes(8, "little") + one for one in parts)).hexdigest()
    assert commit("digest", NONCE, b"value") == expected


def test_nonces_differ() -> None:
    nonces = {new_nonce() for _ in range(100)}
    assert len(nonces) == 100
    assert {len(one) for one in nonces} == {NONCE_BYTES}


@given(st.text("ab", max_size=3), st.binary(min_size=32, max_size=32), st.binary(max_size=40))
def test_it_opens_to_what_was_committed_and_to_nothing_else(kind: str, nonce: bytes, value: bytes) -> None:
    commitment = commit(kind, nonce, value)
    assert opens(commitment, kind, nonce, value)
    assert not opens(commitment, kind + "a", nonce, value)
    assert not opens(commitment, kind, nonce, value + b"a")
    assert not opens(commitment, kind, bytes([nonce[0] ^ 1]) + nonce[1:], value)


def test_parts_do_not_run_into_each_other() -> None:
    """Moving a byte from one part to the next is another commitment."""
    text = b"aaaa"
    found = {
        commit(text[:cut].decode(), bytes(32), text[cut:] + bytes(extra))
        for cut, extra in itertools.product(range(5), range(3))
    }
    assert len(found) == 15


@pytest.mark.parametrize("commitment", ["", "00", "é" * 64, "\ud800", commit("digest", NONCE, b"value").upper()])
def test_what_is_no_commitment_does_not_open(commitment: str) -> None:
    assert not opens(commitment, "digest", NONCE, b"value")


@pytest.mark.parametrize("nonce", [b"", bytes(31), bytes(33)])
def test_a_nonce_has_its_length(nonce: bytes) -> None:
    with pytest.raises(ProofError, match=rf"has {len(nonce)} bytes; expected 32"):
        commit("digest", nonce, b"value")
    assert not opens(commit("digest", NONCE, b"value"), "digest", nonce, b"value")
