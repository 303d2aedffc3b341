"""Figure 4: the number of shards against quality and against the time of one forgotten interaction.

One shard is a full retrain, for either method. Controls of `spectral`: attention on its very same shards, and `gram`,
which needs no shards: one line across. The times are means over requests one after another, from the request
to the next state in memory; those of one shard are the time of the full fit.
"""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING

from receraser.reproduce.machine import machines
from receraser.reproduce.order import Order
from receraser.reproduce.page import named, share_text, table, time_text
from receraser.reproduce.picture import curve, label_below, level_line, panels, plain_logarithm, titled
from receraser.reproduce.settings import chosen
from receraser.reproduce.studies.requests import (
    fit_seconds,
    forgets_or_retrains,
    forgetting,
    mean_of,
    of_method,
    one_by_one,
    row_of,
    were_timed,
)
from receraser.reproduce.studies.study import ADDITIVE, Entry, Findings, Study, fits, picked

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["STUDY"]

SHARDS = (1, 5, 10, 20, 30, 40, 50)
METHODS = ("receraser", "spectral", "attention-on-hash", "gram")
FORGETS = 10


def entries(order: Order) -> list[Entry]:
    """Return, for each number of shards, a fit and a few forgotten interactions."""
    found = []
    extras = one_by_one(order, "interactions", FORGETS)
    for seed in range(order.seeds):
        for model in order.models:
            found.append(fits(order, model, "retrain", chosen(order.dataset, model, "retrain", seed=seed), x=1))
            for method in picked(order, METHODS):
                row = row_of(method)
                for k in _shards(method):
                    settings = of_method(order, model, method, seed, k)
                    found.append(fits(order, model, row, settings, x=k))
                    if (k > 1 or method in ADDITIVE) and seed == 0:  # times do not depend on a seed
                        found.append(forgetting(order, model, row, settings, "forgets", extras, k))
    return found


def _shards(method: str) -> tuple[int, ...]:
    """Return the numbers of shards that a method is fitted with; one shard needs no control."""
    if method in ADDITIVE:
        return (1,)
    return tuple(k for k in SHARDS if k > 1 or method in ("receraser", "spectral"))


def seconds(found: Findings, model: str, row: str, k: float) -> float | None:
    """Return the seconds of one forgotten interaction; of one shard, of the full fit."""
    if k == 1 and row not in ADDITIVE:
        return mean_of([fit_seconds(one) for one in found.of(model, row, "fit", 1)])
    return mean_of([value for one in found.of(model, row, "interactions", k) for value in one.series["total"]])


def page(found: Findings) -> list[str]:
    """Return a table for each model."""
    lines = [
        "One forgotten interaction, from the request to the next state in memory (mean; with one shard: a",
        "full fit; where that takes less than 5 s, the median of 3). `share`: of our own retrain, with the",
        "ends of the seeds' 95 % paired bootstrap intervals over users. Controls of Spectral: attention over",
        "its very same submodels on its very same shards; Gram, which needs no shards.",
        *were_timed(found),
    ]
    for model in found.models:
        rows = []
        for method in [row for row in found.rows(model) if row != "retrain"]:
            for k in found.xs(model, method):
                cells = [named(method), f"{k:.0f}"]
                for metric in ("recall@20", "ndcg@20"):
                    one = found.spread(model, method, metric, x=k)
                    cells.append("" if one is None else one.text())
                share = found.share((model, method, "fit", k), (model, "retrain", "fit", None), "ndcg@20")
                time, full = seconds(found, model, method, k), seconds(found, model, "retrain", 1)
                cells += [share_text(share), "" if time is None else time_text(time)]
                comparable = time is not None and full and _beside_the_retrain(found, model, method)
                cells.append(f"{time / full:.3f}" if comparable and time and full else "")
                rows.append(cells)
        lines += ["", f"## {named(model)}", ""]
        lines += table(["", "shards", "R@20", "N@20", "share N@20", "one forget", "of a full fit"], rows)
    return lines


def draw(found: Findings, figure: Figure) -> None:
    """Draw quality above, time below, against the number of shards."""
    models = found.models
    axes = panels(figure, [named(one) for one in models], rows=2)
    for number, model in enumerate(models):
        above, below = axes[number], axes[len(models) + number]
        for method in [row for row in found.rows(model) if row != "retrain"]:
            if method in ADDITIVE:
                _across(found, model, method, above, below)
                continue
            points = [(k, found.spread(model, method, "recall@20", x=k)) for k in found.xs(model, method)]
            known = [(k, one) for k, one in points if one is not None]
            halves = [one.half for _, one in known]
            curve(above, method, [(k, one.mean) for k, one in known], label=named(method), halves=halves)
            times = [(k, seconds(found, model, method, k)) for k in found.xs(model, method)]
            if any(one is not None for _, one in times):  # a curve has a gap where one is missing
                curve(below, method, [(k, nan if one is None else one) for k, one in times], label=named(method))
        below.set_xlabel("shards")
        plain_logarithm(below, "y")
        for one in (above, below):
            one.set_xticks(SHARDS, [str(k) for k in SHARDS])
        if number == 0:
            above.set_ylabel("Recall@20")
            below.set_ylabel("one forget, seconds")
    titled(figure, f"{found.order.dataset}: the number of shards, against quality and time")
    label_below(figure)


def _across(found: Findings, model: str, row: str, above: Axes, below: Axes) -> None:
    """Draw a model without shards: one line for all numbers of them."""
    quality, time = found.spread(model, row, "recall@20"), seconds(found, model, row, 1)
    if quality is not None:
        level_line(above, row, quality.mean)
    if time is not None and _beside_the_retrain(found, model, row):
        level_line(below, row, time)


def _beside_the_retrain(found: Findings, model: str, row: str) -> bool:
    """Say whether a line's times were taken where the retrain's was; those of two machines are not compared."""
    compared = [one for entry, one in found.found if entry.model == model and entry.row in (row, "retrain")]
    return len(machines(str(one.about["hardware"]) for one in compared if "hardware" in one.about)) < 2


STUDY = Study(
    "figure4",
    "Figure 4: the number of shards",
    entries,
    page,
    draw,
    lambda n: (1.5 + 4.2 * max(1, n), 7.2),
    timed=forgets_or_retrains,
    methods=METHODS,
)
