"""The demo's picture: which shard was retrained, how long it took, and who noticed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["draw_forgetting"]

# Okabe and Ito's colours, which people tell apart whatever colours they see.
_BLUE, _ORANGE, _GREY = "#0072B2", "#E69F00", "#B8B8B8"


def draw_forgetting(
    path: Path,
    sizes: Sequence[int],
    retrained: Sequence[int],
    fit_seconds: float,
    forget_seconds: float,
    unchanged: Mapping[str, float],
) -> None:
    """Draw three panels: the shards, the time, and the share of recommendations that stayed."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    shards, seconds, lists = figure.subplots(1, 3, width_ratios=[1.5, 1, 1.2])

    shards.bar(range(len(sizes)), sizes, color=[_ORANGE if k in retrained else _GREY for k in range(len(sizes))])
    shards.set_title(f"{len(retrained)} of {len(sizes)} shards retrained", fontsize=14)
    shards.set_xlabel("shard", fontsize=12)
    shards.set_ylabel("training rows", fontsize=12)
    shards.set_xticks(range(len(sizes)))

    bars = seconds.bar(["fit", "forget"], [fit_seconds, forget_seconds], color=[_GREY, _ORANGE])
    seconds.bar_label(bars, fmt="%.2f s", fontsize=12)
    seconds.set_title("Time", fontsize=14)
    seconds.set_ylabel("seconds", fontsize=12)
    seconds.margins(y=0.15)

    names = [name.replace(" ", "\n", 1) for name in unchanged]
    bars = lists.bar(names, [100 * share for share in unchanged.values()], color=_BLUE)
    lists.bar_label(bars, fmt="%.0f %%", fontsize=12)
    lists.set_title("Recommendations that stayed", fontsize=14)
    lists.set_ylabel("% of the recommended films", fontsize=12)
    lists.set_ylim(0, 112)
    lists.set_yticks([0, 25, 50, 75, 100])
    for axis in (shards, seconds, lists):
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=11)
    figure.savefig(path, dpi=120)
