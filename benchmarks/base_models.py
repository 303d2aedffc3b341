"""Quality of the base models on ML-1M, full retrain: the presets, measured once on the test rows over several seeds.

    python -m benchmarks.base_models --data DIR/ml-1m --models wmf bpr lightgcn --seeds 3 --device cuda
    python -m benchmarks.base_models --report

The presets were chosen on the validation rows (`benchmarks.search`); here the validation rows choose the epoch, and
the test rows are opened once, at the end. Runs where only numpy, scipy and torch are installed; writes one JSON file
per model to `benchmarks/results/`; `--report` makes the table of them.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
CUTS = (10, 20, 50)
PAPER = {  # Chen et al. 2022, Table 3, Movielens-1m, Retrain: R@20, N@20
    "wmf": (0.2507, 0.3509),
    "bpr": (0.2389, 0.3368),
    "lightgcn": (0.2428, 0.3447),
}


def measure(data: Path, name: str, seeds: int, device: str) -> dict[str, object]:
    """Fit a model's preset with several seeds and measure each on the test rows."""
    import torch

    from receraser.config import load_config
    from receraser.data.readers import read
    from receraser.evaluation import RankingTask, evaluate
    from receraser.fingerprint import of_tensors
    from receraser.models.registry import make_model

    torch.set_num_threads(1)
    train, valid, test = (read(data / f"{part}.txt.gz").interactions for part in ("train", "valid", "test"))
    preset = load_config(f"{name}-ml-1m")
    runs = []
    for seed in range(seeds):
        model = make_model(name, {**preset.hyperparameters, "device": device})
        if seed == 0:
            make_model(name, {**preset.hyperparameters, "device": device, **_brief(name)}).fit(
                train, seed=99
            )  # compiles
        started = time.perf_counter()
        model.fit(train, valid=valid, seed=seed)
        seconds = time.perf_counter() - started
        found = evaluate(model, train, test, at=CUTS)
        on_valid = RankingTask(model.items_, train, valid).metric(model.scores, "ndcg@20")
        facts = {key: value for key, value in model.facts().items() if key != "validation"}
        run = {"seed": seed, "seconds": round(seconds, 2), "valid ndcg@20": on_valid, **facts, **found.metrics}
        runs.append(run | {"users": found.users, "weights": of_tensors(model.state())})
        print(f"{name} seed {seed}: {_short(run)}", file=sys.stderr, flush=True)
    return {
        "model": name,
        "preset": f"{name}-ml-1m",
        "hyperparameters": make_model(name, dict(preset.hyperparameters)).hyperparameters() | {"device": device},
        "data": "ml-1m: the split of the paper's authors; 720,152 train, 80,016 valid, 200,041 test rows",
        "command": f"python -m benchmarks.base_models --data DIR/ml-1m --models {name} --device {device}",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "hardware": torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()} CPU, two cores",
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "runs": runs,
    }


def _brief(name: str) -> dict[str, object]:
    return {"n_sweeps": 1} if name == "wmf" else {"n_epochs": 2}


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
