"""Beyond the paper: quality against the cost of forgetting one user, over methods and numbers of shards.

Controls of `spectral`: attention on its very same shards, and, for `polish`, the same sweeps from random vectors, which
have no shards to forget in: their quality alone is compared.

What nothing else beats in both is the front. A retrain forgets by fitting everything again, so its cost is a full fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from receraser.reproduce.order import Order
from receraser.reproduce.page import named, table, time_text
from receraser.reproduce.picture import colour, curve, label_below, level_line, panels, plain_logarithm, titled
from receraser.reproduce.studies.requests import (
    fit_seconds,
    forgets_or_retrains,
    forgetting,
    mean_of,
    of_method,
    one_by_one,
    row_of,
    swept,
    were_timed,
)
from receraser.reproduce.studies.study import ADDITIVE, ATTENDED, SWEPT, Entry, Findings, Study, fits, picked, too_large

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["STUDY"]

METHODS = (
    "retrain",
    "sisa",
    "grapheraser",
    "receraser",
    "spectral",
    "polish",
    "attention-on-hash",
    "sweeps",
    *ADDITIVE,
)
SHARDS = (5, 10, 20, 32, 50)
FORGETS = 10
_NEAR = 0.8  # of the best quality: so far down the picture goes
Point = tuple[str, float, float, float]  # line, shards, seconds, NDCG@20


def entries(order: Order) -> list[Entry]:
    """Return, for each method and number of shards, fits of all seeds and a few forgotten users of the first."""
    found = []
    extras = one_by_one(order, "users", FORGETS)
    for model in order.models:
        for method in picked(order, METHODS):
            if too_large(order, method):
                continue
            if method == "sweeps":
                found += [swept(order, model, seed) for seed in range(order.seeds)]
                continue
            row = row_of(method)
            for k in (1,) if method in ("retrain", *ADDITIVE) else SHARDS:
                for seed in range(order.seeds):
                    settings = of_method(order, model, method, seed, k)
                    found.append(fits(order, model, row, settings, x=k))
                    if seed == 0 and method != "retrain":
                        found.append(forgetting(order, model, row, settings, "forgets", extras, k))
    return found


def points(found: Findings, model: str) -> list[Point]:
    """Return every method at every number of shards: what a forget costs, and what quality there is."""
    these = []
    for row in found.rows(model):
        for k in found.xs(model, row):
            quality = found.spread(model, row, "ndcg@20", x=k)
            spent = [value for one in found.of(model, row, "users", k) for value in one.series["total"]]
            if row == "retrain":
                spent = [fit_seconds(one) for one in found.of(model, row, x=k)]
            seconds = mean_of(spent)
            if quality is not None and seconds is not None:
                these.append((row, k, seconds, quality.mean))
    return these


def front(these: list[Point]) -> list[Point]:
    """Return those that no other is at least as quick and at least as good as, quickest first.

    Examples
    --------
    >>> front([("a", 1, 2.0, 0.3), ("b", 1, 1.0, 0.2), ("c", 1, 3.0, 0.25)])
    [('b', 1, 1.0, 0.2), ('a', 1, 2.0, 0.3)]
    """
    best: list[Point] = []
    for point in sorted(these, key=lambda one: (one[2], -one[3])):
        if not best or point[3] > best[-1][3]:
            best.append(point)
    return best


def page(found: Findings) -> list[str]:
    """Return a table for each model, quickest first."""
    lines = [
        "NDCG@20 (mean over seeds) against the time of forgetting one user (mean; from the request to the",
        "next state in memory; a retrain: a full fit, or where that takes less than 5 s the median of 3). On",
        "the front: nothing else is as quick and as good.",
        "Controls of Spectral: attention over its very same submodels on its very same shards; for `polish`,",
        "the same sweeps from random vectors, of which only the quality counts (the last line).",
        *were_timed(found),
    ]
    for model in found.models:
        these = points(found, model)
        best = front(these)
        rows = []
        for point in sorted(these, key=lambda one: one[2]):
            row, k, seconds, quality = point
            cells = [named(row), f"{k:.0f}", time_text(seconds), f"{quality:.4f}"]
            rows.append([*cells, "yes" if point in best else ""])
        if (random := found.spread(model, SWEPT, "ndcg@20")) is not None:
            rows.append([SWEPT, "", "", f"{random.mean:.4f}", ""])
        lines += ["", f"## {named(model)}", "", *table(["", "shards", "one user", "N@20", "on the front"], rows)]
    return lines


def draw(found: Findings, figure: Figure) -> None:
    """Draw a curve for each method over its numbers of shards, the ends named; the front as a broad step.

    Methods that stay far below the best are told in words: drawn, they would press all the others together.
    """
    models = found.models
    for axes, model in zip(panels(figure, [named(one) for one in models]), models, strict=True):
        these = points(found, model)
        random = found.spread(model, SWEPT, "ndcg@20")
        levels = {SWEPT: [random.mean]} if random is not None else {}
        qualities = {row: [one[3] for one in these if one[0] == row] for row in found.rows(model)} | levels
        far = _far(qualities)
        best = [one for one in front(these) if one[0] not in far]
        _draw_front(axes, best, these)
        for row in found.rows(model):
            if row not in far:
                _draw_method(axes, row, sorted((k, *rest) for name, k, *rest in these if name == row))
        if random is not None and SWEPT not in far:
            level_line(axes, SWEPT, random.mean)
        axes.set_xlabel("seconds to forget one user")
        plain_logarithm(axes, "x")
        _tell(axes, {row: qualities[row] for row in far})
        if model == models[0]:
            axes.set_ylabel("NDCG@20")
    titled(figure, f"{found.order.dataset}: quality against the cost of forgetting (numbers: shards)")
    label_below(figure)


def _far(qualities: Mapping[str, Sequence[float]]) -> list[str]:
    """Return the lines of which nothing is near the best."""
    best = max((value for values in qualities.values() for value in values), default=0.0)
    some = {row: values for row, values in qualities.items() if values and row != ATTENDED}  # a control is to be seen
    return [row for row, values in some.items() if max(values) < _NEAR * best]


def _draw_front(axes: Axes, best: Sequence[Point], these: Sequence[Point]) -> None:
    """Draw what quality is to be had for what cost: level until something better is quick enough."""
    if best:
        ends = [*(one[2] for one in best), max(one[2] for one in these)]
        heights = [*(one[3] for one in best), best[-1][3]]
        axes.step(ends, heights, where="post", color="#F0E442", linewidth=7, alpha=0.7, zorder=0, label="the front")


def _draw_method(axes: Axes, row: str, own: Sequence[Sequence[float]]) -> None:
    curve(axes, row, [(seconds, quality) for _, seconds, quality in own], label=named(row))
    if len(own) > 1 and "," not in row:
        for (k, seconds, quality), (shift, side) in zip((own[0], own[-1]), _shifts(own), strict=True):
            axes.annotate(
                f"{k:.0f}",
                (seconds, quality),
                (0, shift),
                textcoords="offset points",
                color=colour(row),
                ha="center",
                va=side,
            )


def _shifts(own: Sequence[Sequence[float]]) -> tuple[tuple[int, str], tuple[int, str]]:
    """Return where the numbers at both ends of a curve stand: the higher end's above it, the other's below."""
    above, below = (8, "bottom"), (-8, "top")
    return (above, below) if own[0][2] >= own[-1][2] else (below, above)


def _tell(axes: Axes, far: Mapping[str, Sequence[float]]) -> None:
    """Write below the curves which lines are not drawn, and where they are."""
    low, high = axes.get_ylim()
    axes.set_ylim(low - (0.05 + 0.09 * len(far)) * (high - low) * bool(far), high)
    for number, (row, values) in enumerate(far.items()):
        ends = dict.fromkeys(f"{value:#.2g}" for value in (min(values), max(values)))
        text = f"not drawn: {named(row).removeprefix('control: ')}: {' to '.join(ends)}"
        axes.text(0.02, 0.03 + 0.07 * number, text, color=colour(row), transform=axes.transAxes, fontsize=12)


STUDY = Study(
    "pareto",
    "Quality against the cost of forgetting",
    entries,
    page,
    draw,
    lambda n: (1 + 5.0 * max(1, n), 6.2),
    timed=forgets_or_retrains,
    methods=METHODS,
)
