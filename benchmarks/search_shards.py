"""Search over the settings of sharded methods, judged on validation rows only. No test row has a say here.

    python -m benchmarks.search_shards --data DIR --dataset yelp2018 --model bpr --device cuda \
        --grid learning_rate=0.005,0.01 dropout=0.1,0.3 --fixed batch_size=32768 anneal=true \
        --out benchmarks/results/search-shards-yelp2018.json
    python -m benchmarks.search_shards --report benchmarks/results/search-shards-yelp2018.json

One partition and one set of submodels (those that `receraser reproduce` takes for `spectral` on the data set, with the
changes `--partition-set` and `--submodel`), then every point of the grid of the aggregation's settings. Trials are
added to those that the file holds already. Runs where only numpy, scipy and torch are installed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from benchmarks.search import literal

METRICS = ("ndcg@20", "recall@20")
_ABOUT = {
    "ml-1m": [
        "Ten shards; fitted on the training rows, judged on the validation rows; the test rows were not opened. The",
        "presets `receraser-MODEL-ml-1m` take the first row's settings, but for WMF's: its first row was found by",
        "earlier kernels and is .1907 now; 40 annealed epochs (.1920) are taken, 60 (.1930) take half as long again.",
        "Batches of more users, which cost less, need more epochs, and gained nothing.",
        "Submodel settings are changes to the MODEL-ml-1m of then, LightGCN's with batches of 8192 and",
        "learning rate 0.005; rows that say anneal=True have the submodels of the preset. One seed; early trials drew",
        "their first transfer matrices by another key, so that running them again gives other last digits; times are",
        "of busy machines.",
    ],
    "ml-100k": [
        "Ten shards; fitted on the training rows, judged on the validation rows; the test rows were not opened. The",
        "presets `receraser-MODEL-ml-100k` take the first row's settings; LightGCN's submodels are those of ML-1M",
        "(.0006 below, within chance), and WMF's have 12 sweeps. Submodel settings are changes to those of `spectral`",
        "on ML-1M. One seed; trials ran beside other work, which the times show.",
    ],
    "yelp2018": [
        "Ten shards; fitted on the training rows for choices, judged on the rows held out of them; the test rows were",
        "not opened. The presets `receraser-MODEL-yelp2018` take the first row's settings, but for WMF's: batches of",
        "4,096 users are .0003 below, with a quarter of its steps, which is what it costs. Submodel",
        "settings are changes to those of `spectral` on that data set. One seed; several trials on a GPU ran beside",
        "each other, which the times show.",
    ],
    "": [
        "Ten shards; fitted on the training rows for choices, judged on the rows held out of them; the test rows were",
        "not opened. The presets `receraser-MODEL-DATASET` take the first row's settings. Submodel settings are",
        "changes to those of `spectral` on that data set (its preset, or that of ML-1M). One seed; several trials ran",
        "beside each other, which the times show.",
    ],
}


class Trial(TypedDict):
    """One aggregation of submodels and what it reached on the validation rows."""

    model: str
    partition: dict[str, object]
    submodel: dict[str, object]
    aggregation: dict[str, object]
    values: dict[str, float]
    seconds: float
    epochs: str
    device: str


def search(args: argparse.Namespace) -> None:
    """Fit the submodels once, then try every point of the grid."""
    from receraser.aggregation.registry import make_aggregator
    from receraser.evaluation import RankingTask
    from receraser.models.factors import FactorModel
    from receraser.models.registry import make_factor_model
    from receraser.partition.registry import make_partitioner
    from receraser.reproduce.datasets import load
    from receraser.reproduce.settings import chosen as settings_of
    from receraser.seeds import derive

    data = load(args.data, args.dataset).pseudonymous()
    train, valid = data.train, data.valid
    divided = {"n_shards": args.shards} | pairs(args.partition_set)
    place = {} if args.partition in ("hash", "random") else {"device": args.device}
    partition = make_partitioner(args.partition, divided | place).assign(train, valid=valid, seed=args.seed)
    changes = pairs(args.submodel)
    known = settings_of(args.dataset, args.model, "spectral").config.hyperparameters
    settings = {**known, **changes, "device": args.device}
    submodels: list[FactorModel] = []
    for shard in partition.shards(train, valid):
        model = make_factor_model(args.model, settings)
        submodels.append(model.fit(shard.train, valid=shard.valid, seed=derive(args.seed, "shard", shard.id)))
    axes = {
        key: [literal(value) for value in values.split(",")] for key, values in (one.split("=") for one in args.grid)
    }
    points = [dict(zip(axes, point, strict=True)) for point in itertools.product(*axes.values())] if axes else []
    for point in points + [pairs(text.split()) for text in args.points]:
        chosen = pairs(args.fixed) | point
        there = {"device": args.device} if args.aggregation in ("attention", "static") else {}
        aggregator = make_aggregator(args.aggregation, chosen | there)
        started = time.perf_counter()
        seed = derive(args.seed, "aggregation")
        state, facts = aggregator.fit(submodels, train, valid=valid, seed=seed)
        seconds = time.perf_counter() - started
        scorer = aggregator.scorer(submodels, state)
        task = RankingTask(scorer.items_, train, valid)
        found: Trial = {
            "model": args.model,
            "partition": {"name": args.partition, **divided},
            "submodel": changes,
            "aggregation": {"name": args.aggregation, **chosen},
            "values": {name: task.metric(scorer.scores, name) for name in METRICS},
            "seconds": round(seconds, 1),
            "epochs": f"{facts['best_epoch']} of {facts['epochs']}" if "epochs" in facts else "",
            "device": args.device,
        }
        add(args.out, found)
        print(json.dumps(found), flush=True)


def pairs(texts: list[str]) -> dict[str, object]:
    """Read KEY=VALUE texts."""
    return {key: literal(value) for key, value in (text.split("=") for text in texts)}


def add(path: Path, found: Trial) -> None:
    """Add a trial to the file; one with the same settings is replaced."""
    trials: list[Trial] = json.loads(path.read_text()) if path.exists() else []
    others = [one for one in trials if _identity(one) != _identity(found)]
    path.write_text(json.dumps([*others, found], indent=1) + "\n")


def _identity(one: Trial) -> tuple[object, ...]:
    return one["model"], one["partition"], one["submodel"], one["aggregation"], one["device"]


def report(path: Path) -> str:
    """Return the table of all trials, by model, best first."""
    trials: list[Trial] = json.loads(path.read_text())
    dataset = path.stem.removeprefix("search-shards-")
    lines = [f"# Search over sharded methods on {dataset}", ""]
    lines += _ABOUT.get(dataset, _ABOUT[""])
    lines += ["Written by `python -m benchmarks.search_shards --report` from the JSON file."]
    for model in sorted({one["model"] for one in trials}):
        own = sorted((one for one in trials if one["model"] == model), key=lambda one: -one["values"]["ndcg@20"])
        lines += ["", f"## {model}", "", "| valid N@20 | R@20 | epochs | s | on | partition | submodel | aggregation |"]
        lines += ["|---|---|---|---|---|---|---|---|"]
        for one in own:
            values = [f"{one['values'][name]:.4f}" for name in METRICS]
            parts = [_shown(one["partition"]), _shown(one["submodel"]), _shown(one["aggregation"])]
            lines.append("| " + " | ".join([*values, one["epochs"], str(one["seconds"]), one["device"], *parts]) + " |")
    return "\n".join(lines) + "\n"


def _shown(settings: Mapping[str, object]) -> str:
    return " ".join(str(value) if key == "name" else f"{key}={value}" for key, value in settings.items())


def main() -> None:
    """Search, or write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder that holds the folder of the data set")
    parser.add_argument("--dataset", default="ml-1m")
    parser.add_argument("--model")
    parser.add_argument("--partition", default="inbp")
    parser.add_argument("--partition-set", nargs="*", default=[], metavar="KEY=V")
    parser.add_argument("--shards", type=int, default=10)
    parser.add_argument("--submodel", nargs="*", default=[], metavar="KEY=V")
    parser.add_argument("--aggregation", default="attention")
    parser.add_argument("--grid", nargs="*", default=[], metavar="KEY=V,V")
    parser.add_argument("--fixed", nargs="*", default=[], metavar="KEY=V")
    parser.add_argument("--points", nargs="*", default=[], metavar="'KEY=V KEY=V'", help="beside the grid's")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--report", type=Path, metavar="FILE")
    args = parser.parse_args()
    if args.report is not None:
        args.report.with_suffix(".md").write_text(report(args.report))
        return
    if args.data is None or args.model is None or args.out is None:
        parser.error("--data, --model and --out are needed to search")
    search(args)


if __name__ == "__main__":
    main()
