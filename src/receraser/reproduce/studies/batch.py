"""Beyond the paper, its open problem: many users at once. How many shards they touch, the time, the quality.

Spread evenly, m users touch K (1 - (1 - 1/K)^m) of K shards: a hundred touch all of ten. From there on forgetting costs
what fitting costs, and "RecEraser's time" of one shard is not the time of a batch.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from receraser.reproduce.cell import Extras
from receraser.reproduce.drawn import has_forget_sets
from receraser.reproduce.order import Order
from receraser.reproduce.page import named, share_text, table, time_text
from receraser.reproduce.picture import curve, full_retrain, label_below, panels, plain_logarithm, titled
from receraser.reproduce.studies.requests import (
    controls_told,
    forgetting,
    mean_of,
    of_method,
    retrain_seconds,
    row_of,
    survivors,
)
from receraser.reproduce.studies.study import Entry, Findings, Study, picked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STUDY"]

CONTROLS = ("attention-on-hash", "attention-on-hash-32")
METHODS = ("sisa", "grapheraser", "receraser", "spectral", "spectral-32", *CONTROLS, "gram")
RANDOM = (1, 3, 10, 30, 0.05, 0.1, 0.15, 0.2)  # users, or below 1 a share of them
LISTED = (0.05, 0.1, 0.15, 0.2)
WHO = ("random", "core", "edge")


def entries(order: Order) -> list[Entry]:
    """Return batches of every size, of whom there are sets, and a retrain without each."""
    listed = order.dataset == "ml-100k" and (order.data is None or has_forget_sets(order.data))
    found = []
    for model in order.models:
        for who in WHO if listed else WHO[:1]:
            for size in RANDOM if who == "random" else LISTED:
                extras: Extras = {"who": who, "size": size}
                found.append(survivors(order, model, "retrain", of_method(order, model, "retrain"), extras, size))
                for method in picked(order, METHODS):
                    name = method.removesuffix("-32")
                    settings = of_method(order, model, name, shards=10 if name == method else 32)
                    row = row_of(name) if name == method else f"{row_of(name)}, K=32"
                    found.append(forgetting(order, model, row, settings, "batch", extras, size))
    return found


def page(found: Findings) -> list[str]:
    """Return a table for each model and each kind of users."""
    lines = [
        "One batch, forgotten at once: every shard that it touches is fitted once. Expected: K (1 - (1 -",
        "1/K)^m) shards, if m users are spread evenly and each is in one shard. Time from the request to",
        "the next state in memory, and as a share of a retrain on the survivors (where it takes less than",
        "5 s: of the median of 3); quality beside that retrain, with the 95 % paired bootstrap interval over",
        "users. One seed. The picture holds all sizes to one retrain, the median one.",
        *controls_told(found),
    ]
    if any(_rows(found, model, who) for model in found.models for who in WHO[1:]):
        lines.append("`core` and `edge`: the forget sets of CURE4Rec, the most and the least connected users.")
    for model in found.models:
        for who in WHO:
            if rows := _rows(found, model, who):
                columns = ["", "users", "m", "shards touched", "expected", "time", "of a retrain", "N@20"]
                lines += ["", f"## {named(model)}, {who} users", ""]
                lines += table([*columns, "share of a retrain's N@20"], rows)
    return lines


def _rows(found: Findings, model: str, who: str) -> list[list[str]]:
    """Return a line for each method and size, the smallest first."""
    rows = []
    for row in [one for one in found.rows(model) if one != "retrain"]:
        at = {size: found.of(model, row, who, size)[0] for size in found.xs(model, row, who)}
        for size, one in sorted(at.items(), key=lambda pair: pair[1].numbers["forgotten"]):
            m, k = one.numbers["forgotten"], one.numbers["of shards"]
            full = retrain_seconds(found, model, f"{who} left", size)
            kept = found.share((model, row, who, size), (model, "retrain", f"{who} left", size), "ndcg@20")
            cells = [named(row), f"{100 * size:g} %" if size < 1 else ""]
            cells += [f"{m:.0f}", f"{one.numbers['shards']:.0f} of {k:.0f}", f"{k * (1 - (1 - 1 / k) ** m):.1f}"]
            cells += [time_text(one.numbers["total"]), f"{one.numbers['total'] / full:.3f}" if full else ""]
            rows.append([*cells, f"{one.metrics['ndcg@20']:.4f}", share_text(kept)])
    return rows


def draw(found: Findings, figure: Figure) -> None:
    """Draw the time of a batch of random users against its size, as a share of a full retrain: the median one.

    Retrains without each batch were timed once, hours apart: one that met a busy host would bend every curve.
    """
    models = found.models
    for axes, model in zip(panels(figure, [named(one) for one in models], share_y=True), models, strict=True):
        sizes = found.xs(model, "retrain", "random left")
        full = statistics.median(retrain_seconds(found, model, "random left", size) or 0.0 for size in sizes or [0])
        for row in [one for one in found.rows(model) if one != "retrain"]:
            points = []
            for size in found.xs(model, row, "random"):
                ours = mean_of([one.numbers["total"] for one in found.of(model, row, "random", size)])
                if ours is not None and full:
                    points.append((found.of(model, row, "random", size)[0].numbers["forgotten"], ours / full))
            curve(axes, row, sorted(points), label=named(row))
        full_retrain(axes)
        axes.set_xlabel("users forgotten at once")
        for which in "xy":
            plain_logarithm(axes, which)
        if model == models[0]:
            axes.set_ylabel("time, share of the median retrain")
    titled(figure, f"{found.order.dataset}: many users at once, beside fitting everything again")
    label_below(figure)


STUDY = Study(
    "batch",
    "Many users at once",
    entries,
    page,
    draw,
    lambda n: (4.2 * max(1, n), 5.8),
    timed=lambda _: True,
    methods=METHODS,
)
