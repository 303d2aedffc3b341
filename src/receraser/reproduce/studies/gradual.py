"""Beyond the paper: 30 % of the users leave, step by step. Quality and balance along the way.

A data-driven partition stays as it was made: it may lose its balance, and what it knows of users who are gone no longer
helps. So the end stands beside a fit from nothing of the same method (`rebuilt`), and every step beside a full retrain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from receraser.reproduce.cell import Extras
from receraser.reproduce.order import Order
from receraser.reproduce.page import named, share_text, table
from receraser.reproduce.picture import colour, curve, label_below, panels, titled
from receraser.reproduce.studies.requests import controls_told, forgetting, of_method, row_of, survivors
from receraser.reproduce.studies.study import ADDITIVE, ATTENDED, Entry, Findings, Study, fits, picked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STUDY"]

METHODS = ("sisa", "grapheraser", "receraser", "spectral", "attention-on-hash", "gram")
SHARE, STEPS = 0.3, 6


def steps() -> list[float]:
    """Return the shares of the users who are gone, after each step."""
    return [round(SHARE * (step + 1) / STEPS, 6) for step in range(STEPS)]


def entries(order: Order) -> list[Entry]:
    """Return one long leave for each method, a rebuild at its end, and a full retrain at each step."""
    found = []
    extras: Extras = {"share": SHARE, "steps": STEPS}
    for model in order.models:
        full = of_method(order, model, "retrain")
        found.append(fits(order, model, "retrain", full))
        found += [
            survivors(order, model, "retrain", full, {"who": "random", "size": share}, share) for share in steps()
        ]
        for method in picked(order, METHODS):
            settings = of_method(order, model, method)
            found.append(forgetting(order, model, row_of(method), settings, "gradual", extras))
            at_the_end: Extras = {"who": "random", "size": SHARE}
            found.append(survivors(order, model, row_of(method), settings, at_the_end, SHARE))
    return found


def page(found: Findings) -> list[str]:
    """Return, for each model, NDCG@20 along the way, balance along the way, and the end."""
    lines = [
        f"{100 * SHARE:.0f} % of the users, drawn at random, leave in {STEPS} steps; after each, everything",
        "is measured on the test rows of those who are left. Retrain: a full fit on the survivors. Rebuilt:",
        "the same method from nothing on the survivors, with a new partition. One seed; intervals are 95 %",
        "paired bootstrap intervals over users.",
        *controls_told(found),
    ]
    columns = ["", *(f"{100 * share:.0f} % gone" for share in (0.0, *steps()))]
    for model in found.models:
        lines += ["", f"## {named(model)}", "", "NDCG@20:", ""]
        lines += table(columns, [[named(row), *_along(found, model, row, "ndcg@20")] for row in found.rows(model)])
        own = [row for row in found.rows(model) if found.of(model, row, "gradual")]
        lines += ["", "Balance, the largest shard over the mean:", ""]
        lines += table(columns, [[named(row), *_along(found, model, row, "balance", digits=2)] for row in own])
        lines += ["", *_end(found, model, own)]
    return lines


def _along(found: Findings, model: str, row: str, key: str, digits: int = 4) -> list[str]:
    """Return a number at each step."""
    if row == "retrain":
        at = {share: found.spread(model, row, key, "random left", share) for share in steps()}
        whole = found.spread(model, row, key)
        return ["" if one is None else f"{one.mean:.{digits}f}" for one in (whole, *at.values())]
    results = found.of(model, row, "gradual")
    return [f"{value:.{digits}f}" for value in results[0].series[key]] if results else [""] * (STEPS + 1)


def _end(found: Findings, model: str, rows: list[str]) -> list[str]:
    lines = []
    for row in rows:
        kept = found.share((model, row, "gradual", None), (model, "retrain", "random left", SHARE), "ndcg@20")
        anew = found.share((model, row, "gradual", None), (model, row, "random left", SHARE), "ndcg@20")
        lines.append([named(row), share_text(kept), share_text(anew)])
    return table(["at the end, N@20", "share of the retrain's", "share of the rebuilt one's"], lines)


def draw(found: Findings, figure: Figure) -> None:
    """Draw what is kept of the retrain's quality along the way, above; balance, below."""
    models = found.models
    axes = panels(figure, [named(one) for one in models], rows=2, share_y=True)
    for number, model in enumerate(models):
        above, below = axes[number], axes[len(models) + number]
        full = {share: found.spread(model, "retrain", "ndcg@20", "random left", share) for share in steps()}
        full[0.0] = found.spread(model, "retrain", "ndcg@20")
        for row in found.rows(model):
            for one in found.of(model, row, "gradual")[:1]:
                along = zip((0.0, *steps()), one.series["ndcg@20"], strict=True)
                kept = [(100 * x, 100 * y / whole.mean) for x, y in along if (whole := full[x]) is not None]
                curve(above, row, kept, label=named(row))
                if row not in (*ADDITIVE, ATTENDED):  # one shard is as large as the mean; the control has Spectral's
                    gone = [100 * share for share in one.series["gone"]]
                    curve(below, row, list(zip(gone, one.series["balance"], strict=True)), label=named(row))
        above.axhline(100, color=colour("retrain"), linestyle="--", label="a full retrain")
        below.set_xlabel("% of the users gone")
        if number == 0:
            above.set_ylabel("NDCG@20,\n% of a retrain's")
            below.set_ylabel("largest shard / mean")
    low, high = axes[-1].get_ylim()
    axes[-1].set_ylim(min(low, 0.95), max(high, 1.5))  # a hundredth more or less is no message
    titled(figure, f"{found.order.dataset}: {100 * SHARE:.0f} % of the users leave, step by step")
    label_below(figure)


STUDY = Study(
    "gradual",
    f"{100 * SHARE:.0f} % of the users leave, step by step",
    entries,
    page,
    draw,
    lambda n: (1.5 + 4.4 * max(1, n), 7.2),
    methods=METHODS,
)
