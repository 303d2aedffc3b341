"""The stages of a fit, run by an executor: partition, submodels, aggregation. What is computed here is published.

`fit` goes through all of them; `forget` and `add` retrain the shards they touch and then aggregate again, from nothing.
Each stage is a pure function of rows, configuration and seed; `Fitting` only hands out the tasks and keeps the time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

import numpy as np
from numpy.typing import NDArray

from receraser.aggregation.registry import make_aggregator
from receraser.changes import Change
from receraser.config import EngineConfig, part_settings
from receraser.data.interactions import Interactions
from receraser.erasure.plan import CORE, DOWNDATE, REFIT
from receraser.errors import EnvironmentMismatchError, TrainingError, UsageError
from receraser.execution.local import LocalExecutor, workers_for
from receraser.execution.task import (
    Result,
    Task,
    aggregation_task,
    partition_from,
    partition_task,
    placement_task,
    submodel_from,
    submodel_task,
    sums_task,
)
from receraser.execution.toys import toy_aggregation, toy_partition, toy_submodel, toy_sums
from receraser.fingerprint import Tensors
from receraser.models.registry import make_model
from receraser.models.source import is_foreign
from receraser.partition.partition import Embeddings, Partition, Shard
from receraser.partition.registry import make_partitioner
from receraser.protocols import Additive, Executor, Progress, Reusing, Starting
from receraser.purity import require_pure
from receraser.seeds import derive
from receraser.state import FittedShard, State

if TYPE_CHECKING:
    from receraser.models.factors import FactorModel

__all__ = ["Ahead", "Fitting", "local_executor"]

Ahead = Callable[[Sequence[Shard]], None]


def local_executor(config: EngineConfig) -> LocalExecutor:
    """Return worker processes on this machine, as many as serve the device."""
    return LocalExecutor(workers_for(config.device))


class Fitting:
    """A fit under way: the configuration, the executor that computes, and the time taken so far.

    Parameters
    ----------
    executor
        By default worker processes on this machine, which end with the block.
    n_tasks
        How many submodels there are to fit.
    partitions
        Whether a partition is to be computed too.
    ahead
        Handed the shards whose submodels are being fitted, in a thread of its own.
    """

    def __init__(
        self,
        config: EngineConfig,
        executor: Executor | None,
        *,
        n_tasks: int,
        partitions: bool,
        progress: Progress | None,
        ahead: Ahead | None = None,
    ) -> None:
        self.config = config
        self.seconds: dict[str, float] = {}
        self._borrowed = executor
        self._executor: Executor = executor or local_executor(config)
        self._n_tasks = n_tasks
        self._partitions = partitions
        self._progress = progress
        self._ahead = ahead
        self._prepared = False
        self._partitioner = make_partitioner(*part_settings(config, "partition"))
        self._aggregator = make_aggregator(*part_settings(config, "aggregation"))

    def __enter__(self) -> Self:
        return self

    def _ready(self) -> Executor:
        """Return the executor, prepared when it is first needed: on nobody's time."""
        if not self._prepared:
            self._executor.prepare(self._toys(), max(1, self._n_tasks))
            self._prepared = True
        return self._executor

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._borrowed is None:
            self._executor.close()

    def _toys(self) -> list[Task]:
        model = part_settings(self.config, "model")
        toys = [toy_sums(*model) or toy_submodel(*model)]
        name, settings = part_settings(self.config, "partition")
        if self._partitions and self._partitioner.remembers_data and settings.get("embeddings") != "file":
            toys.append(toy_partition(name, settings))
        if self._aggregator.learns:
            toys.append(toy_aggregation(*part_settings(self.config, "aggregation"), *model))
        return toys

    @property
    def environment(self) -> Mapping[str, object]:
        """Where everything is computed."""
        return self._ready().environment

    def check_environment(self, expected: Mapping[str, object]) -> None:
        """Raise unless weights computed here fit beside those of a state computed elsewhere."""
        try:
            found = self.environment
        except UsageError as error:  # no such device, or somebody's model cannot be imported: the request is right
            raise EnvironmentMismatchError(
                f"what this store was computed with is not here: {error}. Do it where it was computed; or if it is a "
                "device, refit everything on one that is here: receraser rebuild --device"
            ) from None
        differing = sorted(key for key in {*expected, *found} if expected.get(key) != found.get(key))
        if differing:
            key = differing[0]
            more = f" (and {len(differing) - 1} more)" if len(differing) > 1 else ""
            raise EnvironmentMismatchError(
                f"this store was computed in another environment: {key} was {expected.get(key, 'not set')!r}, here it "
                f"is {found.get(key, 'not set')!r}{more}; new weights would not fit beside the old ones. Do it where "
                "it was computed, or refit everything here with: receraser rebuild"
            )

    def check_model(self) -> None:
        """Raise if the model is somebody else's and leaks: before a fit from nothing. Ours are held to it by tests."""
        name, hyperparameters = part_settings(self.config, "model")
        if is_foreign(name):
            with self._timed("purity"):
                require_pure(name, hyperparameters, progress=self._progress)

    # ------------------------------------------------------------------ the stages

    def partition(
        self, train: Interactions, valid: Interactions | None, embeddings: Embeddings | None = None
    ) -> Partition:
        """Assign every row to a shard."""
        seed = self.config.seed
        if not self._partitioner.remembers_data:
            with self._timed("partition"):
                return self._partitioner.assign(train, valid=valid, seed=seed)
        task = partition_task(*part_settings(self.config, "partition"), seed, train, valid, embeddings)
        return partition_from(self._run("partition", [task])[0], self.config.shards)

    def place(self, newcomers: Interactions, held: Interactions, partition: Partition) -> NDArray[np.int32]:
        """Find the shards of rows that join those held."""
        seed = self.config.seed
        if not self._partitioner.remembers_data:
            with self._timed("partition"):
                return self._partitioner.place(newcomers, held=held, partition=partition, seed=seed)
        task = placement_task(*part_settings(self.config, "partition"), seed, newcomers, held, partition)
        return np.asarray(self._run("partition", [task])[0].arrays["shards"], dtype=np.int32)

    def submodels(
        self,
        shards: Sequence[Shard],
        superseded: Mapping[int, FittedShard] | None = None,
        *,
        beside: Sequence[Callable[[], object]] = (),
    ) -> list[FittedShard]:
        """Fit one submodel per shard, each a pure function of its shard, the hyperparameters and its seed.

        Parameters
        ----------
        superseded
            The same shards as they were; of an additive model their sums are brought up to date, or what its solve set
            out from, which is what it sets out from again.
        beside
            What is done while the workers compute.
        """
        self._ready()  # compiles what takes the sums, on nobody's time
        was = superseded or {}
        with self._timed("submodels"):
            sums = [self._sums(shard, was.get(shard.id)) for shard in shards]
            tasks = [
                self._submodel_task(shard, own, was.get(shard.id)) for shard, own in zip(shards, sums, strict=True)
            ]
        with _meanwhile(beside, self._spend):
            results = self._run("submodels", tasks)
        fitted = []
        for shard, task, result, own in zip(shards, tasks, results, sums, strict=True):
            weights, start = submodel_from(task, result)
            fitted.append(
                FittedShard.of(
                    self.config, shard, weights, facts=result.facts, seconds=result.seconds, sums=own, start=start
                )
            )
        return fitted

    def _look_at_rows(self, shards: Sequence[Shard]) -> None:
        """Do what will be needed of the rows of shards that are fitted anew."""
        for shard in shards:
            _ = shard.digest
        if self._ahead is not None:
            self._ahead(shards)

    def _sums(self, shard: Shard, was: FittedShard | None) -> Tensors | None:
        """Return the sums that an additive model is solved for from; None where the rows are needed, as in shards."""
        if self.config.aggregation != "alone":
            return None
        model = make_model(*part_settings(self.config, "model"))
        if not isinstance(model, Additive):
            return None
        if was is None or was.sums is None:
            return model.sums(shard.train)
        return model.resummed(was.sums, was.shard.train, shard.train)

    def _submodel_task(self, shard: Shard, sums: Tensors | None, was: FittedShard | None) -> Task:
        name, hyperparameters = part_settings(self.config, "model")
        seed = derive(self.config.seed, "shard", shard.id)
        if sums is not None:
            return sums_task(name, hyperparameters, seed, shard.train.items, sums)
        start = None
        if self.config.aggregation == "alone" and isinstance(make_model(name, hyperparameters), Starting):
            start = {} if was is None else _carried(was, shard.train)
        return submodel_task(name, hyperparameters, seed, shard.train, shard.valid, start=start)

    def aggregate(
        self,
        shards: Sequence[FittedShard],
        train: Interactions,
        valid: Interactions | None,
        earlier: tuple[Tensors, Collection[int]] | None = None,
    ) -> tuple[Tensors, Mapping[str, object]]:
        """Learn what combines the submodels.

        `earlier`: what was learned before, and the shards that have changed since; parts of it may still hold.
        """
        if not self._aggregator.learns:
            self.seconds["aggregate"] = 0.0
            return {}, {}
        models = cast("Sequence[FactorModel]", [one.model for one in shards])  # or gram, for spectral
        seed = derive(self.config.seed, "aggregation")
        if not self._aggregator.needs_rows:
            train, valid = Interactions.empty(), None  # no row travels
        reuse = None
        if earlier is not None and isinstance(self._aggregator, Reusing):
            reuse = self._aggregator.reusable(*earlier, len(models))
        task = aggregation_task(*part_settings(self.config, "aggregation"), models, seed, train, valid, reuse=reuse)
        result = self._run("aggregate", [task])[0]
        return {**({} if reuse is None else reuse.holds), **result.arrays}, result.facts

    def state(
        self, train: Interactions, valid: Interactions | None, partition: Partition, *, inherited: bool = False
    ) -> State:
        """Fit every shard, then the aggregation; return the state they make.

        `inherited`: the partition was not computed from these rows, but taken over.
        """
        with self._timed("partition"):
            shards = list(partition.shards(train, valid))
        fitted = self.submodels(shards, beside=[lambda: self._look_at_rows(shards)])
        aggregate = self.aggregate(fitted, train, valid)
        return self._state(train, valid, partition, fitted, aggregate, inherited=inherited)

    def changed(self, state: State, change: Change, path: str) -> State:
        """Return the state after a change: affected shards are fitted again, then the aggregation.

        Whatever the path (`erasure.plan`), the state is the same; with "refit" nothing learned before is made use of
        but the submodels of shards that did not change.
        """
        self.check_environment(state.environment)
        was = {one.shard.id: one for one in state.shards}
        with self._timed("partition"):
            affected = change.shards
        superseded = was if path in (DOWNDATE, CORE) else None
        beside = [lambda: self._look_at_rows(affected), lambda: _check_rows(state, change)]
        # A merge takes no rows, and leaves a core free now and then; other aggregations wait for the table of all rows.
        merges = self._aggregator.learns and not self._aggregator.needs_rows
        fitted = {one.shard.id: one for one in self.submodels(affected, superseded, beside=() if merges else beside)}
        shards = [fitted.get(one.shard.id, one) for one in state.shards]
        earlier = None if path == REFIT else (state.aggregate, change.affected)
        with _meanwhile(beside if merges else (), self._spend):
            rows = (Interactions.empty(), None) if merges else change.tables[:2]
            aggregate = self.aggregate(shards, *rows, earlier)
        with self._timed("partition"):
            train, valid, partition = change.tables
            return self._state(train, valid, partition, shards, aggregate, inherited=True).keeping(state)

    def _state(
        self,
        train: Interactions,
        valid: Interactions | None,
        partition: Partition,
        shards: Sequence[FittedShard],
        aggregate: tuple[Tensors, Mapping[str, object]],
        *,
        inherited: bool,
    ) -> State:
        return State(
            config=self.config,
            train=train,
            valid=valid,
            partition=partition,
            shards=shards,
            aggregate=aggregate[0],
            environment=dict(self.environment),
            inherited=inherited and self._partitioner.remembers_data,
            aggregate_facts=aggregate[1],
            seconds={"aggregate": self.seconds["aggregate"]},
        )

    def _run(self, stage: str, tasks: Sequence[Task]) -> list[Result]:
        executor = self._ready()
        with self._timed(stage):
            return executor.run(tasks, progress=self._progress)

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self._spend(time.perf_counter() - started, stage)

    def _spend(self, seconds: float, stage: str = "partition") -> None:
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds


@contextmanager
def _meanwhile(
    todo: Sequence[Callable[[], object]], waited: Callable[[float], object] = lambda _: None
) -> Iterator[None]:
    """Do something in a thread of its own while something else waits for workers; it is done when that is.

    An error of it is raised when the other has ended well; where the other fails, what was not begun is left. `waited`
    is told how long it took beyond the other.
    """
    failures: list[BaseException] = []
    in_vain = threading.Event()

    def do() -> None:
        try:
            for one in todo:
                if not in_vain.is_set():
                    one()
        except BaseException as error:  # noqa: BLE001 - carried over to the caller's thread
            failures.append(error)

    thread = threading.Thread(target=do, daemon=True)
    if todo:
        thread.start()
    try:
        yield
    except BaseException:
        in_vain.set()
        raise
    finally:
        started = time.perf_counter()
        if todo:
            thread.join()
            waited(time.perf_counter() - started)
    if failures:
        raise failures[0]


def _check_rows(state: State, change: Change) -> None:
    """Raise unless every shard has as many rows in the next state's tables as it will hold: nothing goes by half."""
    train, valid, partition = change.tables
    held = {one.shard.id: one.shard for one in state.shards} | {one.id: one for one in change.shards}
    for table, labels, own in (
        (train, partition.train, [held[k].train for k in sorted(held)]),
        (valid, partition.valid, [held[k].valid for k in sorted(held)]),
    ):
        found = [0] * len(held) if labels is None else np.bincount(labels, minlength=len(held)).tolist()
        assert table is None or len(table) == sum(found), "every row is in a shard"
        for k, (n, rows) in enumerate(zip(found, own, strict=True)):
            holds = 0 if rows is None else len(rows)
            if n != holds:
                raise TrainingError(
                    f"the table of all rows has {n:,} in shard {k}, which holds {holds:,}: our fault, nothing changed"
                )


def _carried(was: FittedShard, rows: Interactions) -> Tensors:
    """Return what the solve set out from, as it is with these rows; nothing where it is not at hand."""
    if not was.start:
        return {}
    assert isinstance(was.model, Starting)
    return was.model.carried(was.start, was.shard.train, rows)
