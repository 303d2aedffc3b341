"""What spectral depends on, with WMF submodels: shards, rank, dimension, width of the tree, polish, partition, merge.

    python -m benchmarks.ablations --data DIR --dataset yelp2018 --sections search
    python -m benchmarks.ablations --data DIR --dataset ml-1m --sections shards rank --seeds 3
    python -m benchmarks.ablations --report

Settings are those of Table 3 (`receraser.reproduce.settings`), chosen on validation rows: WMF's for ML-1M by
`benchmarks.search`, for ML-100K by `receraser tune`, for Yelp2018 by the section `search` here, whose trials are kept.
Everything else is measured on the test rows, beside a retrain of the same seed, with a paired bootstrap over users.
Every seed is also another hash key. One cell is one configuration; sections are views of cells and share them. Finished
cells are kept in `results/ablations-DATASET.json`, so that a rerun goes on where the last one ended. Times: workers
warm; `fit` is everything from rows to a merged model, `forget` one user, from the request to the published store.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.spectral import METRICS, compared, control, forgets
from receraser.reproduce.datasets import NAMES, Dataset, load

if TYPE_CHECKING:
    from receraser.config import EngineConfig
    from receraser.data.interactions import Interactions
    from receraser.evaluation import Evaluation
    from receraser.execution.local import LocalExecutor
    from receraser.fingerprint import Tensors
    from receraser.models.factors import FactorModel

RESULTS = Path(__file__).parent / "results"
COMMAND = "python -m benchmarks.ablations --data DIR"
SHARDS = (1, 5, 10, 32, 100, 1000)
ATTENDED = (10, 32)  # numbers of shards that attention is learned over: it takes as long as everything else together
MERGES = {"ml-1m": "concat", "ml-100k": "concat", "yelp2018": "product"}  # chosen on validation rows
Row = dict[str, Any]
Pair = tuple[float, float]  # missing_weight, regularization


@dataclass(frozen=True)
class Cell:
    """One configuration. `what`: spectral, retrain; or a control.

    gram; attention, over the very same submodels on the very same shards; random: sweeps from random item vectors.
    Without a merge: the one that was chosen for the data set. A width of 0: what follows from the number of shards.
    """

    what: str = "spectral"
    shards: int = 10
    dim: int = 64
    rank: int = 64
    width: int = 0
    polish: int = 0
    partition: str = "hash"
    merge: str = ""

    @property
    def key(self) -> str:
        """Name it in the result file: what differs from the defaults."""
        parts = [f"{spec.name}={getattr(self, spec.name)}" for spec in dataclasses.fields(self) if spec.name != "what"]
        plain = Cell(self.what)
        shown = [part for part in parts if part.split("=")[1] != str(getattr(plain, part.split("=")[0]))]
        return " ".join([self.what, *shown])


def sections(dataset: str = NAMES[0], shards: Sequence[int] = SHARDS) -> dict[str, list[Cell]]:
    """Return the cells of every section."""
    others = [merge for merge in ("concat", "product", "consensus") if merge != MERGES[dataset]]
    return {
        "headline": [Cell(polish=0), Cell(polish=1), Cell("random", polish=1)],
        "shards": [Cell(shards=k, polish=n) for k in shards for n in (0, 1)] + [Cell("random", polish=1)],
        "polish": [Cell(polish=n) for n in range(4)] + [Cell("random", polish=n) for n in (1, 2, 3)],
        "rank": [Cell(rank=r) for r in (16, 32, 64, 128)],
        "dim": [Cell(dim=d) for d in (16, 32, 64, 128)],
        "width": [Cell(width=w) for w in (64, 0, 128, 256)],
        "partition": [Cell(partition=name) for name in ("hash", "ubp")],
        "merge": [Cell(), *(Cell(merge=merge) for merge in others)],
        "controls": [*(Cell("attention", k) for k in ATTENDED), Cell("gram"), Cell("gram", rank=128)],
    }


# ---------------------------------------------------------------------- search, on validation rows


def search(
    data: Dataset,
    weights: Sequence[float],
    penalties: Sequence[float],
    sweeps: Sequence[int],
    known: Iterable[Row],
) -> Iterable[Row]:
    """Yield trials of a retrain with these settings; the more sweeps for the three best only."""
    from receraser.evaluation import evaluate
    from receraser.models.wmf import WMF

    done = [one for one in known if one["what"] == "retrain"]

    def trial(w: float, penalty: float, n: int) -> Row:
        settings = {"missing_weight": w, "regularization": penalty, "n_sweeps": n}
        for one in done:
            if one["settings"] == settings:
                return one
        model = WMF(missing_weight=w, regularization=penalty, n_sweeps=n, device="cpu").fit(data.train, seed=0)
        return _trial("retrain", settings, evaluate(model, data.train, data.valid, at=(20,)))

    first = []
    for w, penalty in itertools.product(weights, penalties):
        first.append(trial(w, penalty, sweeps[0]))
        yield first[-1]
    best = sorted((one["settings"] for one in first), key=_order(first), reverse=True)[:3]
    for settings, n in itertools.product(best, sweeps[1:]):
        yield trial(settings["missing_weight"], settings["regularization"], n)


def search_merge(
    data: Dataset, weights: Sequence[float], penalties: Sequence[float], executor: LocalExecutor
) -> Iterable[Row]:
    """Yield trials of spectral with ten shards: the merge, then the fold-in, then the submodels' own settings."""
    from receraser.aggregation.spectral import Spectral
    from receraser.data.ids import pseudonyms
    from receraser.data.interactions import Interactions
    from receraser.evaluation import evaluate
    from receraser.keys import PUBLIC_KEY

    train, valid = (one.rename_users(pseudonyms(one.users, PUBLIC_KEY)) for one in (data.train, data.valid))
    own = configuration(data.name, Cell(), 0).hyperparameters
    base = (float(str(own["missing_weight"])), float(str(own["regularization"])))
    nothing = Interactions.empty()

    def trial(merge: str, merged: Tensors, submodels: Sequence[FactorModel], fold_in: Pair, of_shards: Pair) -> Row:
        scorer = Spectral(missing_weight=fold_in[0], regularization=fold_in[1]).scorer(submodels, merged)
        settings = {"merge": merge, "fold-in": list(fold_in), "submodels": list(of_shards)}
        return _trial("spectral", settings, evaluate(scorer, train, valid, at=(20,)))

    submodels = _submodels(data, train, base, executor)
    merged = {
        merge: Spectral(merge=merge).fit(submodels, nothing, valid=None, seed=0)[0] for merge in ("concat", "product")
    }
    found = [trial(merge, state, submodels, base, base) for merge, state in merged.items()]
    yield from found
    best: str = max(found, key=lambda one: float(one["ndcg@20"]))["settings"]["merge"]
    others = [pair for pair in itertools.product(weights, penalties) if pair != base]
    for pair in others:
        yield trial(best, merged[best], submodels, pair, base)
    for pair in others:
        changed = _submodels(data, train, pair, executor)
        yield trial(best, Spectral(merge=best).fit(changed, nothing, valid=None, seed=0)[0], changed, base, pair)


def _submodels(data: Dataset, train: Interactions, settings: Pair, executor: LocalExecutor) -> list[FactorModel]:
    """Fit ten submodels with these settings on rows whose users go by pseudonyms."""
    from receraser.config import resolve
    from receraser.fitting import Fitting
    from receraser.models.factors import FactorModel

    config = configuration(data.name, Cell(), 0)
    changed = {**config.hyperparameters, "missing_weight": settings[0], "regularization": settings[1]}
    config = resolve(dataclasses.replace(config, hyperparameters=changed))
    with Fitting(config, executor, n_tasks=config.shards, partitions=True, progress=None) as fitting:
        partition = fitting.partition(train, None)
        shards = [partition.shard(k, train, None) for k in range(config.shards)]
        models = [one.model for one in fitting.submodels(shards)]
    return [model for model in models if isinstance(model, FactorModel)]


def _trial(what: str, settings: Mapping[str, object], found: Evaluation) -> Row:
    values = {metric: round(found.metrics[metric], 5) for metric in METRICS}
    print(f"{what} {settings}: {values}", file=sys.stderr, flush=True)
    return {"what": what, "settings": dict(settings), **values}


def _order(trials: Sequence[Row]) -> Any:
    return lambda settings: next(float(one["ndcg@20"]) for one in trials if one["settings"] == settings)


# ---------------------------------------------------------------------- cells, on test rows


def configuration(dataset: str, cell: Cell, seed: int) -> EngineConfig:
    """Return the configuration of a cell: what stands in Table 3 for the data set, changed."""
    from receraser.config import resolve
    from receraser.reproduce.settings import additive, chosen

    if cell.what == "gram":
        config = additive(dataset, "gram", seed=seed).config
        return resolve(dataclasses.replace(config, hyperparameters={**config.hyperparameters, "rank": cell.rank}))
    if cell.what == "retrain":
        return _of_length(chosen(dataset, "wmf", "retrain", seed=seed).config, cell.dim)
    merged = chosen(dataset, "wmf", "spectral", seed=seed)
    if cell.what == "attention":
        attended = merged.under(chosen(dataset, "wmf", "receraser", seed=seed))
        return dataclasses.replace(attended.config, shards=cell.shards)
    own = {"rank": cell.rank, "width": cell.width, "polish": cell.polish, "merge": cell.merge or MERGES[dataset]}
    settings = {**merged.config.aggregation_settings, **own}
    config = dataclasses.replace(merged.cut_by(cell.partition).config, shards=cell.shards)  # one shard is merged too
    return _of_length(dataclasses.replace(config, aggregation_settings=settings), cell.dim)


def _of_length(config: EngineConfig, dim: int) -> EngineConfig:
    from receraser.config import resolve

    return resolve(dataclasses.replace(config, hyperparameters={**config.hyperparameters, "dim": dim}))


def measured(data: Dataset, cell: Cell, seed: int, full: Evaluation, executor: LocalExecutor, n_users: int) -> Row:
    """Fit a cell, compare it with the retrain, and time it."""
    from receraser.engine import Engine

    if cell.what == "random":
        return _rounded(compared(cell.key, control(data, configuration(data.name, cell, seed), cell.polish), full))
    valid = None if data.refits else data.valid
    engine = Engine.from_config(configuration(data.name, cell, seed), executor=executor).fit(data.full, valid=valid)
    row = compared(cell.key, engine.evaluate(data.test, at=(20,)), full)
    row |= {"fit": sum(engine.seconds.values()), "fit stages": dict(engine.seconds), "digest": engine.digest[:16]}
    if cell.what == "spectral":
        row |= {"gap": engine.aggregate_facts["gap"], "balance": engine.balance}
    return _rounded(row | _forget(engine, data, executor, 0 if cell.what == "attention" else n_users))


def _forget(engine: object, data: Dataset, executor: LocalExecutor, n_users: int) -> Row:
    """Return the median seconds of forgetting one of so many users, and the stages of that forget."""
    if n_users == 0:
        return {}
    found = sorted(forgets(engine, data.full, executor, n_users=n_users), key=lambda one: one[0])
    total, stages = found[len(found) // 2]
    return {"forget": total, "forget stages": stages}


def _rounded(row: Row) -> Row:
    found: Row = json.loads(json.dumps(row), parse_float=lambda text: round(float(text), 5))
    return found


def measure(data: Dataset, cells: Sequence[Cell], seeds: int, n_users: int, result: Row, path: Path) -> None:
    """Measure every cell that the result does not hold yet; write it after each."""
    from receraser.engine import Engine
    from receraser.execution.local import LocalExecutor

    held = {(row["what"], row["seed"]) for row in result["cells"]}
    result["hyperparameters"] = dict(configuration(data.name, Cell("retrain"), 0).hyperparameters)
    with LocalExecutor() as executor:
        for seed in range(seeds):
            missing = [cell for cell in cells if (cell.key, seed) not in held]
            if not missing:
                continue
            config = configuration(data.name, Cell("retrain"), seed)
            retrain = Engine.from_config(config, executor=executor).fit(
                data.full, valid=None if data.refits else data.valid
            )
            full = retrain.evaluate(data.test, at=(20,))
            if ("retrain", seed) not in held:
                row: Row = {"what": "retrain", **{metric: full.metrics[metric] for metric in METRICS}}
                row |= {"fit": sum(retrain.seconds.values()), "digest": retrain.digest[:16]}
                row = _rounded(row | _forget(retrain, data, executor, n_users))
                _keep(result, row | {"seed": seed}, path)
            for cell in missing:
                started = time.perf_counter()
                row = measured(data, cell, seed, full, executor, n_users)
                _keep(result, row | {"seed": seed}, path)
                print(f"{data.name} seed {seed} {_short(row)}  ({time.perf_counter() - started:.0f} s)", flush=True)


def _keep(result: Row, row: Row, path: Path) -> None:
    result["cells"].append(row)
    write(result, path)


def write(result: Row, path: Path) -> None:
    """Write a result, one line for each trial and each cell."""
    import torch

    result["date"] = datetime.datetime.now(datetime.UTC).date().isoformat()
    result["hardware"] = f"CPU, {os.cpu_count()} cores; receraser {version('receraser')}, torch {torch.__version__}"
    head = {key: value for key, value in result.items() if key not in ("search", "cells")}
    lines = [json.dumps(head)[:-1]]
    for part in ("search", "cells"):
        rows = ",\n".join(json.dumps(row) for row in result[part])
        lines.append(f'"{part}": [\n{rows}\n]')
    path.write_text(",\n".join(lines) + "}\n")


def _short(row: Mapping[str, Any]) -> str:
    parts = [f"{row['what']}:"] + [f"{m} {row[m]:.4f} ({row[f'{m} share']:.1%})" for m in METRICS]
    return "  ".join([*parts, *(f"{key} {row[key]:.2f} s" for key in ("fit", "forget") if key in row)])


# ---------------------------------------------------------------------- report

TITLES = {
    "shards": "Number of shards",
    "polish": "Polish, beside the same sweeps from random vectors",
    "rank": "Rank of the merged space",
    "dim": "Length of the submodels' vectors",
    "width": "Width of the merge tree",
    "partition": "Partition",
    "merge": "Merge",
    "controls": "Controls: attention on the same shards; gram, which needs none",
}


def report(folder: Path) -> str:
    """Return the Markdown tables of all result files."""
    lines = [
        "# Ablations of spectral, WMF submodels",
        "",
        "Test rows; means over seeds (each another hash key too) ± half the range. Shares are of a retrain with the",
        "same seed, dimension 64; in brackets the lowest and the highest end of the seeds' 95 % paired bootstrap",
        "intervals over users. Ten shards, rank and dimension 64, hash, no polish, and the width that follows from the",
        "number of shards (96, with more than 16 shards 104, with more than 64 128) unless a row says otherwise.",
        "Controls: `random`, sweeps over all rows from random item vectors, no shards; `attention` over the very same",
        "submodels on the very same shards; `gram`. Settings are those of Table 3, chosen on validation rows. `fit`:",
        "from rows to the merged model. `forget`: one user, from the request to the published store, which is opened",
        "for each of a few users and not certified, workers warm; their median. A retrain's forget is a refit, and so",
        "is gram's, whose core an opened store does not hold.",
        "In the plots, bands reach from the lowest to the highest end of the intervals. Written by",
        "`python -m benchmarks.ablations --report` from the JSON files beside this page.",
        "",
        *(f"![{text}](ablations-{name}.svg)" for name, text in PLOTS.items()),
    ]
    for name in NAMES:
        path = folder / f"ablations-{name}.json"
        if path.exists() and (result := json.loads(path.read_text()))["cells"]:
            lines += _of_dataset(result)
    return "\n".join(lines) + "\n"


def _of_dataset(result: Row) -> list[str]:
    rows: list[Row] = result["cells"]
    command = f"{COMMAND} --dataset {result['dataset']} --sections {' '.join(TITLES)}"
    command += f" --seeds {len({row['seed'] for row in rows})}"
    lines = ["", f"## {result['dataset']}", "", f"`{command}`, {result['hardware']}, {result['date']}", ""]
    own = {key: result["hyperparameters"][key] for key in ("missing_weight", "regularization", "n_sweeps", "cg_steps")}
    shown = ", ".join(f"{key}={value}" for key, value in own.items())
    merged = configuration(result["dataset"], Cell(), 0)
    changed = ", ".join(
        f"{key}={merged.hyperparameters[key]}" for key in own if merged.hyperparameters[key] != own[key]
    )
    folded = ", ".join(f"{key}={merged.aggregation_settings[key]}" for key in ("missing_weight", "regularization"))
    lines += [
        f"Retrain: {shown}. Submodels: {changed or 'likewise'}. Merge: {MERGES[result['dataset']]}; fold-in: {folded}"
    ]
    lines[-1] += " (0: as the submodels)." if "=0.0" in folded else "."
    lines += ["", result["note"]] if "note" in result else []
    for section, title in TITLES.items():
        names = [cell.key for cell in sections(result["dataset"])[section]]
        found = [name for name in names if any(row["what"] == name for row in rows)]
        if not set(found) - {Cell().key}:
            continue
        lines += ["", f"### {title}", ""]
        lines += [
            "| | R@20 | N@20 | share R@20 | share N@20 | fit, s | forget, s | seeds |",
            "|---|---|---|---|---|---|---|---|",
        ]
        lines += [_line(name, [row for row in rows if row["what"] == name]) for name in ["retrain", *found]]
    return [*lines, *_trials(result["search"])]


def _line(name: str, rows: Sequence[Row]) -> str:
    cells = [name, *(_spread([row[metric] for row in rows]) for metric in METRICS)]
    cells += [_share(rows, metric) for metric in METRICS]
    for key in ("fit", "forget"):
        found = [row[key] for row in rows if key in row]
        cells.append(f"{statistics.mean(found):.2f}" if found else "")
    return "| " + " | ".join([*cells, str(len(rows))]) + " |"


def _spread(values: Sequence[float]) -> str:
    half = (max(values) - min(values)) / 2
    return f"{statistics.mean(values):.4f}" + (f" ± {half:.4f}" if len(values) > 1 else "")


def _share(rows: Sequence[Row], metric: str) -> str:
    if f"{metric} share" not in rows[0]:
        return ""
    low, mean, high = _interval(rows, metric)
    return f"{mean:.1%} [{low:.1%}, {high:.1%}]"


def _interval(rows: Sequence[Row], metric: str) -> tuple[float, float, float]:
    """Return the lowest end, the mean and the highest end of the shares of several seeds."""
    ends = [row[f"{metric} interval"] for row in rows]
    mean = statistics.mean(row[f"{metric} share"] for row in rows)
    return min(low for low, _ in ends), mean, max(high for _, high in ends)


def _trials(trials: Sequence[Row]) -> list[str]:
    """Return the tables of the searches, best first."""
    lines = []
    for what in dict.fromkeys(one["what"] for one in trials):
        own = sorted((one for one in trials if one["what"] == what), key=lambda one: -float(one["ndcg@20"]))
        keys = list(own[0]["settings"])
        lines += ["", f"### Search: {what}, on validation rows", ""]
        lines += ["| valid N@20 | valid R@20 | " + " | ".join(keys) + " |", "|" + "---|" * (len(keys) + 2)]
        for one in own:
            shown = [str(one["settings"][key]) for key in keys]
            lines.append("| " + " | ".join([f"{one['ndcg@20']:.4f}", f"{one['recall@20']:.4f}", *shown]) + " |")
    return lines


# ---------------------------------------------------------------------- plots

PLOTS = {
    "shards": "Share of the retrain's NDCG@20 against the number of shards",
    "rank": "Share of the retrain's NDCG@20 against the rank of the merged space",
    "forget": "Seconds of one forget against the number of shards, beside a refit",
}
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")  # Okabe and Ito's, for colour-blind eyes too
MARKERS = ("o", "s", "^", "D", "v")


def plots(folder: Path) -> None:
    """Draw what the tables say, as SVG and as a small PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams |= {
        "svg.fonttype": "none",
        "svg.hashsalt": "receraser",
        "font.size": 10,
        "axes.titlesize": 11,
        "axes.grid": True,
    }
    pyplot.rcParams |= {"grid.alpha": 0.3, "axes.spines.top": False, "axes.spines.right": False}
    results = [json.loads(path.read_text()) for name in NAMES if (path := folder / f"ablations-{name}.json").exists()]
    results = [one for one in results if one["cells"]]
    for name, draw in {"shards": _draw_shards, "rank": _draw_rank, "forget": _draw_forget}.items():
        figure = draw(pyplot, results)
        figure.savefig(folder / f"ablations-{name}.svg", metadata={"Date": None}, bbox_inches="tight")
        figure.savefig(folder / f"ablations-{name}.png", dpi=90, bbox_inches="tight")
        pyplot.close(figure)


def _points(result: Row, cells: Mapping[int, Cell], metric: str = "ndcg@20") -> list[tuple[int, float, float, float]]:
    """Return (x, lowest end, mean, highest end) of those cells that were measured."""
    found = []
    for x, cell in cells.items():
        rows = [row for row in result["cells"] if row["what"] == cell.key]
        if rows:
            found.append((x, *_interval(rows, metric)))
    return found


def _curve(axes: Any, points: Sequence[tuple[int, float, float, float]], number: int, label: str) -> None:
    x, low, mean, high = ([100 * value for value in column] for column in zip(*points, strict=True))
    at = [value / 100 for value in x]
    axes.plot(at, mean, color=COLOURS[number], marker=MARKERS[number], label=label)
    axes.fill_between(at, low, high, color=COLOURS[number], alpha=0.15, linewidth=0)


def _draw_shards(pyplot: Any, results: Sequence[Row]) -> Any:
    figure, panels = pyplot.subplots(1, len(results), figsize=(3.6 * len(results), 3.4), sharey=True, squeeze=False)
    for axes, result in zip(panels[0], results, strict=True):
        levels = {"control: 1 sweep, random start": Cell("random", polish=1), "control: gram, no shards": Cell("gram")}
        for number, style, (label, cell) in zip((2, 4), ("--", ":"), levels.items(), strict=True):
            for _, _, mean, _ in _points(result, {0: cell}):
                axes.axhline(100 * mean, color=COLOURS[number], linestyle=style, linewidth=2, label=label)
        for n, label in enumerate(("merged", "merged, then 1 sweep")):
            _curve(axes, _points(result, {k: Cell(shards=k, polish=n) for k in SHARDS}), n, label)
        if attended := _points(result, {k: Cell("attention", k) for k in ATTENDED}):
            _curve(axes, attended, 3, "control: attention, same shards")
        axes.axhline(100, color="black", linewidth=0.8)
        axes.set(xscale="log", xlabel="shards", title=result["dataset"])
        axes.set_xticks(SHARDS, [str(k) for k in SHARDS])
        axes.minorticks_off()
    panels[0][0].set_ylabel("NDCG@20, % of the retrain's")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="upper center", ncols=3, bbox_to_anchor=(0.5, 0.0))
    figure.suptitle("WMF in merged shards: what many shards cost", y=1.02)
    figure.tight_layout()
    return figure


def _draw_rank(pyplot: Any, results: Sequence[Row]) -> Any:
    figure, axes = pyplot.subplots(figsize=(5.8, 3.8))
    ranks = (16, 32, 64, 128)
    for number, result in enumerate(results):
        points = _points(result, {r: Cell(rank=r) for r in ranks})
        if points:
            _curve(axes, points, number, result["dataset"])
    axes.axhline(100, color="black", linewidth=0.8)
    axes.set(xscale="log", xlabel="rank of the merged space", ylabel="NDCG@20, % of the retrain's (rank 64)")
    axes.set_xticks(ranks, [str(r) for r in ranks])
    axes.minorticks_off()
    axes.set_title("Ten shards: the rank that serves depends on the data")
    axes.legend()
    return figure


def _forgets(result: Row, cell: Cell) -> list[float]:
    return [row["forget"] for row in result["cells"] if row["what"] == cell.key and "forget" in row]


def _draw_forget(pyplot: Any, results: Sequence[Row]) -> Any:
    figure, axes = pyplot.subplots(figsize=(5.8, 3.8))
    for number, result in enumerate(results):
        refit = statistics.median(_forgets(result, Cell("retrain")))
        at, times = [], []
        for k in SHARDS:
            if found := _forgets(result, Cell(shards=k)):
                at.append(k)
                times.append(statistics.median(found) / refit)
        label = f"{result['dataset']} (refit: {refit:.2g} s)"
        axes.plot(at, times, color=COLOURS[number], marker=MARKERS[number], label=label)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="shards", ylabel="forget / forget by refit")
    axes.set_xticks(SHARDS, [str(k) for k in SHARDS])
    axes.set_yticks((0.1, 0.2, 0.5, 1, 2, 5, 10), ("0.1", "0.2", "0.5", "1", "2", "5", "10"))
    axes.minorticks_off()
    axes.set_title("WMF: what forgetting one user costs")
    axes.legend()
    return figure


# ---------------------------------------------------------------------- main


def main() -> None:
    """Search, measure, or write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder that holds the data sets' folders")
    parser.add_argument("--dataset", choices=NAMES)
    parser.add_argument("--sections", nargs="+", choices=["search", "search-merge", *sections()], default=[])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--shards", nargs="+", type=int, default=SHARDS, help="of the section shards")
    parser.add_argument("--forget", type=int, default=3, help="users forgotten one by one, for the cost; 0: none")
    parser.add_argument("--weights", nargs="+", type=float, default=[0.01, 0.02, 0.05, 0.1], help="for a search")
    parser.add_argument("--penalties", nargs="+", type=float, default=[0.003, 0.01, 0.03], help="for a search")
    parser.add_argument("--sweeps", nargs="+", type=int, default=[8, 12], help="for a search")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    if args.dataset is not None:
        run(args)
    if args.report:
        plots(args.out)
        (args.out / "ablations.md").write_text(report(args.out))


def run(args: argparse.Namespace) -> None:
    """Do the sections of one data set."""
    from receraser.execution.local import LocalExecutor

    path = args.out / f"ablations-{args.dataset}.json"
    result: Row = {"dataset": args.dataset, "search": [], "cells": []}
    if path.exists():
        result = json.loads(path.read_text())
    data = load(args.data, args.dataset)
    with LocalExecutor() as executor:
        for section in args.sections:
            trials: Iterable[Row] = ()
            if section == "search":
                trials = search(data, args.weights, args.penalties, args.sweeps, result["search"])
            elif section == "search-merge":
                trials = search_merge(data, args.weights, args.penalties, executor)
            for trial in trials:
                if trial not in result["search"]:
                    result["search"].append(trial)
                    write(result, path)
    parts = sections(args.dataset, args.shards)
    cells = dict.fromkeys(cell for name in args.sections if name in parts for cell in parts[name])
    if cells:
        measure(data, list(cells), args.seeds, args.forget, result, path)


if __name__ == "__main__":
    main()
