"""Grid search over hyperparameters, judged on validation rows only. The test rows are never opened here.

    python -m benchmarks.search --data DIR --model bpr --device cuda --workers 4 \
        --grid learning_rate=0.02,0.05 weight_decay=0.01,0.02 --fixed n_epochs=300 --out search.json

Runs where only numpy, scipy and torch are installed. Every trial is a process of its own, so trials cannot influence
each other; `--workers` of them share the device.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

Settings = dict[str, object]


def trial(data: str, model_name: str, settings: Settings, seed: int) -> dict[str, object]:
    """Fit on the training rows and report the best value on the validation rows."""
    import torch

    from receraser.data.readers import read
    from receraser.evaluation import RankingTask
    from receraser.models.factors import VALIDATION_METRIC
    from receraser.models.registry import MODELS

    torch.set_num_threads(1)
    folder = Path(data)
    train, valid = (read(folder / f"{part}.txt.gz").interactions for part in ("train", "valid"))
    model = MODELS[model_name](**settings)
    started = time.perf_counter()
    model.fit(train, valid=valid, seed=seed)
    seconds = time.perf_counter() - started
    task = RankingTask(model.items_, train, valid)
    return {
        "settings": settings,
        "seconds": round(seconds, 2),
        VALIDATION_METRIC: task.metric(model.scores, VALIDATION_METRIC),
        "recall@20": task.metric(model.scores, "recall@20"),
        **model.facts(),
    }


def literal(text: str) -> object:
    """Read a value as Python would; anything else is text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def main() -> None:
    """Run the grid and write what was found, best first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with train.txt.gz and valid.txt.gz")
    parser.add_argument("--model", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--grid", nargs="*", default=[], metavar="KEY=V,V")
    parser.add_argument("--fixed", nargs="*", default=[], metavar="KEY=V")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    fixed = {"device": args.device} | {k: literal(v) for k, v in (pair.split("=") for pair in args.fixed)}
    axes = {k: [literal(v) for v in vs.split(",")] for k, vs in (pair.split("=") for pair in args.grid)}
    settings = [fixed | dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    found: list[dict[str, object]] = []
    with ProcessPoolExecutor(args.workers, mp_context=multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
        jobs = [pool.submit(trial, args.data, args.model, one, args.seed) for one in settings]
        for job in as_completed(jobs):
            result = job.result()
            found.append(result)
            found.sort(key=lambda row: -float(str(row["ndcg@20"])))
            args.out.write_text(json.dumps({"model": args.model, "trials": found}, indent=1))
            print(line(result, list(axes)), flush=True)


def line(result: dict[str, object], axes: list[str]) -> str:
    """Return a trial on one line."""
    settings = result["settings"]
    assert isinstance(settings, dict)
    shown = " ".join(f"{key}={settings[key]}" for key in axes)
    return (
        f"{result['ndcg@20']:.4f} ndcg {result['recall@20']:.4f} recall  "
        f"epoch {result.get('best_epoch')}/{result.get('epochs')}  {result['seconds']} s  {shown}"
    )


if __name__ == "__main__":
    main()
