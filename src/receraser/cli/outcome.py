"""How commands that change a store tell what they did: which shards, how long, what was published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from receraser.cli.console import count, say

if TYPE_CHECKING:
    from receraser.engine import Engine

__all__ = ["cost", "rounded", "say_published", "shards_of"]


def rounded(seconds: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of every stage and their total, for JSON.

    Examples
    --------
    >>> rounded({"read": 0.25, "submodels": 1.5})
    {'read': 0.25, 'submodels': 1.5, 'total': 1.75}
    """
    return {name: round(value, 4) for name, value in _with_total(seconds).items()}


def _with_total(seconds: Mapping[str, float]) -> dict[str, float]:
    return {**seconds, "total": sum(seconds.values())}


def shards_of(engine: Engine, shards: Sequence[int]) -> str:
    """Return how many shards of all, and which."""
    which = ", ".join(str(one) for one in shards)
    return f"{len(shards)} of {count(len(engine.shards), 'shard')} ({which})"


def cost(seconds: float | None) -> str:
    """Return the end of a sentence that says about how long something would take.

    Examples
    --------
    >>> cost(3.14), cost(None)
    (', about 3.1 s by the last fit', '')
    """
    return "" if seconds is None else f", about {seconds:.1f} s by the last fit"


def say_published(engine: Engine, store: Path, seconds: Mapping[str, float], *what: str) -> None:
    """Say how long every stage took, what came of it, and where it was published."""
    for stage, value in _with_total(seconds).items():
        say(f"  {stage:<10} {value:8.2f} s")
    for line in what:
        say(line)
    say(f"published in {store}, digest {engine.digest[:16]}..., level {engine.level}")
