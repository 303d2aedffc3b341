"""`receraser tune`: search hyperparameters on validation rows, write the best as a preset that `fit --config` reads."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from receraser.cli import options
from receraser.cli.choosing import based_on, overriding, placed
from receraser.cli.console import Bar, count, print_json, print_lines, say, warn
from receraser.errors import UsageError

if TYPE_CHECKING:
    from receraser.config import EngineConfig
    from receraser.data.interactions import Interactions
    from receraser.tuning import Budget, Found, Problem, Trial

__all__ = ["tune"]

_INTERRUPTED = 130
_TRIALS = 30  # where neither trials nor minutes are given


def tune(
    context: typer.Context,
    data: Annotated[
        Path,
        typer.Option(metavar="PATH", help="Interactions; or a folder with train.* and valid.*.", show_default=False),
    ],
    valid: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Rows to judge by. Without them a share of the data is held out."),
    ] = None,
    valid_share: Annotated[
        float, typer.Option(metavar="X", help="How much is held out, by lot, where there are no rows to judge by.")
    ] = 0.1,
    method: options.Method = None,
    model: options.Model = None,
    partition: options.Partition = None,
    aggregation: options.Aggregation = None,
    shards: options.Shards = None,
    dim: options.Dim = None,
    rank: options.Rank = None,
    polish: options.Polish = None,
    seed: options.Seed = None,
    device: options.Device = None,
    config: options.Config = None,
    settings: options.Settings = [],  # noqa: B006
    metric: Annotated[str, typer.Option(metavar="NAME@K", help="What is to be as large as possible.")] = "ndcg@20",
    trials: Annotated[
        int | None,
        typer.Option(metavar="N", help="So many in all, those of the study among them; 30 without --minutes."),
    ] = None,
    minutes: Annotated[float | None, typer.Option(metavar="M", help="No trial begins later than that.")] = None,
    search: Annotated[
        list[str],
        typer.Option(metavar="PART", help="model, aggregation (both unless said), partition; repeatable."),
    ] = [],  # noqa: B006
    space: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A TOML file of ranges and choices, instead of the default ones."),
    ] = None,
    seeds: Annotated[
        int, typer.Option(metavar="N", min=1, help="Fit the best and the start with so many seeds in the end.")
    ] = 1,
    study: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where trials are kept; the same command goes on from there.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the best is written, as TOML; else standard output.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for a page and a JSON file of all trials.")
    ] = None,
    columns: options.Columns = None,
    min_rating: options.MinRating = None,
    skip_bad_rows: options.SkipBadRows = False,
    keys: options.Keys = None,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Search hyperparameters on validation rows.

    Test rows are never read: there is no option for them, and a test file in the folder is left closed. The first trial
    is the configuration as given. The same command tries the same; Ctrl-C keeps what was done. Needs the extra `tune`.
    """
    from receraser.cli.held_out import command_line, read_rows
    from receraser.tuning import Budget
    from receraser.tuning import tune as searched

    budget = Budget(_TRIALS if trials is None and minutes is None else trials, minutes)
    _check_out(out, record)
    base = based_on(config, method=method, model=model, partition=partition, aggregation=aggregation)
    fixed = overriding(base, settings, dim=dim, rank=rank, polish=polish, embeddings=None)
    chosen = placed(base, shards=shards, seed=seed, device=device)
    train, held = read_rows(
        data,
        valid,
        share=valid_share,
        seed=chosen.seed,
        columns=columns,
        min_rating=min_rating,
        skip_bad_rows=skip_bad_rows,
    )
    problem = _problem(chosen, fixed, (train, held), space=space, search=search, metric=metric, keys=keys)
    if dry_run:
        _tell_what_would_be(problem, budget, as_json=as_json)
        return
    with Bar("starting a worker") as bar:
        told = _Told(problem, budget, bar)
        found = searched(problem, budget, study=study, seeds=seeds, told=told)
    _hand_over(found, command_line(context), out=out, record=record, as_json=as_json)
    if found.interrupted:
        raise typer.Exit(_INTERRUPTED)


def _problem(
    chosen: EngineConfig,
    fixed: dict[str, str],
    rows: tuple[Interactions, Interactions],
    *,
    space: Path | None,
    search: list[str],
    metric: str,
    keys: Path | None,
) -> Problem:
    """Put together what was asked for."""
    from receraser.config import resolve
    from receraser.keys import load_key
    from receraser.tuning import Problem, read_space

    if space is not None and search:
        raise UsageError("--space says what is searched; leave --search out")
    return Problem.of(
        *rows,
        resolve(chosen, fixed),
        space=None if space is None else read_space(space),
        where="the search space" if space is None else str(space),
        parts=tuple(search) or ("model", "aggregation"),
        fixed=tuple(fixed),
        metric=metric,
        key=load_key(keys),
    )


def _check_out(out: Path | None, record: Path | None) -> None:
    """Refuse to write over what is no preset of ours, and to where nothing can be written, before hours of work."""
    from receraser.config import TUNED

    if record is not None:
        record.mkdir(parents=True, exist_ok=True)
    if out is None:
        return
    if out.is_dir() or (out.exists() and not out.read_text(encoding="utf-8", errors="replace").startswith(TUNED)):
        raise UsageError(f"{out} is there already, and was not written by a search; choose another name")
    out.parent.mkdir(parents=True, exist_ok=True)


class _Told:
    """Shows how far a search is: trials or minutes, whichever is further, and the best so far."""

    def __init__(self, problem: Problem, budget: Budget, bar: Bar) -> None:
        self._metric = problem.metric
        self._budget = budget
        self._bar = bar
        self._best = -1

    def __call__(self, trials: Sequence[Trial], seconds: float) -> None:
        from receraser.tuning.search import best_of

        last = trials[-1]
        if last.value is None:
            say(f"trial {last.number} failed: {last.reason}")
        best = next((best_of(trials) for one in trials if one.value is not None), None)
        if best is not None and best.number != self._best:
            self._best = best.number
            shown = " ".join(f"{name}={value}" for name, value in best.settings.items())
            say(f"trial {best.number}: {self._metric} {best.value:.4f}, the best so far ({shown})")
        ends = [] if self._budget.trials is None else [(len(trials), self._budget.trials, "trials")]
        if self._budget.minutes is not None:
            ends.append((min(round(seconds), round(60 * self._budget.minutes)), round(60 * self._budget.minutes), "s"))
        done, total, unit = max(ends, key=lambda one: one[0] / max(one[1], 1))
        self._bar.update("search", done, total)
        self._bar.retitle("search", unit if best is None else f"{unit} (best {self._metric} {best.value:.4f})")


def _tell_what_would_be(problem: Problem, budget: Budget, *, as_json: bool) -> None:
    """Say what a dry run would search."""
    ends = [] if budget.trials is None else [count(budget.trials, "trial")]
    ends += [] if budget.minutes is None else [f"{budget.minutes:g} minutes"]
    say(f"would search {problem.base.model} ({problem.base.method}) by {problem.metric}, at most {' or '.join(ends)}:")
    for name, axis in problem.space.items():
        say(f"  {name}: {axis.as_dict()}")
    if as_json:
        told = {key: value for key, value in problem.described().items() if key != "data"}
        print_json({"dry_run": True, **told, "budget": dataclasses.asdict(budget)})


def _hand_over(found: Found, command: str, *, out: Path | None, record: Path | None, as_json: bool) -> None:
    """Write down what was found; where nothing was, the record still says what was tried."""
    from receraser.tuning.preset import preset, spread_text
    from receraser.tuning.record import write_record

    date = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    if record is not None:
        name = (
            out.stem if out is not None else f"{found.problem.base.method}-{found.problem.base.model}".replace(":", "-")
        )
        for file in write_record(found, record, name=name, command=command, date=date):
            say(f"all trials are in {file}")
    if found.interrupted:
        say(f"{count(len(found.trials), 'trial')} kept")
        if not found.trials:
            return
    best = found.best
    text = preset(found, command=command, date=date)
    say(
        f"{found.problem.metric} {best.value:.4f} by trial {best.number}; {count(len(found.trials), 'trial')} in all"
        + (f", {found.failed} failed" if found.failed else "")
    )
    for line in [] if found.spread is None else spread_text(found.spread):
        say(line)
    if best.number == 0:
        warn("nothing was better than where the search started")
    if out is not None:
        out.write_text(text, encoding="utf-8")
        say(f"written to {out}; next: receraser fit DATA --config {out} --store DIR")
    if as_json:
        print_json(_document(found, out))
    elif out is None:
        print_lines([text.rstrip("\n")])


def _document(found: Found, out: Path | None) -> dict[str, object]:
    """Return what scripts depend on."""
    best = found.best
    return {
        "metric": found.problem.metric,
        "value": best.value,
        "start": found.trials[0].value,
        "best": best.number,
        "settings": dict(best.settings),
        "config": found.config.as_dict(),
        "trials": len(found.trials),
        "failed": found.failed,
        "interrupted": found.interrupted,
        "spread": None if found.spread is None else dataclasses.asdict(found.spread),
        "preset": None if out is None else str(out),
        "seconds": round(found.seconds, 3),
    }
