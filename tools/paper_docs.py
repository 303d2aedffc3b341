"""Write tables into docs/reproduction.md from the results that are there: Table 3, and what goes past the paper.

Run `.venv/bin/python tools/paper_docs.py` after a new Table 3 or a new page past the paper; a test fails until then.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from receraser.reproduce import paper
from receraser.reproduce.studies.pareto import Point, front

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reproduction.md"
RESULTS = ROOT / "benchmarks" / "results" / "reproduce"
DATASETS = ("ml-1m", "yelp2018", "ml-100k")
STUDIES = ("batch", "levels", "gradual", "pareto", "storage")
SIDES = {  # of the tables past the paper, in the order of their columns
    "spectral": "Spectral",
    "spectral, K=32": "Spectral, 32 shards",
    "control: hash shards, attention": "attention, Spectral's shards",
    "gram": "Gram",
    "receraser": "RecEraser",
}
NAMES = {"retrain": "Retrain", "sisa": "SISA", "grapheraser": "GraphEraser", "receraser": "RecEraser"}
FRONTS = {  # of the table of quality against cost
    "retrain": "Retrain",
    "spectral": "Spectral",
    "spectral, polish=1": "Spectral, a sweep",
    "control: hash shards, attention": "attention, Spectral's shards",
    "receraser": "RecEraser",
    "grapheraser": "GraphEraser",
    "sisa": "SISA",
    "gram": "Gram",
    "graphfilter": "GraphFilter",
    "ease": "EASE",
}
MODELS = {"bpr": "BPR", "wmf": "WMF", "lightgcn": "LightGCN"}


def tables() -> str:
    """Return a table for every data set that the paper has and we have results of."""
    lines: list[str] = []
    for dataset, printed in paper.TABLE3.items():
        path = RESULTS / f"table3-{dataset}.json"
        if path.is_file():
            lines += ["", *_table(dataset, printed, json.loads(path.read_text(encoding="utf-8")))]
    return "\n".join(lines)


def _table(dataset: str, printed: paper.Table, found: dict[str, object]) -> list[str]:
    cells = found["cells"]
    assert isinstance(cells, list)
    seeds = len({one["seed"] for one in cells})
    about = f"{dataset}**, {seeds} seed{'s' * (seeds > 1)}"
    lines = [f"**{about}: ours, and by how much it is above or below the paper's number", ""]
    short = [f"{metric[0].upper()}@{metric.partition('@')[2]}" for metric in paper.METRICS]
    lines += ["| | | " + " | ".join(short) + " |", "|---" * (2 + len(short)) + "|"]
    for model in paper.MODELS:
        for method in paper.METHODS:
            own = [one for one in cells if (one["model"], one["row"], one["what"]) == (model, method, "fit")]
            texts = [f"paper {printed[model, method][metric]:.4f}; not measured" for metric in paper.METRICS]
            if own:
                means = [statistics.fmean(one["metrics"][metric] for one in own) for metric in paper.METRICS]
                differences = [
                    mean - printed[model, method][key] for mean, key in zip(means, paper.METRICS, strict=True)
                ]
                texts = [f"{mean:.4f} ({by:+.4f})" for mean, by in zip(means, differences, strict=True)]
            lines.append(f"| {MODELS[model]} | {NAMES[method]} | " + " | ".join(texts) + " |")
    return lines


def past() -> str:
    """Return tables for every data set: what forgetting more than one row costs, and what quality is left."""
    lines = []
    for dataset in DATASETS:
        found = {study: _of_study(study, dataset) for study in STUDIES}
        models = [model for model in paper.MODELS if any(model in own for own in found.values())]
        cells = {model: {study: own.get(model, ("", []))[1] for study, own in found.items()} for model in models}
        sides = list(SIDES.values())
        lines += ["", f"**{dataset}**: seconds of a forget, as shares of those of a retrain on the survivors", ""]
        lines += _table_of(["a retrain", *sides], {MODELS[model]: _costs(cells[model]) for model in models})
        lines += ["", f"**{dataset}**: NDCG@20 afterwards, in % of that of a retrain on the survivors", ""]
        lines += _table_of(sides, {MODELS[model]: _qualities(cells[model]) for model in models})
        lines += ["", f"Pages: {'; '.join(_pages(study, found[study]) for study in STUDIES)}."]
    return "\n".join(lines)


def _table_of(columns: Sequence[str], found: Mapping[str, Mapping[str, Sequence[str | None]]]) -> list[str]:
    """Return a table with a line for every model and what is forgotten."""
    lines = ["| | forgotten | " + " | ".join(columns) + " |", "|---" * (2 + len(columns)) + "|"]
    for model, rows in found.items():
        for what, texts in rows.items():
            lines.append(f"| {model} | {what} | " + " | ".join("–" if one is None else one for one in texts) + " |")
    return lines


def fronts() -> str:
    """Return a table of what forgetting a user costs and what quality there is, over all numbers of shards."""
    lines = ["", "| | | " + " | ".join(FRONTS.values()) + " |", "|---" * (2 + len(FRONTS)) + "|"]
    for dataset in DATASETS:
        found = _of_study("pareto", dataset)
        for model in (one for one in MODELS if one in found):
            points = _points(found[model][1])
            best = front(points)
            texts = [_range([one for one in points if one[0] == row], best) for row in FRONTS]
            lines.append(f"| {dataset} | {MODELS[model]} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def _points(cells: Sequence[Mapping[str, Any]]) -> list[Point]:
    """Return each line at each number of shards: what a forget costs there, and the quality of a fit."""
    asked = {(one["row"], one["x"]): one for one in cells if one["what"] == "users"}
    found = []
    for one in cells:
        at = one["row"], one["x"]
        if one["what"] == "fit" and one["row"] == "retrain":
            found.append((*at, sum(one["seconds"].values()), one["metrics"]["ndcg@20"]))
        elif one["what"] == "fit" and at in asked:
            found.append((*at, _seconds(asked[at]), one["metrics"]["ndcg@20"]))
    return found


def _range(own: Sequence[Point], best: Sequence[Point]) -> str:
    """Return the least and the greatest of seconds and of NDCG@20; in bold where some of it is on the front."""
    if not own:
        return "–"
    ends = [
        dict.fromkeys(map(text, (min(values), max(values))))
        for values, text in (
            ([one[2] for one in own], _short),
            ([one[3] for one in own], lambda value: f"{value:.3f}".removeprefix("0")),
        )
    ]
    said = f"{' to '.join(ends[0])} s, {' to '.join(ends[1])}"
    return f"**{said}**" if any(one in best for one in own) else said


def _of_study(study: str, dataset: str) -> dict[str, tuple[str, list[dict[str, Any]]]]:
    """Return, for each model, the name of the page that has it, and its cells of the first seed."""
    found: dict[str, tuple[str, list[dict[str, Any]]]] = {}
    for path in sorted(RESULTS.glob(f"{study}-{dataset}*.json")):
        for one in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            name, cells = found.setdefault(one["model"], (path.stem, []))
            assert name == path.stem, f"{one['model']} is on two pages, {name} and {path.stem}: delete the older one"
            if one["seed"] == 0:
                cells.append(one)
    return found


def _pages(study: str, found: Mapping[str, tuple[str, list[dict[str, Any]]]]) -> str:
    """Return links to the pages of a study, each with its models where there are several."""
    models: dict[str, list[str]] = {}
    for model in paper.MODELS:
        if model in found:
            models.setdefault(found[model][0], []).append(MODELS[model])
    links = {name: f"(../benchmarks/results/reproduce/{name}.md)" for name in models}
    if len(models) == 1:
        return f"[{study}]{next(iter(links.values()))}"
    return f"{study}: " + ", ".join(f"[{' and '.join(own)}]{links[name]}" for name, own in models.items())


def _costs(cells: Mapping[str, list[dict[str, Any]]]) -> dict[str, list[str | None]]:
    """Return the seconds of a retrain, and those of each side as shares of them."""
    batch = _batches(cells)
    asked = {
        what: {row: one for (row, x), one in batch.items() if x == size}
        for what, size in (("one user", 1), ("thirty users", 30), ("a fifth of the users", 0.2))
    }
    asked["an item"] = {one["row"]: one for one in cells["levels"] if one["what"] in ("items", "items left")}
    lines: dict[str, list[str | None]] = {}
    for what, own in asked.items():
        full = sum(own["retrain"]["seconds"].values()) if "retrain" in own else None
        shares = [_short(_seconds(own[row]) / full) if full is not None and row in own else None for row in SIDES]
        lines[what] = [None if full is None else f"{_short(full)} s", *shares]
    return lines


def _qualities(cells: Mapping[str, list[dict[str, Any]]]) -> dict[str, list[str | None]]:
    """Return what each side keeps of a retrain's quality."""
    batch = _batches(cells)
    steps = {one["row"]: one for one in cells["gradual"] if one["what"] == "gradual"}
    steps |= {one["row"]: one for one in cells["gradual"] if (one["row"], one["x"]) == ("retrain", 0.3)}
    return {
        "one user to a fifth of all, at once": [_kept(batch, row) for row in SIDES],
        "30 % of the users, in steps": [
            f"{_share(steps[row], steps['retrain']):.0f}" if {row, "retrain"} <= steps.keys() else None for row in SIDES
        ],
    }


def _batches(cells: Mapping[str, list[dict[str, Any]]]) -> dict[tuple[str, float], dict[str, Any]]:
    """Return the cells of random batches, and the retrains on who is left, by row and size."""
    return {(one["row"], one["x"]): one for one in cells["batch"] if one["what"] in ("random", "random left")}


def _seconds(cell: Mapping[str, Any]) -> float:
    """Return the seconds of a batch, or of a request in the mean."""
    return statistics.fmean(cell["series"]["total"]) if "series" in cell else float(cell["numbers"]["total"])


def _share(ours: Mapping[str, Any], full: Mapping[str, Any]) -> float:
    return 100 * float(ours["metrics"]["ndcg@20"]) / float(full["metrics"]["ndcg@20"])


def _kept(batch: Mapping[tuple[str, float], dict[str, Any]], row: str) -> str | None:
    """Return the shares of every size, from the least to the most; None unless all are there."""
    full = {x: one for (name, x), one in batch.items() if name == "retrain"}
    if not full or any((row, x) not in batch for x in full):
        return None
    shares = [_share(batch[row, x], one) for x, one in full.items()]
    low, high = f"{min(shares):.0f}", f"{max(shares):.0f}"
    return low if low == high else f"{low} to {high}"


def _short(value: float) -> str:
    """Return a number with two digits that count, never as a power of ten."""
    digits = max(0, 1 - math.floor(math.log10(float(f"{value:.1e}"))))
    return f"{value:.{digits}f}"


PARTS = {"table3": tables, "past": past, "fronts": fronts}


def page() -> str:
    """Return docs/reproduction.md with the tables in it."""
    text = PAGE.read_text(encoding="utf-8")
    for name, made in PARTS.items():
        begin, end = f"<!-- {name}: written by tools/paper_docs.py -->", f"<!-- {name}: end -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        assert found, f"{PAGE}: expected a line {begin}"
        assert closed, f"{PAGE}: expected a line {end}"
        text = f"{before}{begin}\n{made()}\n\n{end}{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
