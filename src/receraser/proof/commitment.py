"""Hiding commitments: what a certificate says about a digest without telling it.

Everything here is deterministic, so an old digest would let whoever knows the survivors test guesses about a row that
is gone. A commitment tells nothing: SHA-256 over a random nonce and the value. Whoever has the nonce can show the value
(the commitment opens); once the nonce is destroyed nobody can, and a guess cannot be told from any other.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from receraser.errors import ProofError

__all__ = ["NONCE_BYTES", "commit", "new_nonce", "opens"]

NONCE_BYTES = 32
_NAME = b"receraser commitment"


def new_nonce() -> bytes:
    """Return 32 random bytes; each commitment has its own."""
    return secrets.token_bytes(NONCE_BYTES)


def commit(kind: str, nonce: bytes, value: bytes) -> str:
    """Return the commitment to a value, 64 hex digits.

    Parameters
    ----------
    kind
        What the value is: a commitment to a digest cannot be shown as one to rows.
    nonce
        From `new_nonce`.
    value
        Whatever is committed to.

    Examples
    --------
    >>> nonce = bytes(32)
    >>> commitment = commit("digest", nonce, b"value")
    >>> (opens(commitment, "digest", nonce, b"value"), opens(commitment, "data", nonce, b"value"))
    (True, False)
    """
    if len(nonce) != NONCE_BYTES:
        raise ProofError(f"the nonce of a commitment has {len(nonce)} bytes; expected {NONCE_BYTES}")
    digest = hashlib.sha256()
    for part in (_NAME, kind.encode(), nonce, value):
        digest.update(len(part).to_bytes(8, "little"))  # no two lists of parts have the same bytes
        digest.update(part)
    return digest.hexdigest()


def opens(commitment: str, kind: str, nonce: bytes, value: bytes) -> bool:
    """Say whether the commitment is to this value with this nonce; takes the same time however nearly it fits."""
    return len(nonce) == NONCE_BYTES and hmac.compare_digest(
        commit(kind, nonce, value).encode(), commitment.encode(errors="replace")
    )
