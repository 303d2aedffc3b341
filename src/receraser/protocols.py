"""The seams, on one page: what the engine expects of a model, a partitioner, an aggregator, a store and an executor.

Everything here rests on one sentence: a submodel is a pure function of its shard's rows, its hyperparameters and its
seed. So `Model.fit` is handed these and nothing else, and starts from nothing every time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

from receraser.data.ids import IdMap
from receraser.data.interactions import Histories, Interactions
from receraser.fingerprint import Tensors

if TYPE_CHECKING:
    import torch

    from receraser.execution.task import FitResult, FitTask
    from receraser.partition.partition import Partition

__all__ = ["Aggregator", "Executor", "Model", "Partitioner", "Progress", "Scorer"]

Progress = Callable[[str, int, int], None]
"""`progress(what, done, total)`: called as work goes on; only ever shown, never used."""


@runtime_checkable
class Scorer(Protocol):
    """What ranking, metrics and serving take: an aggregate, or a model fitted alone."""

    items_: IdMap

    def scores(self, histories: Histories) -> torch.Tensor:
        """Return (len(histories), n_items) float32; a row does not depend on which other users are in the batch."""
        ...


@runtime_checkable
class Model(Scorer, Protocol):
    """A base model. Hyperparameters in the constructor; nothing is learned there."""

    users_: IdMap

    @property
    def name(self) -> str:
        """What configurations call it."""
        ...

    def fit(
        self,
        interactions: Interactions,
        *,
        valid: Interactions | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from these rows alone, from nothing; `valid` chooses the epoch and is never trained on."""
        ...

    def hyperparameters(self) -> dict[str, object]:
        """Return the constructor's arguments: plain values that JSON and TOML can hold."""
        ...

    def state(self) -> Tensors:
        """Return what was learned, as named arrays; the vocabularies are the shard's and not part of it."""
        ...

    def load_state(self, users: IdMap, items: IdMap, state: Tensors) -> Self:
        """Take over what `state` returned."""
        ...

    def facts(self) -> Mapping[str, object]:
        """Return what a person may want to know of the fit (epochs used, validation curve); no part of the digest."""
        ...


class Partitioner(Protocol):
    """Decides which shard a row lives in."""

    @property
    def name(self) -> str:
        """What configurations call it."""
        ...

    @property
    def n_shards(self) -> int:
        """A constant, never a function of the data."""
        ...

    def assign(self, interactions: Interactions, *, valid: Interactions | None, seed: int) -> Partition:
        """Return the shard of every row, of the training rows and of the validation rows."""
        ...


class Aggregator(Protocol):
    """Makes one scorer of the submodels."""

    @property
    def name(self) -> str:
        """What configurations call it."""
        ...

    def fit(
        self, submodels: Sequence[Model], interactions: Interactions, *, valid: Interactions | None, seed: int
    ) -> Tensors:
        """Learn, from nothing, what combines the submodels; {} where nothing is learned. Stored and digested."""
        ...

    def scorer(self, submodels: Sequence[Model], state: Tensors) -> Scorer:
        """Put the submodels and what `fit` returned together."""
        ...


class Executor(Protocol):
    """Runs pure tasks somewhere: here, in worker processes, on a cluster. The engine does not know which."""

    @property
    def environment(self) -> Mapping[str, object]:
        """What bits depend on over there; known once prepared."""
        ...

    def prepare(self, model: str, hyperparameters: Mapping[str, object], n_tasks: int = 1) -> None:
        """Get ready to run tasks of this kind: start, import, compile; no part of anybody's training time."""
        ...

    def run(self, tasks: Iterable[FitTask], *, progress: Progress | None = None) -> list[FitResult]:
        """Return the results in the order of the tasks."""
        ...

    def close(self) -> None:
        """Let go of whatever was started."""
        ...
