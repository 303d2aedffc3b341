"""The seams, on one page: what the engine expects of a model, a partitioner, an aggregator, a store and an executor.

Everything here rests on one sentence: a submodel is a pure function of its shard's rows, its hyperparameters and its
seed. So `Model.fit` is handed these and nothing else, and starts from nothing every time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from receraser.data.ids import IdMap
from receraser.data.interactions import Histories, Interactions
from receraser.fingerprint import Tensors

if TYPE_CHECKING:
    import torch

    from receraser.execution.task import Result, Task
    from receraser.models.factors import FactorModel
    from receraser.partition.partition import Embeddings, Partition

__all__ = [
    "Additive",
    "Aggregator",
    "Executor",
    "Model",
    "Partitioner",
    "Progress",
    "Reuse",
    "Reusing",
    "Scorer",
    "Starting",
]

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

    def restore(self, rows: Interactions, state: Tensors) -> Self:
        """Take over what `state` returned, learned from these rows."""
        ...

    def facts(self) -> Mapping[str, object]:
        """Return what a person may want to know of the fit (epochs used, validation curve); no part of the digest."""
        ...


@runtime_checkable
class Additive(Protocol):
    """A model that is a function of sums of whole numbers over users: what a row added can be taken away, exactly."""

    def keeps_sums(self, rows: Interactions) -> bool:
        """Say whether there are sums of these rows to be had; a function of the rows alone."""
        ...

    def sums(self, rows: Interactions) -> Tensors | None:
        """Return the sums of these rows; None where the model keeps none and is fitted from the rows."""
        ...

    def resummed(self, sums: Tensors, before: Interactions, after: Interactions) -> Tensors | None:
        """Return `sums(after)`, bit for bit, given `sums(before)`; only users who changed are looked at."""
        ...

    def solve(self, items: IdMap, sums: Tensors, seed: int) -> tuple[Tensors, Mapping[str, object]]:
        """Return the state that `fit` comes to, from the sums of the rows alone; and facts of it."""
        ...


@runtime_checkable
class Starting(Protocol):
    """A model whose solve sets out from what a core of the users says: while nothing of theirs changes, that holds."""

    def start(self, rows: Interactions, seed: int) -> Tensors:
        """Return what the solve sets out from: a function of the core's rows; empty where it sets out from nothing."""
        ...

    def keeps_start(self, before: Interactions, after: Interactions, touched: IdMap, seed: int) -> bool:
        """Say whether a change leaves the core alone; `touched`: the users some of whose rows come or go."""
        ...

    def carried(self, start: Tensors, before: Interactions, after: Interactions) -> Tensors:
        """Return `start(after, seed)`, bit for bit, given `start(before, seed)`, where `keeps_start` says so."""
        ...

    def fit_from(self, interactions: Interactions, start: Tensors, *, seed: int = 0) -> Self:
        """Do what `fit` does, given `start(interactions, seed)`."""
        ...


class Partitioner(Protocol):
    """Decides which shard a row lives in. A dataclass: its fields are its settings."""

    name: ClassVar[str]
    remembers_data: ClassVar[bool]  # the shard of a row depends on other rows, and the assignment must be kept
    landmarks_of: ClassVar[str]  # "items" or "users": whose vectors it keeps to place newcomers by; "" for none

    @property
    def user_atomic(self) -> bool:
        """Whether all rows of a user live in one shard."""
        ...

    @property
    def n_shards(self) -> int:
        """A constant, never a function of the data."""
        ...

    def assign(
        self,
        interactions: Interactions,
        *,
        valid: Interactions | None,
        seed: int,
        embeddings: Embeddings | None = None,
        progress: Progress | None = None,
    ) -> Partition:
        """Return the shard of every row, of the training rows and of the validation rows."""
        ...

    def place(
        self, newcomers: Interactions, *, held: Interactions, partition: Partition, seed: int
    ) -> NDArray[np.int32]:
        """Return the shard of rows that join those held; rows held stay where they are."""
        ...


class Aggregator(Protocol):
    """Makes one scorer of the submodels. A dataclass: its fields are its settings."""

    name: ClassVar[str]
    learns: ClassVar[bool]  # whether `fit` does anything

    @property
    def needs_rows(self) -> bool:
        """Whether `fit` looks at the rows; where it does not, it is handed none."""
        ...

    def fit(
        self,
        submodels: Sequence[FactorModel],
        interactions: Interactions,
        *,
        valid: Interactions | None,
        seed: int,
        progress: Progress | None = None,
    ) -> tuple[Tensors, Mapping[str, object]]:
        """Learn, from nothing, what combines the submodels; {} where nothing is learned. Stored and digested.

        The second is for people: facts of the fit, no part of the digest.
        """
        ...

    def scorer(self, submodels: Sequence[FactorModel], state: Tensors) -> Scorer:
        """Put the submodels and what `fit` returned together."""
        ...


@dataclass(frozen=True, eq=False)
class Reuse:
    """What of an earlier aggregate is of use when shards have changed.

    Attributes
    ----------
    holds
        All that the change leaves as it is: part of the new aggregate too.
    known, submodels
        What of it the new fit asks for, and the submodels that it needs besides.
    """

    holds: Tensors
    known: Tensors
    submodels: Sequence[int]


@runtime_checkable
class Reusing(Protocol):
    """An aggregator that need not begin from nothing: parts of what it learned depend on some shards only."""

    def reusable(self, state: Tensors, changed: Collection[int], n_shards: int) -> Reuse:
        """Say what of an earlier state is of use when shards have changed."""
        ...

    def refit(
        self,
        submodels: Sequence[FactorModel],
        known: Tensors,
        interactions: Interactions,
        *,
        progress: Progress | None = None,
    ) -> tuple[Tensors, Mapping[str, object]]:
        """Return what `fit` returns, bit for bit, but for what holds."""
        ...


class Executor(Protocol):
    """Runs pure tasks somewhere: here, in worker processes, on a cluster. The engine does not know which."""

    @property
    def environment(self) -> Mapping[str, object]:
        """What bits depend on over there; known once prepared."""
        ...

    def prepare(self, toys: Sequence[Task], n_tasks: int = 1) -> None:
        """Get ready for tasks like these toys: start, import, compile; no part of anybody's training time."""
        ...

    def run(self, tasks: Iterable[Task], *, progress: Progress | None = None) -> list[Result]:
        """Return the results in the order of the tasks."""
        ...

    def close(self) -> None:
        """Let go of whatever was started."""
        ...
