"""Table 2: the data sets in numbers."""

from __future__ import annotations

from receraser.reproduce import paper
from receraser.reproduce.cell import Cell
from receraser.reproduce.order import Order
from receraser.reproduce.page import table
from receraser.reproduce.studies.study import ALONE, Entry, Findings, Study

__all__ = ["STUDY"]


def entries(order: Order) -> list[Entry]:
    """Return the one cell there is: the data set, counted."""
    return [Entry(ALONE, order.dataset, Cell("rows", order.dataset), "the files", "rows")]


def page(found: Findings) -> list[str]:
    """Return ours beside the paper's."""
    name = found.order.dataset
    results = found.of(ALONE, name, "rows")
    if not results:
        return []
    numbers, theirs = results[0].numbers, paper.TABLE2.get(name)
    keys = ("users", "items", "interactions")
    rows = [[key, f"{numbers[key]:,.0f}", "" if theirs is None else f"{getattr(theirs, key):,}"] for key in keys]
    rows.append(["density", f"{numbers['density']:.2f} %", "" if theirs is None else f"{theirs.density:.2f} %"])
    rows += [[key, f"{numbers[key]:,.0f}", ""] for key in ("train rows", "valid rows", "test rows", "fitted on")]
    lines = table(["", "ours", "paper"], rows)
    return [*lines, *_misprint(name)]


def _misprint(name: str) -> list[str]:
    return ["", paper.MISPRINTS[0]] if name == "ml-1m" else []


STUDY = Study("table2", "Table 2: the data sets", entries, page, methods=())
