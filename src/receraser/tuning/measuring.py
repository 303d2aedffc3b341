"""`Validation`: what configurations reach on validation rows. The objective of a search, and all of it.

Every configuration is fitted by the very stages that `Engine.fit` goes through and ranked as `Engine.evaluate` ranks,
so that a fit with the same settings reaches the same value, bit for bit. What configurations share is computed once:
the partition while its settings are the same, the submodels while theirs are too. Test rows have no way in.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Self, TypeVar

from receraser.config import EngineConfig
from receraser.data.interactions import Interactions
from receraser.evaluation import evaluate
from receraser.fingerprint import canonical_json
from receraser.fitting import Fitting, local_executor
from receraser.metrics import by_name
from receraser.partition.partition import Partition
from receraser.protocols import Executor
from receraser.state import FittedShard, State

__all__ = ["Measured", "Validation"]

_PARTITIONS = 8  # so many are kept: they are small, a number for each row
_SUBMODELS = 1  # and so many sets of submodels, which are not

T = TypeVar("T")


@dataclass(frozen=True)
class Measured:
    """What a configuration reached, all metrics at the cut of the one asked for; seconds by stage; facts for people."""

    metrics: Mapping[str, float]
    seconds: Mapping[str, float]
    facts: Mapping[str, object]


class Validation:
    """Fits configurations on the same rows, and ranks for the same validation rows.

    Parameters
    ----------
    train, valid
        Users go by pseudonyms; no row is in both.
    metric
        Such as "ndcg@20".
    executor
        Where fits are computed; by default worker processes, which end with the block.
    """

    def __init__(
        self, train: Interactions, valid: Interactions, metric: str, *, executor: Executor | None = None
    ) -> None:
        self._train = train
        self._valid = valid
        self._cut = by_name(metric)[1]
        self._borrowed = executor
        self._own: Executor | None = None
        self._partitions: _Kept[Partition] = _Kept(_PARTITIONS)
        self._submodels: _Kept[list[FittedShard]] = _Kept(_SUBMODELS)
        self._pure: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._own is not None:
            self._own.close()

    @property
    def environment(self) -> Mapping[str, object]:
        """Where everything was computed; empty before the first measurement."""
        executor = self._borrowed or self._own
        return {} if executor is None else executor.environment

    def measure(self, config: EngineConfig) -> Measured:
        """Fit a complete configuration and rank; raise as a fit would."""
        with Fitting(config, self._executor(config), n_tasks=config.shards, partitions=True, progress=None) as fitting:
            self._check(fitting)
            divided = _key(config, "partition", "partition_settings", "shards", "seed", "device")
            partition = self._partitions.get(divided, lambda: fitting.partition(self._train, self._valid))
            fitted = self._submodels.get(
                divided + _key(config, "model", "hyperparameters"),
                lambda: fitting.submodels(partition.shards(self._train, self._valid)),
            )
            aggregate, facts = fitting.aggregate(fitted, self._train, self._valid)
            state = State(config, self._train, self._valid, partition, fitted, aggregate, dict(fitting.environment))
        started = time.perf_counter()
        found = evaluate(state.scorer, self._train, self._valid, at=(self._cut,))
        seconds = {**fitting.seconds, "evaluate": time.perf_counter() - started}
        return Measured(found.metrics, seconds, _epochs(fitted, facts))

    def _executor(self, config: EngineConfig) -> Executor:
        """Return the one executor of all fits: starting workers takes seconds."""
        if self._borrowed is not None:
            return self._borrowed
        if self._own is None:
            self._own = local_executor(config)
        return self._own

    def _check(self, fitting: Fitting) -> None:
        """Look once whether somebody else's model leaks; other hyperparameters do not change its source."""
        if fitting.config.model not in self._pure:
            fitting.check_model()
            self._pure.add(fitting.config.model)


def _epochs(fitted: list[FittedShard], aggregate: Mapping[str, object]) -> dict[str, object]:
    """Return which epochs were kept, where epochs were chosen: of the submodels, and of the aggregation."""
    kept = [one.facts["best_epoch"] for one in fitted if "best_epoch" in one.facts]
    found: dict[str, object] = {"epochs kept": kept} if kept else {}
    return found | ({"aggregation epochs kept": aggregate["best_epoch"]} if "best_epoch" in aggregate else {})


def _key(config: EngineConfig, *names: str) -> bytes:
    values = config.as_dict()
    return canonical_json({name: values[name] for name in names})


class _Kept(Generic[T]):
    """The last few things made, by their key."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: OrderedDict[bytes, T] = OrderedDict()

    def get(self, key: bytes, make: Callable[[], T]) -> T:
        """Return what is held by that key; otherwise make it, and let go of the oldest."""
        if key not in self._held:
            while len(self._held) >= self._most:
                self._held.popitem(last=False)
            self._held[key] = make()
        self._held.move_to_end(key)
        return self._held[key]
