"""Beyond the paper: what each method keeps. Rows, submodels, what combines them, what a partition remembers; on disk.

Numbers in memory are of plain arrays (two numbers a row, four bytes a weight). Those on disk are of a published store,
compressed as it is; they are measured where stores can be written (pyarrow, safetensors, cryptography).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from receraser.reproduce.cell import Cell, Result
from receraser.reproduce.order import Order
from receraser.reproduce.page import named, table
from receraser.reproduce.picture import label_below, panels, titled
from receraser.reproduce.studies.requests import of_method
from receraser.reproduce.studies.study import ADDITIVE, Entry, Findings, Study, fits, picked, too_large

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STUDY"]

METHODS = ("retrain", "sisa", "grapheraser", "receraser", "spectral", *ADDITIVE)
PARTS = {
    "bytes of rows": "#BBBBBB",
    "bytes of submodels": "#0072B2",
    "bytes of aggregation": "#E69F00",
    "bytes of partition": "#009E73",
}


def entries(order: Order) -> list[Entry]:
    """Return a fit of each method, weighed, and one that is published."""
    found = []
    for model in order.models:
        for method in picked(order, METHODS):
            if too_large(order, method):
                continue
            entry = fits(order, model, method, of_method(order, model, method))
            store = Cell("store", order.dataset, entry.cell.config, entry.cell.extras)
            found += [entry, Entry(model, method, store, entry.origin, "store")]
    return found


def _megabytes(one: Result, key: str) -> float:
    return one.numbers.get(key, 0.0) / 2**20


def page(found: Findings) -> list[str]:
    """Return a table for each model."""
    lines = ["MB (2^20 bytes), one seed, ten shards. On disk: a published store, without ledger and certificates."]
    for model in found.models:
        rows = []
        for row in found.rows(model):
            for one in found.of(model, row)[:1]:
                cells = [named(row), *(f"{_megabytes(one, key):.2f}" for key in PARTS)]
                cells.append(f"{sum(_megabytes(one, key) for key in PARTS):.2f}")
                disk = [_megabytes(store, "bytes on disk") for store in found.of(model, row, "store")]
                rows.append([*cells, f"{disk[0]:.2f}" if disk else ""])
        columns = ["", *(key.removeprefix("bytes of ") for key in PARTS), "together", "on disk"]
        lines += ["", f"## {named(model)}", "", *table(columns, rows)]
    return lines


def draw(found: Findings, figure: Figure) -> None:
    """Draw what is kept, part by part."""
    models = found.models
    for axes, model in zip(panels(figure, [named(one) for one in models]), models, strict=True):
        rows = found.rows(model)[::-1]
        left = [0.0] * len(rows)
        for key, fill in PARTS.items():
            sizes = [_megabytes(found.of(model, row)[0], key) if found.of(model, row) else 0.0 for row in rows]
            axes.barh(range(len(rows)), sizes, left=left, color=fill, label=key.removeprefix("bytes of "))
            left = [before + size for before, size in zip(left, sizes, strict=True)]
        axes.set_xlim(0, 1.1 * max(left))
        axes.set_yticks(range(len(rows)), [named(row) for row in rows])
        axes.set_xlabel("MB")
        axes.grid(axis="y", visible=False)
    titled(figure, f"{found.order.dataset}: what each method keeps")
    label_below(figure)


STUDY = Study(
    "storage", "What each method keeps", entries, page, draw, lambda n: (2 + 4.4 * max(1, n), 4.8), methods=METHODS
)
