"""Cells side by side, in processes of their own: a GPU, or a machine of many cores, has room for several at once.

Only cells whose quality is asked for: those whose seconds count are computed one after the other, with nothing beside
them (`timed`). Every process has a workshop of its own and keeps its cells itself; a group of cells that share
submodels goes to one process.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import ExitStack

from receraser.errors import ReceraserError
from receraser.reproduce.cell import Cell, Result
from receraser.reproduce.datasets import Dataset
from receraser.reproduce.kept import Kept
from receraser.reproduce.machine import about
from receraser.reproduce.measuring import Workshop

__all__ = ["Done", "computed", "side_by_side", "timed"]


@dataclasses.dataclass(frozen=True, eq=False)
class Done:
    """A cell that was computed and kept, or the reason why it was not."""

    cell: Cell
    seconds: float
    result: Result | None = None
    error: str = ""


def timed(cell: Cell) -> bool:
    """Say whether a page shows the seconds of a cell: of requests, and of full retrains, which they are held to."""
    return cell.kind in ("forgets", "batch", "gradual") or (cell.config is not None and cell.config.shards == 1)


def computed(shop: Workshop, cell: Cell, kept: Kept, rows: str, device: str) -> Done:
    """Compute a cell and keep it; what it fails by is told and not raised, so that others go on."""
    from receraser.reproduce.forgetting import compute

    started = time.perf_counter()
    try:
        result = compute(shop, cell)
    except (ReceraserError, ImportError) as error:
        return Done(cell, time.perf_counter() - started, error=str(error))
    seconds = time.perf_counter() - started
    result = dataclasses.replace(result, about=about(cell.device(device), seconds))
    kept.write(cell, rows, device, result)
    return Done(cell, seconds, result)


def side_by_side(groups: Sequence[Sequence[Cell]], data: Dataset, kept: Kept, device: str, jobs: int) -> Iterator[Done]:
    """Yield cells as they are done; so many groups are under way at a time."""
    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    with ProcessPoolExecutor(jobs, context, _Job.open, (data.pseudonymous(), kept, data.digest, device)) as pool:
        waiting = {pool.submit(_Job.run, group) for group in groups}
        try:
            while waiting:
                ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for one in ended:
                    yield from one.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


class _Job:
    """What one process has: made when it starts, ended with it."""

    _own: tuple[Workshop, Kept, str, str, ExitStack]

    @classmethod
    def open(cls, data: Dataset, kept: Kept, rows: str, device: str) -> None:
        import atexit

        from receraser.execution.local import LocalExecutor, workers_for

        stack = ExitStack()
        executor = stack.enter_context(LocalExecutor(workers_for(device)))
        cls._own = Workshop(data, executor, device), kept, rows, device, stack
        atexit.register(stack.close)

    @classmethod
    def run(cls, cells: Sequence[Cell]) -> list[Done]:
        shop, kept, rows, device, _ = cls._own
        done = [computed(shop, cell, kept, rows, device) for cell in cells]
        return [dataclasses.replace(one, result=one.result and _light(one.result)) for one in done]


def _light(result: Result) -> Result:
    """Return a result without what only paired tests need."""
    return dataclasses.replace(result, per_user={})
