"""Pictures: what a batch of forgotten users or items costs beside a full fit; every ratio beside its limit."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.speed.page import Limit, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["limits", "many"]

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#555555"  # told apart by everybody


def many(found: Any, out: Path) -> None:
    """Draw the seconds of a batch against its size; writes speed-many.png and speed-many.svg."""
    from receraser.reproduce.picture import label_below, plain_logarithm, saved, titled

    whole = statistics.median(found["retrain"])

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for what, colour, marker in (("users", BLUE, "o"), ("items", ORANGE, "s"), ("categories", GREEN, "^")):
            points = [(one["m"], one["seconds"]) for one in found["points"] if one["what"] == what]
            axes.plot(*zip(*points, strict=True), color=colour, marker=marker, markersize=8, label=what)
        axes.axhline(whole, color=GREY, linestyle="--", label=f"a full fit of WMF, {whole:.2f} s")
        axes.set(xlabel="forgotten at once", ylabel="seconds to the published store", ylim=(0, None))
        plain_logarithm(axes, "x")
        titled(figure, "ML-1M, spectral, 32 shards: a few users at once are cheaper than a full fit")
        label_below(figure)

    saved(out / "speed-many", (9.0, 5.4), draw)


def limits(rows: Sequence[Row], out: Path) -> None:
    """Draw, for every row of the table with a ratio and a limit, how much of it is used."""
    from receraser.reproduce.picture import saved

    compared = [(row.what, row.ratio, row.limit) for row in rows if row.ratio is not None]
    used = [(what, limit.used(ratio)) for what, ratio, limit in compared if isinstance(limit, Limit)]
    saved(out / "speed", (11.0, 1.2 + 0.42 * len(used)), lambda figure: _draw_limits(figure, used))


def _draw_limits(figure: Figure, used: Sequence[tuple[str, float]]) -> None:
    axes = figure.subplots()
    names = [what for what, _ in used][::-1]
    shares = [share for _, share in used][::-1]
    axes.barh(range(len(used)), shares, color=[BLUE if share <= 1 else ORANGE for share in shares])
    axes.set_yticks(range(len(used)), names)
    axes.axvline(1, color="black", linestyle="--", linewidth=1)
    axes.set_xlabel("share of the limit that is used (1: the limit)")
    axes.grid(axis="y", visible=False)
    figure.suptitle("Two CPU cores: every ratio beside its limit", fontsize=18)
