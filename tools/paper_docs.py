"""Write tables into docs/reproduction.md from the results that are there: the paper's, what goes past it, every page.

Run `.venv/bin/python tools/paper_docs.py` after a new page; a test fails until then.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from receraser.reproduce import paper
from receraser.reproduce.order import STUDIES
from receraser.reproduce.page import p_text
from receraser.reproduce.studies.pareto import Point, front

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reproduction.md"
RESULTS = ROOT / "benchmarks" / "results" / "reproduce"
DATASETS = ("ml-1m", "yelp2018", "ml-100k")
_ITEM = "an item"
STUDIES_PAST = ("batch", "levels", "gradual", "pareto", "storage")
SIDES = {  # of the tables past the paper, in the order of their columns
    "spectral": "Spectral",
    "spectral, K=32": "Spectral, 32 shards",
    "control: hash shards, attention": "attention, Spectral's shards",
    "control: hash shards, attention, K=32": "attention, Spectral's 32",
    "gram": "Gram",
    "receraser": "RecEraser",
    "grapheraser": "GraphEraser",
    "sisa": "SISA",
}
NAMES = {"retrain": "Retrain", "sisa": "SISA", "grapheraser": "GraphEraser", "receraser": "RecEraser"}
TIMED = {  # the lines of Table 4, one forgotten interaction
    "receraser": "RecEraser",
    "control: hash shards, attention": "attention, Spectral's shards",
    "spectral": "Spectral",
    "gram": "Gram",
}
CUTS = {"random": "Random", "ubp": "UBP", "ibp": "IBP", "inbp": "InBP", "hash": "Hash"}
PUT_TOGETHER = {
    "mean": "Mean, InBP",
    "static": "Static, InBP",
    "attention": "Attention, InBP",
    "spectral": "Spectral, InBP",
    "attention, hash": "Attention, hash",
    "spectral, hash": "Spectral, hash",
    "gram": "Gram",
}
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


def data_sets() -> str:
    """Return Table 2: the data sets as counted here, and as printed."""
    keys = ("users", "items", "interactions")
    lines = ["", "| | " + " | ".join(f"{key} (paper)" for key in (*keys, "density")) + " |", "|---" * 5 + "|"]
    for dataset in DATASETS:
        (cell,) = _read(f"table2-{dataset}")["cells"]
        found, printed = cell["numbers"], paper.TABLE2.get(dataset)
        texts = [f"{found[key]:,}" + (f" ({getattr(printed, key):,})" if printed else "") for key in keys]
        texts.append(f"{found['density']:.2f} %" + (f" ({printed.density:.2f} %)" if printed else ""))
        lines.append(
            f"| [{dataset}](../benchmarks/results/reproduce/table2-{dataset}.md) | " + " | ".join(texts) + " |"
        )
    return "\n".join(lines)


def times() -> str:
    """Return Table 4, one forgotten interaction: the paper's minutes, our seconds."""
    lines = []
    for dataset in (one for one in DATASETS if one in paper.TABLE4):
        cells = _read(f"table4-{dataset}")["cells"]
        columns = ("a retrain", "the shard", "the aggregation", "together", "of a retrain", "timed")
        lines += ["", f"**{dataset}**", "", "| | | " + " | ".join(columns) + " |", "|---" * (2 + len(columns)) + "|"]
        for model, printed in paper.TABLE4[dataset].items():
            minutes = (printed.retrain, printed.shard, printed.aggregation, printed.total)
            texts = [*(f"{one:g} min" for one in minutes), _short(printed.total / printed.retrain), "100"]
            lines.append(f"| {MODELS[model]} | RecEraser, the paper | " + " | ".join(texts) + " |")
            own = {one["row"]: one for one in cells if one["model"] == model and one["what"] == "interactions"}
            (full,) = (one for one in cells if (one["model"], one["what"]) == (model, "interactions left"))
            lines += [_times(MODELS[model], name, own[row], full) for row, name in TIMED.items() if row in own]
    return "\n".join(lines)


def _times(model: str, name: str, own: Mapping[str, Any], full: Mapping[str, Any]) -> str:
    """Return a line of Table 4; times of another machine than the retrain's are no share of it."""
    stages = [statistics.fmean(own["series"][key]) for key in ("submodels", "aggregate", "total")]
    retrain, host = sum(full["seconds"].values()), full.get("hardware")
    beside = own.get("hardware") in (host, str(host).partition("; ")[2], None)
    texts = [f"{_short(one)} s" if one else "–" for one in (retrain if beside else 0, *stages)]
    texts += [_short(stages[2] / retrain) if beside else "–", str(len(own["series"]["total"]))]
    return f"| {model} | {name} | " + " | ".join(texts) + " |"


def leads() -> str:
    """Return by how much RecEraser is ahead of the paper's baselines, seed by seed."""
    columns = ("", "", "over SISA", "over GraphEraser", "over GraphEraser, N@20, seed by seed", "p")
    lines = ["", "| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for dataset in DATASETS:
        page = _read(f"table3-{dataset}")
        tests = {(one["ours"][0], one["theirs"][1]): max(one["p"]) for one in page["compared"] if one.get("p")}
        for model in MODELS:
            found = {
                row: {key: _over_seeds(page, model, row, key) for key in ("recall@20", "ndcg@20")}
                for row in ("receraser", "sisa", "grapheraser")
            }
            own = found["receraser"]
            texts = [
                ", ".join(f"{_percent(own[key], found[row][key]) - 100:+.0f} %" for key in own)
                for row in ("sisa", "grapheraser")
            ]
            pairs = zip(own["ndcg@20"], found["grapheraser"]["ndcg@20"], strict=True)
            texts += [", ".join(f"{ours - theirs:+.4f}" for ours, theirs in pairs)]
            texts += [p_text(tests[model, "grapheraser"])]
            lines.append(f"| {dataset} | {MODELS[model]} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def figures_2_and_3(study: str, rows: Mapping[str, str]) -> str:
    """Return what share of a retrain each variant of Figure 2 or 3 keeps."""
    lines = ["", "| | | " + " | ".join(rows.values()) + " |", "|---" * (2 + len(rows)) + "|"]
    for dataset in DATASETS:
        page = _read(f"{study}-{dataset}")
        for model in MODELS:
            full = {key: _over_seeds(page, model, "retrain", key) for key in ("recall@20", "ndcg@20")}
            texts = [
                ", ".join(f"{_percent(_over_seeds(page, model, row, key), full[key]):.0f}" for key in full)
                for row in rows
            ]
            lines.append(f"| {dataset} | {MODELS[model]} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def figure4() -> str:
    """Return quality and time over the number of shards."""
    rows = ("receraser", "control: hash shards, attention", "spectral")
    lines = ["", "| | | " + " | ".join(f"{FRONTS[row]}: N@20 | one forget" for row in rows) + " |", "|---" * 8 + "|"]
    for dataset in DATASETS:
        page = _read(f"figure4-{dataset}")
        for model in MODELS:
            full = _over_seeds(page, model, "retrain", "ndcg@20")
            texts = []
            for row in rows:
                kept, spent = [], []
                for k in (5, 10, 50):
                    kept.append(f"{_percent(_over_seeds(page, model, row, 'ndcg@20', k), full):.0f}")
                    spent += [
                        _short(_seconds(one))
                        for one in page["cells"]
                        if (one["model"], one["row"], one["what"], one["x"]) == (model, row, "interactions", k)
                    ]
                texts += [f"{', '.join(kept)} %", f"{', '.join(spent)} s"]
            lines.append(f"| {dataset} | {MODELS[model]} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def _over_seeds(page: Mapping[str, Any], model: str, row: str, metric: str, x: float | None = None) -> list[float]:
    """Return a metric of a fit, seed by seed."""
    found = [
        (one["seed"], one["metrics"][metric])
        for one in page["cells"]
        if (one["model"], one["row"], one["what"]) == (model, row, "fit") and (x is None or one["x"] == x)
    ]
    return [value for _, value in sorted(found)]


def _percent(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return 100 * statistics.fmean(ours) / statistics.fmean(theirs)


def standing() -> str:
    """Return a table of every page: what it is of, how it was made, where and when."""
    columns = ("", "models", "version", "date", "machine", "seeds", "requests")
    lines = ["", "| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for dataset in (*DATASETS, "synthetic"):
        pages = {path.stem: _read(path.stem) for path in RESULTS.glob(f"*-{dataset}*.json")}
        ordered = sorted(pages.items(), key=lambda one: (list(STUDIES).index(one[1]["study"]), one[0]))
        for name, page in ordered:
            timed = [len(one["series"]["total"]) for one in page["cells"] if one["kind"] == "forgets"]
            requests = (
                "" if not timed else f"{min(timed)} to {max(timed)}" if min(timed) < max(timed) else f"{timed[0]}"
            )
            models = page["order"]["models"]
            told = (
                ""
                if page["study"] == "table2"
                else "all"
                if len(models) == len(MODELS)
                else ", ".join(MODELS[one] for one in MODELS if one in models)
            )
            seeds = "" if page["study"] == "table2" else page["order"]["seeds"]
            link = f"[{dataset}: {page['study']}](../benchmarks/results/reproduce/{name}.md)"
            texts = (link, told, " and ".join(page["code"]), page["dates"][-1], _place(name), seeds, requests)
            lines.append("| " + " | ".join(map(str, texts)) + " |")
    return "\n".join(lines)


def tables() -> str:
    """Return a table for every data set that the paper has and we have results of."""
    lines: list[str] = []
    for dataset, printed in paper.TABLE3.items():
        if (RESULTS / f"table3-{dataset}.json").is_file():
            lines += ["", *_table(dataset, printed, _read(f"table3-{dataset}"))]
    return "\n".join(lines)


def _read(name: str) -> dict[str, Any]:
    """Return the document of a page."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def _place(name: str) -> str:
    """Return where a page was computed."""
    return "H200" if any("H200" in one for one in _read(name)["hardware"]) else "two cores"


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
        found = {study: _of_study(study, dataset) for study in STUDIES_PAST}
        models = [model for model in paper.MODELS if any(model in own for own in found.values())]
        cells = {model: {study: own.get(model, ("", []))[1] for study, own in found.items()} for model in models}
        sides = list(SIDES.values())
        lines += ["", f"**{dataset}**: seconds of a forget, as shares of those of a retrain on the survivors", ""]
        costs: dict[str, dict[str, list[str | None]]] = {}
        for model in models:
            for what, texts in _costs(cells[model]).items():
                page = found["levels" if what == _ITEM else "batch"][model][0]
                costs.setdefault(f"{MODELS[model]}, {_place(page)}", {})[what] = texts
        lines += _table_of(["a retrain", *sides], costs)
        lines += ["", f"**{dataset}**: NDCG@20 afterwards, in % of that of a retrain on the survivors", ""]
        lines += _table_of(sides, {MODELS[model]: _qualities(cells[model]) for model in models})
        lines += ["", f"Pages: {'; '.join(_pages(study, found[study]) for study in STUDIES_PAST)}."]
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
            lines.append(f"| {dataset}, {_place(found[model][0])} | {MODELS[model]} | " + " | ".join(texts) + " |")
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
    asked[_ITEM] = {one["row"]: one for one in cells["levels"] if one["what"] in ("items", "items left")}
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
    full = {one["x"]: one["metrics"]["ndcg@20"] for one in cells["gradual"] if one["row"] == "retrain"}
    ends: list[str | None] = []
    for row in SIDES:
        along = steps[row]["series"]["ndcg@20"] if row in steps else None
        ends.append(None if along is None else f"{100 * along[0] / full[0.0]:.0f} → {100 * along[-1] / full[0.3]:.0f}")
    return {
        "one user to a fifth of all, at once": [_kept(batch, row) for row in SIDES],
        "30 % of the users, in steps": ends,
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


PARTS: Mapping[str, Callable[[], str]] = {
    "table2": data_sets,
    "table3": tables,
    "leads": leads,
    "table4": times,
    "figure2": partial(figures_2_and_3, "figure2", CUTS),
    "figure3": partial(figures_2_and_3, "figure3", PUT_TOGETHER),
    "figure4": figure4,
    "standing": standing,
    "past": past,
    "fronts": fronts,
}


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
