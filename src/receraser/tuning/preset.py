"""The best trial as a configuration file: what `receraser fit --config` reads, and above it how it was found."""

from __future__ import annotations

import json
from collections.abc import Sequence

from receraser.config import TUNED, EngineConfig, resolve
from receraser.tuning.search import Found, Spread
from receraser.tuning.space import as_tables, settings_of

__all__ = ["preset", "spread_text"]


def preset(found: Found, *, command: str, date: str) -> str:
    """Return the text of the file.

    It names what was searched, and of everything else what is not the default: resolved, it is `found.config` again,
    but for the device, which is left to whoever fits.

    Parameters
    ----------
    command, date
        How the search can be repeated, and when it was done.
    """
    problem, best, config = found.problem, found.best, found.config
    started = found.trials[0].value
    counted = f"trial {best.number}; {len(found.trials)} in all"
    counted += f", {found.failed} failed" if found.failed else ""
    data = f"{len(problem.train)} training and {len(problem.valid)} validation rows"
    comments = [
        f"{TUNED}, {date}: {problem.metric} {best.value!r} on the validation rows ({counted}).",
        f"# It started from {'nothing that could be fitted' if started is None else repr(started)}.",
        f"# Command: {command}",
        f"# Data: sha256 {problem.data_digest}, {data}.",
        *([] if found.spread is None else [f"# {line}" for line in spread_text(found.spread)]),
        *(f"# {what}: {value}" for what, value in best.facts.items() if "epochs" in what),
    ]
    lines = [" ".join(line.split()) for line in comments] + _head(config)
    for table, values in as_tables(_named(found)).items():
        lines += ["", f"[{table}]", *(f"{key} = {_toml(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def spread_text(spread: Spread) -> list[str]:
    """Say what several seeds reach: the mean, and half the range."""
    seeds = f"Seeds {spread.seeds[0]} to {spread.seeds[-1]}"
    return [f"{seeds}: {_mean(spread.best)}; where it started: {_mean(spread.start)} (mean ± half the range)."]


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "none could be fitted"
    left_out = len(values) - len(known)
    text = f"{sum(known) / len(known):.4f} ± {(max(known) - min(known)) / 2:.4f}"
    return text + (f", {left_out} failed" if left_out else "")


def _head(config: EngineConfig) -> list[str]:
    """Return which parts they are; the seed only where it is not the default."""
    named = {"method": config.method, "model": config.model}
    if config.method == "custom":
        named = {"model": config.model, "partition": config.partition, "aggregation": config.aggregation}
    lines = [f"{key} = {_toml(value)}" for key, value in named.items()]
    lines += [f"shards = {config.shards}"] if config.partition != "whole" else []
    return lines + ([f"seed = {config.seed}"] if config.seed else [])


def _named(found: Found) -> dict[str, object]:
    """Return the settings that the file names."""
    config = found.config
    bare = EngineConfig(
        model=config.model,
        partition=config.partition,
        aggregation=config.aggregation,
        shards=config.shards,
        device=config.device,
    )
    defaults = settings_of(resolve(bare))
    own = settings_of(config)
    return {
        name: value
        for name, value in own.items()
        if name in found.problem.space or name not in defaults or value != defaults[name]
    }


def _toml(value: object) -> str:
    """Return a setting as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
