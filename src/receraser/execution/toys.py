"""Toys: tiny tasks that make a worker import and compile what the real ones need, on nobody's time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache

import numpy as np

from receraser.data.interactions import Interactions
from receraser.execution.task import Task, aggregation_task, partition_task, submodel_task, sums_task
from receraser.models.registry import make_model, make_submodel
from receraser.protocols import Additive

__all__ = ["toy_aggregation", "toy_partition", "toy_submodel", "toy_sums"]

Settings = Mapping[str, object]


def _rows() -> Interactions:
    return Interactions.from_pairs([("u", "a"), ("u", "b"), ("v", "a"), ("w", "c")])


def _brief(settings: Settings) -> dict[str, object]:
    """Return the same settings with as few passes as will do."""
    passes = ("n_epochs", "n_sweeps", "max_iterations")
    return {k: min(v, 2) if k in passes and isinstance(v, int) else v for k, v in settings.items()}


def toy_submodel(model: str, hyperparameters: Settings) -> Task:
    """Return a submodel's fit in miniature."""
    return submodel_task(model, _brief(hyperparameters), 0, _rows(), _rows())


def toy_sums(model: str, hyperparameters: Settings) -> Task | None:
    """Return an additive model's solve in miniature; None for a model that is fitted from the rows.

    The sums are taken here and now, which compiles what takes them; but once: a forget takes little more time.
    """
    if not isinstance(make_model(model, hyperparameters), Additive):
        return None
    bounds = ("max_items",)  # a toy is no data
    return _toy_sums(model, json.dumps({key: value for key, value in hyperparameters.items() if key not in bounds}))


@cache
def _toy_sums(model: str, hyperparameters: str) -> Task | None:
    rows, settings = _rows(), json.loads(hyperparameters)
    made = make_model(model, settings)
    assert isinstance(made, Additive)
    sums = made.sums(rows)
    return None if sums is None else sums_task(model, settings, 0, rows.items, sums)


def toy_partition(partition: str, settings: Settings) -> Task:
    """Return a partition in miniature."""
    return partition_task(partition, _brief(settings), 0, _rows(), _rows())


def toy_aggregation(aggregation: str, settings: Settings, model: str, hyperparameters: Settings) -> Task:
    """Return an aggregation in miniature; of five shards where they are merged, so that there is a node that is cut."""
    rows = _rows()
    submodels = []
    for _ in range(5 if aggregation == "spectral" else 2):
        one = make_submodel(model, hyperparameters)
        state = {
            name: np.ones((len(ids), one.dim), dtype=np.float32)
            for name, ids in (("user_vectors", rows.users), ("item_vectors", rows.items))
        }
        submodels.append(one.restore(rows, state))
    return aggregation_task(aggregation, _brief(settings), submodels, 0, rows, rows)
