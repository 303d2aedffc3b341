"""Grid search over hyperparameters, judged on validation rows only. The test rows are never opened here.

    python -m benchmarks.search --data DIR/ml-1m --model bpr --device cuda --workers 2 \
        --grid n_negatives=1,8 weight_decay=0.01,0.03 --fixed n_epochs=300 --out benchmarks/results/search-ml-1m.json
    python -m benchmarks.search --report benchmarks/results/search-ml-1m.json

Every trial is a process of its own, so trials cannot influence each other; `--workers` of them share the device. Trials
are added to those that the file holds already; `--report` writes the table of them beside it. Runs where only numpy,
scipy and torch are installed.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import multiprocessing
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import TypedDict

METRICS = ("ndcg@20", "recall@20")


class Trial(TypedDict):
    """One fit and what it reached on the validation rows."""

    model: str
    settings: dict[str, object]
    values: dict[str, float]
    seconds: float
    epochs: str


def trial(data: str, model_name: str, settings: Mapping[str, object], seed: int) -> Trial:
    """Fit on the training rows and report what is reached on the validation rows."""
    import torch

    from receraser.data.readers import read
    from receraser.evaluation import RankingTask
    from receraser.models.registry import make_model

    torch.set_num_threads(1)
    folder = Path(data)
    train, valid = (read(folder / f"{part}.txt.gz").interactions for part in ("train", "valid"))
    model = make_model(model_name, settings)
    started = time.perf_counter()
    model.fit(train, valid=valid, seed=seed)
    seconds = time.perf_counter() - started
    task = RankingTask(model.items_, train, valid)
    facts = model.facts()
    return {
        "model": model_name,
        "settings": dict(settings),
        "values": {name: task.metric(model.scores, name) for name in METRICS},
        "seconds": round(seconds, 2),
        "epochs": f"{facts['best_epoch']} of {facts['epochs']}" if "epochs" in facts else f"{facts['sweeps']} sweeps",
    }


def literal(text: str) -> object:
    """Read a value as Python would, true and false also as the presets write them; anything else is text."""
    try:
        return ast.literal_eval(text.title() if text in ("true", "false") else text)
    except (ValueError, SyntaxError):
        return text


def add(path: Path, found: Trial) -> None:
    """Add a trial to the file; one with the same settings is replaced."""
    trials: list[Trial] = json.loads(path.read_text()) if path.exists() else []
    others = [one for one in trials if (one["model"], one["settings"]) != (found["model"], found["settings"])]
    path.write_text(json.dumps([*others, found], indent=1) + "\n")


def report(path: Path) -> str:
    """Return the table of all trials, by model, best first."""
    trials: list[Trial] = json.loads(path.read_text())
    lines = [
        "# Hyperparameter search on ML-1M",
        "",
        "Fitted on the training rows, judged on the validation rows; the test rows were not opened. The presets take",
        "the first row's settings; for wmf eight sweeps, half the time for 0.6 % of NDCG. Trials shared a device,",
        "so their seconds compare loosely. Written by `python -m benchmarks.search --report` from the JSON file.",
    ]
    for model in sorted({one["model"] for one in trials}):
        own = sorted((one for one in trials if one["model"] == model), key=lambda one: -one["values"]["ndcg@20"])
        keys = sorted({key for one in own for key in one["settings"]})
        lines += ["", f"## {model}", "", f"| valid N@20 | valid R@20 | epochs | seconds | {' | '.join(keys)} |"]
        lines += ["|" + "---|" * (len(keys) + 4)]
        for one in own:
            shown = [str(one["settings"].get(key, "")) for key in keys]
            values = [f"{one['values'][name]:.4f}" for name in METRICS]
            lines.append("| " + " | ".join([*values, one["epochs"], str(one["seconds"]), *shown]) + " |")
    return "\n".join(lines) + "\n"


def search(args: argparse.Namespace) -> None:
    """Run every point of the grid."""
    fixed = {"device": args.device} | {k: literal(v) for k, v in (pair.split("=") for pair in args.fixed)}
    axes = {k: [literal(v) for v in vs.split(",")] for k, vs in (pair.split("=") for pair in args.grid)}
    points = [fixed | dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(args.workers, mp_context=spawn, max_tasks_per_child=1) as pool:
        jobs = [pool.submit(trial, args.data, args.model, point, args.seed) for point in points]
        for job in as_completed(jobs):
            found = job.result()
            add(args.out, found)
            shown = " ".join(f"{key}={found['settings'][key]}" for key in axes)
            values = "  ".join(f"{name} {value:.4f}" for name, value in found["values"].items())
            print(f"{values}  {found['epochs']}  {found['seconds']} s  {shown}", flush=True)


def main() -> None:
    """Search, or write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder with train.txt.gz and valid.txt.gz")
    parser.add_argument("--model")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--grid", nargs="*", default=[], metavar="KEY=V,V")
    parser.add_argument("--fixed", nargs="*", default=[], metavar="KEY=V")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
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
