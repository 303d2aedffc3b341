"""Cells side by side, in processes of their own: a GPU, or a machine of many cores, has room for several at once.

Only cells whose quality is asked for: those whose seconds count are computed one after the other, with nothing beside
them (`timed`). Every process has a workshop of its own and keeps its cells itself; a group of cells that share
submodels goes to one process. They are `spawn`ed by the standard library, which sends pickles and imports the main
module again: this is for the command alone, whose main module is ours. Results are read from the files that the
processes write; what they send back is for whoever waits.
"""

from __future__ import annotations

import atexit
import dataclasses
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice

from receraser.errors import ReceraserError, TrainingError
from receraser.execution.local import LocalExecutor, workers_for
from receraser.execution.worker import end_with_parent
from receraser.reproduce.cell import Cell, Rest, Result
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
    """Say whether a page shows the seconds of a cell: of requests, full retrains that they are held to, first fits."""
    whole = cell.config is not None and cell.config.shards == 1
    return cell.kind in ("forgets", "batch", "first") or (cell.kind == "fit" and whole)


def computed(
    shop: Workshop, cell: Cell, kept: Kept, rows: str, device: str, rest: Rest | None = None, took: float = 0.0
) -> Done:
    """Compute a cell, or the rest of one that was begun and took so many seconds so far, and keep it.

    What it fails by is told and not raised, so that others go on.
    """
    from receraser.reproduce.forgetting import compute

    started = time.perf_counter() - took
    try:
        result = compute(shop, cell) if rest is None else rest()
    except ReceraserError as error:
        return Done(cell, time.perf_counter() - started, error=str(error))
    except Exception as error:  # noqa: BLE001 - a GPU that is full, a package that is missing: of this cell alone
        return Done(cell, time.perf_counter() - started, error=f"{type(error).__name__}: {error}")
    seconds = time.perf_counter() - started
    result = dataclasses.replace(result, about={**about(cell.device(device), seconds), "split": shop.data.origin})
    kept.write(cell, rows, device, result)
    return Done(cell, seconds, result)


def side_by_side(groups: Sequence[Sequence[Cell]], data: Dataset, kept: Kept, device: str, jobs: int) -> Iterator[Done]:
    """Yield cells as groups of them are done; so many groups are under way at a time, and none waits in a queue."""
    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    given = (data.pseudonymous(), kept, data.digest, device, jobs, os.getpid())
    pool = ProcessPoolExecutor(jobs, context, _open, given)
    rest = iter(groups)
    try:
        waiting = {pool.submit(_run, one) for one in islice(rest, jobs)}
        while waiting:
            ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            waiting |= {pool.submit(_run, one) for one in islice(rest, len(ended))}
            for one in ended:
                yield from one.result()
    except BrokenProcessPool:
        raise TrainingError(
            "a process of --jobs died, perhaps for want of memory; the cells that were done are kept: the same command "
            "with fewer --jobs goes on from there"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


_own: list[tuple[Workshop, Kept, str, str]] = []  # what a process of the pool has: one, made when it starts


def _open(data: Dataset, kept: Kept, rows: str, device: str, jobs: int, parent: int) -> None:
    """Make the workshop of this process, which ends when its parent does, however that ended."""
    threading.Thread(target=end_with_parent, args=(parent,), daemon=True).start()
    cores = max(1, len(os.sched_getaffinity(0)) // jobs)
    executor = LocalExecutor(workers_for(device) or cores)
    atexit.register(executor.close)
    _own[:] = [(Workshop(data, executor, device), kept, rows, device)]


def _run(cells: Sequence[Cell]) -> list[Done]:
    """Compute a group; what only paired tests need is in the files, and not sent back."""
    shop, kept, rows, device = _own[0]
    done = [computed(shop, cell, kept, rows, device) for cell in cells]
    light = [one.result and dataclasses.replace(one.result, per_user={}) for one in done]
    return [dataclasses.replace(one, result=result) for one, result in zip(done, light, strict=True)]
