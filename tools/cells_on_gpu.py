"""Compute cells of `receraser reproduce` on one GPU: fits side by side, what is timed alone, ranks side by side.

    python tools/cells_on_gpu.py figure4 batch --forgets 2 --data DIR --dataset ml-1m --limit 500 --ranking 60
    python tools/cells_on_gpu.py table4 --forgets 100 --within 4 + levels --models bpr wmf --forgets 2 --data DIR

`receraser reproduce --jobs` computes whatever is timed alone from its fit on, since a page may show the seconds of the
fit too (Table 4 does), and ranks for all test users right after it. A GPU that is had for minutes has no time for that.
Here several processes work in three parts, and each begins when all are done with the one before:

1. They fit side by side, hold what they fitted, and compute whatever is not timed.
2. One after another forgets, and fits in full, with nothing beside it.
3. They rank side by side, for the states that came out of it.

A `+` begins another order, with models, methods and requests of its own: all orders are fitted together, so that what
they share is fitted once, and what the first one times is timed before what the next one does.

So the seconds of requests, of full retrains and of first fits are what they would be alone. Those of other fits are
not, and are left out of these cells, unless there is one process only (--jobs 1).

Needs numpy, scipy and torch. Models without shards, and whatever else is computed on the CPU whatever the device, are
taken along where numba is, too: without it they would be slow for a reason that is not theirs. (Where nothing can be
installed: unpack the wheels of numba and llvmlite into a folder, and name it in PYTHONPATH.) Cells are kept in the
folder --cells as the command keeps them: copy them to where there is a report to make. With --archive they are packed
too, each when it is done. What is timed is done when it has been ranked: --ranking says how many seconds are left for
that, and whoever stops all this has to wait until then.
"""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import os
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import connection
from pathlib import Path
from threading import BrokenBarrierError
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from receraser.execution.local import LocalExecutor, workers_for
from receraser.reproduce import paper
from receraser.reproduce.cell import Cell, Rest
from receraser.reproduce.command import orders_of
from receraser.reproduce.datasets import Dataset, load
from receraser.reproduce.forgetting import begun, compute, prepare
from receraser.reproduce.jobs import computed, timed
from receraser.reproduce.kept import Kept
from receraser.reproduce.measuring import Workshop
from receraser.reproduce.order import Order
from receraser.reproduce.runner import in_groups
from receraser.reproduce.studies.registry import find_study
from receraser.state import State
from receraser.training.kernels import compiles, use_threads

KINDS = ("fit", "first", "forgets", "batch", "gradual", "sweeps")

_LONGEST = 60.0  # seconds that the longest cell may take beyond the limit
_ALONE = ("fit", "first")  # of what is timed: that is fitted when its turn comes, with nothing beside it


def ordered(options: argparse.Namespace, wanted: Sequence[argparse.Namespace]) -> list[list[Cell]]:
    """Return the cells of each order, one after the other as they were given."""
    found = []
    for one in wanted:
        order = Order(
            one.studies[0],
            dataset=options.dataset,
            data=options.data,
            models=tuple(one.models),
            methods=tuple(one.methods),
            seeds=one.seeds,
            device=options.device,
            forgets=one.forgets,
            within=one.within,
        )
        studies = orders_of(one.studies, order)
        found.append([entry.cell for each in studies for entry in find_study(each.study).entries(each)])
    return found


def missing(options: argparse.Namespace, cells: Sequence[Cell], data: Dataset, kept: Kept) -> list[list[Cell]]:
    """Return the cells to compute, those of the same submodels together.

    What the first order needs comes first, and of that what has most shards: it takes longest.
    """
    groups = [
        [one for one in group if _wanted(one, data, kept, options.device) and not (options.untimed and timed(one))]
        for group in in_groups(cells, options.device)
    ]

    def place(group: Sequence[Cell]) -> tuple[int, int]:
        return min(options.turns[cell.digest("", options.device)] for cell in group), -_shards(group[0])

    return sorted(filter(None, groups), key=place)


def turns(orders: Sequence[Sequence[Cell]], device: str) -> dict[str, int]:
    """Return when each cell is timed: with the first order that it is of."""
    found: dict[str, int] = {}
    for number, cells in enumerate(orders):
        for cell in cells:
            found.setdefault(cell.digest("", device), number)
    return found


def _shards(cell: Cell) -> int:
    assert cell.config is not None
    return cell.config.shards


def _wanted(one: Cell, data: Dataset, kept: Kept, device: str) -> bool:
    ours = one.config is not None and one.kind in KINDS and not one.takes_sets
    here = one.device(device) == device or compiles()
    return ours and here and not kept.holds(one.digest(data.digest, device))


class Process:
    """One of the processes: a workshop for each group of cells that it fits, all with the same workers."""

    def __init__(self, options: argparse.Namespace, lock: Any, packing: Any) -> None:
        self._options = options
        self._lock = lock
        self._packing = packing
        self._data = load(options.data, options.dataset)
        self._mine = self._data.pseudonymous()
        self._kept = Kept(options.cells)
        self._executor = LocalExecutor(workers_for(self._options.device))
        self._later: list[tuple[Workshop, list[Cell]]] = []
        self._begun: list[tuple[Workshop, Cell, Rest, float]] = []
        # The workers are the same for all workshops: what one has warmed is warm.
        self._warm: set[str] = set()
        self._few: dict[str, State] = {}

    def fit(self, group: Sequence[Cell]) -> None:
        """Compute the cells of a group that are not timed; fit for those that are, and warm up."""
        use_threads(self._share())
        shop = self._workshop()
        for cell in [cell for cell in group if not timed(cell)]:
            if self._time_left():
                self._keep(shop, cell, self._bare(partial(compute, shop, cell)))
        waiting = [cell for cell in group if timed(cell) and cell.kind not in _ALONE]
        alone = [cell for cell in group if timed(cell) and cell.kind in _ALONE]
        empty = self._workshop()  # where nothing has been fitted yet: what is fitted alone is fitted there
        for cells, before in ((waiting, partial(prepare, shop)), (alone, empty.config)):
            for cell in {repr(cell.config): cell for cell in cells}.values():
                if self._time_left():
                    self._try(before, cell)
        self._later += [(shop, waiting), (empty, alone)]

    def _try(self, before: Callable[[Cell], object], cell: Cell) -> None:
        """Do what comes before the timed part of a cell; where that fails, so will the cell, and tell why."""
        try:
            before(cell)
        except Exception as error:  # noqa: BLE001 - whatever it is, the others go on
            self._failed(cell, error)

    def forget(self, everybody: Any, turn: int = 0) -> None:
        """Do what is timed in this turn; nobody else does anything meanwhile."""
        use_threads(len(os.sched_getaffinity(0)))
        for shop, cells in self._later:
            for cell in cells:
                if self._turn(cell) != turn:
                    continue
                if not self._lock.acquire(timeout=max(0.0, self._options.until - time.time()) + _LONGEST):
                    return  # whoever has it is gone, or takes too long
                try:
                    if self._time_left() and not everybody.broken:
                        self._begin(shop, cell)
                finally:
                    self._lock.release()

    def _turn(self, cell: Cell) -> int:
        return int(self._options.turns[cell.digest("", self._options.device)])

    def _begin(self, shop: Workshop, cell: Cell) -> None:
        """Do the timed part of a cell; what fails is told at once."""
        started = time.time()
        try:
            rest = begun(shop, cell)
        except Exception as error:  # noqa: BLE001 - whatever it is, the others go on
            self._failed(cell, error)
            return
        took = time.time() - started
        self._tell(cell, took, "; to be ranked")
        self._begun.append((shop, cell, rest if cell.kind in _ALONE else self._bare(rest), took))

    def rank(self) -> None:
        """Do the rest of everything that was begun."""
        use_threads(self._share())
        self._later.clear()
        while self._begun:
            shop, cell, rest, took = self._begun.pop(0)
            self._keep(shop, cell, rest, took)

    def wait_for_whoever_is_timed(self) -> None:
        """Wait until nobody is, where it is not known that everybody has ended."""
        if self._lock.acquire(timeout=_LONGEST):
            self._lock.release()

    def close(self) -> None:
        """End the workers."""
        self._executor.close()

    def _workshop(self) -> Workshop:
        shop = Workshop(self._mine, self._executor, self._options.device)
        shop.warm, shop.few = self._warm, self._few
        return shop

    def _share(self) -> int:
        """Return how many of the cores are this process's where all work side by side."""
        return max(1, len(os.sched_getaffinity(0)) // int(self._options.jobs))

    def _bare(self, rest: Rest) -> Rest:
        """Leave out the seconds of a fit that others were fitted beside."""
        return rest if self._options.jobs == 1 else lambda: dataclasses.replace(rest(), seconds={})

    def _keep(self, shop: Workshop, cell: Cell, rest: Rest, took: float = 0.0) -> None:
        done = computed(shop, cell, self._kept, self._data.digest, self._options.device, rest, took)
        self._tell(cell, done.seconds - took, done.error and f" failed: {done.error}")
        if done.result is None:
            self._cold()
        elif self._options.archive is not None:
            digest = cell.digest(self._data.digest, self._options.device)
            with self._packing, tarfile.open(self._options.archive, "a") as archive:
                for path in self._options.cells.glob(f"{digest}.*"):
                    archive.add(path, path.name)

    def _failed(self, cell: Cell, error: Exception) -> None:
        self._cold()
        self._tell(cell, 0.0, f" failed: {error}")

    def _cold(self) -> None:
        """Warm up again before anything else is timed: an error may have ended the workers."""
        self._warm.clear()
        self._few.clear()

    def _time_left(self) -> bool:
        return bool(time.time() < self._options.until)

    def _tell(self, cell: Cell, seconds: float, more: str = "") -> None:
        left = self._options.until - time.time()
        sys.stdout.write(f"{left:6.0f} s left, {cell.label}: {seconds:.1f} s{more}\n")  # at once: others write too
        sys.stdout.flush()


def work(
    options: argparse.Namespace, queue: Any, whole: list[list[Cell]], everybody: Any, lock: Any, packing: Any
) -> None:
    """What a process does: fits until nothing is left, forgets and ranks, each when the others have got as far.

    Its share of what has one shard was dealt to it (`whole`): there is little to fit for that before it is timed, so
    that the first process to be idle would take it all, and have it all to rank.
    """
    own: Process | None = None
    try:
        own = Process(options, lock, packing)
        while (group := queue.get()) is not None:
            own.fit(group)
        for group in whole:
            own.fit(group)
        _wait(everybody, options)
        together = True
        for turn in sorted(set(options.turns.values())):
            own.forget(everybody, turn)
            together = together and _wait(everybody, options)
            if not together:
                break
        if not together:
            own.wait_for_whoever_is_timed()
        own.rank()
    except BaseException:
        everybody.abort()  # nobody waits for one that is gone
        raise
    finally:
        if own is not None:
            own.close()


def _wait(everybody: Any, options: argparse.Namespace) -> bool:
    """Wait until all processes are here; say whether they are, or somebody is gone or takes too long."""
    try:
        everybody.wait(max(0.0, options.until - time.time()) + _LONGEST)
    except BrokenBarrierError:
        return False
    return True


def asked(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[argparse.Namespace]]:
    """Return what holds for everything, and every order."""
    usage = (
        "%(prog)s STUDY... [--models M...] [--methods M...] [--seeds N] [--forgets N] [--within SECONDS]\n"
        "       [+ STUDY... ...]...\n"
        "       --data DIR [--dataset NAME] [--untimed] [--device D] [--jobs N] [--limit SECONDS] [--ranking SECONDS]\n"
        "       [--cells DIR] [--archive FILE]"
    )
    one = argparse.ArgumentParser(add_help=False, usage=usage)
    one.add_argument("studies", nargs="+")
    one.add_argument("--models", nargs="+", default=list(paper.MODELS), choices=paper.MODELS)
    one.add_argument("--methods", nargs="+", default=[], help="of those that the studies have; by default all")
    one.add_argument("--seeds", type=int, default=1)
    one.add_argument("--forgets", type=int)
    one.add_argument("--within", type=float, help="seconds for the requests of a line; the rest go at once")
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        usage=usage,
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--dataset", default="ml-1m")
    parser.add_argument("--untimed", action="store_true", help="only what may be computed beside other work")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="cpu: to try it")
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--limit", type=float, default=3600, help="seconds; nothing is begun later")
    parser.add_argument("--ranking", type=float, default=60, help="seconds of these that are left to rank at the end")
    parser.add_argument("--cells", type=Path, default=Path("cells"))
    parser.add_argument("--archive", type=Path)
    options, rest = parser.parse_known_args(arguments)
    parts: list[list[str]] = [[]]
    for word in rest:
        if word == "+":
            parts.append([])
        else:
            parts[-1].append(word)
    return options, [one.parse_args(part) for part in parts]


def main() -> None:
    """Share out the cells, and wait."""
    options, wanted = asked(sys.argv[1:])
    options.until = time.time() + options.limit - options.ranking
    kept = Kept(options.cells)
    kept.make()
    orders = ordered(options, wanted)
    options.turns = turns(orders, options.device)
    cells = [cell for some in orders for cell in some]
    todo = missing(options, cells, load(options.data, options.dataset), kept)
    print(f"{sum(map(len, todo))} cells in {len(todo)} groups", flush=True)
    if not todo:
        return
    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    options.jobs = jobs = min(options.jobs, len(todo))
    queue, everybody, lock, packing = context.Queue(), context.Barrier(jobs), context.RLock(), context.Lock()
    whole = [group for group in todo if _shards(group[0]) == 1]
    for group in [group for group in todo if _shards(group[0]) > 1]:
        queue.put(group)
    for _ in range(jobs):
        queue.put(None)
    processes = [
        context.Process(target=work, args=(options, queue, whole[number::jobs], everybody, lock, packing))
        for number in range(jobs)
    ]
    for one in processes:
        one.start()
    running = processes
    while running:
        connection.wait([one.sentinel for one in running])
        if any(one.exitcode for one in running):
            everybody.abort()  # whoever was killed could not
        running = [one for one in running if one.exitcode is None]
    if any(one.exitcode for one in processes):
        sys.exit("a process died, perhaps for want of memory: the cells that were done are kept; try fewer --jobs")


if __name__ == "__main__":
    main()
