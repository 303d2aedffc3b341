"""`Work`: the way from one state to the next. Fit, forget and add as functions of states; nothing is published here.

Users go by pseudonyms. `engine` knows whom they stand for and what becomes of the new state; `fitting` has the stages.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from receraser.changes import Change, joined, without
from receraser.config import EngineConfig, renewed, resolve
from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.erasure.plan import REBUILD, Plan, cheapest, estimated_seconds, share_of_pairs
from receraser.fitting import Ahead, Fitting
from receraser.partition.partition import Embeddings, Partition
from receraser.protocols import Additive, Executor, Progress, Starting
from receraser.reports import AddReport, ForgetReport
from receraser.seeds import derive
from receraser.state import State

__all__ = ["Work"]


class Work:
    """One piece of work, and how long its stages took.

    Parameters
    ----------
    config
        Of the states that are made.
    executor
        Where everything is computed; by default worker processes, started for this and ended after it.
    progress
        Told how far it is.
    ahead
        Handed the shards that are being fitted (`fitting.Fitting`).
    """

    def __init__(
        self,
        config: EngineConfig,
        executor: Executor | None,
        progress: Progress | None = None,
        ahead: Ahead | None = None,
    ) -> None:
        self.seconds: dict[str, float] = {}
        self._config = config
        self._executor = executor
        self._progress = progress
        self._ahead = ahead
        self._planned: tuple[Plan, Change] | None = None  # what a plan leads to, once it is known

    @contextmanager
    def _fitting(self, n_tasks: int, *, partitions: bool) -> Iterator[Fitting]:
        made = Fitting(
            self._config,
            self._executor,
            n_tasks=n_tasks,
            partitions=partitions,
            progress=self._progress,
            ahead=self._ahead,
        )
        with made as fitting:
            yield fitting
        for stage, seconds in fitting.seconds.items():
            self._spend(stage, seconds)

    def _spend(self, stage: str, seconds: float) -> None:
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds

    @contextmanager
    def planning(self) -> Iterator[None]:
        """Take the time of what is done before anything is fitted: which rows go, and from which shards."""
        started = time.perf_counter()
        yield
        self._spend("partition", time.perf_counter() - started)

    def fit(
        self,
        train: Interactions,
        valid: Interactions | None,
        *,
        partition: Partition | None = None,
        embeddings: Embeddings | None = None,
    ) -> State:
        """Return the state of these rows, from nothing; a given partition is taken as it is."""
        given = partition is not None
        with self._fitting(self._config.shards, partitions=not given) as fitting:
            fitting.check_model()
            if partition is None:
                partition = fitting.partition(train, valid, embeddings)
            return fitting.state(train, valid, partition, inherited=given)

    # ------------------------------------------------------------------ forget

    def forget_report(self, state: State, planned: Plan, *, anew: bool) -> ForgetReport:
        """Say what a plan does to a state; with `anew` by a new partition, and from nothing."""
        share, core = None, False
        if _has_sums(state) and _keeps_sums(state, self._without(state, planned).tables.train):
            share = share_of_pairs(state.train, planned.train_rows)
        elif planned.shards and state.shards[0].start:
            touched = np.unique(state.train.user_index[planned.train_rows])
            core = _keeps_core(state, self._without(state, planned).tables.train, state.train.users.some(touched))
        path, shards = cheapest(planned.shards, len(state.shards), share, core=core), planned.shards
        if shards and anew:
            path, shards = REBUILD, tuple(range(len(state.shards)))
        return ForgetReport(
            rows_removed=planned.rows_removed,
            valid_rows_removed=planned.valid_rows_removed,
            shards_retrained=shards,
            path=path,
            unknown=planned.unknown,
            users_left_empty=planned.users_left_empty,
            items_left_empty=planned.items_left_empty,
            estimated_seconds=_estimated(state, shards),
        )

    def forget(self, state: State, planned: Plan, report: ForgetReport) -> State:
        """Return the state without the rows of a plan; the very same one where nothing goes."""
        change, self._planned = self._without(state, planned), None
        if planned.shards:
            return self._changed(state, change, report.path)
        self.seconds.clear()  # nothing was to be done: nothing took any time
        return state

    def _without(self, state: State, planned: Plan) -> Change:
        if self._planned is None or self._planned[0] is not planned:
            self._planned = planned, without(state, planned)
        return self._planned[1]

    # ------------------------------------------------------------------ add

    def add(
        self, state: State, rows: Interactions, *, anew: bool = False, dry_run: bool = False
    ) -> tuple[State, AddReport]:
        """Return the state with new rows in it, and what that means."""
        new = rows.without(state.train)
        if anew:
            change, path = joined(state, new, np.zeros(len(new), dtype=np.int32)), REBUILD  # a new partition says where
            made = state if dry_run else self._changed(state, change, path)
        else:
            with self._fitting(state.config.shards, partitions=False) as fitting:
                if not dry_run:
                    fitting.check_environment(state.environment)
                change = joined(state, new, fitting.place(new, state.train, state.partition))
                train = change.tables.train
                summed = _has_sums(state) and _keeps_sums(state, train)
                share = share_of_pairs(train, train.holds(new)) if summed else None
                core = _keeps_core(state, train, new.users)
                path = cheapest(change.affected, len(state.shards), share, core=core)
                made = state if dry_run else fitting.changed(state, change, path)
        left = change.tables.valid
        moved = 0 if state.valid is None or left is None else len(state.valid) - len(left)
        shards = tuple(range(len(state.shards))) if anew else change.affected
        return made, AddReport(len(new), len(rows) - len(new), moved, shards, path, _estimated(state, shards))

    def _changed(self, state: State, change: Change, path: str) -> State:
        """Return the state that a change leads to."""
        if path == REBUILD:
            self._config = resolve(renewed(self._config))
            return self.fit(change.tables.train, change.tables.valid)
        with self._fitting(len(change.affected), partitions=False) as fitting:
            return fitting.changed(state, change, path)


def _has_sums(state: State) -> bool:
    """Say whether the sums of an additive model are at hand."""
    return state.shards[0].sums is not None and isinstance(state.shards[0].model, Additive)


def _keeps_sums(state: State, rows: Interactions) -> bool:
    """Say whether the model would still keep its sums for these rows: they may have become too many or too few."""
    model = state.shards[0].model
    return isinstance(model, Additive) and model.keeps_sums(rows)


def _keeps_core(state: State, rows: Interactions, touched: IdMap) -> bool:
    """Say whether what the solve set out from is at hand, and is what it would set out from with these rows.

    `touched`: the users some of whose rows have come or gone.
    """
    one = state.shards[0]
    if not one.start or not isinstance(one.model, Starting):
        return False
    return one.model.keeps_start(one.shard.train, rows, touched, derive(state.config.seed, "shard", 0))


def _estimated(state: State, shards: Sequence[int]) -> float | None:
    """Return about how long it takes to retrain some shards here, by how long it took the last time."""
    by_shard = [one.seconds for one in state.shards]
    return estimated_seconds(shards, by_shard, state.seconds.get("aggregate"), len(os.sched_getaffinity(0)))
