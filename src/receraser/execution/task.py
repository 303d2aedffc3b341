"""`Task`: one pure computation and everything it depends on. `run_task`: the function from it to its `Result`.

Five kinds: a submodel fitted on its shard ("submodel"), an additive model solved for from its sums ("sums"), a
data-driven partition ("partition"), the shards of newcomers in such a partition ("placement"), a learned aggregation
("aggregation"). What is published is computed by one of them, in a worker, and nowhere else (sums of whole numbers come
out the same everywhere). A task is plain values, tables, vocabularies and arrays, so that it can travel.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.fingerprint import Tensors
from receraser.models.foreign import check_source
from receraser.models.source import find, is_foreign
from receraser.protocols import Additive, Partitioner, Progress, Reuse, Reusing, Starting

if TYPE_CHECKING:
    from receraser.models.factors import FactorModel
    from receraser.partition.partition import Embeddings, Partition

__all__ = [
    "Result",
    "Task",
    "aggregation_task",
    "partition_from",
    "partition_task",
    "placement_task",
    "run_task",
    "submodel_from",
    "submodel_task",
    "sums_task",
]

Settings = Mapping[str, object]

_START = "start."  # what a solve set out from, among what a submodel's task returns


@dataclass(frozen=True, eq=False)
class Task:
    """Everything a computation depends on."""

    kind: str
    settings: Settings
    tables: Mapping[str, Interactions] = field(default_factory=dict)
    ids: Mapping[str, IdMap] = field(default_factory=dict)
    arrays: Tensors = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Result:
    """What came out; and, for people only, facts about the computation and how long it took."""

    arrays: Tensors
    ids: Mapping[str, IdMap]
    facts: Mapping[str, object]
    seconds: float


def run_task(task: Task, *, progress: Progress | None = None) -> Result:
    """Compute, here and now."""
    started = time.perf_counter()
    arrays, ids, facts = _KINDS[task.kind](task, progress)
    return Result(arrays, ids, facts, time.perf_counter() - started)


Outcome = tuple[Tensors, Mapping[str, IdMap], Mapping[str, object]]

# ---------------------------------------------------------------------- a submodel


def submodel_task(
    model: str,
    hyperparameters: Settings,
    seed: int,
    train: Interactions,
    valid: Interactions | None = None,
    *,
    start: Tensors | None = None,
) -> Task:
    """Return the task of fitting one submodel: a model, its shard's rows, its seed.

    Of somebody else's model it also says where its module was found here: a worker need not look there by itself.

    Parameters
    ----------
    start
        For a model that is `Starting`: what its solve sets out from, if that is known, or nothing; it comes back beside
        the weights (`submodel_from`). None: it is nobody's concern.
    """
    settings: dict[str, object] = {"model": model, "hyperparameters": dict(hyperparameters), "seed": seed}
    if is_foreign(model):
        source = find(model)
        check_source(model, hyperparameters, source.sha256)  # over there again; but why send what will be refused
        settings["folder"] = str(source.folder)
    if start is not None:
        settings["starts"] = True
    return Task("submodel", settings, _tables(train, valid), arrays=start or {})


def _submodel(task: Task, progress: Progress | None) -> Outcome:
    from receraser.models.custom import Custom
    from receraser.models.registry import make_model

    model = make_model(str(task.settings["model"]), _settings(task, "hyperparameters"))
    if isinstance(model, Custom):
        model.found_in(str(task.settings["folder"]))
    train = task.tables["train"]
    if not task.settings.get("starts"):
        model.fit(train, valid=task.tables.get("valid"), seed=_seed(task), progress=progress)
        return model.state(), {}, model.facts()
    assert isinstance(model, Starting)
    start = task.arrays or model.start(train, _seed(task))
    model.fit_from(train, start, seed=_seed(task))
    beside = {} if task.arrays else {f"{_START}{name}": array for name, array in start.items()}  # who sent it has it
    return {**model.state(), **beside}, {}, model.facts()


def submodel_from(task: Task, result: Result) -> tuple[Tensors, Tensors | None]:
    """Return the weights that such a task came to, and what the solve set out from; None where nobody asked."""
    if not task.settings.get("starts"):
        return result.arrays, None
    weights = {name: array for name, array in result.arrays.items() if not name.startswith(_START)}
    return weights, task.arrays or _part(result.arrays, _START)


def sums_task(model: str, hyperparameters: Settings, seed: int, items: IdMap, sums: Tensors) -> Task:
    """Return the task of solving for an additive model, from the sums of its rows: no row travels."""
    settings = {"model": model, "hyperparameters": dict(hyperparameters), "seed": seed}
    return Task("sums", settings, ids={"items": items}, arrays=sums)


def _sums(task: Task, progress: Progress | None) -> Outcome:  # noqa: ARG001
    from receraser.models.registry import make_model

    model = make_model(str(task.settings["model"]), _settings(task, "hyperparameters"))
    assert isinstance(model, Additive)
    state, facts = model.solve(task.ids["items"], task.arrays, _seed(task))
    return state, {}, facts


# ---------------------------------------------------------------------- a partition


def partition_task(
    partition: str,
    settings: Settings,
    seed: int,
    train: Interactions,
    valid: Interactions | None = None,
    embeddings: Embeddings | None = None,
) -> Task:
    """Return the task of assigning rows to shards by looking at them."""
    ids, arrays = {}, {}
    if embeddings is not None:
        ids = {"users": embeddings.users, "items": embeddings.items}
        arrays = {"user_vectors": embeddings.user_vectors, "item_vectors": embeddings.item_vectors}
    about = {"partition": partition, "settings": dict(settings), "seed": seed}
    return Task("partition", about, _tables(train, valid), ids, arrays)


def _partition(task: Task, progress: Progress | None) -> Outcome:
    from receraser.partition.partition import Embeddings

    embeddings = None
    if task.arrays:
        p, q = (np.asarray(task.arrays[name], dtype=np.float32) for name in ("user_vectors", "item_vectors"))
        embeddings = Embeddings(task.ids["users"], p, task.ids["items"], q)
    found = _partitioner(task).assign(
        task.tables["train"],
        valid=task.tables.get("valid"),
        seed=_seed(task),
        embeddings=embeddings,
        progress=progress,
    )
    arrays = {"train": found.train} | ({} if found.valid is None else {"valid": found.valid})
    facts = {"balance": round(found.balance, 4)}
    if found.landmarks is None:
        return arrays, {}, facts
    return arrays | dict(found.landmarks.tensors()), {"landmarks": found.landmarks.ids}, facts


def partition_from(result: Result, n_shards: int) -> Partition:
    """Return the partition that a task of this kind computed."""
    from receraser.partition.partition import Landmarks, Partition

    arrays = result.arrays
    shards = {name: np.asarray(arrays[name], dtype=np.int32) for name in ("train", "valid") if name in arrays}
    landmarks = None
    if "landmarks" in result.ids:
        anchors = np.asarray(arrays["anchors"], dtype=np.float64)
        landmarks = Landmarks(anchors, result.ids["landmarks"], np.asarray(arrays["vectors"], dtype=np.float32))
    return Partition(n_shards, shards["train"], shards.get("valid"), landmarks)


def placement_task(
    partition: str,
    settings: Settings,
    seed: int,
    newcomers: Interactions,
    held: Interactions,
    present: Partition,
) -> Task:
    """Return the task of finding the shards of rows that join those held."""
    about = {"partition": partition, "settings": dict(settings), "seed": seed}
    ids: dict[str, IdMap] = {}
    arrays: dict[str, NDArray[np.generic]] = {"train": present.train}
    if present.landmarks is not None:
        ids = {"landmarks": present.landmarks.ids}
        arrays |= present.landmarks.tensors()
    return Task("placement", about, {"newcomers": newcomers, "held": held}, ids, arrays)


def _placement(task: Task, progress: Progress | None) -> Outcome:  # noqa: ARG001
    partitioner = _partitioner(task)
    present = partition_from(Result(task.arrays, task.ids, {}, 0.0), partitioner.n_shards)
    newcomers, held = task.tables["newcomers"], task.tables["held"]
    shards = partitioner.place(newcomers, held=held, partition=present, seed=_seed(task))
    return {"shards": shards}, {}, {}


# ---------------------------------------------------------------------- an aggregation


def aggregation_task(
    aggregation: str,
    settings: Settings,
    submodels: Sequence[FactorModel],
    seed: int,
    train: Interactions,
    valid: Interactions | None = None,
    *,
    reuse: Reuse | None = None,
) -> Task:
    """Return the task of learning what combines the submodels.

    With `reuse` only the submodels are sent that are needed besides what is known.
    """
    known: Tensors = {} if reuse is None else reuse.known
    sent = range(len(submodels)) if reuse is None else reuse.submodels
    about = {
        "aggregation": aggregation,
        "settings": dict(settings),
        "model": submodels[0].name,
        "hyperparameters": submodels[0].hyperparameters(),
        "n_submodels": len(submodels),
        "reuses": reuse is not None,
        "seed": seed,
    }
    ids: dict[str, IdMap] = {}
    arrays: dict[str, NDArray[np.generic]] = {f"known.{name}": array for name, array in known.items()}
    for k in sent:
        ids |= {f"{k}.users": submodels[k].users_, f"{k}.items": submodels[k].items_}
        arrays |= {f"{k}.{name}": array for name, array in submodels[k].state().items()}
        if (counts := submodels[k].item_counts_) is not None:
            arrays[f"{k}.item_counts"] = counts
    return Task("aggregation", about, _tables(train, valid), ids, arrays)


def _aggregation(task: Task, progress: Progress | None) -> Outcome:
    from receraser.aggregation.registry import make_aggregator

    submodels = []
    for k in range(int(str(task.settings["n_submodels"]))):
        model = _bare_submodel(task)
        nobody = np.zeros((0, model.dim), dtype=np.float32)  # one that is not needed was not sent
        state = _part(task.arrays, f"{k}.") or {"user_vectors": nobody, "item_vectors": nobody}
        users, items = (task.ids.get(f"{k}.{side}", IdMap([])) for side in ("users", "items"))
        sent = state.pop("item_counts", None)
        counts = None if sent is None else np.asarray(sent, dtype=np.int64)
        submodels.append(model.load_state(users, items, state, item_counts=counts))
    aggregator = make_aggregator(str(task.settings["aggregation"]), _settings(task, "settings"))
    train, valid = task.tables["train"], task.tables.get("valid")
    if task.settings["reuses"]:
        assert isinstance(aggregator, Reusing)
        learned, facts = aggregator.refit(submodels, _part(task.arrays, "known."), train, progress=progress)
    else:
        learned, facts = aggregator.fit(submodels, train, valid=valid, seed=_seed(task), progress=progress)
    return learned, {}, facts


def _part(arrays: Tensors, prefix: str) -> dict[str, NDArray[np.generic]]:
    """Return the arrays whose name begins so, without that beginning."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


_KINDS = {
    "submodel": _submodel,
    "sums": _sums,
    "partition": _partition,
    "placement": _placement,
    "aggregation": _aggregation,
}


def _partitioner(task: Task) -> Partitioner:
    from receraser.partition.registry import make_partitioner

    return make_partitioner(str(task.settings["partition"]), _settings(task, "settings"))


def _bare_submodel(task: Task) -> FactorModel:
    from receraser.models.registry import make_submodel

    return make_submodel(str(task.settings["model"]), _settings(task, "hyperparameters"))


def _settings(task: Task, key: str) -> Settings:
    value = task.settings[key]
    assert isinstance(value, Mapping)
    return value


def _seed(task: Task) -> int:
    return int(str(task.settings["seed"]))


def _tables(train: Interactions, valid: Interactions | None) -> dict[str, Interactions]:
    return {"train": train} | ({} if valid is None else {"valid": valid})
