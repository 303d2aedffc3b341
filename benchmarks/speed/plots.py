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
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    whole = statistics.median(found["retrain"])
    with plt.rc_context(
        {"font.size": 12, "svg.hashsalt": "receraser", "axes.spines.top": False, "axes.spines.right": False}
    ):
        figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
        for what, colour, marker in (("users", BLUE, "o"), ("items", ORANGE, "s"), ("categories", GREEN, "^")):
            points = [(one["m"], one["seconds"]) for one in found["points"] if one["what"] == what]
            axes.plot(*zip(*points, strict=True), color=colour, marker=marker, label=f"forget m {what} at once")
        axes.axhline(whole, color=GREY, linestyle="--")
        axes.annotate(f"full fit of WMF, {whole:.2f} s", (60, whole), (0, 6), textcoords="offset points", color=GREY)
        axes.set(xscale="log", xlabel="m", ylabel="seconds, request to published store", ylim=(0, None))
        axes.set_title("ML-1M, spectral, 32 shards:\na few users at once are cheaper than a full fit")
        axes.legend(frameon=False)
        for kind in ("png", "svg"):
            figure.savefig(out / f"speed-many.{kind}", dpi=150, metadata={"Date": None} if kind == "svg" else None)
        plt.close(figure)


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
