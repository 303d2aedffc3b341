"""Table 3: quality of every method with every model, ours beside the paper's; and what needs no shards.

Beside `spectral` stand its controls: attention on the very same hash shards, and, for `polish`, the same sweeps from
random vectors. So it can be told what the merge is worth, and what the sweeps are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from receraser.reproduce import paper
from receraser.reproduce.cell import METRICS
from receraser.reproduce.order import Order
from receraser.reproduce.page import against, difference, named, p_text, share_text, table
from receraser.reproduce.picture import PRINTED, colour, face, marker, panels, titled, told
from receraser.reproduce.settings import chosen
from receraser.reproduce.studies.requests import of_method, swept
from receraser.reproduce.studies.study import (
    ADDITIVE,
    ALONE,
    ATTENDED,
    POLISHED,
    Entry,
    Findings,
    Study,
    fits,
    picked,
    too_large,
    without_shards,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["STUDY"]

FITTED = ("retrain", "sisa", "grapheraser", "receraser", "spectral")
METHODS = (*FITTED, "polish", "sweeps", "attention-on-hash", *ADDITIVE)


def entries(order: Order) -> list[Entry]:
    """Return methods, controls and models without shards."""
    wanted = picked(order, METHODS)
    found = [
        entry for seed in range(order.seeds) for model in order.models for entry in _of(order, model, seed, wanted)
    ]
    without = [name for name in ADDITIVE if name in wanted and not too_large(order, name)]
    return found + without_shards(order, without)


def _of(order: Order, model: str, seed: int, wanted: list[str]) -> list[Entry]:
    """Return the entries of one model and seed."""
    found = [
        fits(order, model, method, chosen(order.dataset, model, method, seed=seed))
        for method in FITTED
        if method in wanted
    ]
    merged = chosen(order.dataset, model, "spectral", seed=seed)
    own = chosen(order.dataset, model, "spectral", seed=seed, own_rank=True)
    if "spectral" in wanted and own.config != merged.config:
        found.append(fits(order, model, f"spectral, rank {own.config.aggregation_settings['rank']}", own))
    if "polish" in wanted:
        found.append(fits(order, model, POLISHED, merged.polished(1)))
    if "sweeps" in wanted:
        found.append(swept(order, model, seed))
    if "attention-on-hash" in wanted:
        found.append(fits(order, model, ATTENDED, of_method(order, model, "attention-on-hash", seed)))
    return found


def theirs(found: Findings, model: str, row: str) -> Mapping[str, float]:
    """Return the paper's numbers of a line; nothing where it has none."""
    return paper.TABLE3.get(found.order.dataset, {}).get((model, row), {})


def page(found: Findings) -> list[str]:
    """Return a section for each model: what counts most, then every number."""
    lines = [
        "Means over seeds ± half the range, on the test rows. `share`: of our own retrain of the same model",
        "and seed, with the ends of the seeds' 95 % paired bootstrap intervals over users; likewise of",
        "RecEraser's. `p`: the largest of the seeds' paired t-tests over users of RecEraser against that",
        "method, by NDCG@20, as in the paper. Controls of Spectral: Gram, which needs no shards; attention on",
        "the very same shards; the sweeps of `polish` from random vectors.",
    ]
    for model in found.models:
        lines += ["", f"## {named(model)}", "", *_summary(found, model), "", *_everything(found, model)]
    if found.rows(ALONE):
        lines += ["", "## Models without shards", "", *_everything(found, ALONE)]
        lines += [
            "",
            "Exactly forgettable by themselves. GraphFilter has no vectors; its rank is that of its low-pass part.",
        ]
    if found.order.dataset == "ml-1m":
        lines += ["", paper.MISPRINTS[1]]
    return lines


def _lines(found: Findings, model: str) -> list[tuple[str, str]]:
    """Return (model, row) of everything that is compared; `gram`, a control of spectral, stands among them."""
    control = [(ALONE, "gram")] if "gram" in found.rows(ALONE) else []
    return [(model, row) for row in found.rows(model)] + control


def _summary(found: Findings, model: str) -> list[str]:
    rows = []
    full, attended = ((model, row, "fit", None) for row in ("retrain", "receraser"))
    for name, row in _lines(found, model):
        printed = theirs(found, name, row)
        both = ("recall@20", "ndcg@20")
        cells = [named(row), *(against(found.spread(name, row, one), printed.get(one)) for one in both)]
        ours = (name, row, "fit", None)
        cells += [share_text(found.share(ours, full, metric)) for metric in both]
        cells.append("" if row == "receraser" else share_text(found.share(ours, attended, "ndcg@20")))
        p = found.p_value(attended, ours, "ndcg@20") if row in ("sisa", "grapheraser") else None
        balance = [one.numbers["balance"] for one in found.of(name, row) if "balance" in one.numbers]
        cells += ["" if p is None else p_text(p), f"{sum(balance) / len(balance):.2f}" if balance else ""]
        rows.append(cells)
    return table(["", "R@20", "N@20", "share R@20", "share N@20", "of RecEraser's N@20", "p", "balance"], rows)


def _everything(found: Findings, model: str) -> list[str]:
    rows = []
    for row in found.rows(model):
        printed = theirs(found, model, row)
        ours = {metric: found.spread(model, row, metric) for metric in METRICS}
        rows.append([named(row), *("" if one is None else one.text() for one in ours.values())])
        if printed:
            rows.append(["· paper", *(f"{printed[metric]:.4f}" for metric in METRICS)])
            gaps = ["" if one is None else difference(one.mean, printed[metric]) for metric, one in ours.items()]
            rows.append(["· difference", *gaps])
    return table(["", *(f"{metric[0].upper()}@{metric.split('@')[1]}" for metric in METRICS)], rows)


def draw(found: Findings, figure: Figure) -> None:
    """Draw what share of its own retrain each method keeps, ours and the paper's."""
    models = found.models
    compared = {model: [line for line in _lines(found, model) if line[1] != "retrain"] for model in models}
    # The panels share their lines, also those that a model lacks.
    longest_first = sorted(compared.values(), key=len, reverse=True)
    rows = list(dict.fromkeys(row for lines in longest_first for _, row in lines))[::-1]
    for axes, model in zip(panels(figure, [named(one) for one in models], share_y=True), models, strict=True):
        for name, row in compared[model]:
            y = rows.index(row)
            ours = found.share((name, row, "fit", None), (model, "retrain", "fit", None), "ndcg@20")
            if ours is not None:
                spread = [[100 * (ours.mean - ours.low)], [100 * (ours.high - ours.mean)]]
                axes.errorbar(
                    100 * ours.mean,
                    y,
                    xerr=spread,
                    color=colour(row),
                    marker=marker(row),
                    markersize=9,
                    markerfacecolor=face(row),
                )
                told(axes, f"{100 * ours.mean:.1f}", (100 * ours.mean, y))
            printed, full = (theirs(found, model, one).get("ndcg@20") for one in (row, "retrain"))
            if printed is not None and full is not None:
                axes.plot(100 * printed / full, y, color=PRINTED, marker="|", markersize=18, mew=3, linestyle="none")
        axes.axvline(100, color="black", linewidth=0.8)
        axes.set_yticks(range(len(rows)), [named(row) for row in rows])
        axes.set_xlabel("NDCG@20, % of the retrain's")
        axes.margins(y=0.12)
    _one_scale(figure.axes)
    printed_too = " (black strokes: in the paper)" if found.order.dataset in paper.TABLE3 else ""
    titled(figure, f"{found.order.dataset}: what each method keeps of a full retrain{printed_too}")


def _one_scale(panels: Sequence[Axes]) -> None:
    """Let shares of one length be as long in every panel."""
    ends = [end for axes in panels for end in axes.get_xlim()]
    for axes in panels:
        axes.set_xlim(min(ends), max(ends))


STUDY = Study(
    "table3",
    "Table 3: quality of the methods",
    entries,
    page,
    draw,
    lambda n: (3.2 + 4.0 * max(1, n), 5.2),
    methods=METHODS,
)
