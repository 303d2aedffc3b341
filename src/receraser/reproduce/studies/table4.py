"""Table 4: the time of a full retrain, of a shard, of the aggregation; over random interactions, one after another.

Beyond the paper: pre-training and partition, which come once and again with every rebuild; the same for users; every
method; and the quality after the whole sequence, beside a retrain on the very same survivors.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from receraser.reproduce import paper
from receraser.reproduce.order import Order
from receraser.reproduce.page import named, share_text, table, time_text
from receraser.reproduce.picture import (
    PRINTED,
    colour,
    full_retrain,
    label_below,
    panels,
    plain_logarithm,
    titled,
    told,
)
from receraser.reproduce.studies.requests import (
    controls_told,
    forgetting,
    in_retrains,
    mean_of,
    of_method,
    one_by_one,
    per_request,
    retrain_seconds,
    row_of,
    survivors,
    timed_of,
    were_timed,
)
from receraser.reproduce.studies.study import Entry, Findings, Study, picked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STUDY"]

METHODS = ("retrain", "sisa", "grapheraser", "receraser", "spectral", "attention-on-hash", "gram")
LEVELS = ("interactions", "users")
FORGETS = 100
_BESIDE = "; blank where\nfirst fits ran side by side: `receraser reproduce first` times those alone."


def entries(order: Order) -> list[Entry]:
    """Return sequences of requests for each method, and the retrain on who is left after them."""
    wanted = picked(order, METHODS)
    found = []
    for model in order.models:
        for level in LEVELS:
            extras = one_by_one(order, level, FORGETS)
            found.append(survivors(order, model, "retrain", of_method(order, model, "retrain"), extras))
            for method in wanted:
                if method != "retrain":
                    settings = of_method(order, model, method)
                    found.append(forgetting(order, model, row_of(method), settings, "forgets", extras))
    return found


def page(found: Findings) -> list[str]:
    """Return a table of times and one of quality for each model."""
    n = found.order.forgets or FORGETS
    in_shards = [one for entry, one in found.found if entry.cell.config is not None and entry.cell.config.shards > 1]
    beside = any("partition" not in one.seconds for one in in_shards if one.series)
    lines = [
        f"{n} random interactions, and {n} random users, are forgotten one after another. Times are means, from",
        "the request to the next state in memory, workers warm; publishing it is not in it, nor in the",
        "paper's. Retrain: a full fit on the survivors; where it takes less than 5 s, the median of 3 fits.",
        f"Pre-training and partition come once, and again with every rebuild{_BESIDE if beside else '.'}",
        "One seed.",
        *controls_told(found),
        *were_timed(found),
    ]
    for model in found.models:
        lines += ["", f"## {named(model)}", "", *_times(found, model), "", *_quality(found, model)]
    if found.order.dataset == "ml-10m":
        lines += ["", paper.MISPRINTS[2]]
    return lines


def _times(found: Findings, model: str) -> list[str]:
    full = {level: retrain_seconds(found, model, f"{level} left") for level in LEVELS}
    printed = paper.TABLE4.get(found.order.dataset, {}).get(model)
    limited = found.order.within is not None
    rows = []
    for row in found.rows(model):
        if row == "retrain":
            times = [_text(full[level]) for level in LEVELS]
            rows.append(["Retrain", "", "", "", "", times[0], "1", times[1], "1"])
            continue
        first = [one.seconds for one in found.of(model, row, "interactions")]
        cells = [named(row)]
        cells += [_text(mean_of([one[key] for one in first if key in one])) for key in ("pretrain", "partition")]
        cells += [_text(per_request(found, model, row, "interactions", key)) for key in ("submodels", "aggregate")]
        for level in LEVELS:
            share = in_retrains(found, model, row, level)
            cells += [_text(per_request(found, model, row, level, "total")), "" if share is None else f"{share:.3f}"]
        counts = " and ".join(filter(None, (timed_of(found, model, row, level) for level in LEVELS)))
        rows.append([*cells, *([counts] if limited else [])])
    if printed is not None:
        share = printed.total / printed.retrain
        rows.append(["paper: Retrain", "", "", "", "", f"{printed.retrain:g} min", "1", "", ""])
        theirs = [f"{value:g} min" for value in (printed.shard, printed.aggregation, printed.total)]
        rows.append(["paper: RecEraser", "", "", *theirs, f"{share:.3f}", "", ""])
    columns = ["", "pre-training", "partition", "shard", "aggregation", "an interaction", "of a retrain"]
    columns += ["a user", "of a retrain", *(["timed"] if limited else [])]
    return table(columns, [row + [""] * (len(columns) - len(row)) for row in rows])


def _quality(found: Findings, model: str) -> list[str]:
    rows = []
    for row in found.rows(model):
        cells = [named(row)]
        for level in LEVELS:
            what = f"{level} left" if row == "retrain" else level
            for metric in ("recall@20", "ndcg@20"):
                one = found.spread(model, row, metric, what)
                cells.append("" if one is None else one.text())
            full = (model, "retrain", f"{level} left", None)
            cells.append("" if row == "retrain" else share_text(found.share((model, row, what, None), full, "ndcg@20")))
        rows.append(cells)
    columns = ["after all of them", "interactions: R@20", "N@20", "share of the retrain's N@20"]
    return table([*columns, "users: R@20", "N@20", "share of the retrain's N@20"], rows)


def _text(seconds: float | None) -> str:
    return "" if seconds is None else time_text(seconds)


def draw(found: Findings, figure: Figure) -> None:
    """Draw one forgotten interaction in full retrains, on a scale of decades: the shard alone, and everything.

    A line that was not measured where the retrain was has no place on that scale.
    """
    models = found.models
    for axes, model in zip(panels(figure, [named(one) for one in models]), models, strict=True):
        rows = [row for row in found.rows(model) if in_retrains(found, model, row, "interactions") is not None][::-1]
        for y, row in enumerate(rows):
            total, shard = (
                in_retrains(found, model, row, "interactions", key) or float("nan") for key in ("total", "submodels")
            )
            axes.plot([shard, total], [y, y], color=colour(row), linewidth=4, alpha=0.4)
            axes.plot(shard, y, color=colour(row), marker="o", markersize=8, markerfacecolor="white", linestyle="none")
            axes.plot(total, y, color=colour(row), marker="o", markersize=9, linestyle="none")
            text = f"{total:.2g}" if total < 10 else f"{total:.0f}"
            told(axes, text, (total, y), (8, 7), ha="left")
        full_retrain(axes, "x")
        for face, text in (("white", "the shard alone"), ("#444444", "shard and aggregation")):
            axes.plot([], [], color="#444444", marker="o", markerfacecolor=face, linestyle="none", label=text)
        printed = paper.TABLE4.get(found.order.dataset, {}).get(model)
        if printed is not None and "receraser" in rows:
            x, y = printed.total / printed.retrain, rows.index("receraser")
            axes.plot(x, y, color=PRINTED, marker="|", markersize=20, mew=3, linestyle="none", label="in the paper")
        axes.set_yticks(range(len(rows)), [textwrap.fill(named(row), 18) for row in rows])
        axes.margins(x=0.15, y=0.12)
        plain_logarithm(axes, "x")
        axes.set_xlabel("full retrains")
    titled(figure, f"{found.order.dataset}: what forgetting one interaction costs, in full retrains")
    label_below(figure)


STUDY = Study(
    "table4",
    "Table 4: time",
    entries,
    page,
    draw,
    lambda n: (2 + 4.4 * max(1, n), 4.6),
    timed=lambda _: True,
    methods=METHODS,
)
