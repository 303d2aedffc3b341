"""On a GPU: full retrain and one forget, warm, everything included, beside the paper's minutes.

    python -m benchmarks.gpu --data DIR [--datasets ml-1m yelp2018] [--models bpr wmf lightgcn]
    python -m benchmarks.gpu --report

A retrain is the whole fit with its validation, from rows in memory to a state. A forget begins with the request in an
open store and ends with the published, certified state; its figure is the median over a few users (spectral) or single
interactions (receraser). Workers are warm: imports, compilers and the first look at the device are nobody's training.
Runs are added to those that the file holds already, and replace those of the same data, model and method.

What is published is certified and stored, so this needs the package's own dependencies (cryptography, pyarrow,
safetensors), though no numba; `tools/check_cuda.py` and `tools/cells_on_gpu.py` need numpy, scipy and torch alone.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import RESULTS, Times, facts, save, timed
from benchmarks.tables import head
from receraser.reproduce.datasets import load

if TYPE_CHECKING:
    from receraser.config import EngineConfig
    from receraser.data.interactions import Interactions

MODELS = ("bpr", "wmf", "lightgcn")
METRICS = ("recall@20", "ndcg@20")
# Minutes of the paper's Table 4: a full retrain; a forget by RecEraser.
PAPER = {
    "ml-1m": {"retrain": (330.0, 13.0, 545.0), "forget": (22.0, 1.1, 31.0)},
    "yelp2018": {"forget": (52.0, 3.8, 86.0)},
}
LIMITS = {
    "ml-1m": {"retrain": (15.0, 0.3, 90.0), "forget": (2.0, 0.2, 5.0)},
    "yelp2018": {"forget": (4.0, 0.5, 10.0)},
}


BANDWIDTH = 4.8e12  # bytes a second of an H200's memory


def configurations(dataset: str, model: str) -> dict[str, EngineConfig]:
    """Return what is timed: the model alone, in merged shards, under the paper's attention."""
    from receraser.config import load_config, preset_names

    alone = load_config(f"{model}-{dataset}")
    found = {"retrain": alone}
    preset = f"spectral-{model}-{dataset}"
    if preset in preset_names():
        found["spectral"] = load_config(preset)
    else:
        found["spectral"] = dataclasses.replace(alone, method="spectral", shards=10)
    preset = f"receraser-{model}-{dataset}"
    if preset in preset_names():
        found["receraser"] = load_config(preset)
    return {name: dataclasses.replace(config, device="cuda", seed=0) for name, config in found.items()}


def measured(folder: Path, dataset: str, model: str, methods: Sequence[str], n_forgets: int) -> list[dict[str, Any]]:
    """Fit and forget with every method."""
    from receraser.engine import Engine
    from receraser.evaluation import evaluate  # noqa: F401 - imported before anything is timed
    from receraser.execution.local import LocalExecutor
    from receraser.proof.keyring import Keyring

    data = load(folder, dataset)
    runs = []
    for method, config in configurations(dataset, model).items():
        if method not in methods:
            continue
        valid = data.valid if dataset == "ml-1m" else None
        rows = data.train if dataset == "ml-1m" else data.full
        with tempfile.TemporaryDirectory() as place, LocalExecutor() as executor:
            Engine.from_config(config, executor=executor).fit(_few(rows), valid=None if valid is None else _few(valid))
            engine = Engine.from_config(config, executor=executor)
            seconds = timed(lambda: engine.fit(rows, valid=valid))  # noqa: B023
            run: dict[str, Any] = {"dataset": dataset, "model": model, "method": method, "fit": seconds}
            run |= {"stages": dict(engine.seconds), "shards": engine.config.shards} | _when()
            metrics = engine.evaluate(data.test).metrics
            run |= {name: metrics[name] for name in METRICS}
            if method != "retrain":
                keyring = Keyring(Path(place) / "keys")
                engine.save(Path(place) / "store", keyring=keyring)
                run["forgets"] = forgets(Path(place) / "store", rows, method, n_forgets, executor, keyring)
        runs.append(run)
        print(json.dumps(run), flush=True)
    return runs


def epochs(folder: Path) -> list[dict[str, Any]]:
    """Time one epoch of ML-1M alone, and set it beside the bytes that it has to move."""
    import numpy as np
    import torch

    from receraser.models.lightgcn import on_cuda
    from receraser.training.pairs import ADAGRAD, ADAM, PairSteps, Rule

    rows, device = load(folder, "ml-1m").train, torch.device("cuda")
    n, nodes, width = len(rows), len(rows.users) + len(rows.items), 64
    row = 4 * width  # bytes of a vector
    # What no way of doing it can avoid: a triple's user, its item and eight candidates are read, and every row that a
    # batch touches is read and written once. LightGCN's six products read two vectors for every edge, layer by layer.
    batches = -(-n // 8192)
    needed = {"bpr": 10 * n * row + 2 * batches * nodes * row}
    needed["lightgcn"] = needed["bpr"] + batches * 6 * 2 * n * row
    found = []
    for model, optimizer in (("bpr", ADAGRAD), ("lightgcn", ADAM)):
        tables = [torch.randn((len(ids), width), device=device) * 0.1 for ids in (rows.users, rows.items)]
        trained = PairSteps(
            rows,
            parameters=(tables[0], tables[1]),
            rule=Rule(optimizer, 0.01, 0.01),
            batch_size=8192,
            n_negatives=8,
            seed=0,
            propagate=on_cuda(rows, 3, device) if model == "lightgcn" else None,
        )
        for epoch in range(1, 4):
            trained.run_epoch(epoch)
        torch.cuda.synchronize()

        def some(trained: PairSteps = trained) -> None:
            for epoch in range(4, 14):
                trained.run_epoch(epoch)
            torch.cuda.synchronize()

        seconds = float(np.median([timed(some) / 10 for _ in range(3)]))
        found.append({"model": model, "seconds": seconds, "bytes": needed[model], "floor": needed[model] / BANDWIDTH})
    return found


def _name(run: dict[str, Any]) -> tuple[str, int, str]:
    return run["dataset"], MODELS.index(run["model"]), run["method"]


def _when() -> dict[str, Any]:
    """Return the day, the version and the place of a measurement."""
    import torch

    found = facts("")
    return {name: found[name] for name in ("date", "version", "hardware")} | {"gpu": torch.cuda.get_device_name()}


def _told(run: dict[str, Any]) -> str:
    return f"{run['date']}, version {run['version']}, {run['hardware']}, {run['gpu']}"


def _few(rows: Interactions) -> Interactions:
    """Return the rows of the first users, to warm up with."""
    return rows.take(rows.user_index < 500)


def forgets(store: Path, rows: Interactions, method: str, n: int, executor: Any, keyring: Any) -> list[dict[str, Any]]:
    """Forget users (spectral) or interactions (receraser) one by one; the first, which warms up, is not counted."""
    from receraser.engine import Engine

    found = []
    every = len(rows.users) // (n + 1)
    with Engine.changing(store, executor=executor, keyring=keyring) as engine:
        for number in range(n + 1):
            user = rows.users.ids[number * every]
            if method == "receraser":
                item = next(item for one, item in rows.pairs() if one == user)
                seconds = timed(lambda: engine.forget(interactions=[(user, item)]))  # noqa: B023
            else:
                seconds = timed(lambda: engine.forget(users=[user]))  # noqa: B023
            found.append({"total": seconds, **engine.seconds})
    return found[1:]


def report(found: dict[str, Any]) -> str:
    """Return the page."""
    several = list(dict.fromkeys(map(_told, found["runs"])))
    lines = ["# On a GPU", "", f"`{found['command']}`, {'; '.join(several)}", ""]
    when = [f"{one['date']}, {one['version']}" for one in found["runs"]] if len(several) > 1 else []
    lines += ["Seconds, warm. In brackets the range of the single forgets. Data sets and models were run in turn.", ""]
    columns = ["data", "model", "what", "seconds", "at most", "paper", "R@20 / N@20", "stages"]
    lines += head([*columns, "measured"] if when else columns)
    for number, run in enumerate(found["runs"]):
        limits, paper = LIMITS[run["dataset"]], PAPER[run["dataset"]]
        place = MODELS.index(run["model"])
        quality = f"{run['recall@20']:.4f} / {run['ndcg@20']:.4f}"
        if run["method"] == "retrain":
            times, stages, what = f"{run['fit']:.2f}", run["stages"], "retrain"
        else:
            times = str(Times([one["total"] for one in run["forgets"]]))
            names = [name for name in run["forgets"][0] if name != "total"]
            stages = {name: statistics.median(one[name] for one in run["forgets"]) for name in names}
            what = "forget"
        limit = f"{limits[what][place]:g}" if what in limits else ""
        theirs = f"{paper[what][place]:g} min" if what in paper else ""
        shown = ", ".join(f"{name} {value:.2f}" for name, value in stages.items() if value >= 0.005)
        label = "retrain" if what == "retrain" else f"{what}, {run['method']} K={run['shards']}"
        cells = [run["dataset"], run["model"], label, times, limit, theirs, quality, shown, *when[number : number + 1]]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "## An epoch of ML-1M beside what it has to move", ""]
    lines += [
        f"{_told(found)}.",
        "The floor is the bytes that have to be read and written over the 4.8 TB/s of an H200's memory. The tables fit",
        "into its cache, so for LightGCN, which reads the same vectors again and again, it is no lower bound.",
    ]
    lines += ["", *head(["model", "an epoch, ms", "bytes, GB", "floor, ms", "measured over floor"])]
    for one in found.get("epochs", []):
        times = f"{1e3 * one['seconds']:.2f} | {one['bytes'] / 1e9:.1f} | {1e3 * one['floor']:.2f}"
        lines.append(f"| {one['model']} | {times} | {one['seconds'] / one['floor']:.1f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--datasets", nargs="+", default=list(PAPER), choices=list(PAPER))
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--methods", nargs="+", default=["retrain", "spectral", "receraser"])
    parser.add_argument("--forgets", type=int, default=5)
    parser.add_argument("--report", action="store_true", help="make the page again from the JSON")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.report:
        found = json.loads((options.out / "gpu.json").read_text())
        save("gpu", found, report(found), options.out)
        return
    if options.data is None:
        parser.error("--data is missing: the folder that holds ml-1m and yelp2018")
    import torch

    known = options.out / "gpu.json"
    earlier = json.loads(known.read_text())["runs"] if known.exists() else []
    found = facts("python -m benchmarks.gpu --data DIR") | {"gpu": torch.cuda.get_device_name(), "runs": earlier}
    found["epochs"] = epochs(options.data)
    print(json.dumps(found["epochs"]), flush=True)
    for dataset in options.datasets:
        for model in options.models:
            new = measured(options.data, dataset, model, options.methods, options.forgets)
            done = [_name(one) for one in new]
            found["runs"] = sorted([one for one in found["runs"] if _name(one) not in done] + new, key=_name)
            save("gpu", found, report(found), options.out)


if __name__ == "__main__":
    main()
