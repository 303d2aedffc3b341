"""Canonical bytes, and SHA-256 over them, of everything a digest covers: rows, settings and tensors.

Every piece is written with its kind and length before it, so that no two different contents have the same bytes.
Numbers are little-endian. File encodings, clocks, versions and dictionary order are no part of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from receraser.data.interactions import Interactions

__all__ = ["Tensors", "canonical_json", "combine", "of_bytes", "of_each", "of_rows", "of_settings", "of_tensors"]

Tensors = Mapping[str, NDArray[np.generic]]

_HASHED_AT_ONCE = 4


def canonical_json(value: object) -> bytes:
    """Return JSON with sorted keys and no spaces; NaN and infinity are refused.

    Examples
    --------
    >>> canonical_json({"b": 1.5, "a": [True, None]})
    b'{"a":[true,null],"b":1.5}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def of_bytes(*pieces: bytes | memoryview) -> str:
    """Return the SHA-256 of plain bytes, or of pieces one after the other, in hex."""
    hasher = hashlib.sha256()
    for piece in pieces:
        hasher.update(piece)
    return hasher.hexdigest()


class _Hasher:
    """SHA-256 over a sequence of (kind, bytes), each with its length before it."""

    def __init__(self, kind: str) -> None:
        self._hash = hashlib.sha256()
        self.add(kind.encode())

    def add(self, data: bytes | memoryview) -> None:
        self._hash.update(len(data).to_bytes(8, "little"))
        self._hash.update(data)

    def hex(self) -> str:
        return self._hash.hexdigest()


def of_settings(settings: Mapping[str, object]) -> str:
    """Return the digest of a tree of settings."""
    hasher = _Hasher("settings")
    hasher.add(canonical_json(settings))
    return hasher.hex()


def of_rows(rows: Interactions) -> str:
    """Return the digest of the rows: both vocabularies and the pairs, in canonical order.

    Examples
    --------
    >>> one = Interactions.from_pairs([("u", "a"), ("u", "b")])
    >>> of_rows(one) == of_rows(Interactions.from_pairs([("u", "b"), ("u", "a")]))
    True
    """
    hasher = _Hasher("rows")
    for ids in (rows.users, rows.items):
        starts, stops = ids.bounds
        hasher.add((stops - starts).astype("<i8").tobytes())
        hasher.add(ids.text.replace(b"\n", b""))  # the ids one after the other
    hasher.add(_raw(rows.user_index.astype("<i4", copy=False)))
    hasher.add(_raw(rows.item_index.astype("<i4", copy=False)))
    return hasher.hex()


def of_tensors(tensors: Tensors) -> str:
    """Return the digest of named tensors: name, dtype, shape and little-endian bytes of each, by name."""
    hasher = _Hasher("tensors")
    for name in sorted(tensors):
        array = np.asarray(tensors[name])
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        hasher.add(name.encode())
        hasher.add(f"{little.dtype.kind}{little.dtype.itemsize}{list(little.shape)}".encode())
        hasher.add(_raw(little))
    return hasher.hex()


def of_each(tensors: Tensors) -> dict[str, str]:
    """Return the digest of each tensor alone, by its name; some at a time, side by side.

    Examples
    --------
    >>> one = {"a": np.zeros(2)}
    >>> of_each(one) == {"a": of_tensors(one)}
    True
    """
    with ThreadPoolExecutor(_HASHED_AT_ONCE) as pool:
        return dict(zip(tensors, pool.map(lambda name: of_tensors({name: tensors[name]}), tensors), strict=True))


def _raw(array: NDArray[np.generic]) -> memoryview:
    """Return the bytes of an array in the order of its entries, without a copy where they lie in that order."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def combine(parts: Mapping[str, str]) -> str:
    """Return the digest of named digests, by name."""
    hasher = _Hasher("parts")
    for name in sorted(parts):
        hasher.add(name.encode())
        hasher.add(parts[name].encode())
    return hasher.hex()
