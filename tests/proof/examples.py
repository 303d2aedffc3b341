"""A certificate for tests to look at and to change."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from receraser.proof.certificate import Certificate
from receraser.proof.wording import covers, not_covered

__all__ = ["changed", "example", "sha"]


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def example() -> Certificate:
    """A forget of a user and two items, one of which nobody knew."""
    return Certificate(
        store=sha("store")[:32],
        action="forget",
        level="L3",
        request={"users": 1, "items": 2, "interactions": 0, "unknown": 1, "subjects_root": sha("subjects")},
        rows_removed=112,
        valid_rows_removed=13,
        rows_added=0,
        removed=sha("removed"),
        before={"digest": sha("digest before"), "data": sha("data before")},
        after={"digest": sha("digest after"), "data": sha("data after")},
        shards={"count": 32, "retrained": [0, 1, 2, 7, 13], "untouched": 27},
        path="shards",
        config={"model": "wmf", "method": "spectral", "hyperparameters": {"dim": 64, "rate": 0.5, "list": [1, None]}},
        origin="tuned: wmf-ml-1m",
        seed=7,
        code={"version": "0.1.0"},
        environment={"device": "cpu", "processor": "x86_64", "version.numpy": "2.1.0"},
        times={
            "requested": "2026-11-14T09:12:44Z",
            "started": "2026-11-15T16:59:58Z",
            "published": "2026-11-15T17:00:00Z",
        },
        parent=sha("parent"),
        ledger={"index": 41, "size": 41, "root": sha("ledger")},
        debt={"requests": 4, "rows_removed": 300, "rows_added": 12, "since": "2026-10-01T00:00:00Z"},
        covers=covers("L3"),
        not_covered=not_covered("L3", shards=32, retrained=5),
    )


def changed(**changes: object) -> Certificate:
    """Return the example with other fields."""
    return replace(example(), **changes)  # type: ignore[arg-type]
