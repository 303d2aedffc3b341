"""How far it is and how much longer it takes: a bar on a terminal where rich is installed, plain lines otherwise.

How long a cell takes is learned from others: from those of the same kind, model and method where there are some, else
of the same kind and model, else from all so far; the median, for the first of a kind also starts workers and compiles.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from receraser.reproduce.cell import Cell

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

__all__ = ["Expected", "Teller", "duration", "teller"]

Say = Callable[[str], None]


def duration(seconds: float) -> str:
    """Return a time for people.

    Examples
    --------
    >>> duration(3.2), duration(75), duration(7300)
    ('3 s', '1:15 min', '2:01 h')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02} h"


class Expected:
    """What cells are expected to take, by what others took.

    Parameters
    ----------
    took
        Inputs of cells that were computed earlier, and their seconds.
    """

    def __init__(self, took: Iterable[tuple[Mapping[str, object], float]] = ()) -> None:
        self._known: dict[tuple[str, ...], list[float]] = {}
        self._done: list[float] = []
        for inputs, seconds in took:
            config = inputs.get("config")
            own = config if isinstance(config, Mapping) else {}
            self._note(str(inputs.get("kind")), str(inputs.get("dataset")), own, seconds)

    def learn(self, cell: Cell, seconds: float) -> None:
        """Take note of what a cell took."""
        self._done.append(seconds)
        self._note(cell.kind, cell.dataset, {} if cell.config is None else cell.config.as_dict(), seconds)

    def seconds(self, cell: Cell) -> float | None:
        """Return about how long a cell takes; None where nothing is known."""
        config = {} if cell.config is None else cell.config.as_dict()
        for key in self._keys(cell.kind, cell.dataset, config):
            if key in self._known:
                return statistics.median(self._known[key])
        return statistics.median(self._done) if self._done else None

    def left(self, cells: Sequence[Cell]) -> float | None:
        """Return about how long these take; None where nothing is known."""
        times = [self.seconds(cell) for cell in cells]
        known = [one for one in times if one is not None]
        return None if not known and times else sum(known) / max(1, len(known)) * len(times)

    def _note(self, kind: str, dataset: str, config: Mapping[str, object], seconds: float) -> None:
        for key in self._keys(kind, dataset, config):
            self._known.setdefault(key, []).append(seconds)

    @staticmethod
    def _keys(kind: str, dataset: str, config: Mapping[str, object]) -> list[tuple[str, ...]]:
        names = [str(config.get(part)) for part in ("device", "model", "partition", "aggregation")]
        return [(kind, dataset, *names), (kind, dataset, *names[:2])]


class Teller(Protocol):
    """Tells whoever waits."""

    def begins(self, cell: Cell, number: int, total: int, left: float | None) -> None:
        """Say what is done next."""
        ...

    def ends(self, cell: Cell, seconds: float, text: str) -> None:
        """Say what came out."""
        ...

    def close(self) -> None:
        """Take away what is on the screen."""
        ...


class _Lines:
    """One line for each cell, when it is done."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._place = ""

    def begins(self, cell: Cell, number: int, total: int, left: float | None) -> None:  # noqa: ARG002
        self._place = f"[{number}/{total}]" + ("" if left is None else f" about {duration(left)} left,")

    def ends(self, cell: Cell, seconds: float, text: str) -> None:
        self._say(f"{self._place} {cell.label}: {text}, {duration(seconds)}")

    def close(self) -> None:
        pass


class _Bar:
    """A bar that stays at the bottom; a line above it for each cell."""

    def __init__(self, bar: RichProgress) -> None:
        self._bar = bar
        self._task: TaskID | None = None
        bar.start()

    def begins(self, cell: Cell, number: int, total: int, left: float | None) -> None:
        text = cell.label + ("" if left is None else f", about {duration(left)} left")
        if self._task is None:
            self._task = self._bar.add_task(text, total=total)
        self._bar.update(self._task, completed=number - 1, total=total, description=text)

    def ends(self, cell: Cell, seconds: float, text: str) -> None:
        self._bar.console.print(
            f"{cell.label}: {text}, {duration(seconds)}", markup=False, highlight=False, soft_wrap=True
        )
        assert self._task is not None
        self._bar.advance(self._task)

    def close(self) -> None:
        self._bar.stop()


def teller(say: Say) -> Teller:
    """Return a bar where there is a terminal and rich; lines otherwise."""
    if sys.stderr is None or not sys.stderr.isatty():
        return _Lines(say)
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError:
        return _Lines(say)
    columns = (
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    return _Bar(Progress(*columns, console=Console(stderr=True), transient=True))
