"""How pictures look: one message each, fonts that can be read from the back of a room, colours for every eye.

The colours are Okabe and Ito's; what colour says, a marker or a place says too.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from receraser.reproduce.page import named

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "COLOURS",
    "PRINTED",
    "colour",
    "curve",
    "face",
    "full_retrain",
    "label_below",
    "level_line",
    "marker",
    "panels",
    "plain_logarithm",
    "saved",
    "titled",
    "told",
]

COLOURS = {
    "retrain": "#444444",
    "sisa": "#CC79A7",
    "grapheraser": "#E69F00",
    "receraser": "#D55E00",
    "spectral": "#0072B2",
    "gram": "#009E73",
    "ease": "#56B4E9",
    "graphfilter": "#8C6D00",
}
PRINTED = "#000000"  # what the paper prints: no method has black
_MARKERS = {
    "retrain": "D",
    "sisa": "v",
    "grapheraser": "^",
    "receraser": "s",
    "spectral": "o",
    "gram": "P",
    "ease": "X",
    "graphfilter": "*",
    "control: hash shards": "d",
    "control: random vectors": "x",
}
_LEAST = 9.0  # inches from left to right
_FEW = 12  # times the lowest value: up to there two numbers a decade would be one or two in all
_MANY = 2_000  # times the lowest value: from there on every second number would touch the next
_STYLE = {
    "font.size": 15,
    "axes.titlesize": 17,
    "axes.labelsize": 15,
    "xtick.labelsize": 14,
    "ytick.labelsize": 14,
    "legend.fontsize": 14,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.axisbelow": True,
    "svg.hashsalt": "receraser",
    "svg.fonttype": "none",
}


def colour(row: str) -> str:
    """Return the colour of a method, whatever is said of it after a comma; controls are grey."""
    return COLOURS.get(row.partition(",")[0], "#999999")


def marker(row: str) -> str:
    """Return the marker of a method."""
    return _MARKERS.get(row.partition(",")[0], ".")


def face(row: str) -> str:
    """Return what fills a marker: the colour of the method or control; of a variant of it, nothing."""
    return "white" if row.count(",") > (row.partition(",")[0] not in COLOURS) else colour(row)


def panels(figure: Figure, titles: Sequence[str], *, share_y: bool = False, rows: int = 1) -> list[Axes]:
    """Return a panel for each title, side by side; with several rows the titles stand above the first."""
    grid = figure.subplots(rows, max(1, len(titles)), squeeze=False, sharey="row" if share_y else False)
    for number, title in enumerate(titles):
        grid[0][number].set_title(title)
    return [axes for row in grid for axes in row]


def curve(
    axes: Axes, row: str, points: Sequence[tuple[float, float]], *, label: str = "", halves: Sequence[float] = ()
) -> None:
    """Draw the curve of a method, with half the range over seeds up and down; a variant of it hollow and dashed."""
    if not points:
        return
    variant = "," in row
    axes.errorbar(
        [x for x, _ in points],
        [y for _, y in points],
        yerr=list(halves) if any(halves) else None,
        color=colour(row),
        marker=marker(row),
        markerfacecolor=face(row),
        linestyle="--" if variant else "-",
        markersize=8,
        capsize=3,
        label=label or None,
    )


def level_line(axes: Axes, row: str, y: float) -> None:
    """Draw what has no place on the axis as one line across: a model without shards, a control; named in the legend."""
    axes.axhline(y, color=colour(row), linestyle="--" if row not in COLOURS else ":", linewidth=2, label=named(row))


def told(axes: Axes, text: str, at: tuple[float, float], shift: tuple[float, float] = (0, 9), **how: Any) -> None:
    """Write a short text beside a point, over whatever line runs there."""
    clear = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5}
    how = {"ha": "center", "bbox": clear, "zorder": 5, **how}
    axes.annotate(text, at, shift, textcoords="offset points", **how)


def full_retrain(axes: Axes, which: str = "y") -> None:
    """Draw the line where something costs as much as fitting everything again; `which` is the axis of the costs."""
    (axes.axhline if which == "y" else axes.axvline)(
        1, color="black", linestyle="--", linewidth=1, label="a full retrain"
    )


def label_below(figure: Figure, columns: int = 4) -> None:
    """Write one legend for all panels below them, every label once."""
    found: dict[str, Artist] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if found:
        longest = 0.1 * max(map(len, found)) + 0.6  # inches: letters, and the sign before them
        wide = max(1, min(columns, int(figure.get_figwidth() / longest)))
        figure.legend(list(found.values()), list(found), loc="outside lower center", ncols=wide)


def plain_logarithm(axes: Axes, which: str) -> None:
    """Make an axis logarithmic, with numbers that people read: 0.1, 0.3, 1; over many decades 0.1, 1."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    low, high = axis.get_view_interval()
    subs = (1.0,) if high > _MANY * low else (1.0, 3.0) if high > _FEW * low else (1.0, 2.0, 5.0)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def titled(figure: Figure, text: str) -> None:
    """Write the title, in as many lines as the width wants."""
    figure.suptitle("\n".join(balanced(text, max(20, int(6.5 * figure.get_figwidth())))), fontsize=18)


def balanced(text: str, width: int) -> list[str]:
    """Return lines of up to so many letters, no more than are needed, of about one length: no word alone in the last.

    Examples
    --------
    >>> balanced("many users at once, beside fitting everything again", 45)
    ['many users at once, beside', 'fitting everything again']
    """
    lines = textwrap.wrap(text, width)
    while width > 1 and len(narrower := textwrap.wrap(text, width - 1)) == len(lines):
        lines, width = narrower, width - 1
    return lines


def saved(path: Path, size: tuple[float, float], draw: Callable[[Figure], None]) -> list[Path]:
    """Draw a figure and write it as PNG and SVG, wide enough for a legend; the same numbers give the same bytes."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    files = []
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]
        narrow = size[0] < _LEAST  # the legend has few columns, and so many lines
        wide, high = (_LEAST, size[1] + 2.0) if narrow else size
        figure = Figure(figsize=(wide, high), layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure)
        for kind in ("png", "svg"):
            file = path.with_name(f"{path.name}.{kind}")
            figure.savefig(file, dpi=120, metadata={"Date": None} if kind == "svg" else None)
            files.append(file)
    return files
