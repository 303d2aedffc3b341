"""The `receraser` command: puts the commands together and turns errors into messages and exit codes.

Exit 0: done. 1: a check failed, was refused, or the store is damaged. 2: wrong usage, bad input, no such store.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from receraser.cli.console import say
from receraser.cli.data import data_app
from receraser.cli.demo import demo
from receraser.cli.evaluate import evaluate
from receraser.cli.fit import fit
from receraser.cli.inspect import inspect
from receraser.cli.recommend import recommend
from receraser.errors import ReceraserError

__all__ = ["app", "main"]

app = typer.Typer(
    name="receraser",
    help="A recommender that can forget: exactly, fast, and provably.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (demo, fit, recommend, evaluate, inspect):
    app.command()(command)
app.add_typer(data_app, name="data")


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


def main() -> None:
    """Run the command line."""
    try:
        app()
    except ReceraserError as error:
        say(f"error: {error}")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        say("interrupted; nothing was published")
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone
        sys.exit(1)
