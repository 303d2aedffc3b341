"""`receraser reproduce`: the paper's tables and figures, and what goes past them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from receraser.cli import options
from receraser.cli.console import count, print_json, say, warn

__all__ = ["reproduce"]


def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME",
            help="table2 to table4, figure2 to figure4; past it: first, batch, levels, gradual, storage, pareto.",
            show_default=False,
        ),
    ],
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Folder that holds the folder of the data set.")
    ] = None,
    dataset: Annotated[
        str,
        typer.Option(metavar="NAME", help="ml-1m, ml-100k, yelp2018, ml-10m; or synthetic, a made world."),
    ] = "ml-1m",
    models: Annotated[
        list[str], typer.Option("--models", metavar="M,M", help="bpr, wmf, lightgcn; by default all.")
    ] = [],  # noqa: B006
    methods: Annotated[
        list[str],
        typer.Option(
            "--methods",
            metavar="M,M",
            help="Of those that are compared; by default all. Of several NAMEs each takes those it has.",
        ),
    ] = [],  # noqa: B006
    seeds: Annotated[int, typer.Option(metavar="N", help="How many seeds, from 0 on.")] = 3,
    device: Annotated[str, typer.Option(metavar="D", help="auto, cpu or cuda.")] = "auto",
    forgets: Annotated[
        int | None, typer.Option(metavar="N", help="Requests one after another, for times; table4: 100, others: 10.")
    ] = None,
    within: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="For a line's timed requests; those left then go at once (table4, figure4, levels, pareto).",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder of the results; cells are kept in its folder cells.")
    ] = Path("benchmarks/results/reproduce"),
    report: Annotated[
        bool,
        typer.Option(
            "--report", help="Compute nothing; make page and picture of the cells that are kept, or of the results."
        ),
    ] = False,
    extend: Annotated[
        bool,
        typer.Option(
            "--extend", help="Keep the lines of the results that are there; compute what --methods names beside them."
        ),
    ] = False,
    jobs: Annotated[
        int, typer.Option(metavar="N", help="Cells at a time; those whose seconds count are computed alone.")
    ] = 1,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Reproduce the paper's tables and figures, and more.

    Ours beside theirs. Finished cells are kept: a second run does only what is missing, and whoever interrupts loses
    one cell at most. Several NAMEs together fit once what they share. Writes NAME-DATASET.json, .md, .png and .svg;
    some models alone have files of their own. Where only numpy, scipy and torch are installed, python -m
    receraser.reproduce computes the same cells; copy them and make the page here, with --report.
    """
    from receraser.reproduce import paper
    from receraser.reproduce.command import orders_of, planned
    from receraser.reproduce.command import reproduce as run
    from receraser.reproduce.order import Order, several

    order = Order(
        names[0],
        dataset=dataset,
        data=data,
        models=several(models) or paper.MODELS,
        methods=several(methods),
        seeds=seeds,
        device=device,
        forgets=forgets,
        within=within,
        out=out,
        report=report,
        extend=extend,
        jobs=jobs,
    )
    orders = orders_of(names, order)
    if dry_run:
        cells = planned(orders)
        if as_json:
            print_json({"dry_run": True, "cells": len(cells), "labels": cells})
        else:
            say("\n".join([f"{count(len(cells), 'cell')}, those that are kept already among them:", *cells]))
        return
    ran, files = run(orders, say)
    if as_json:
        document = {"computed": ran.done, "failed": ran.failed, "files": [str(file) for file in files]}
        print_json(document)
    else:
        say(f"written: {', '.join(str(file) for file in files)}")
        for text in ran.failed:
            warn(f"left out, it failed: {text}")
    if ran.failed:
        raise typer.Exit(1)
