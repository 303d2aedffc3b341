"""The cells that are missing, in an order that shares work; each is kept as soon as it is done.

Cells that need the very same submodels are neighbours, so that these are fitted once. A cell that fails is told and
left out, and the others go on. Whoever interrupts loses the cell under way; the same command goes on from there.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence

from receraser.errors import ReceraserError
from receraser.reproduce.cell import Cell, Result
from receraser.reproduce.datasets import Dataset
from receraser.reproduce.kept import Kept
from receraser.reproduce.machine import about
from receraser.reproduce.progress import Expected, duration, teller

__all__ = ["Ran", "in_order", "run"]

Say = Callable[[str], None]


class Ran:
    """How a run ended."""

    def __init__(self) -> None:
        self.done = 0
        self.failed: list[str] = []


def run(cells: Sequence[Cell], data: Dataset, kept: Kept, device: str, say: Say) -> Ran:
    """Compute what is missing, and keep it."""
    from receraser.execution.local import LocalExecutor, workers_for
    from receraser.reproduce.forgetting import compute
    from receraser.reproduce.measuring import Workshop

    ran = Ran()
    wanted = in_order(cells, device)
    todo = [cell for cell in wanted if not kept.holds(cell.digest(data.digest, device))]
    if not todo:
        return ran
    kept.make()
    expected = Expected(kept.took())
    left = expected.left(todo)
    say(f"{len(todo)} of {len(wanted)} cells to compute" + ("" if left is None else f", about {duration(left)}"))
    told = teller(say)
    try:
        with LocalExecutor(workers_for(device)) as executor:
            shop = Workshop(data.pseudonymous(), executor, device)
            for number, cell in enumerate(todo):
                told.begins(cell, number + 1, len(todo), expected.left(todo[number:]))
                started = time.perf_counter()
                try:
                    result = compute(shop, cell)
                except (ReceraserError, ImportError) as error:
                    ran.failed.append(f"{cell.label}: {error}")
                    told.ends(cell, time.perf_counter() - started, f"failed: {error}")
                    continue
                seconds = time.perf_counter() - started
                result = dataclasses.replace(result, about=about(cell.device(device), seconds))
                kept.write(cell, data.digest, device, result)
                expected.learn(cell, seconds)
                ran.done += 1
                told.ends(cell, seconds, _short(result))
    except KeyboardInterrupt:
        told.close()
        say(f"interrupted; {ran.done} of {len(todo)} cells were done and are kept; the same command goes on from there")
        raise
    finally:
        told.close()
    return ran


def in_order(cells: Sequence[Cell], device: str) -> list[Cell]:
    """Return every cell once, those of the same submodels beside each other; otherwise as they came."""
    from receraser.reproduce.measuring import shards_key

    groups: dict[tuple[str, ...], dict[str, Cell]] = {}
    for cell in cells:
        shards = "" if cell.config is None else shards_key(cell.config)
        gone = repr(
            sorted((key, value) for key, value in cell.extras.items() if cell.kind == "fit" and key != "epochs")
        )
        groups.setdefault((shards, gone), {})[cell.digest("", device)] = cell
    return [cell for group in groups.values() for cell in group.values()]


def _short(result: Result) -> str:
    parts = [
        f"{name[0].upper()}@20 {result.metrics[f'{name}@20']:.4f}" for name in ("recall", "ndcg") if result.metrics
    ]
    if "total" in result.series:
        parts.append(f"{sum(result.series['total']) / max(1, len(result.series['total'])):.2f} s a request")
    return "  ".join(parts) or "done"
