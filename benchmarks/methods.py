"""Quality of the methods on ML-1M: retrain, sisa, grapheraser, receraser, over several seeds.

    python -m benchmarks.methods --data DIR/ml-1m --models wmf bpr lightgcn --seeds 3 --device cuda
    python -m benchmarks.methods --report

Ten shards. The settings are the presets `receraser-MODEL-ml-1m` (for `retrain`: `MODEL-ml-1m`), chosen on the
validation rows (`benchmarks.search_shards`); sisa and grapheraser have the same submodel settings on their own shards.
Besides, on the very same InBP shards and submodels: mean and static instead of attention. Validation rows choose
epochs, the test rows are opened once, at the end. Runs where only numpy, scipy and torch are installed; writes one JSON
file per model to `benchmarks/results/`; `--report` makes the table of them.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from receraser.config import EngineConfig
    from receraser.data.interactions import Interactions
    from receraser.execution.local import LocalExecutor
    from receraser.state import State

RESULTS = Path(__file__).parent / "results"
CUTS = (10, 20, 50)
COMMAND = "python -m benchmarks.methods --data DIR/ml-1m"
ON_SAME_SHARDS = ("mean", "static")
# Chen et al. 2022, Table 3, Movielens-1m: R@20, N@20
PAPER = {
    ("wmf", "retrain"): (0.2507, 0.3509),
    ("wmf", "sisa"): (0.1266, 0.1998),
    ("wmf", "grapheraser"): (0.1823, 0.2557),
    ("wmf", "receraser"): (0.2254, 0.3253),
    ("bpr", "retrain"): (0.2389, 0.3368),
    ("bpr", "sisa"): (0.1737, 0.2679),
    ("bpr", "grapheraser"): (0.1906, 0.2827),
    ("bpr", "receraser"): (0.2254, 0.3186),
    ("lightgcn", "retrain"): (0.2428, 0.3447),
    ("lightgcn", "sisa"): (0.1743, 0.2686),
    ("lightgcn", "grapheraser"): (0.1914, 0.2791),
    ("lightgcn", "receraser"): (0.2266, 0.3229),
}


def configuration(method: str, model: str, seed: int, device: str) -> EngineConfig:
    """Return the configuration of a method: its preset, or the submodels of receraser's with its own other parts."""
    from receraser.config import load_config, resolve

    preset = load_config(f"{model}-ml-1m" if method == "retrain" else f"receraser-{model}-ml-1m")
    if method not in ("retrain", "receraser"):
        preset = dataclasses.replace(
            preset, method=method, partition="", aggregation="", partition_settings={}, aggregation_settings={}
        )
    return resolve(dataclasses.replace(preset, seed=seed, device=device))


def fitted(
    config: EngineConfig, train: Interactions, valid: Interactions, executor: LocalExecutor
) -> Iterator[tuple[str, State, dict[str, float]]]:
    """Fit a configuration; for receraser also the other aggregations on the very same submodels."""
    from receraser.config import resolve
    from receraser.fitting import Fitting

    with Fitting(config, executor, n_tasks=config.shards, partitions=True, progress=None) as fitting:
        partition = fitting.partition(train, valid)
        state = fitting.state(train, valid, partition)
        yield config.method, state, dict(fitting.seconds)
    if config.method != "receraser":
        return
    for aggregation in ON_SAME_SHARDS:
        other = resolve(dataclasses.replace(config, method="", aggregation=aggregation, aggregation_settings={}))
        with Fitting(other, executor, n_tasks=1, partitions=False, progress=None) as fitting:
            shards = [dataclasses.replace(one, config=other) for one in state.shards]
            learned, facts = fitting.aggregate(shards, train, valid)
            same = dataclasses.replace(state, config=other, shards=shards, aggregate=learned, aggregate_facts=facts)
            yield f"inbp + {aggregation}", same, dict(fitting.seconds)


def measure(data: Path, model: str, methods: Sequence[str], seeds: int, device: str) -> dict[str, object]:
    """Fit every method with several seeds and measure each on the test rows."""
    import torch

    from receraser.data.ids import pseudonyms
    from receraser.data.readers import read
    from receraser.evaluation import evaluate
    from receraser.execution.local import LocalExecutor
    from receraser.keys import PUBLIC_KEY

    tables = [read(data / f"{part}.txt.gz").interactions for part in ("train", "valid", "test")]
    train, valid, test = (one.rename_users(pseudonyms(one.users, PUBLIC_KEY)) for one in tables)
    runs = []
    settings: dict[str, object] = {}
    with LocalExecutor(2 if device == "cuda" else None) as executor:
        for method in methods:
            for seed in range(seeds):
                config = configuration(method, model, seed, device)
                for name, state, seconds in fitted(config, train, valid, executor):
                    found = evaluate(state.scorer, train, test, at=CUTS)
                    epochs = state.aggregate_facts.get("best_epoch")
                    run = {
                        "method": name,
                        "seed": seed,
                        **found.metrics,
                        "balance": round(state.partition.balance, 3),
                        "epochs of the aggregation": epochs,
                        "seconds": {stage: round(value, 2) for stage, value in seconds.items()},
                        "digest": state.digest,
                    }
                    runs.append(run)
                    settings[name] = state.config.as_dict()
                    print(f"{model} {name} seed {seed}: {_short(run)}", file=sys.stderr, flush=True)
        environment = dict(executor.environment)
    return {
        "model": model,
        "settings": settings,
        "data": "ml-1m: the split of the paper's authors; 720,152 train, 80,016 valid, 200,041 test rows",
        "command": f"{COMMAND} --models {model} --methods {' '.join(methods)} --seeds {seeds} --device {device}",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "hardware": torch.cuda.get_device_name() if device == "cuda" else f"CPU, {os.cpu_count()} cores",
        "environment": environment,
        "runs": runs,
    }


def _short(run: Mapping[str, object]) -> str:
    return f"R@20 {run['recall@20']:.4f}  N@20 {run['ndcg@20']:.4f}  balance {run['balance']}  {run['seconds']}"


def report(folder: Path) -> str:
    """Return the Markdown tables of all result files."""
    lines = [
        "# Methods on ML-1M, ten shards",
        "",
        "Means over seeds ± half the range, on the test rows; settings and epochs were chosen on the validation rows",
        "(`search-shards-ml-1m.md`). `share`: of our own retrain of the same model. `balance`: largest shard over the",
        "mean, in rows. sisa and grapheraser have submodel settings that were chosen for InBP shards; theirs were not",
        "searched. The paper's figures come from code that stopped on the test rows. Written by",
        "`python -m benchmarks.methods --report` from the JSON files beside this page, which hold every run.",
    ]
    for model in ("wmf", "bpr", "lightgcn"):
        path = folder / f"methods-{model}.json"
        if not path.exists():
            continue
        result = json.loads(path.read_text())
        runs = result["runs"]
        own = _retrain(folder, model)
        lines += ["", f"## {model}", "", f"`{result['command']}`, {result['hardware']}, {result['date']}", ""]
        lines += [
            "| method | R@20 | N@20 | share | paper R@20 / N@20 | balance | partition, submodels, aggregation, s |"
        ]
        lines += ["|---|---|---|---|---|---|---|"]
        for name in dict.fromkeys(run["method"] for run in runs):
            these = [run for run in runs if run["method"] == name]
            cells = [_mean(these, key) for key in ("recall@20", "ndcg@20")]
            means = [statistics.mean(run[key] for run in these) for key in ("recall@20", "ndcg@20")]
            share = " / ".join(f"{mean / full:.1%}" for mean, full in zip(means, own, strict=True)) if own else ""
            paper = " / ".join(f"{value:.4f}" for value in PAPER.get((model, name), ()))
            times = [
                f"{statistics.mean(run['seconds'].get(stage, 0.0) for run in these):.1f}"
                for stage in ("partition", "submodels", "aggregate")
            ]
            balance = f"{statistics.mean(run['balance'] for run in these):.2f}"
            lines.append("| " + " | ".join([name, *cells, share, paper, balance, ", ".join(times)]) + " |")
        lines += ["", *_settings(result["settings"])]
    return "\n".join(lines) + "\n"


def _retrain(folder: Path, model: str) -> tuple[float, float] | None:
    """Return our own retrain's R@20 and N@20."""
    path = folder / f"base-models-{model}.json"
    if not path.exists():
        return None
    runs = json.loads(path.read_text())["runs"]
    return statistics.mean(r["recall@20"] for r in runs), statistics.mean(r["ndcg@20"] for r in runs)


def _mean(runs: Sequence[Mapping[str, float]], key: str) -> str:
    values = [run[key] for run in runs]
    return f"{statistics.mean(values):.4f} ± {(max(values) - min(values)) / 2:.4f}"


def _settings(settings: Mapping[str, Mapping[str, object]]) -> list[str]:
    chosen = settings["receraser"] if "receraser" in settings else next(iter(settings.values()))
    return [
        f"{part}: {', '.join(f'{k}={v}' for k, v in dict(chosen[part]).items())}  "  # type: ignore[call-overload]
        for part in ("hyperparameters", "partition_settings", "aggregation_settings")
    ]


def main() -> None:
    """Measure, or write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with train.txt.gz, valid.txt.gz and test.txt.gz")
    parser.add_argument("--models", nargs="+", default=["wmf", "bpr", "lightgcn"])
    parser.add_argument("--methods", nargs="+", default=["receraser", "sisa", "grapheraser"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    if args.data is not None:
        for model in args.models:
            result = measure(args.data, model, args.methods, args.seeds, args.device)
            (args.out / f"methods-{model}.json").write_text(json.dumps(result, indent=1) + "\n")
    if args.report:
        (args.out / "methods.md").write_text(report(args.out))


if __name__ == "__main__":
    main()
