"""`receraser check-purity`: try to catch somebody's model leaking."""

from __future__ import annotations

from typing import Annotated

import typer

from receraser.cli import options
from receraser.cli.console import Bar, print_json, print_table, say

__all__ = ["check_purity"]


def check_purity(
    model: Annotated[
        str, typer.Argument(metavar="MODULE:OBJECT", help="The model, as in als:ALS.", show_default=False)
    ],
    settings: Annotated[
        list[str], typer.Option("--set", metavar="KEY=VALUE", help="A hyperparameter of it; repeatable.")
    ] = [],  # noqa: B006
    rows: Annotated[int, typer.Option(metavar="N", help="Rows of a shard; more may show more.")] = 300,
    as_json: options.AsJson = False,
) -> None:
    """Try to catch a model of your own leaking.

    A submodel must be a pure function of its rows, its hyperparameters and its seed. Fits small tables again and
    again, in several processes, and compares bits. Exit 1 if there is a leak. `fit` does the same before it begins.
    """
    from receraser import purity
    from receraser.models.foreign import parsed

    with Bar("looking for leaks") as bar:
        report = purity.check_purity(model, parsed(options.pairs(settings)), rows=rows, progress=bar.update)
    if as_json:
        checks = [vars(check) for check in report.checks]
        print_json({"model": model, "ok": report.ok, "checks": checks, "seconds": round(report.seconds, 4)})
    else:
        print_table(
            ["check", "", "seen"], [[one.name, "ok" if one.ok else "LEAK", one.detail] for one in report.checks]
        )
        verdict = "no leak was found" if report.ok else "it leaks, and cannot be used"
        say(f"{model}: {verdict}, in {report.seconds:.1f} s")
    if not report.ok:
        raise typer.Exit(1)
