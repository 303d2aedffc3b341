"""What a batch of forgotten users or items costs, as a picture, beside the full fit it is to be compared with."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

__all__ = ["many"]

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
