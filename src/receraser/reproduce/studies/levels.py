"""Beyond the paper: single interactions, whole users, whole items. What each touches, costs, and leaves behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from receraser.reproduce.order import Order
from receraser.reproduce.page import named, share_text, table, time_text
from receraser.reproduce.picture import (
    colour,
    face,
    full_retrain,
    label_below,
    marker,
    panels,
    plain_logarithm,
    titled,
)
from receraser.reproduce.studies.requests import (
    controls_told,
    forgetting,
    of_method,
    one_by_one,
    per_request,
    retrain_seconds,
    row_of,
    survivors,
    were_timed,
)
from receraser.reproduce.studies.study import Entry, Findings, Study, picked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STUDY"]

METHODS = ("sisa", "grapheraser", "receraser", "spectral", "attention-on-hash", "gram")
LEVELS = ("interactions", "users", "items")
FORGETS = 10
_WIDTH = 0.7  # of what is forgotten, on the axis: the methods stand beside each other


def entries(order: Order) -> list[Entry]:
    """Return, for each level, requests one after another, and a retrain on who and what is left."""
    found = []
    for model in order.models:
        for level in LEVELS:
            extras = one_by_one(order, level, FORGETS)
            found.append(survivors(order, model, "retrain", of_method(order, model, "retrain"), extras))
            for method in picked(order, METHODS):
                settings = of_method(order, model, method)
                found.append(forgetting(order, model, row_of(method), settings, "forgets", extras))
    return found


def page(found: Findings) -> list[str]:
    """Return a table for each model."""
    lines = [
        f"Means over {found.order.forgets or FORGETS} random requests of each kind, one after another; times",
        "from the request to the next state in memory; a retrain's, where it takes less than 5 s, is the",
        "median of 3 fits. The share is of a retrain on the very same survivors, by NDCG@20, with the 95 %",
        "paired bootstrap interval over users. Where shards are cut by user or at random, an item is held by",
        "nearly every one, and forgetting it costs a full fit.",
        *controls_told(found),
        *were_timed(found),
    ]
    for model in found.models:
        rows = []
        for row in [one for one in found.rows(model) if one != "retrain"]:
            for level in LEVELS:
                seconds, full = per_request(found, model, row, level, "total"), _full(found, model, level)
                if seconds is None:
                    continue
                touched, removed = (per_request(found, model, row, level, key) or 0.0 for key in ("shards", "rows"))
                share = found.share((model, row, level, None), (model, "retrain", f"{level} left", None), "ndcg@20")
                cells = [named(row), level, f"{removed:.1f}", f"{touched:.1f}", time_text(seconds)]
                rows.append([*cells, f"{seconds / full:.3f}" if full else "", share_text(share)])
        columns = [
            "",
            "forgotten",
            "rows",
            "shards touched",
            "one request",
            "of a retrain",
            "share of a retrain's N@20",
        ]
        lines += ["", f"## {named(model)}", "", *table(columns, rows)]
    return lines


def _full(found: Findings, model: str, level: str) -> float | None:
    return retrain_seconds(found, model, f"{level} left")


def draw(found: Findings, figure: Figure) -> None:
    """Draw the cost of each kind of request as a share of a full retrain."""
    models = found.models
    for axes, model in zip(panels(figure, [named(one) for one in models]), models, strict=True):
        rows = [row for row in found.rows(model) if row != "retrain"]
        for number, row in enumerate(rows):
            shares = []
            for level in LEVELS:
                seconds, full = per_request(found, model, row, level, "total"), _full(found, model, level)
                shares.append(seconds / full if seconds is not None and full else float("nan"))
            at = [x + _WIDTH * ((number + 0.5) / len(rows) - 0.5) for x in range(len(LEVELS))]
            axes.plot(
                at,
                shares,
                color=colour(row),
                marker=marker(row),
                markerfacecolor=face(row),
                markersize=10,
                linestyle="none",
                label=named(row),
            )
        for edge in range(1, len(LEVELS)):
            axes.axvline(edge - 0.5, color="#DDDDDD", linewidth=1)
        full_retrain(axes)
        axes.set_xticks(range(len(LEVELS)), ["an interaction", "a user", "an item"])
        axes.set_xlim(-0.5, len(LEVELS) - 0.5)
        plain_logarithm(axes, "y")
        axes.grid(axis="x", visible=False)
        if model == models[0]:
            axes.set_ylabel("time, share of a full retrain")
    titled(figure, f"{found.order.dataset}: what an interaction, a user, an item costs to forget")
    label_below(figure)


STUDY = Study("levels", "Interactions, users, items", entries, page, draw, timed=lambda _: True, methods=METHODS)
