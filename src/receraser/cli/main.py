"""The `receraser` command: puts the commands together and turns errors into messages and exit codes.

Exit 0: done. 1: a check failed, was refused, or the store is damaged. 2: wrong usage, bad input, no such store.
130: interrupted.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from receraser.cli.add import add
from receraser.cli.certificate import certificate_app
from receraser.cli.check_purity import check_purity
from receraser.cli.console import say
from receraser.cli.data import data_app
from receraser.cli.demo import demo
from receraser.cli.evaluate import evaluate
from receraser.cli.export import export
from receraser.cli.fit import fit
from receraser.cli.forget import forget
from receraser.cli.inspect import inspect
from receraser.cli.keys import keys_app
from receraser.cli.ledger import ledger_app
from receraser.cli.pending import pending_app
from receraser.cli.rebuild import rebuild
from receraser.cli.recommend import recommend
from receraser.cli.reproduce import reproduce
from receraser.cli.tune import tune
from receraser.cli.verify import verify
from receraser.errors import ReceraserError

__all__ = ["app", "main"]

_INTERRUPTED = 130

app = typer.Typer(
    name="receraser",
    help="A recommender that can forget: exactly, fast, and provably.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    *(demo, fit, tune, recommend, evaluate, forget, add, export, rebuild, inspect, verify, check_purity),
    reproduce,
):
    app.command(command.__name__.replace("_", "-"))(command)
for group, name in (
    (certificate_app, "certificate"),
    (ledger_app, "ledger"),
    (pending_app, "pending"),
    (keys_app, "keys"),
    (data_app, "data"),
):
    app.add_typer(group, name=name)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"receraser {version('receraser')}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Hold the options of the command itself."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code.

    Parameters
    ----------
    arguments
        By default those the process was started with.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that cannot show an id gets its code
    try:
        app(arguments, prog_name="receraser")
    except ReceraserError as error:
        say(f"error: {error}")
        sys.exit(error.exit_code)
    except MemoryError:
        say("error: there is not enough memory for this")
        sys.exit(1)
    except OSError as error:
        _forget_output()
        say(f"error: {error.filename or 'the output'}: {error.strerror or error}")
        sys.exit(1)
    except SystemExit as end:
        if end.code == _INTERRUPTED:
            say("interrupted")
        raise


def _forget_output() -> None:
    """Send what is left in the buffer of standard output nowhere: it could not be written, and would fail again."""
    if sys.stdout is sys.__stdout__ and sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
