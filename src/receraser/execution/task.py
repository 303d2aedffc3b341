"""`FitTask`: everything a submodel depends on. `run_task`: the pure function from it to `FitResult`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from receraser.data.interactions import Interactions
from receraser.fingerprint import Tensors
from receraser.protocols import Progress

__all__ = ["FitResult", "FitTask", "run_task"]


@dataclass(frozen=True, eq=False)
class FitTask:
    """One submodel to be fitted: a model's name and hyperparameters, its shard's rows, its seed."""

    model: str
    hyperparameters: Mapping[str, object]
    seed: int
    train: Interactions
    valid: Interactions | None = None


@dataclass(frozen=True, eq=False)
class FitResult:
    """What came out: the weights; and, for people only, facts about the fit and how long it took."""

    state: Tensors
    facts: Mapping[str, object]
    seconds: float


def run_task(task: FitTask, *, progress: Progress | None = None) -> FitResult:
    """Fit the submodel, here and now."""
    from receraser.models.registry import make_model

    started = time.perf_counter()
    model = make_model(task.model, task.hyperparameters)
    model.fit(task.train, valid=task.valid, seed=task.seed, progress=progress)
    return FitResult(model.state(), model.facts(), time.perf_counter() - started)
