"""Quality of the base models on ML-1M, full retrain: the presets, measured once on the test rows over several seeds.

    python -m benchmarks.base_models --data DIR/ml-1m --models wmf bpr lightgcn --seeds 3 --device cuda
    python -m benchmarks.base_models --report

The presets were chosen on the validation rows (`benchmarks.search`); here the validation rows choose the epoch, and
the test rows are opened once, at the end. Runs where only numpy, scipy and torch are installed; writes one JSON file
per model to `benchmarks/results/`; `--report` makes the table of them.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
CUTS = (10, 20, 50)
COMMAND = "python -m benchmarks.base_models --data DIR/ml-1m"
PAPER = {  # Chen et al. 2022, Table 3, Movielens-1m, Retrain: R@20, N@20
    "wmf": (0.2507, 0.3509),
    "bpr": (0.2389, 0.3368),
    "lightgcn": (0.2428, 0.3447),
}


def measure(data: Path, name: str, seeds: int, device: str) -> dict[str, object]:
    """Fit a model's preset with several seeds, as `receraser fit` does, and measure each on the test rows."""
    import torch

    from receraser.config import load_config
    from receraser.data.readers import read
    from receraser.engine import Engine
    from receraser.execution.local import LocalExecutor

    train, valid, test = (read(data / f"{part}.txt.gz").interactions for part in ("train", "valid", "test"))
    preset = dataclasses.replace(load_config(f"{name}-ml-1m"), device=device)
    runs = []
    with LocalExecutor() as executor:
        for seed in range(seeds):
            engine = Engine.from_config(dataclasses.replace(preset, seed=seed), executor=executor)
            engine.fit(train, valid=valid)
            found = engine.evaluate(test, at=CUTS)
            facts = dict(engine.facts[0])
            curve = facts.pop("validation", [])
            assert isinstance(curve, list)
            best = {"valid ndcg@20": max(value for _, value in curve)} if curve else {}
            seconds = {"seconds": round(engine.seconds["submodels"], 2)}
            run = {"seed": seed, **seconds, **best, **facts, **found.metrics, "users": found.users}
            runs.append(run | {"digest": engine.digest})
            print(f"{name} seed {seed}: {_short(run)}", file=sys.stderr, flush=True)
        environment = dict(executor.environment)
    return {
        "model": name,
        "preset": preset.hyperparameters,
        "hyperparameters": dict(engine.config.hyperparameters),
        "data": "ml-1m: the split of the paper's authors; 720,152 train, 80,016 valid, 200,041 test rows",
        "command": f"{COMMAND} --models {name} --seeds {seeds} --device {device}",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "hardware": torch.cuda.get_device_name() if device == "cuda" else f"CPU, {os.cpu_count()} cores",
        "environment": environment,
        "runs": runs,
    }


def _short(run: Mapping[str, object]) -> str:
    return f"R@20 {run['recall@20']:.4f}  N@20 {run['ndcg@20']:.4f}  {run['seconds']} s"


def report(folder: Path) -> str:
    """Return the Markdown table of all result files."""
    lines = [
        "# Base models on ML-1M, full retrain",
        "",
        "Means over seeds ± half the range, on the test rows; presets and epochs were chosen on the validation rows.",
        "The paper's figures come from code that stopped on the test rows. Written by",
        "`python -m benchmarks.base_models --report` from the JSON files beside this page, which hold every run.",
        "",
        "| model | R@20 | N@20 | paper R@20 | paper N@20 | share | R@10 | N@10 | R@50 | N@50 | fit, s | on | date |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    commands = []
    for name, (recall, ndcg) in PAPER.items():
        path = folder / f"base-models-{name}.json"
        if not path.exists():
            continue
        result = json.loads(path.read_text())
        mean = {key: statistics.mean(run[key] for run in result["runs"]) for key in _keys()}
        spread = {
            key: (max(r[key] for r in result["runs"]) - min(r[key] for r in result["runs"])) / 2 for key in _keys()
        }
        cells = [f"{mean[key]:.4f} ± {spread[key]:.4f}" for key in ("recall@20", "ndcg@20")]
        share = f"{mean['recall@20'] / recall:.1%} / {mean['ndcg@20'] / ndcg:.1%}"
        others = [f"{mean[key]:.4f}" for key in ("recall@10", "ndcg@10", "recall@50", "ndcg@50")]
        seconds = f"{mean['seconds']:.1f}"
        row = [
            name,
            *cells,
            f"{recall:.4f}",
            f"{ndcg:.4f}",
            share,
            *others,
            seconds,
            result["hardware"],
            result["date"],
        ]
        lines.append("| " + " | ".join(row) + " |")
        settings = ", ".join(f"{key}={value}" for key, value in result["hyperparameters"].items())
        commands += ["", f"**{name}**: `{result['command']}`", "", settings]
    return "\n".join([*lines, *commands]) + "\n"


def _keys() -> list[str]:
    return [f"{name}@{cut}" for name in ("recall", "ndcg") for cut in CUTS] + ["seconds"]


def main() -> None:
    """Measure, or write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with train.txt.gz, valid.txt.gz and test.txt.gz")
    parser.add_argument("--models", nargs="+", default=list(PAPER))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    if args.data is not None:
        for name in args.models:
            result = measure(args.data, name, args.seeds, args.device)
            (args.out / f"base-models-{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    if args.report:
        (args.out / "base-models.md").write_text(report(args.out))


if __name__ == "__main__":
    main()
