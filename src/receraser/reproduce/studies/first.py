"""Beyond the paper: what a first fit costs, stage by stage. It comes once, and again with every rebuild.

The paper's times are those of forgetting. Before anybody can be forgotten, vectors are learned for the partition, rows
are dealt to shards, every shard is fitted, and what combines them is learned: each timed here with nothing beside it.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from receraser.reproduce.cell import Cell
from receraser.reproduce.machine import machines
from receraser.reproduce.order import Order
from receraser.reproduce.page import named, table, time_text
from receraser.reproduce.picture import full_retrain, label_below, panels, titled
from receraser.reproduce.studies.requests import fit_seconds, mean_of, of_method, row_of
from receraser.reproduce.studies.study import Entry, Findings, Study, fits, picked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STUDY"]

METHODS = ("retrain", "sisa", "grapheraser", "receraser", "spectral", "attention-on-hash", "gram")
STAGES = {
    "pretrain": ("pre-training", "#BBBBBB"),
    "partition": ("partition", "#009E73"),
    "submodels": ("submodels", "#0072B2"),
    "aggregate": ("aggregation", "#E69F00"),
}


def entries(order: Order) -> list[Entry]:
    """Return a first fit of each method; times depend on no seed."""
    found = []
    for model in order.models:
        for method in picked(order, METHODS):
            plain = fits(order, model, row_of(method), of_method(order, model, method))
            cell = Cell("first", order.dataset, plain.cell.config, plain.cell.extras)
            found.append(Entry(model, plain.row, cell, plain.origin, "first"))
    return found


def _seconds(found: Findings, model: str, row: str, stage: str) -> float | None:
    return mean_of([one.seconds[stage] for one in found.of(model, row, "first") if stage in one.seconds])


def _in_retrains(found: Findings, model: str, row: str) -> float | None:
    """Return a first fit's seconds over those of a full fit; None where they are from different machines."""
    own, full = found.of(model, row, "first"), found.of(model, "retrain", "first")
    where = machines(str(one.about["hardware"]) for one in (*own, *full) if "hardware" in one.about)
    if not own or not full or len(where) > 1:
        return None
    return fit_seconds(own[0]) / fit_seconds(full[0])


def page(found: Findings) -> list[str]:
    """Return a table for each model."""
    lines = [
        "A fit from nothing to a state in memory, workers warm, nothing beside it; the median of up to three, of two",
        "the slower. It comes once, and again with every rebuild. One seed. Balance: rows of the largest shard over",
        "the mean.",
    ]
    for model in found.models:
        rows = []
        for row in found.rows(model):
            one = found.of(model, row, "first")[0]
            stages = [_seconds(found, model, row, stage) for stage in STAGES]
            share = _in_retrains(found, model, row)
            cells = [named(row), *("" if value is None else time_text(value) for value in stages)]
            cells += [time_text(fit_seconds(one)), "" if share is None else f"{share:.2f}"]
            rows.append([*cells, f"{one.numbers['balance']:.2f}"])
        columns = ["", *(name for name, _ in STAGES.values()), "together", "of a full fit", "balance"]
        lines += ["", f"## {named(model)}", "", *table(columns, rows)]
    return lines


def draw(found: Findings, figure: Figure) -> None:
    """Draw the stages end to end, in full fits; what was not measured where those were has no place there."""
    models = found.models
    for axes, model in zip(panels(figure, [named(one) for one in models]), models, strict=True):
        rows = [row for row in found.rows(model) if _in_retrains(found, model, row) is not None][::-1]
        whole = fit_seconds(found.of(model, "retrain", "first")[0]) if rows else 1.0
        left = [0.0] * len(rows)
        for stage, (name, fill) in STAGES.items():
            parts = [(_seconds(found, model, row, stage) or 0.0) / whole for row in rows]
            axes.barh(range(len(rows)), parts, left=left, color=fill, label=name)
            left = [before + part for before, part in zip(left, parts, strict=True)]
        full_retrain(axes, "x")
        axes.set_yticks(range(len(rows)), [textwrap.fill(named(row), 18) for row in rows])
        axes.set_xlabel("full fits")
        axes.grid(axis="y", visible=False)
    titled(figure, f"{found.order.dataset}: what a first fit costs, in full fits")
    label_below(figure)


STUDY = Study(
    "first",
    "What a first fit costs",
    entries,
    page,
    draw,
    lambda n: (2 + 4.4 * max(1, n), 4.8),
    timed=lambda _: True,
    methods=METHODS,
)
