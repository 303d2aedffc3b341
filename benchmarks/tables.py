"""How result pages write their cells: means with their spread, shares with their intervals, heads of tables."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["head", "share", "spread"]


def head(cells: Sequence[str]) -> list[str]:
    """Return the two lines that a table begins with."""
    return [f"| {' | '.join(cells)} |", "|" + "---|" * len(cells)]


def spread(values: Sequence[float]) -> str:
    """Return the mean ± half the range; of a single seed the value alone, for it has no spread."""
    if len(values) == 1:
        return f"{values[0]:.4f} (one seed)"
    return f"{statistics.mean(values):.4f} ± {(max(values) - min(values)) / 2:.4f}"


def share(runs: Sequence[Mapping[str, Any]], metric: str) -> str:
    """Return the mean share of the retrain, with the lowest and the highest end of the seeds' intervals where known."""
    if f"{metric} share" not in runs[0]:
        return ""
    mean = statistics.mean(run[f"{metric} share"] for run in runs)
    if f"{metric} interval" not in runs[0]:
        return f"{mean:.1%}"
    low = min(run[f"{metric} interval"][0] for run in runs)
    high = max(run[f"{metric} interval"][1] for run in runs)
    return f"{mean:.1%} [{low:.1%}, {high:.1%}]"
