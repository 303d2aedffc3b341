"""Cells in which somebody is forgotten: request by request, many at once, 30 % of all users step by step.

Times are of an open engine in memory, from the request to the next state; publishing it is not in them (the paper's
are of training alone, too). Workers are warm. Each affected shard is fitted from nothing, and what combines them too.

A cell is computed in two parts: `begun` does what is timed, and returns the rest, which ranks. `compute` does one right
after the other; where a GPU is had for minutes, the rest waits until nothing is timed any more: tools/cells_on_gpu.py.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping

from receraser import fingerprint
from receraser.config import EngineConfig
from receraser.erasure.plan import plan
from receraser.erasure.request import ForgetRequest
from receraser.reports import ForgetReport
from receraser.reproduce.cell import Cell, Rest, Result
from receraser.reproduce.drawn import batch_of, requests
from receraser.reproduce.measuring import Workshop, ranked
from receraser.state import State
from receraser.work import Work

__all__ = ["begun", "compute", "prepare"]


def forgets(shop: Workshop, cell: Cell) -> Rest:
    """Forget one request after another; each is timed, and what is left at the end is measured.

    With `within` among the extras only as many are, one by one, as begin within so many seconds. The others are
    forgotten at once: to the same state.
    """
    config = shop.config(cell)
    fitted = shop.fitted(config)
    state = fitted.state
    _warm_up(shop, config, state)
    series: dict[str, list[float]] = {}
    waiting = requests(state.train, str(cell.extras["level"]), int(cell.extras["n"]), cell.seed)
    asked, until = len(waiting), time.perf_counter() + float(cell.extras.get("within", math.inf))
    while waiting and (not series or time.perf_counter() < until):
        state, seconds, report = forgotten(shop, config, state, waiting.pop(0))
        for key, value in _numbers(seconds, report).items():
            series.setdefault(key, []).append(value)

    def rest() -> Result:
        last = forgotten(shop, config, state, ForgetRequest.union(waiting))[0] if waiting else state
        found = ranked(shop.measured(last))
        numbers = {"balance": last.partition.balance, "shards": len(last.shards)}
        numbers |= {"requests": asked, "timed": len(series.get("total", []))}
        return dataclasses.replace(
            found,
            seconds=shop.stages(fitted),
            numbers={**found.numbers, **numbers},
            series=series,
            notes={**found.notes, "level": last.level},
        )

    return rest


def batch(shop: Workshop, cell: Cell) -> Rest:
    """Forget many users at once."""
    config = shop.config(cell)
    fitted = shop.fitted(config)
    _warm_up(shop, config, fitted.state)
    request = batch_of(shop.data, str(cell.extras["who"]), float(cell.extras["size"]), cell.seed)
    state, seconds, report = forgotten(shop, config, fitted.state, request)
    of_the_fit = dict(fitted.seconds)

    def rest() -> Result:
        found = ranked(shop.measured(state))
        numbers = {"forgotten": len(request.users), "balance": state.partition.balance, **_numbers(seconds, report)}
        return dataclasses.replace(
            found,
            seconds=of_the_fit,
            numbers={**found.numbers, **numbers, "of shards": len(state.shards)},
            notes={**found.notes, "path": report.path},
        )

    return rest


def gradual(shop: Workshop, cell: Cell) -> Result:
    """Let a share of the users leave in equal steps; measure after each. No page has its seconds."""
    config = shop.config(cell)
    state = shop.fitted(config).state
    share, steps = float(cell.extras["share"]), int(cell.extras["steps"])
    everybody = requests(state.train, "users", len(state.train.users), cell.seed)  # in the order they are drawn in
    bounds = [round(share * step / steps * len(everybody)) for step in range(steps + 1)]
    first = shop.measured(state)
    series: dict[str, list[float]] = {
        "gone": [0.0],
        "balance": [state.partition.balance],
        "shards": [0.0],
    }
    found = ranked(first)
    series |= {name: [value] for name, value in found.metrics.items()}
    for step in range(steps):
        request = ForgetRequest.union(everybody[bounds[step] : bounds[step + 1]])
        state, _, report = forgotten(shop, config, state, request)
        found = ranked(shop.measured(state))
        series["gone"].append(share * (step + 1) / steps)
        series["balance"].append(state.partition.balance)
        series["shards"].append(len(report.shards_retrained))
        for name, value in found.metrics.items():
            series[name].append(value)
    return dataclasses.replace(found, series=series)


def forgotten(
    shop: Workshop, config: EngineConfig, state: State, request: ForgetRequest
) -> tuple[State, dict[str, float], ForgetReport]:
    """Forget, as an engine does; return the next state, the seconds of the stages, and the report."""
    started = time.perf_counter()
    work = Work(config, shop.executor)
    planned = plan(request, state.train, state.valid, state.partition)
    report = work.forget_report(state, planned, anew=False)
    after = work.forget(state, planned, report)
    return after, {**work.seconds, "total": time.perf_counter() - started}, report


def _warm_up(shop: Workshop, config: EngineConfig, state: State) -> None:
    """Forget somebody once for nothing: whatever is imported, compiled or allocated then is nobody's training time.

    On a GPU out of a few rows, and of all rows planned alone: the same is compiled for few as for all, whose memory the
    fit has asked for, and attention, learned from all rows, would take as long as what is timed.
    """
    name = f"forgets {fingerprint.of_settings(config.as_dict())}"
    if name not in shop.warm:
        few = shop.warmed(config)
        if few is not None:
            nothing = requests(state.train, "interactions", 1, config.seed + 1)[0]
            plan(nothing, state.train, state.valid, state.partition)  # which looks up what every forget looks up
            state = few
        forgotten(shop, state.config, state, requests(state.train, "interactions", 1, config.seed + 1)[0])
        shop.warm.add(name)


def _numbers(seconds: Mapping[str, float], report: ForgetReport) -> dict[str, float]:
    stages = {name: seconds.get(name, 0.0) for name in ("submodels", "aggregate", "total")}
    removed = report.rows_removed + report.valid_rows_removed
    return {**stages, "shards": len(report.shards_retrained), "rows": removed}


def prepare(shop: Workshop, cell: Cell) -> None:
    """Fit what a cell is to forget from, and forget once for nothing: what is left to begin is all timed."""
    config = shop.config(cell)
    _warm_up(shop, config, shop.fitted(config).state)


def begun(shop: Workshop, cell: Cell) -> Rest:
    """Do of a cell, of whichever kind, what is timed; return the rest."""
    if cell.kind == "forgets":
        return forgets(shop, cell)
    if cell.kind == "batch":
        return batch(shop, cell)
    if cell.kind == "fit":
        return shop.fit(cell)
    if cell.kind == "first":
        first = shop.first(cell)
        return lambda: first
    untimed: dict[str, Callable[[Cell], Result]] = {
        "rows": shop.rows,
        "sweeps": shop.sweeps,
        "store": shop.store,
        "gradual": lambda one: gradual(shop, one),
    }
    return lambda: untimed[cell.kind](cell)


def compute(shop: Workshop, cell: Cell) -> Result:
    """Compute a cell, of whichever kind."""
    return begun(shop, cell)()
