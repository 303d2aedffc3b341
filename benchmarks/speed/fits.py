"""Full fits on ML-1M: WMF and BPR beside `implicit`, LightGCN beside plain PyTorch; time to the paper's quality.

Ours run in the engine's own worker, pinned as always; a time is that of the whole stage, the rows' way to the worker
included. Both sides hold the data in memory before the clock starts.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Times, alternately, peak_memory, timed
from benchmarks.peers import CORES, PlainLightGCN, as_model, implicit_als, implicit_bpr, matrix_of
from receraser.reproduce.datasets import Dataset

if TYPE_CHECKING:
    from receraser.data.interactions import Interactions
    from receraser.engine import Engine
    from receraser.execution.local import LocalExecutor

__all__ = ["bpr", "lightgcn", "paper_quality", "wmf"]

METRICS = ("recall@20", "ndcg@20")
PAPER_NDCG = {"bpr": 0.3368, "lightgcn": 0.3447}
FIRST_VERSION = "07e0b82"  # the commit in which the presets were measured first


def engine_for(model: str, executor: LocalExecutor, **hyperparameters: object) -> Engine:
    """Return an engine that fits one model on all rows, by its preset but for these settings."""
    from receraser.config import load_config
    from receraser.engine import Engine

    config = load_config(f"{model}-ml-1m")
    own = {**config.hyperparameters, **hyperparameters}
    return Engine.from_config(dataclasses.replace(config, device="cpu", hyperparameters=own), executor=executor)


def quality(data: Dataset, scorer: Any) -> dict[str, float]:
    """Return the metrics of a model on the test rows."""
    from receraser.evaluation import evaluate

    found = evaluate(scorer, data.train, data.test).metrics
    return {name: found[name] for name in METRICS}


def wmf(data: Dataset, executor: LocalExecutor, repeats: int = 5) -> dict[str, Any]:
    """WMF beside ALS with 64 factors and 15 iterations."""
    matrix = matrix_of(data.train)
    engine = engine_for("wmf", executor).fit(data.train)
    theirs = implicit_als(matrix)
    times = alternately(
        {"ours": lambda: engine.fit(data.train), "implicit": lambda: implicit_als(matrix)}, repeats=repeats
    )
    with peak_memory() as peak:
        engine.fit(data.train)
    return {
        "seconds": {name: list(one.runs) for name, one in times.items()},
        "ratio": times["ours"].median / times["implicit"].median,
        "quality": {
            "ours": {name: engine.evaluate(data.test).metrics[name] for name in METRICS},
            "implicit": quality(data, as_model(data.train, theirs.user_factors, theirs.item_factors)),
        },
        "peak_bytes": peak.bytes,
    }


def bpr(data: Dataset, executor: LocalExecutor, repeats: int = 3, epochs: int = 20) -> dict[str, Any]:
    """BPR beside `implicit`'s: triples a second, and the time to its NDCG."""
    matrix = matrix_of(data.train)
    plain = engine_for("bpr", executor, n_negatives=1, n_epochs=epochs)
    plain.fit(data.train)
    times = alternately(
        {"ours": lambda: plain.fit(data.train), "implicit": lambda: implicit_bpr(matrix, iterations=epochs)},
        repeats=repeats,
    )
    rate = {name: len(data.train) * epochs / one.median for name, one in times.items()}
    theirs = _implicit_at_its_best(data, matrix)
    ours = []
    for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64):
        engine = engine_for("bpr", executor, n_epochs=n)
        seconds = timed(lambda: engine.fit(data.train))  # noqa: B023
        ours.append({"epochs": n, "seconds": seconds, "valid ndcg@20": _on_valid(data, engine.state.shards[0].model)})
        if ours[-1]["valid ndcg@20"] >= theirs["valid ndcg@20"]:
            break
    return {
        "seconds": {name: list(one.runs) for name, one in times.items()},
        "epochs": epochs,
        "rate": rate,
        "ratio": rate["ours"] / rate["implicit"],
        "to_equal_ndcg": {"ours": ours, "implicit": theirs, "ratio": ours[-1]["seconds"] / theirs["seconds"]},
    }


def _implicit_at_its_best(data: Dataset, matrix: Any) -> dict[str, Any]:
    """Search step and penalty on the validation rows, then the fewest iterations that get within 1 % of the best."""
    found = []
    for rate, penalty in itertools.product((0.01, 0.03, 0.1), (0.003, 0.01, 0.03)):
        settings: dict[str, Any] = {"learning_rate": rate, "regularization": penalty}
        model = implicit_bpr(matrix, iterations=100, **settings)
        value = _on_valid(data, as_model(data.train, model.user_factors, model.item_factors))
        found.append({"iterations": 100, **settings, "valid ndcg@20": value})
    best = max(found, key=lambda one: one["valid ndcg@20"])
    settings = {name: best[name] for name in ("learning_rate", "regularization")}
    for iterations in (10, 20, 30, 50, 70, 100):
        made: list[Any] = []
        seconds = timed(lambda: made.append(implicit_bpr(matrix, iterations=iterations, **settings)))  # noqa: B023
        value = _on_valid(data, as_model(data.train, made[0].user_factors, made[0].item_factors))
        run = {"iterations": iterations, **settings, "seconds": seconds, "valid ndcg@20": value}
        if value >= 0.99 * best["valid ndcg@20"]:
            break
    return run | {"searched": found}


def _on_valid(data: Dataset, model: Any) -> float:
    from receraser.evaluation import RankingTask

    users = model.users_ if hasattr(model, "users_") else data.train.users
    rows, held = (data.train, data.valid) if users == data.train.users else _renamed(data)
    return RankingTask(rows.items, rows, held).metric(model.scores, "ndcg@20")


def _renamed(data: Dataset) -> tuple[Interactions, Interactions]:
    """Return the rows under the names that an engine knows their users by."""
    from receraser.data.ids import pseudonyms
    from receraser.keys import PUBLIC_KEY

    train, valid = (one.rename_users(pseudonyms(one.users, PUBLIC_KEY)) for one in (data.train, data.valid))
    return train, valid


def lightgcn(data: Dataset, executor: LocalExecutor, repeats: int = 3) -> dict[str, Any]:
    """Time an epoch of LightGCN, three layers of width 64, beside plain PyTorch, the same batches."""
    import torch

    found: dict[str, Any] = {}
    before = torch.get_num_threads()
    torch.set_num_threads(CORES)
    for batch_size in (8192,):
        both = [engine_for("lightgcn", executor, n_epochs=n, batch_size=batch_size, n_negatives=1) for n in (1, 3)]
        plain = PlainLightGCN(data.train, batch_size=batch_size)
        both[0].fit(data.train)
        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(repeats):
            once, thrice = (timed(lambda: engine.fit(data.train)) for engine in both)  # noqa: B023
            ours.append(
                (thrice - once) / 2
            )  # what is not an epoch (the rows' way, the graph, the last propagation) is out
            theirs.append(timed(plain.run_epoch))
        found[str(batch_size)] = {
            "ours": ours,
            "plain": theirs,
            "ratio": Times(ours).median / Times(theirs).median,
        }
    torch.set_num_threads(before)
    return found


def paper_quality(
    data: Dataset, executor: LocalExecutor, model: str, epochs: tuple[int, ...], **settings: object
) -> dict[str, Any]:
    """Return how long a fit takes that reaches the paper's NDCG, in epochs and seconds; some settings may be others."""
    trials = []
    for n in epochs:
        engine = engine_for(model, executor, **{**settings, "n_epochs": n})
        seconds = timed(lambda: engine.fit(data.train))  # noqa: B023
        found = engine.evaluate(data.test).metrics
        trials.append({"epochs": n, "seconds": seconds, **{name: found[name] for name in METRICS}})
        if found["ndcg@20"] >= PAPER_NDCG[model]:
            break
    return {"paper": PAPER_NDCG[model], "trials": trials, "reached": trials[-1]["ndcg@20"] >= PAPER_NDCG[model]}


def first_version(folder: Path, model: str) -> dict[str, Any]:
    """Time an epoch of the package's first version, from the repository's history, in a process of its own.

    Returns its seconds, and the settings that it had then.
    """
    script = f"""
import json, time
from pathlib import Path
from receraser.config import load_config
from receraser.data.readers import read
from receraser.models.registry import make_model
rows = read(Path({str(folder)!r}) / "train.txt.gz").interactions
own = dict(load_config("{model}-ml-1m").hyperparameters)
own["n_epochs"] = 1
make_model("{model}", own).fit(rows.take(rows.user_index < 100))
def fit(n):
    started = time.perf_counter()
    make_model("{model}", {{**own, "n_epochs": n}}).fit(rows)
    return time.perf_counter() - started
one = fit(1)
print(json.dumps({{"seconds_per_epoch": fit(2) - one, "settings": own}}))
"""
    top = Path(__file__).parents[2]
    with tempfile.TemporaryDirectory() as place:
        tree = Path(place) / "first"
        subprocess.run(
            ["git", "-C", str(top), "worktree", "add", "-q", "--detach", str(tree), FIRST_VERSION], check=True
        )
        try:
            told = subprocess.run(
                [sys.executable, "-c", script], env=_environment(tree), capture_output=True, text=True, check=True
            )
        finally:
            subprocess.run(["git", "-C", str(top), "worktree", "remove", "--force", str(tree)], check=True)
    return {"commit": FIRST_VERSION, **json.loads(told.stdout.splitlines()[-1])}


def _environment(tree: Path) -> Mapping[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(tree / "src"), "NUMBA_CACHE_DIR": str(tree / "numba")}
