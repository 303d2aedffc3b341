"""How speed is measured: two sides in turn, in one run, with the same threads; medians, spread, peak memory.

A machine is never quite the same from one minute to the next, so a time alone says little. Every comparison runs ours
and the other side alternately, in one process tree, over data that both already hold in memory, and is told as a ratio.
Results are written twice: all figures as JSON, and a page made from them.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from receraser.reproduce.cell import code_version

__all__ = ["RESULTS", "Peak", "Times", "alternately", "facts", "peak_memory", "save", "timed"]

RESULTS = Path(__file__).parent / "results"
_PAUSE = 0.3  # seconds


@dataclass(frozen=True)
class Times:
    """The seconds of several runs of one thing."""

    runs: Sequence[float]

    @property
    def median(self) -> float:
        """Half the runs took longer."""
        return statistics.median(self.runs)

    def __str__(self) -> str:
        """Return the median and the range."""
        if len(self.runs) == 1:
            return f"{self.median:.3g}"
        return f"{self.median:.3g} [{min(self.runs):.3g}, {max(self.runs):.3g}]"


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that something takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def alternately(sides: Mapping[str, Callable[[], object]], *, repeats: int) -> dict[str, Times]:
    """Time every side so many times, one after the other and round again; nothing is warmed up here.

    Before each there is a pause: the threads of the side before wait for more work in a busy loop for a while, and
    would take the cores from the side that is timed.
    """
    runs: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, work in sides.items():
            time.sleep(_PAUSE)
            runs[name].append(timed(work))
    return {name: Times(found) for name, found in runs.items()}


@dataclass
class Peak:
    """The most memory that this process and its children held at once, in bytes."""

    bytes: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        """Look a few times a second until told to stop: seldom enough not to slow what is watched."""
        while not self._stop.wait(0.1):
            self.bytes = max(self.bytes, _held())

    def stop(self) -> None:
        """Stop looking."""
        self._stop.set()


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """Watch the memory of this process tree meanwhile."""
    peak = Peak(_held())
    watcher = threading.Thread(target=peak.watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        peak.stop()
        watcher.join()


def _held() -> int:
    """Return what this process and all below it hold, files that are mapped and shared pages left out."""
    total = 0
    todo = [os.getpid()]
    while todo:
        pid = todo.pop()
        try:
            _, resident, shared, *_ = map(int, Path(f"/proc/{pid}/statm").read_text().split())
            total += os.sysconf("SC_PAGE_SIZE") * (resident - shared)
            for task in Path(f"/proc/{pid}/task").iterdir():
                todo += [int(child) for child in (task / "children").read_text().split()]
        except OSError:  # it ended meanwhile
            continue
    return total


def facts(command: str) -> dict[str, Any]:
    """Return what a figure means nothing without: the command, the day, the machine."""
    return {
        "command": command,
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "hardware": _hardware(),
        "version": code_version(),
    }


def _hardware() -> str:
    cores = len(os.sched_getaffinity(0))
    try:
        text = Path("/proc/cpuinfo").read_text()
        model = next(line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.machine()
    return f"{model}, {cores} cores"


def save(name: str, found: Mapping[str, Any], page: str, out: Path = RESULTS) -> None:
    """Write the figures and the page made from them; print the page."""
    (out / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    (out / f"{name}.md").write_text(page)
    print(page)
