"""What every command shares: where output goes, progress bars, and how errors end.

Data goes to standard output: one JSON document with `--json`, a table for people otherwise. Messages and progress go to
standard error; lines that hold file names are never wrapped. Bars appear only on a terminal, and only for work that
lasts longer than a second.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

__all__ = ["Bar", "print_json", "print_table", "say", "warn"]


def say(text: str) -> None:
    """Write a message for people to standard error."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def warn(text: str) -> None:
    """Write a warning to standard error."""
    say(f"note: {text}")


def print_json(document: object) -> None:
    """Write the one JSON document of a command."""
    print(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))  # noqa: T201


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None) -> None:
    """Write a table to standard output; numbers to the right. Piped, it is as wide as its content."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="bold", show_edge=False, pad_edge=False)
    for number, name in enumerate(columns):
        cells = [row[number] for row in rows]
        numeric = bool(cells) and all(cell.replace(".", "").replace(",", "").replace("-", "").isdecimal() for cell in cells)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    terminal = sys.stdout.isatty()
    console = Console(width=None if terminal else 1000, highlight=False)
    if not terminal:
        console = Console(width=console.measure(table).maximum, highlight=False)
    console.print(table)


class Bar:
    """A progress bar with rate and time left; its `update` is what the library calls `progress`.

    Parameters
    ----------
    quiet
        Show nothing at all.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._shown = sys.stderr.isatty() and not quiet
        self._started = time.monotonic()
        self._bar: RichProgress | None = None
        self._tasks: dict[str, TaskID] = {}

    def update(self, what: str, done: int, total: int) -> None:
        """Show how far something has come."""
        if not self._shown or time.monotonic() - self._started < 1.0:
            return
        if self._bar is None:
            self._bar = _rich_bar()
            self._bar.start()
        if what not in self._tasks:
            self._tasks[what] = self._bar.add_task(what, total=total)
        self._bar.update(self._tasks[what], completed=done, total=total)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()


def _rich_bar() -> RichProgress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.progress import Task as RichTask
    from rich.progress import ProgressColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: RichTask) -> Text:
            return Text(f"{task.speed:,.1f}/s" if task.speed else "")

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
