"""All trials of a search, for people (Markdown) and for machines (JSON): space, budget, metric, and every trial."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from receraser.tuning.preset import spread_text
from receraser.tuning.search import Found
from receraser.tuning.study import Trial, optuna_version

__all__ = ["record", "record_page", "write_record"]


def record(found: Found, *, command: str, date: str) -> dict[str, object]:
    """Return everything that is known of a search, as plain values; no row, and no id."""
    problem = found.problem
    done = any(one.value is not None for one in found.trials)
    return {
        "command": command,
        "date": date,
        "sampler": f"TPE of optuna {optuna_version()}, seed {problem.base.seed}",
        "environment": {key: found.environment[key] for key in sorted(found.environment)},
        "budget": asdict(found.budget),
        "interrupted": found.interrupted,
        "seconds": round(found.seconds, 1),
        "rows": {
            name: {"rows": len(rows), "users": len(rows.users), "items": len(rows.items)}
            for name, rows in (("train", problem.train), ("valid", problem.valid))
        },
        **problem.described(),
        "best": found.best.number if done else None,
        "best_configuration": found.config.as_dict() if done else None,
        "spread": None if found.spread is None else asdict(found.spread),
        "trials": [asdict(one) for one in found.trials],
    }


def record_page(found: Found, *, name: str, command: str, date: str) -> str:
    """Return the page: how it was searched, then every trial, the best first and the failed last."""
    problem = found.problem
    base = problem.base
    ended = "; ended by hand" if found.interrupted else ""
    parts = f"{base.model}, {base.partition} + {base.aggregation}, {base.shards} shard{'s' * (base.shards > 1)}"
    lines = [
        f"# Search: {name}",
        "",
        f"`{command}`, {date}",
        "",
        f"{parts}, on {base.device}. Fitted on {len(problem.train):,} training rows, judged by {problem.metric} on",
        f"{len(problem.valid):,} validation rows; test rows have no way into a search. {len(found.trials)} trials",
        f"({found.failed} failed{ended}): trial 0 is where it started, the next ones are by lot, the others by TPE",
        f"(optuna {optuna_version()}, seed {base.seed}). One value is one fit with one seed: the best of many is",
        "flattered by chance.",
        "",
        f"Data: sha256 `{problem.data_digest}`.",
        *([] if found.spread is None else spread_text(found.spread)),
        "",
        "| searched | where |",
        "|---|---|",
        *(f"| `{key}` | {_axis(axis.as_dict())} |" for key, axis in problem.space.items()),
        "",
        *_table(found),
    ]
    return "\n".join(lines) + "\n"


def write_record(found: Found, folder: Path, *, name: str, command: str, date: str) -> list[Path]:
    """Write both to a folder; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    page, document = folder / f"tune-{name}.md", folder / f"tune-{name}.json"
    page.write_text(record_page(found, name=name, command=command, date=date), encoding="utf-8")
    text = json.dumps(record(found, command=command, date=date), indent=1, allow_nan=False)
    document.write_text(f"{text}\n", encoding="utf-8")
    return [page, document]


def _axis(axis: object) -> str:
    if isinstance(axis, Mapping):
        return f"{axis['low']} to {axis['high']}" + (", by decades" if axis.get("log") else "")
    assert isinstance(axis, list)
    return ", ".join(str(one) for one in axis)


def _table(found: Found) -> list[str]:
    names = list(found.problem.space)
    lines = [f"| trial | {found.problem.metric} | seconds | {' | '.join(names)} | |", "|---" * (len(names) + 4) + "|"]
    ordered = sorted(found.trials, key=lambda one: (one.value is None, -(one.value or 0.0), one.number))
    for one in ordered:
        value = "failed" if one.value is None else f"{one.value:.4f}"
        shown = [str(one.settings[name]) for name in names]
        cells = [str(one.number), value, f"{sum(one.seconds.values()):.2f}", *shown, _note(one)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _note(trial: Trial) -> str:
    note = trial.reason or "; ".join(f"{what}: {value}" for what, value in trial.facts.items())
    return " ".join(note.split()).replace("|", "\\|")
