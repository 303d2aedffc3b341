"""What the command does: the missing cells of a study, then its page and its picture."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from receraser.errors import DataError
from receraser.reproduce.datasets import load
from receraser.reproduce.drawn import sets_digest
from receraser.reproduce.kept import Kept
from receraser.reproduce.order import Order
from receraser.reproduce.runner import Ran, run
from receraser.reproduce.studies.registry import find_study

__all__ = ["planned", "reproduce"]

Say = Callable[[str], None]


def planned(order: Order) -> list[str]:
    """Return the cells that an order needs, in words, each once."""
    cells = [entry.cell for entry in find_study(order.study).entries(order)]
    return list({cell.digest("", "cpu"): cell.label for cell in cells}.values())


def reproduce(order: Order, say: Say, *, pages: bool = True) -> tuple[Ran, list[Path]]:
    """Compute what is missing (unless a report is all that was asked for), and write the pages (if wanted).

    Returns how the run ended, and the files that were written.
    """
    study = find_study(order.study)
    entries = study.entries(order)
    kept = Kept(order.cells)
    rows, sets = None, None
    if order.report and order.data is None:
        rows, sets = kept.rows_of(order.dataset), kept.sets_of(order.dataset)
    ran = Ran()
    if rows is None or sets is None:
        if order.report and order.data is None:
            raise DataError(
                f"there are no cells of {order.dataset}, or those of several data sets of that name; compute some "
                "(the same command without --report), or say with --data which rows are meant",
                path=str(order.cells),
            )
        data = load(order.data, order.dataset)
        rows = data.digest
        sets = sets_digest(data) if any(entry.cell.takes_sets for entry in entries) else ""
        if not order.report:
            from receraser.models.factors import torch_device

            device = torch_device(order.device).type
            say(f"{order.dataset}: {len(data.full):,} rows to fit, {len(data.test):,} to test on; {data.origin}")
            ran = run([entry.cell.of_sets(sets) for entry in entries], data, kept, device, say, order.jobs)
            order = dataclasses.replace(order, device=device)
    if not pages:
        return ran, []
    from receraser.reproduce.report import findings, write

    entries = [dataclasses.replace(entry, cell=entry.cell.of_sets(sets)) for entry in entries]
    return ran, write(study, findings(order, entries, kept, rows, order.device))
