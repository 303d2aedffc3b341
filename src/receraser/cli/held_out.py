"""The rows of a search: what is fitted and what is judged by. Test rows stay closed."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from receraser.cli.console import count, say
from receraser.cli.reading import read_for
from receraser.errors import UsageError

if TYPE_CHECKING:
    import typer

    from receraser.data.interactions import Interactions

__all__ = ["command_line", "read_rows"]


def read_rows(
    data: Path,
    valid: Path | None,
    *,
    share: float,
    seed: int,
    columns: str | None,
    min_rating: float | None,
    skip_bad_rows: bool,
) -> tuple[Interactions, Interactions]:
    """Return the rows to fit on and the rows to judge by, and say where they come from.

    A folder has train.* and perhaps valid.*; without validation rows a share of the data is held out, as
    `receraser data split --test 0 --valid SHARE` does it.
    """
    from receraser.data.splits import random_split

    train = data
    if data.is_dir():
        train, valid = _only(data, "train"), valid or _perhaps(data, "valid")
        test = _perhaps(data, "test")
        if test is not None:
            say(f"{test.name} stays closed: choices are made on validation rows")
    if valid is not None and valid.name.lower().startswith("test"):
        raise UsageError(
            f"{valid} has the name of test rows, and what is chosen on those says nothing about them any more; leave "
            "--valid out, and a share of the data is held out instead"
        )
    files = [train] if valid is None else [train, valid]
    read = [read_for(one, columns=columns, min_rating=min_rating, skip_bad_rows=skip_bad_rows) for one in files]
    if valid is None:
        if not 0 < share < 1:
            raise UsageError(f"--valid-share {share}: expected more than 0 and less than 1")
        parts = random_split(read[0].interactions, test=0.0, valid=share, seed=seed)
        fitted, judged, how = parts.train, parts.valid, f"held out by lot, seed {seed}"
    else:
        fitted, judged, how = read[0].interactions, read[1].interactions, f"of {valid.name}"
    say(f"{count(len(fitted), 'row')} to fit on, {count(len(judged), 'row')} to judge by, {how}")
    return fitted, judged


def _only(folder: Path, part: str) -> Path:
    """Return the file of a part; raise where there is none."""
    found = _perhaps(folder, part)
    if found is None:
        raise UsageError(f"{folder} has no file of {part} rows; expected one such as {part}.csv, or the file itself")
    return found


def _perhaps(folder: Path, part: str) -> Path | None:
    """Return the file of a part, if there is one; raise where there are several."""
    found = sorted(one for one in folder.iterdir() if one.name.partition(".")[0] == part and one.is_file())
    if len(found) > 1:
        raise UsageError(f"{folder} has more than one file of {part} rows: {', '.join(one.name for one in found)}")
    return found[0] if found else None


def command_line(context: typer.Context) -> str:
    """Return the command as it was given; of files that were named from the root, the last part of the name.

    What is written down so can be handed on: it does not say how somebody's disk is laid out.
    """
    words = context.command_path.split()
    for option in context.command.params:
        source = context.get_parameter_source(str(option.name))
        if source is None or source.name != "COMMANDLINE":
            continue
        value = context.params[str(option.name)]
        for one in value if isinstance(value, (list, tuple)) else [value]:
            shown = one.name if isinstance(one, Path) and one.is_absolute() else str(one)
            words += [option.opts[0]] if one is True else [option.opts[0], shown]
    return shlex.join(words)
