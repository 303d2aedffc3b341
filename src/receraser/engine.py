"""`Engine`: fit, recommend, evaluate, save, load. One core under the library and the command line.

::

    fit        Interactions -> pseudonyms -> Partitioner.assign -> shards -> Model.fit (each, by the Executor)
               -> Aggregator.fit -> digest
    recommend  ids -> pseudonyms -> histories -> Scorer.scores -> top_k -> item ids
    save       rows, weights -> files by content -> one manifest, swapped atomically

Outside user ids end here: `_pseudonymous` is the border. Everything below sees pseudonyms.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
import torch

from receraser import fingerprint
from receraser.config import EngineConfig, resolve
from receraser.data.ids import IdMap, id_text, key_check, pseudonyms
from receraser.data.interactions import Histories, Interactions
from receraser.errors import KeyMismatchError, StoreError, UsageError
from receraser.evaluation import SCORE_BLOCK, Evaluation, evaluate
from receraser.execution.local import LocalExecutor
from receraser.execution.task import FitTask
from receraser.fingerprint import Tensors
from receraser.keys import PUBLIC_KEY
from receraser.methods import find_method
from receraser.models.factors import FactorModel
from receraser.models.registry import make_model
from receraser.models.wmf import WMF
from receraser.partition.partition import Partition, Shard
from receraser.protocols import Executor, Model, Progress, Scorer
from receraser.ranking import top_k
from receraser.seeds import derive
from receraser.store.directory import DirectoryStore
from receraser.store.snapshot import Snapshot, read_snapshot, write_snapshot

__all__ = ["Engine", "Recommendation", "ShardReport"]


@dataclass(frozen=True)
class Recommendation:
    """One recommended item and its score (higher is better; comparable within one user's list only)."""

    item: str
    score: float


@dataclass(frozen=True)
class ShardReport:
    """One shard in numbers."""

    id: int
    rows: int
    users: int
    items: int
    digest: str


@dataclass(eq=False)
class _State:
    """Everything a fitted engine knows."""

    train: Interactions
    valid: Interactions | None
    partition: Partition
    shards: list[Shard]
    submodels: list[Model]
    aggregate: Tensors
    scorer: Scorer
    facts: list[Mapping[str, object]] = field(default_factory=list)
    environment: Mapping[str, object] = field(default_factory=dict)


class Engine:
    """A recommender over shards.

    Parameters
    ----------
    model
        The base model, with its hyperparameters; unfitted.
    method
        The preset: which partition and which aggregation (`receraser.methods`).
    seed
        The root of every random draw.
    key
        The key of the pseudonyms (`receraser.keys`); by default a public constant.
    executor
        Where submodels are trained; by default worker processes on this machine.

    Examples
    --------
    >>> rows = Interactions.from_pairs([("u1", "a"), ("u1", "b"), ("u2", "a"), ("u2", "b"), ("u2", "c"), ("u3", "c")])
    >>> engine = Engine(model=WMF(dim=4), seed=7).fit(rows)
    >>> [one.item for one in engine.recommend(users=["u1"], k=2)["u1"]]
    ['c']
    """

    def __init__(
        self,
        *,
        model: FactorModel | None = None,
        method: str = "retrain",
        seed: int = 0,
        key: bytes = PUBLIC_KEY,
        executor: Executor | None = None,
    ) -> None:
        chosen = model if model is not None else WMF()
        settings = chosen.hyperparameters()
        device = str(settings.pop("device"))
        self.config = EngineConfig(method=method, model=chosen.name, seed=seed, device=device, hyperparameters=settings)
        self.titles: dict[str, str] = {}
        self.seconds: dict[str, float] = {}
        self._key = key
        self._executor = executor
        self._fitted: _State | None = None

    @classmethod
    def from_config(cls, config: EngineConfig, *, key: bytes = PUBLIC_KEY, executor: Executor | None = None) -> Self:
        """Make an engine from a configuration."""
        config = resolve(config)
        model = make_model(config.model, {**config.hyperparameters, "device": config.device})
        return cls(model=model, method=config.method, seed=config.seed, key=key, executor=executor)

    # ------------------------------------------------------------------ fit

    def fit(
        self, interactions: Interactions, *, valid: Interactions | None = None, progress: Progress | None = None
    ) -> Self:
        """Learn from these rows; `valid` rows choose epochs and are never trained on.

        An earlier fit leaves no trace, even if this one fails.
        """
        self._fitted = None
        self.config = resolve(self.config)
        method = find_method(self.config.method)
        self.seconds = {}
        train = self._pseudonymous(interactions)
        held = None if valid is None else self._pseudonymous(valid).without(train)  # a row in both stays in train
        with self._timed("partition"):
            partition = method.partitioner.assign(train, valid=held, seed=self.config.seed)
            shards = partition.shards(train, held)
        submodels, facts, environment = self._train(shards, progress)
        with self._timed("aggregate"):
            aggregate = method.aggregator.fit(submodels, train, valid=held, seed=self.config.seed)
            scorer = method.aggregator.scorer(submodels, aggregate)
        self._fitted = _State(train, held, partition, shards, submodels, aggregate, scorer, facts, environment)
        return self

    def _train(
        self, shards: Sequence[Shard], progress: Progress | None
    ) -> tuple[list[Model], list[Mapping[str, object]], Mapping[str, object]]:
        """Fit one submodel per shard, each a pure function of its shard, the hyperparameters and its seed."""
        tasks = [
            FitTask(
                self.config.model, self._hyperparameters(), derive(self.config.seed, "shard", s.id), s.train, s.valid
            )
            for s in shards
        ]
        executor = self._executor or LocalExecutor()
        try:
            executor.prepare(self.config.model, self._hyperparameters(), len(tasks))
            with self._timed("submodels"):
                results = executor.run(tasks, progress=progress)
            environment = executor.environment
        finally:
            if self._executor is None:
                executor.close()
        models = [
            self._model().load_state(s.train.users, s.train.items, r.state)
            for s, r in zip(shards, results, strict=True)
        ]
        return list(models), [result.facts for result in results], environment

    def _hyperparameters(self) -> dict[str, object]:
        return {**self.config.hyperparameters, "device": self.config.device}

    def _model(self) -> FactorModel:
        return make_model(self.config.model, self._hyperparameters())

    def _pseudonymous(self, rows: Interactions) -> Interactions:
        """Replace the users' ids. This is the border: outside ids go no further."""
        return rows.rename_users(pseudonyms(rows.users, self._key))

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[stage] = time.perf_counter() - started

    # ------------------------------------------------------------------ recommend, evaluate

    def recommend(
        self,
        users: Sequence[str | int] = (),
        *,
        k: int = 10,
        items: Sequence[str | int] | None = None,
        exclude_seen: bool = True,
    ) -> dict[str, list[Recommendation]]:
        """Return the k best items for each user, best first; nothing for a user without rows.

        `items` asks for a stranger, known only by the items given; the answer is under the name "".
        """
        state = self._state()
        if k < 1:
            raise UsageError(f"k is {k}; expected at least 1")
        if isinstance(users, str) or isinstance(items, str):
            raise UsageError("users and items are lists of ids, not one text; as in recommend(users=['u1'])")
        names = [id_text(user) for user in users]
        histories = self._histories(names, items)
        names += [""] if items is not None else []
        answer: dict[str, list[Recommendation]] = {}
        for start in range(0, len(names), SCORE_BLOCK):
            block = histories.part(start, min(start + SCORE_BLOCK, len(names)))
            lists = self._best(block, min(k, len(state.scorer.items_)), exclude_seen=exclude_seen)
            answer |= dict(zip(names[start:], lists, strict=False))
        return answer

    def _best(self, histories: Histories, k: int, *, exclude_seen: bool) -> list[list[Recommendation]]:
        """Return the lists of one block of users; an empty one for a user without rows."""
        scorer = self._state().scorer
        if not len(scorer.items_):
            return [[] for _ in histories.users]
        scores = scorer.scores(histories)  # (n, n_items)
        best = top_k(scores, k, exclude=self._seen_cells(histories, scores.device) if exclude_seen else None)
        values = scores.gather(1, best.clamp(min=0)).tolist()
        known = np.diff(histories.indptr) > 0
        return [
            [Recommendation(scorer.items_.ids[i], v) for i, v in zip(row, own, strict=True) if i >= 0] if there else []
            for row, own, there in zip(best.tolist(), values, known.tolist(), strict=True)
        ]

    @property
    def items(self) -> IdMap:
        """The items that can be recommended."""
        return self._state().scorer.items_

    def knows(self, user: str | int) -> bool:
        """Say whether the engine holds training rows of a user."""
        return pseudonyms([id_text(user)], self._key)[0] in self._state().train.users

    def _histories(self, names: Sequence[str], items: Sequence[str | int] | None) -> Histories:
        state = self._state()
        vocabulary = state.scorer.items_
        known = Histories.of(pseudonyms(names, self._key), state.train, vocabulary)
        if items is None:
            return known
        lists = [known.item_index[known.indptr[i] : known.indptr[i + 1]] for i in range(len(known))]
        stranger = vocabulary.indices(id_text(item) for item in items)
        return Histories.from_lists([*known.users, ""], [*lists, stranger])

    def _seen_cells(self, histories: Histories, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the cells not to be recommended: rows trained on, and rows held for validation."""
        state = self._state()
        tables = [histories]
        if state.valid is not None:
            tables.append(Histories.of(histories.users, state.valid, state.scorer.items_))
        rows = [np.repeat(np.arange(len(one)), np.diff(one.indptr)) for one in tables]
        cells = np.concatenate(rows), np.concatenate([one.item_index for one in tables])
        return torch.from_numpy(cells[0]).to(device), torch.from_numpy(cells[1]).to(device)

    def evaluate(
        self, test: Interactions, *, at: Sequence[int] = (10, 20, 50), progress: Progress | None = None
    ) -> Evaluation:
        """Measure on held-out rows: full ranking, training rows masked (`receraser.evaluation`)."""
        state = self._state()
        return evaluate(state.scorer, state.train, self._pseudonymous(test), at=at, progress=progress)

    # ------------------------------------------------------------------ what it is

    def _state(self) -> _State:
        if self._fitted is None:
            raise UsageError("this engine is not fitted yet; call fit(interactions) or Engine.load(folder) first")
        return self._fitted

    @property
    def level(self) -> str:
        """What holds after a forget: L0 to L3."""
        return find_method(self.config.method).level

    @property
    def shards(self) -> list[ShardReport]:
        """The shards in numbers."""
        pairs = zip(self._state().shards, self._state().submodels, strict=True)
        return [
            ShardReport(s.id, len(s.train), len(s.train.users), len(s.train.items), self._shard_digest(s, model))
            for s, model in pairs
        ]

    def _shard_digest(self, shard: Shard, model: Model) -> str:
        return fingerprint.combine(
            {
                "settings": fingerprint.of_settings(
                    {"model": self.config.model, "hyperparameters": self._hyperparameters(), "seed": self.config.seed}
                ),
                "train": fingerprint.of_rows(shard.train),
                "valid": fingerprint.of_rows(shard.valid) if shard.valid is not None else "none",
                "weights": fingerprint.of_tensors(model.state()),
            }
        )

    @property
    def facts(self) -> list[Mapping[str, object]]:
        """What a person may want to know of each submodel's fit: epochs used, the validation curve."""
        return self._state().facts

    @property
    def digest(self) -> str:
        """SHA-256 over the canonical content of everything: rows, assignment, configuration, weights."""
        state = self._state()
        assignment = {"train": state.partition.train}
        if state.partition.valid is not None:
            assignment["valid"] = state.partition.valid
        method = find_method(self.config.method)
        combination = {"partition": method.partitioner.name, "aggregation": method.aggregator.name}
        parts = {
            "config": fingerprint.of_settings(self.config.as_dict() | combination),
            "aggregate": fingerprint.of_tensors(state.aggregate),
            "assignment": fingerprint.of_tensors(assignment),
            "train": fingerprint.of_rows(state.train),
            "valid": fingerprint.of_rows(state.valid) if state.valid is not None else "none",
        }
        return fingerprint.combine(parts | {f"shard {shard.id}": shard.digest for shard in self.shards})

    # ------------------------------------------------------------------ save, load

    def save(self, folder: str | Path, *, replace: bool = False) -> None:
        """Publish the fitted engine as a store; an existing one is refused, or destroyed with `replace`."""
        state = self._state()
        with self._timed("publish"):
            write_snapshot(
                DirectoryStore(Path(folder)),
                Snapshot(
                    config=self.config,
                    digest=self.digest,
                    level=self.level,
                    key_check=key_check(self._key),
                    public_key=self._key == PUBLIC_KEY,
                    train=state.train,
                    valid=state.valid,
                    partition=state.partition,
                    weights=[model.state() for model in state.submodels],
                    aggregate=state.aggregate,
                    shards=[vars(report) for report in self.shards],
                    titles={item: title for item, title in self.titles.items() if item in state.train.items},
                    facts=state.facts,
                    environment=state.environment,
                ),
                replace=replace,
            )

    @classmethod
    def load(cls, folder: str | Path, *, key: bytes = PUBLIC_KEY, executor: Executor | None = None) -> Self:
        """Open a store; every file is checked, and the digest computed anew."""
        snapshot = read_snapshot(DirectoryStore(Path(folder)))
        if snapshot.key_check != key_check(key):
            raise KeyMismatchError(f"the store in {folder} was made with {_which_key(snapshot.public_key, key)}")
        config = snapshot.config
        try:
            model = make_model(config.model, {**config.hyperparameters, "device": config.device})
            engine = cls(model=model, method=config.method, seed=config.seed, key=key, executor=executor)
            engine.titles = dict(snapshot.titles)
            engine._fitted = engine._restored(snapshot)
        except (UsageError, KeyError, TypeError, ValueError) as error:
            raise StoreError(f"the store in {folder} was not made by this version: {error}") from None
        snapshot.check_digest(engine.digest)
        return engine

    def _restored(self, snapshot: Snapshot) -> _State:
        train, valid, partition = snapshot.train, snapshot.valid, snapshot.partition
        shards = partition.shards(train, valid)
        submodels: list[Model] = [
            self._model().load_state(s.train.users, s.train.items, weights)
            for s, weights in zip(shards, snapshot.weights, strict=True)
        ]
        scorer = find_method(self.config.method).aggregator.scorer(submodels, snapshot.aggregate)
        facts, environment = list(snapshot.facts), dict(snapshot.environment)
        return _State(train, valid, partition, shards, submodels, snapshot.aggregate, scorer, facts, environment)


def _which_key(public: bool, given: bytes) -> str:
    """Return the rest of the message about a key that is not the store's."""
    if public:
        return "the public key, and a secret one was given; leave --keys out"
    what = "none" if given == PUBLIC_KEY else "another one"
    return f"a secret key, and {what} was given; name the right folder with --keys"
