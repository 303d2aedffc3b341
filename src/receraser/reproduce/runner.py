"""The cells that are missing, in an order that shares work; each is kept as soon as it is done.

Cells that need the very same submodels are neighbours, so that these are fitted once. A cell that fails is told and
left out, and the others go on. Whoever interrupts loses the cells under way; the same command goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from receraser.reproduce.cell import Cell, Result
from receraser.reproduce.datasets import Dataset
from receraser.reproduce.kept import Kept
from receraser.reproduce.progress import Expected, duration, teller

__all__ = ["Ran", "in_groups", "run"]

Say = Callable[[str], None]


class Ran:
    """How a run ended."""

    def __init__(self) -> None:
        self.done = 0
        self.failed: list[str] = []


def run(cells: Sequence[Cell], data: Dataset, kept: Kept, device: str, say: Say, jobs: int = 1) -> Ran:
    """Compute what is missing, and keep it; `jobs` at a time where seconds do not count."""
    from receraser.execution.local import LocalExecutor, workers_for
    from receraser.reproduce.jobs import Done, computed, side_by_side, timed
    from receraser.reproduce.measuring import Workshop

    ran = Ran()
    wanted = in_groups(cells, device)
    missing = [[cell for cell in group if not kept.holds(cell.digest(data.digest, device))] for group in wanted]
    alone = [cell for group in missing for cell in group if jobs == 1 or timed(cell)]
    others = [[cell for cell in group if not timed(cell)] for group in missing] if jobs > 1 else []
    beside = [group for group in others if group]
    todo = [*alone, *(cell for group in beside for cell in group)]
    if not todo:
        return ran
    kept.make()
    expected = Expected(kept.took())
    rough = [expected.left(alone), expected.left([cell for group in beside for cell in group])]
    left = None if None in rough else sum((rough[0] or 0.0, (rough[1] or 0.0) / jobs))
    n_wanted = sum(len(group) for group in wanted)
    say(f"{len(todo)} of {n_wanted} cells to compute" + ("" if left is None else f", about {duration(left)}"))
    told = teller(say)

    def ended(one: Done) -> None:
        if one.result is None:
            ran.failed.append(f"{one.cell.label}: {one.error}")
            told.ends(one.cell, one.seconds, f"failed: {one.error}")
            return
        expected.learn(one.cell, one.seconds)
        ran.done += 1
        told.ends(one.cell, one.seconds, _short(one.result))

    try:
        if alone:
            with LocalExecutor(workers_for(device)) as executor:
                shop = Workshop(data.pseudonymous(), executor, device)
                for number, cell in enumerate(alone):
                    told.begins(cell, number + 1, len(todo), expected.left(todo[number:]))
                    ended(computed(shop, cell, kept, data.digest, device))
        if beside:
            left_over = todo[len(alone) :]
            for one in side_by_side(beside, data, kept, device, jobs):
                left_over.remove(one.cell)
                rest = expected.left(left_over)
                told.begins(one.cell, len(todo) - len(left_over), len(todo), None if rest is None else rest / jobs)
                ended(one)
    except KeyboardInterrupt:
        told.close()
        say(f"interrupted; {ran.done} of {len(todo)} cells were done and are kept; the same command goes on from there")
        raise
    finally:
        told.close()
    return ran


def in_groups(cells: Sequence[Cell], device: str) -> list[list[Cell]]:
    """Return every cell once, those of the same submodels in one group, and there those that combine them alike.

    Otherwise as they came; but a first fit, which is timed from nothing and leaves nothing to share, is the last of its
    group.
    """
    from receraser.reproduce.measuring import shards_key

    groups: dict[tuple[str, ...], dict[str, Cell]] = {}
    for cell in cells:
        shards = "" if cell.config is None else shards_key(cell.config)
        gone = repr(
            sorted((key, value) for key, value in cell.extras.items() if cell.kind == "fit" and key != "epochs")
        )
        groups.setdefault((shards, gone), {})[cell.digest("", device)] = cell
    return [_neighbours(list(group.values())) for group in groups.values()]


def _neighbours(group: Sequence[Cell]) -> list[Cell]:
    """Return cells of one configuration next to each other, in the order in which these came; first fits last."""
    configs: list[object] = []
    for cell in group:
        if cell.config not in configs:
            configs.append(cell.config)
    return sorted(group, key=lambda cell: (cell.kind == "first", configs.index(cell.config)))


def _short(result: Result) -> str:
    parts = [
        f"{name[0].upper()}@20 {result.metrics[f'{name}@20']:.4f}" for name in ("recall", "ndcg") if result.metrics
    ]
    if "total" in result.series:
        parts.append(f"{sum(result.series['total']) / max(1, len(result.series['total'])):.2f} s a request")
    return "  ".join(parts) or "done"
