"""Compute cells of `receraser reproduce` on one GPU: fits side by side, what is timed alone, ranks side by side.

    python tools/cells_on_gpu.py figure4 batch --data DIR --dataset ml-1m --forgets 2 --limit 500 --archive cells.tar

`receraser reproduce --jobs` computes whatever is timed alone from its fit on, since a page may show the seconds of the
fit too (Table 4 does), and ranks for all test users right after it. A GPU that is had for minutes has no time for that.
Here several processes work in three parts, and each begins when all are done with the one before:

1. They fit side by side, hold what they fitted, and compute whatever is not timed.
2. One after another forgets, with nothing beside it.
3. They rank side by side, for the states that came out of it.

So the seconds of requests and of full retrains are what they would be alone; those of fits in shards are not, and are
left out of these cells, unless there is one process only (--jobs 1).

Needs numpy, scipy and torch. Models without shards, and whatever else is computed on the CPU whatever the device, are
taken along where numba is, too: without it they would be slow for a reason that is not theirs. Cells are kept in
DIR/cells as the command keeps them: copy them to where there is a report to make. With --archive they are packed too,
each when it is done: what was done when time ran out is there.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import multiprocessing
import os
import sys
import tarfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from threading import BrokenBarrierError
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from receraser.execution.local import LocalExecutor, workers_for
from receraser.reproduce import paper
from receraser.reproduce.cell import Cell, Result
from receraser.reproduce.command import orders_of
from receraser.reproduce.datasets import Dataset, load
from receraser.reproduce.forgetting import Rest, begun, prepare
from receraser.reproduce.jobs import computed, timed
from receraser.reproduce.kept import Kept
from receraser.reproduce.measuring import Workshop
from receraser.reproduce.order import Order
from receraser.reproduce.runner import in_groups
from receraser.reproduce.studies.registry import find_study
from receraser.training.kernels import compiles, use_threads

KINDS = ("fit", "first", "forgets", "batch", "gradual", "sweeps")

_LONGEST = 60.0  # seconds that the longest cell may take beyond the limit
ALONE = ("fit", "first")  # of what is timed: that is fitted when its turn comes, with nothing beside it


def missing(options: argparse.Namespace, data: Dataset, kept: Kept) -> list[list[Cell]]:
    """Return the cells to compute, those of the same submodels together, most shards first: they take longest."""
    order = Order(
        options.studies[0],
        dataset=options.dataset,
        data=options.data,
        models=tuple(options.models),
        methods=tuple(options.methods),
        seeds=options.seeds,
        device=options.device,
        forgets=options.forgets,
        within=options.within,
    )
    cells = [entry.cell for one in orders_of(options.studies, order) for entry in find_study(one.study).entries(one)]
    groups = [
        [one for one in group if _wanted(one, data, kept, options.device) and not (options.untimed and timed(one))]
        for group in in_groups(cells, options.device)
    ]
    return sorted(filter(None, groups), key=lambda group: -_shards(group[0]))


def _shards(cell: Cell) -> int:
    assert cell.config is not None
    return cell.config.shards


def _wanted(one: Cell, data: Dataset, kept: Kept, device: str) -> bool:
    ours = one.config is not None and one.kind in KINDS and not one.takes_sets
    here = one.device(device) == device or compiles()
    return ours and here and not kept.holds(one.digest(data.digest, device))


class Process:
    """One of the processes: a workshop for each group of cells that it fits, all with the same workers."""

    def __init__(self, options: argparse.Namespace, lock: Any) -> None:
        self._options = options
        self._lock = lock
        self._data = load(options.data, options.dataset)
        self._mine = self._data.pseudonymous()
        self._kept = Kept(options.cells)
        self._executor = LocalExecutor(workers_for(self._options.device))
        self._later: list[tuple[Workshop, list[Cell]]] = []
        self._begun: list[tuple[Workshop, Cell, Rest]] = []
        self._warm: set[str] = set()  # the workers are the same for all workshops: what one has warmed is warm

    def fit(self, group: Sequence[Cell]) -> None:
        """Compute the cells of a group that are not timed; fit for those that are, and warm up."""
        use_threads(max(1, len(os.sched_getaffinity(0)) // self._options.jobs))
        shop = Workshop(self._mine, self._executor, self._options.device)
        shop.warm = self._warm
        waiting = [cell for cell in group if timed(cell)]
        for cell in [cell for cell in group if not timed(cell)]:
            if self._time_left():
                self._keep(shop, cell)
        for cell in {repr(cell.config): cell for cell in waiting if cell.kind not in ALONE}.values():
            if self._time_left():
                prepare(shop, cell)
        if waiting:
            self._later.append((shop, waiting))

    def forget(self) -> None:
        """Do what is timed; nobody else does anything meanwhile."""
        use_threads(len(os.sched_getaffinity(0)))
        for shop, cells in self._later:
            for cell in cells:
                with self._lock:
                    if self._time_left():
                        started = time.time()
                        self._begun.append((shop, cell, self._begin(shop, cell)))
                        self._tell(cell, time.time() - started, "; to be ranked")

    def _begin(self, shop: Workshop, cell: Cell) -> Rest:
        """Begin a cell; an error is raised by the rest, and is told as everybody's is."""
        try:
            rest = begun(shop, cell)
        except Exception as error:  # noqa: BLE001 - whatever it is, the others go on
            return partial(_fail, error)
        if cell.kind in ALONE or self._options.jobs == 1:
            return rest
        return lambda: dataclasses.replace(rest(), seconds={})  # of a fit that others were fitted beside

    def rank(self) -> None:
        """Do the rest of everything that was begun."""
        use_threads(max(1, len(os.sched_getaffinity(0)) // self._options.jobs))
        for shop, cell, rest in self._begun:
            self._keep(shop, cell, rest)

    def close(self) -> None:
        """End the workers."""
        self._executor.close()

    def _keep(self, shop: Workshop, cell: Cell, rest: Rest | None = None) -> None:
        done = computed(shop, cell, self._kept, self._data.digest, self._options.device, rest)
        self._tell(cell, done.seconds, done.error and f" failed: {done.error}")
        if self._options.archive is None or done.result is None:
            return
        digest = cell.digest(self._data.digest, self._options.device)
        with self._lock, tarfile.open(self._options.archive, "a") as archive:
            for path in self._options.cells.glob(f"{digest}.*"):
                archive.add(path, path.name)

    def _time_left(self) -> bool:
        return bool(time.time() < self._options.until)

    def _tell(self, cell: Cell, seconds: float, more: str = "") -> None:
        left = self._options.until - time.time()
        sys.stdout.write(f"{left:6.0f} s left, {cell.label}: {seconds:.1f} s{more}\n")  # at once: others write too
        sys.stdout.flush()


def _fail(error: Exception) -> Result:
    raise error


def work(options: argparse.Namespace, queue: Any, whole: list[list[Cell]], everybody: Any, lock: Any) -> None:
    """What a process does: fits until nothing is left, forgets and ranks, each when the others have got as far.

    Its share of what has one shard was dealt to it (`whole`): that takes no time to fit for, so that the first process
    to be idle would take it all, and have it all to rank.
    """
    own = Process(options, lock)
    try:
        while (group := queue.get()) is not None:
            own.fit(group)
        for group in whole:
            own.fit(group)
        everybody.wait(max(1.0, options.until - time.time()))
        own.forget()
        with contextlib.suppress(BrokenBarrierError):  # somebody is gone: what was begun is ranked all the same
            everybody.wait(max(1.0, options.until - time.time()) + _LONGEST)
        own.rank()
    except BaseException:
        everybody.abort()  # nobody waits for one that is gone
        raise
    finally:
        own.close()


def main() -> None:
    """Share out the cells, and wait."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="+")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--dataset", default="ml-1m")
    parser.add_argument("--models", nargs="+", default=list(paper.MODELS), choices=paper.MODELS)
    parser.add_argument("--methods", nargs="+", default=[], help="of those that the studies have; by default all")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--forgets", type=int)
    parser.add_argument("--within", type=float, help="seconds for the requests of a line; the rest go at once")
    parser.add_argument("--untimed", action="store_true", help="only what may be computed beside other work")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="cpu: to try it")
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--limit", type=float, default=3600, help="seconds; nothing is begun later")
    parser.add_argument(
        "--ranking", type=float, default=0, help="seconds of these that are left for ranking at the end"
    )
    parser.add_argument("--cells", type=Path, default=Path("cells"))
    parser.add_argument("--archive", type=Path)
    options = parser.parse_args()
    options.until = time.time() + options.limit - options.ranking
    kept = Kept(options.cells)
    kept.make()
    todo = missing(options, load(options.data, options.dataset), kept)
    print(f"{sum(map(len, todo))} cells in {len(todo)} groups", flush=True)
    if not todo:
        return
    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    jobs = min(options.jobs, len(todo))
    queue, everybody, lock = context.Queue(), context.Barrier(jobs), context.RLock()
    whole = [group for group in todo if _shards(group[0]) == 1]
    for group in todo:
        if group not in whole:
            queue.put(group)
    for _ in range(jobs):
        queue.put(None)
    given = [(options, queue, whole[number::jobs], everybody, lock) for number in range(jobs)]
    processes = [context.Process(target=work, args=one) for one in given]
    for one in processes:
        one.start()
    for one in processes:
        one.join()


if __name__ == "__main__":
    main()
