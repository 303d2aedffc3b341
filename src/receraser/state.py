"""`State`: everything a fitted engine knows, as one frozen value: rows, assignment, configuration, weights.

`fit`, `forget`, `add` and `rebuild` make a new one; a store holds one. Its `digest` is what equality means: two states
with the same digest are the same model of the same rows. Users go by pseudonyms here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, cast

from receraser import fingerprint
from receraser.aggregation.registry import make_aggregator
from receraser.config import EngineConfig, part_settings
from receraser.data.interactions import Interactions
from receraser.fingerprint import Tensors
from receraser.models.registry import make_model
from receraser.partition.partition import Partition, Shard
from receraser.partition.registry import PARTITIONS
from receraser.protocols import Model, Scorer

if TYPE_CHECKING:
    from receraser.models.factors import FactorModel

__all__ = ["FittedShard", "ShardReport", "State", "rebooked"]


S = TypeVar("S", "FittedShard", "State")

_COMPUTED = ("report", "rows_digests", "aggregate_digests", "digest", "scorer")


def rebooked(one: S, **changes: object) -> S:
    """Return the same content with other book-keeping (files, what is kept): what was computed of it still holds.

    `shards` may be the same shards with other book-keeping.
    """
    assert changes.keys() <= {"files", "kept_old", "shards", "aggregate_files"}, "anything else is content"
    again = replace(one, **changes)  # type: ignore[arg-type]
    computed = {name: value for name, value in vars(one).items() if name in _COMPUTED}
    vars(again).update(computed)
    return again


@dataclass(frozen=True)
class ShardReport:
    """One shard in numbers."""

    id: int
    rows: int
    users: int
    items: int
    digest: str


@dataclass(frozen=True, eq=False)
class FittedShard:
    """A shard and the submodel fitted on it.

    Attributes
    ----------
    facts, seconds
        For people: what the fit said of itself, and how long it took (None where nobody measured).
    files
        The names of its files in the store it was read from or written to, by what is in them.
    sums
        Of an additive model: the sums of the rows, where they are at hand. A function of the rows, not stored.
    start
        Of a model whose solve sets out from a core of its users: what it set out from. Likewise.
    """

    config: EngineConfig
    shard: Shard
    model: Model
    facts: Mapping[str, object] = field(default_factory=dict)
    seconds: float | None = None
    files: Mapping[str, str | None] | None = None
    sums: Tensors | None = None
    start: Tensors | None = None

    @classmethod
    def of(
        cls,
        config: EngineConfig,
        shard: Shard,
        weights: Tensors,
        *,
        facts: Mapping[str, object],
        seconds: float | None,
        files: Mapping[str, str | None] | None = None,
        sums: Tensors | None = None,
        start: Tensors | None = None,
    ) -> FittedShard:
        """Put a shard and the weights learned from it together."""
        model = make_model(*part_settings(config, "model"))
        model.restore(shard.train, weights)
        return cls(config, shard, model, facts, seconds, files, sums, start)

    @cached_property
    def report(self) -> ShardReport:
        """The shard in numbers."""
        train = self.shard.train
        return ShardReport(self.shard.id, len(train), len(train.users), len(train.items), self._digest())

    @property
    def rows_digest(self) -> str:
        """SHA-256 over the canonical content of its rows."""
        return self.shard.digest

    def _digest(self) -> str:
        model, hyperparameters = part_settings(self.config, "model")
        settings = {"model": model, "hyperparameters": hyperparameters, "seed": self.config.seed}
        return fingerprint.combine(
            {
                "settings": fingerprint.of_settings(settings),
                "rows": self.rows_digest,
                "weights": fingerprint.of_tensors(self.model.state()),
            }
        )


@dataclass(frozen=True, eq=False)
class State:
    """A fitted engine as a value.

    Attributes
    ----------
    train, valid, partition
        All rows, and the shard of each.
    shards
        The same rows shard by shard, with their submodels.
    aggregate
        What the aggregation learned.
    inherited
        Whether the assignment was taken over from an earlier state, for a partition that looks at the data.
    kept_old
        Whether an earlier state was kept on purpose.
    environment
        Where it was computed: what bits depend on.
    aggregate_files
        The names of files that hold parts of `aggregate`, in the store it was read from or written to.
    aggregate_facts, seconds
        For people: what the aggregation said of itself, and how long each stage took, to estimate the next time by.
    """

    config: EngineConfig
    train: Interactions
    valid: Interactions | None
    partition: Partition
    shards: Sequence[FittedShard]
    aggregate: Tensors
    environment: Mapping[str, object]
    inherited: bool = False
    kept_old: bool = False
    aggregate_files: Mapping[str, str] = field(default_factory=dict)
    aggregate_facts: Mapping[str, object] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def scorer(self) -> Scorer:
        """The submodels and what combines them, put together."""
        aggregator = make_aggregator(*part_settings(self.config, "aggregation"))
        models = cast("Sequence[FactorModel]", [one.model for one in self.shards])  # or gram, for spectral
        return aggregator.scorer(models, self.aggregate)

    @property
    def level(self) -> str:
        """What holds of this state: L3; L2 with an old one kept; L1 with an assignment that remembers.

        Vectors from a file are such a memory always: nobody knows which rows they were learned from.
        """
        from_file = self.config.partition_settings.get("embeddings") == "file"
        if from_file or (self.inherited and PARTITIONS[self.config.partition].remembers_data):
            return "L1"
        return "L2" if self.kept_old else "L3"

    @cached_property
    def rows_digests(self) -> Mapping[str, str]:
        """SHA-256 over the canonical content of each shard's rows; together they say which row is in which shard."""
        return {f"shard {one.shard.id}": one.rows_digest for one in self.shards}

    @cached_property
    def aggregate_digests(self) -> Mapping[str, str]:
        """SHA-256 over the canonical content of each part of what the aggregation learned."""
        return fingerprint.of_each(self.aggregate)

    def keeping(self, was: State) -> State:
        """Return the same state; what is known of parts of the aggregate that it shares with an earlier one is kept."""
        same = [name for name, array in self.aggregate.items() if array is was.aggregate.get(name)]
        made = replace(
            self, aggregate_files={name: was.aggregate_files[name] for name in same if name in was.aggregate_files}
        )
        new = {name: array for name, array in self.aggregate.items() if name not in same}
        digests = {name: was.aggregate_digests[name] for name in same}
        digests |= fingerprint.of_each(new)
        vars(made)["aggregate_digests"] = digests
        return made

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the canonical content of everything: configuration, rows shard by shard, weights.

        Made of digests of its parts, so that a change costs what it changes.
        """
        parts = {
            "config": fingerprint.of_settings(self.config.as_dict()),
            "aggregate": fingerprint.combine(self.aggregate_digests),
            "landmarks": self._landmarks_digest(),
        }
        return fingerprint.combine(parts | {f"shard {one.shard.id}": one.report.digest for one in self.shards})

    def _landmarks_digest(self) -> str:
        landmarks = self.partition.landmarks
        if landmarks is None:
            return "none"
        ids = fingerprint.of_settings({"ids": list(landmarks.ids)})
        return fingerprint.combine({"vectors": fingerprint.of_tensors(landmarks.tensors()), "ids": ids})
