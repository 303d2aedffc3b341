"""What every command shares: where output goes, and progress bars.

Data goes to standard output: one JSON document with `--json`, text and tables for people otherwise. Messages and
progress go to standard error; lines that hold file names are never wrapped. Bars appear only on a terminal, and only
for work that lasts longer than a second.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

__all__ = ["Bar", "count", "print_json", "print_lines", "print_table", "say", "warn"]

_BAR_AFTER = 1.0  # seconds


def count(n: int, what: str) -> str:
    """Return a number and its noun.

    Examples
    --------
    >>> count(1, "user"), count(2000, "user")
    ('1 user', '2,000 users')
    """
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def say(text: str) -> None:
    """Write a message for people to standard error."""
    if sys.stderr is not None:  # closed by whoever started us: print would write to standard output instead
        print(text, file=sys.stderr, flush=True)  # noqa: T201


def warn(text: str) -> None:
    """Write a warning to standard error."""
    say(f"note: {text}")


def print_json(document: object) -> None:
    """Write the one JSON document of a command; in ASCII where standard output cannot hold more."""
    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "")
    text = json.dumps(document, indent=2, ensure_ascii=encoding != "utf8", allow_nan=False)
    print(text, flush=True)  # noqa: T201


def print_lines(lines: Sequence[str]) -> None:
    """Write lines of text to standard output, unwrapped."""
    print("\n".join(lines), flush=True)  # noqa: T201


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None) -> None:
    """Write a table to standard output; numbers to the right. Piped, it is as wide as its content."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if sys.stdout is None:
        return
    table = Table(
        title=None if title is None else Text(title),
        title_justify="left",
        title_style="bold",
        show_edge=False,
        pad_edge=False,
    )
    for number, name in enumerate(columns):
        cells = [row[number] for row in rows]
        numeric = bool(cells) and all(
            cell.replace(".", "").replace(",", "").replace("-", "").isdecimal() for cell in cells
        )
        table.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    terminal = sys.stdout.isatty()
    console = Console(width=None if terminal else 1000, highlight=False)
    if not terminal:
        console = Console(width=console.measure(table).maximum, highlight=False)
    console.print(table)
    sys.stdout.flush()


class Bar:
    """A progress bar with rate and time left, shown after a second; its `update` is what the library calls `progress`.

    Parameters
    ----------
    what
        What is being done until the first update; nothing is known then but the time it has taken.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._bar: RichProgress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._timer: threading.Timer | None = None
        self._open = threading.Lock()

    def update(self, what: str, done: int, total: int) -> None:
        """Show how far something has come."""
        if self._bar is None:
            return
        if self._what in self._tasks and what != self._what:
            self._bar.remove_task(self._tasks.pop(self._what))
        if what not in self._tasks:
            self._tasks[what] = self._bar.add_task(what, total=total)
        self._bar.update(self._tasks[what], completed=done, total=total)

    def retitle(self, what: str, text: str) -> None:
        """Call something that is shown already by another text."""
        if self._bar is not None and what in self._tasks:
            self._bar.update(self._tasks[what], description=text)

    def __enter__(self) -> Self:
        if sys.stderr is not None and sys.stderr.isatty():
            self._bar = _rich_bar()
            self._tasks[self._what] = self._bar.add_task(self._what, total=None)
            self._timer = threading.Timer(_BAR_AFTER, self._show)
            self._timer.daemon = True
            self._timer.start()
        return self

    def _show(self) -> None:
        with self._open:
            if self._bar is not None:
                self._bar.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._open:
            bar, self._bar = self._bar, None
        if self._timer is not None and bar is not None:
            self._timer.cancel()
            bar.stop()


def _rich_bar() -> RichProgress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
    from rich.progress import Task as RichTask
    from rich.table import Column
    from rich.text import Text

    class Numbers(ProgressColumn):
        def render(self, task: RichTask) -> Text:
            return Text(progress_text(task.completed, task.total, task.speed, task.elapsed or 0.0))

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        Numbers(table_column=Column(no_wrap=True)),
        console=Console(stderr=True),
        transient=True,
    )


def progress_text(done: float, total: float | None, speed: float | None, elapsed: float) -> str:
    """Return what stands beside a bar: how far, how fast, how much longer.

    Examples
    --------
    >>> progress_text(30, 100, 2.0, 15.0)
    '30/100  2.0/s  0:35 left'
    >>> progress_text(0, None, None, 3.2)
    '3 s'
    """
    if total is None:
        return f"{elapsed:.0f} s"
    if not speed:
        return f"{done:,.0f}/{total:,.0f}"
    minutes, seconds = divmod(round((total - done) / speed), 60)
    return f"{done:,.0f}/{total:,.0f}  {speed:,.1f}/s  {minutes}:{seconds:02} left"
