"""`Engine`: fit, recommend, forget, add, rebuild, save, load. One core under the library and the command line.

::

    fit        Interactions -> pseudonyms -> Partitioner.assign -> shards -> Model.fit (each) -> Aggregator.fit -> State
    recommend  ids -> pseudonyms -> histories -> Scorer.scores -> top_k -> item ids
    forget     ForgetRequest -> pseudonyms -> plan -> rows without them -> Model.fit (affected shards) -> Aggregator.fit
    save       rows, weights -> files by content -> one manifest, swapped atomically; what was there is destroyed

Outside user ids end here: `_pseudonymous` is the border. Everything below sees pseudonyms. The stages of a fit are in
`fitting`, what comes out of them in `state`.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from receraser import settings
from receraser.changes import Change, joined, without
from receraser.config import EngineConfig, resolve
from receraser.data.ids import IdMap, id_text, key_check, pseudonyms
from receraser.data.interactions import Interactions
from receraser.erasure.plan import NOTHING, cheapest, estimated_seconds, plan, share_of_pairs
from receraser.erasure.request import ForgetRequest
from receraser.errors import KeyMismatchError, StoreError, UsageError
from receraser.evaluation import Evaluation, evaluate
from receraser.fitting import Fitting
from receraser.keys import PUBLIC_KEY
from receraser.partition.partition import Embeddings, Partition
from receraser.partition.registry import PARTITIONS
from receraser.protocols import Additive, Aggregator, Executor, Model, Partitioner, Progress
from receraser.reports import AddReport, ForgetReport
from receraser.serving import Recommendation, best_items, histories_of
from receraser.state import ShardReport, State, rebooked
from receraser.store.directory import DirectoryStore
from receraser.store.export import Export, read_export, write_export
from receraser.store.snapshot import Snapshot, read_snapshot, write_snapshot

__all__ = ["AddReport", "Engine", "ForgetReport", "Recommendation"]


@dataclass(frozen=True, eq=False)
class _Published:
    """What an engine was last read from or published as: a store's folder, its version then, the state."""

    path: Path
    version: str
    state: State


class Engine:
    """A recommender over shards.

    Parameters
    ----------
    model
        The model, with its hyperparameters; unfitted. By default `Gram()`, or `WMF()` where there are shards.
    method
        A preset: which partition and which aggregation (`receraser.methods`). By default "retrain".
    partitioner, aggregator
        These parts themselves, with their settings, instead of the method's.
    shards
        How many, for a method given by its name; by default the method's own number.
    seed
        The root of every random draw.
    key
        The key of the pseudonyms (`receraser.keys`); by default a public constant.
    executor
        Where everything that is learned is computed; by default worker processes on this machine.

    Examples
    --------
    >>> rows = Interactions.from_pairs([("u1", "a"), ("u1", "b"), ("u2", "a"), ("u2", "b"), ("u2", "c"), ("u3", "c")])
    >>> engine = Engine(seed=7).fit(rows)
    >>> [one.item for one in engine.recommend(users=["u1"], k=2)["u1"]]
    ['c']
    >>> engine.forget(users=["u2"]).rows_removed
    3
    """

    def __init__(
        self,
        *,
        model: Model | None = None,
        method: str = "",
        partitioner: Partitioner | None = None,
        aggregator: Aggregator | None = None,
        shards: int = 0,
        seed: int = 0,
        key: bytes | None = PUBLIC_KEY,
        executor: Executor | None = None,
    ) -> None:
        own = {} if model is None else model.hyperparameters()
        device = str(own.pop("device", "cpu"))
        if partitioner is not None and shards not in (0, partitioner.n_shards):
            raise UsageError(f"{shards} shards were asked for, but the partitioner makes {partitioner.n_shards}")
        self.config = EngineConfig(
            method=method,
            model="" if model is None else model.name,
            partition="" if partitioner is None else partitioner.name,
            aggregation="" if aggregator is None else aggregator.name,
            shards=shards or (0 if partitioner is None else partitioner.n_shards),
            seed=seed,
            device=device,
            hyperparameters=own,
            partition_settings={} if partitioner is None else _own_settings(partitioner),
            aggregation_settings={} if aggregator is None else _own_settings(aggregator),
        )
        self.titles: dict[str, str] = {}
        self.seconds: dict[str, float] = {}
        self._key = key
        self._key_check = "" if key is None else key_check(key)
        self._public_key = key == PUBLIC_KEY
        self._executor = executor
        self._fitted: State | None = None
        self._published: _Published | None = None

    @classmethod
    def from_config(
        cls, config: EngineConfig, *, key: bytes | None = PUBLIC_KEY, executor: Executor | None = None
    ) -> Self:
        """Make an engine from a configuration."""
        engine = cls(key=key, executor=executor)
        engine.config = resolve(config)
        return engine

    # ------------------------------------------------------------------ fit

    def fit(
        self,
        interactions: Interactions,
        *,
        valid: Interactions | None = None,
        embeddings: Embeddings | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from these rows; `valid` rows choose epochs and are never trained on.

        `embeddings` are for partitions that take them from a file (setting embeddings="file"). An earlier fit leaves
        no trace, even if this one fails.
        """
        train = self._pseudonymous(interactions)
        held = None if valid is None else self._pseudonymous(valid).without(train)  # a row in both stays in train
        return self._fit(train, held, None, self._renamed(embeddings), progress)

    def _fit(
        self,
        train: Interactions,
        valid: Interactions | None,
        partition: Partition | None,
        embeddings: Embeddings | None,
        progress: Progress | None,
    ) -> Self:
        """Fit rows whose users go by pseudonyms already, from nothing; a given partition is taken as it is."""
        self._fitted = None
        self.config = resolve(self.config)
        given = partition is not None
        with self._fitting(self.config.shards, progress, partitions=not given) as fitting:
            if partition is None:
                partition = fitting.partition(train, valid, embeddings)
            self._fitted = fitting.state(train, valid, partition, inherited=given)
        return self

    def rebuild(
        self, *, device: str | None = None, embeddings: Embeddings | None = None, progress: Progress | None = None
    ) -> Self:
        """Fit everything again, from the surviving rows alone: a new partition, in the environment of today.

        What a data-driven partition remembered of forgotten rows is gone after it. `device` moves it to another one.
        If it fails, nothing has changed.
        """
        state = self._state()
        try:
            if device is not None:
                self.config = dataclasses.replace(self.config, device=device)
            return self._fit(state.train, state.valid, None, self._renamed(embeddings), progress)
        except BaseException:
            self._fitted, self.config = state, state.config
            raise

    @contextmanager
    def _fitting(self, n_tasks: int, progress: Progress | None, *, partitions: bool) -> Iterator[Fitting]:
        fitting = Fitting(self.config, self._executor, n_tasks=n_tasks, partitions=partitions, progress=progress)
        with fitting:
            yield fitting
        self.seconds = dict(fitting.seconds)

    def _own_key(self) -> bytes:
        if self._key is None:
            raise UsageError("this engine has no key to find its users by; give the folder of the key with --keys")
        return self._key

    def _pseudonymous(self, rows: Interactions) -> Interactions:
        """Replace the users' ids. This is the border: outside ids go no further."""
        return rows.rename_users(pseudonyms(rows.users, self._own_key()))

    def _renamed(self, embeddings: Embeddings | None) -> Embeddings | None:
        """Do the same to vectors, where there are any."""
        if embeddings is None:
            return None
        return embeddings.renamed(
            dict(zip(embeddings.users, pseudonyms(embeddings.users, self._own_key()), strict=True))
        )

    # ------------------------------------------------------------------ forget, add

    def forget(
        self,
        users: Iterable[str | int] = (),
        *,
        items: Iterable[str | int] = (),
        interactions: Iterable[tuple[str | int, str | int]] = (),
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> ForgetReport:
        """Forget whole users, whole items or single interactions; the affected shards are retrained from nothing.

        What is left is, bit for bit, what a fresh fit on the survivors gives (given the same assignment to shards,
        where the partition looked at the data: see `level`). The engine changes in memory; on a store use
        `Engine.changing`, which publishes what changed and destroys what was there.
        """
        request = ForgetRequest.of(users, items, interactions)
        return self.forget_request(request, dry_run=dry_run, progress=progress)

    def forget_request(
        self, request: ForgetRequest, *, dry_run: bool = False, progress: Progress | None = None
    ) -> ForgetReport:
        """Forget a batch; each affected shard is retrained once."""
        state = self._state()
        names = dict(zip(request.named_users, pseudonyms(request.named_users, self._own_key()), strict=True))
        planned = plan(request.renamed(names), state.train, state.valid, state.partition)
        outside = {pseudonym: name for name, pseudonym in names.items()}
        change = without(state, planned)
        report = ForgetReport(
            rows_removed=planned.rows_removed,
            valid_rows_removed=planned.valid_rows_removed,
            shards_retrained=planned.shards,
            path=_path(state, change, share_of_pairs(state.train, planned.train_rows)),
            unknown=planned.unknown.renamed(outside),
            users_left_empty=planned.users_left_empty,
            items_left_empty=planned.items_left_empty,
            estimated_seconds=_estimated(state, planned.shards),
        )
        self.seconds = {}
        if planned.shards and not dry_run:
            with self._fitting(len(planned.shards), progress, partitions=False) as fitting:
                self._fitted = fitting.changed(state, change, report.path)
            self.titles = self._titles()
        return report

    def add(self, interactions: Interactions, *, dry_run: bool = False, progress: Progress | None = None) -> AddReport:
        """Take new rows in; only the shards they join are retrained, from nothing.

        Rows held already change nothing; a row held for validation becomes a training row. Where a row goes is a
        function of the row (hash, random), or it follows its user or item, or finds the nearest anchor with room.
        """
        state = self._state()
        rows = self._pseudonymous(interactions)
        new = rows.without(state.train)
        self.seconds = {}
        if not len(new):
            return AddReport(0, len(rows), 0, (), NOTHING, 0.0)
        with self._fitting(state.config.shards, progress, partitions=False) as fitting:
            change = joined(state, new, fitting.place(new, state.train, state.partition))
            path = _path(state, change, share_of_pairs(change.train, change.train.holds(new)))
            if not dry_run:
                self._fitted = fitting.changed(state, change, path)
        moved = 0 if state.valid is None or change.valid is None else len(state.valid) - len(change.valid)
        seconds = _estimated(state, change.affected)
        return AddReport(len(new), len(rows) - len(new), moved, change.affected, path, seconds)

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
        stranger = None if items is None else [id_text(item) for item in items]
        histories = histories_of(state, pseudonyms(names, self._own_key()), stranger)
        names += [""] if items is not None else []
        return dict(zip(names, best_items(state, histories, k, exclude_seen=exclude_seen), strict=True))

    @property
    def items(self) -> IdMap:
        """The items that can be recommended."""
        return self._state().scorer.items_

    def knows(self, user: str | int) -> bool:
        """Say whether the engine holds training rows of a user."""
        return pseudonyms([id_text(user)], self._own_key())[0] in self._state().train.users

    def evaluate(
        self, test: Interactions, *, at: Sequence[int] = (10, 20, 50), progress: Progress | None = None
    ) -> Evaluation:
        """Measure on held-out rows: full ranking, training rows masked (`receraser.evaluation`)."""
        state = self._state()
        return evaluate(state.scorer, state.train, self._pseudonymous(test), at=at, progress=progress)

    # ------------------------------------------------------------------ what it is

    def _state(self) -> State:
        if self._fitted is None:
            raise UsageError("this engine is not fitted yet; call fit(interactions) or Engine.load(folder) first")
        return self._fitted

    @property
    def state(self) -> State:
        """Everything the fitted engine knows, as one frozen value; users go by pseudonyms in it."""
        return self._state()

    @property
    def level(self) -> str:
        """What holds of the state, L0 to L3 (docs/forgetting.md); at most L2 while a store still holds another one."""
        state, then = self._state(), self._published
        return state.level if then is None or then.state is state else min(state.level, "L2")

    @property
    def shards(self) -> list[ShardReport]:
        """The shards in numbers."""
        return [one.report for one in self._state().shards]

    @property
    def balance(self) -> float:
        """The largest shard over the mean one, in training rows."""
        return self._state().partition.balance

    @property
    def facts(self) -> list[Mapping[str, object]]:
        """What a person may want to know of each submodel's fit: epochs used, the validation curve."""
        return [one.facts for one in self._state().shards]

    @property
    def aggregate_facts(self) -> Mapping[str, object]:
        """What a person may want to know of the aggregation's fit."""
        return self._state().aggregate_facts

    @property
    def digest(self) -> str:
        """SHA-256 over the canonical content of everything: rows, assignment, configuration, weights."""
        return self._state().digest

    # ------------------------------------------------------------------ save, load, export

    def save(self, folder: str | Path, *, replace: bool = False) -> None:
        """Publish the fitted engine as a store; an existing one is refused, or destroyed with `replace`.

        Refused too if the engine was read from this store and somebody else has changed it since: rows that were
        forgotten meanwhile would come back.
        """
        state = rebooked(self._state(), kept_old=False)  # that was of the store it was read from
        store = DirectoryStore(Path(folder))
        started = time.perf_counter()
        store.check_free(replace=replace)
        with store.writing():
            store.check_free(replace=replace)  # again, now that nobody else can write
            self._check_not_stale(store)
            self._publish(store, state)
        self.seconds["publish"] = time.perf_counter() - started

    def _publish(self, store: DirectoryStore, state: State, *, keep_old: bool = False) -> None:
        """Make a state the content of a store, whose lock is held."""
        self._fitted = write_snapshot(store, self._snapshot(state), keep_old=keep_old)
        self._published = _Published(store.path.resolve(), store.version(), self._fitted)

    def _check_not_stale(self, store: DirectoryStore) -> None:
        """Raise if the engine was read from this store and the store has changed since."""
        then = self._published
        if then is None or then.path != store.path.resolve() or not store.exists():
            return
        if store.version() != then.version:
            raise StoreError(
                f"the store in {store.path} has changed since it was opened here, and publishing would undo that; open "
                "it again (Engine.changing opens, changes and publishes under one lock)"
            )

    def _snapshot(self, state: State) -> Snapshot:
        return Snapshot(state, self._titles(), self._key_check, self._public_key)

    def _titles(self) -> dict[str, str]:
        """Return the titles of the items there are: what has vanished leaves none behind."""
        items = self._state().train.items
        return {item: title for item, title in self.titles.items() if item in items}

    @classmethod
    def load(cls, folder: str | Path, *, key: bytes | None = PUBLIC_KEY, executor: Executor | None = None) -> Self:
        """Open a store; every file is checked, and the digest computed anew.

        Without its key (None) a store can be looked at, exported and rebuilt; nobody can be asked for by their id.
        """
        engine = cls(key=key, executor=executor)
        engine._open(DirectoryStore(Path(folder)))
        return engine

    def _open(self, store: DirectoryStore) -> State:
        """Take over what a store holds."""
        snapshot = read_snapshot(store)
        if self._key is None and snapshot.public_key:
            self._key, self._key_check = PUBLIC_KEY, key_check(PUBLIC_KEY)
        if self._key is not None and snapshot.key_check != self._key_check:
            which = _which_key(snapshot.public_key, self._own_key())
            raise KeyMismatchError(f"the store in {store.path} was made with {which}")
        self._key_check, self._public_key = snapshot.key_check, snapshot.public_key
        self.config = snapshot.state.config
        self.titles = dict(snapshot.titles)
        self._fitted = snapshot.state
        self._published = _Published(store.path.resolve(), snapshot.version, snapshot.state)
        return snapshot.state

    @classmethod
    @contextmanager
    def changing(
        cls,
        folder: str | Path,
        *,
        key: bytes | None = PUBLIC_KEY,
        executor: Executor | None = None,
        keep_old: bool = False,
    ) -> Iterator[Self]:
        """Open a store to change it: nobody else can write meanwhile, and what changed is published at the end.

        The old state is destroyed by that, or kept with `keep_old`. If the block raises, the store stays as it was.

        Examples
        --------
        >>> import tempfile
        >>> rows = Interactions.from_pairs([("u1", "a"), ("u1", "b"), ("u2", "a"), ("u3", "c")])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Engine().fit(rows).save(folder)
        ...     with Engine.changing(folder) as engine:
        ...         gone = engine.forget(users=["u1"]).rows_removed
        ...     gone, Engine.load(folder).knows("u1")
        (2, False)
        """
        store = DirectoryStore(Path(folder))
        store.manifest()  # raises where there is no store, before anything is made there
        with store.writing():
            store.sweep()  # what an interrupted change was about to destroy
            engine = cls(key=key, executor=executor)
            before = engine._open(store)
            yield engine
            if engine._state() is before:
                return
            started = time.perf_counter()
            engine._publish(store, rebooked(engine._state(), kept_old=keep_old), keep_old=keep_old)
            engine.seconds["publish"] = time.perf_counter() - started

    def export(self, folder: str | Path) -> None:
        """Write what a fresh fit needs to a new folder: rows (by pseudonyms), assignment, configuration, titles."""
        state = self._state()
        write_export(
            Path(folder),
            Export(
                config=state.config,
                train=state.train,
                valid=state.valid,
                partition=state.partition,
                titles=self._titles(),
                key_check=self._key_check,
                public_key=self._public_key,
            ),
        )

    @classmethod
    def fit_export(
        cls,
        source: str | Path | Export,
        *,
        key: bytes | None = None,
        executor: Executor | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Fit an export, from nothing: the digest is that of the store that was exported.

        A data-independent partition is computed anew; the assignment of any other is taken from the export, and the
        level says so. No key is needed: users go by pseudonyms already and are not hashed again.
        """
        export = source if isinstance(source, Export) else read_export(Path(source))
        if key is None and export.public_key:
            key = PUBLIC_KEY
        if key is not None and key_check(key) != export.key_check:
            raise KeyMismatchError(f"the export was made with {_which_key(export.public_key, key)}")
        engine = cls(key=key, executor=executor)
        engine.config = export.config
        engine._key_check, engine._public_key = export.key_check, export.public_key
        engine.titles = dict(export.titles)
        given = export.partition if PARTITIONS[export.config.partition].remembers_data else None
        return engine._fit(export.train, export.valid, given, None, progress)


def _path(state: State, change: Change, share: float) -> str:
    """Return the cheapest exact way; `share` of all pairs of a user's items belongs to users who change."""
    only = state.shards[0]
    summed = isinstance(only.model, Additive) and only.sums is not None and only.model.keeps_sums(change.train)
    return cheapest(change.affected, len(state.shards), share if summed else None)


def _estimated(state: State, shards: Sequence[int]) -> float | None:
    """Return about how long it takes to retrain some shards here, by how long it took the last time."""
    by_shard = [one.seconds for one in state.shards]
    return estimated_seconds(shards, by_shard, state.seconds.get("aggregate"), len(os.sched_getaffinity(0)))


def _own_settings(part: Partitioner | Aggregator) -> dict[str, object]:
    """Return the settings of a part but for those that the engine decides."""
    return {key: value for key, value in settings.values(part).items() if key not in ("device", "n_shards")}


def _which_key(public: bool, given: bytes) -> str:
    """Return the rest of the message about a key that is not the store's."""
    if public:
        return "the public key, and a secret one was given; leave --keys out"
    what = "none" if given == PUBLIC_KEY else "another one"
    return f"a secret key, and {what} was given; name the right folder with --keys"
