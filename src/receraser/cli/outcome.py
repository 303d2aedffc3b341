"""How commands that change a store tell what they did: which shards, how long, what was published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from receraser.cli.console import count, say

if TYPE_CHECKING:
    from receraser.engine import Engine

__all__ = ["cost", "done_by", "rounded", "say_published"]


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


def done_by(engine: Engine, path: str, shards: Sequence[int]) -> str:
    """Return by which path a change is made (`erasure.plan`), and how many shards of all that means, and which."""
    n = len(engine.shards)
    which = ", ".join(str(one) for one in shards)
    if path == "downdate":
        return "a downdate of the sums and a new solve"
    if path == "core":
        return "a new solve that sets out from users who are not touched"
    if path == "refit" and n == 1:
        return "fitting the model again"
    touched = f"{len(shards)} of {count(n, 'shard')} ({which})"
    if path == "refit":
        return f"refitting {touched}: most of them are touched, which costs about what a new fit costs"
    return f"retraining {touched}"


def cost(seconds: float | None) -> str:
    """Return the end of a sentence that says about how long something would take.

    Examples
    --------
    >>> cost(3.14), cost(None)
    (', about 3.1 s by the last fit', '')
    """
    return "" if seconds is None else f", about {seconds:.1f} s by the last fit"


def say_published(
    engine: Engine, store: Path, seconds: Mapping[str, float], *what: str, certificate: Path | None = None
) -> None:
    """Say how long every stage took, what came of it, and where it was published."""
    for stage, value in _with_total(seconds).items():
        say(f"  {stage:<10} {value:8.2f} s")
    for line in what:
        say(line)
    if certificate is not None:
        say(f"certificate: {certificate}")
    say(f"published in {store}, level {engine.level}")  # no digest: messages are logged, and it outlives the state
