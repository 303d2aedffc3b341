"""`Engine`: fit, recommend, forget, add, rebuild, save, load. One core under the library and the command line.

::

    fit        Interactions -> pseudonyms -> Partitioner.assign -> shards -> Model.fit (each) -> Aggregator.fit -> State
    recommend  ids -> pseudonyms -> histories -> Scorer.scores -> top_k -> item ids
    forget     ForgetRequest -> pseudonyms -> plan -> rows without them -> Model.fit (affected shards) -> Aggregator.fit
    save       rows, weights -> files by content -> one manifest, swapped atomically; what was there is destroyed
    changing   a store, opened: a request is durable before work begins, published and certified when it is done

Outside user ids end here: `_pseudonymous` is the border. Everything below sees pseudonyms. The way from
one state to the next is in `work`, what comes out of them in `state`, what surrounds a change of a store in `custody`.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from receraser import acts, settings
from receraser.acts import Held
from receraser.config import EngineConfig, renewed, resolve
from receraser.custody import Act, Custody, Published, now, signing_for
from receraser.data.ids import IdMap, id_text, key_check, pseudonyms
from receraser.data.interactions import Interactions
from receraser.erasure.plan import NOTHING, REBUILD, plan
from receraser.erasure.request import ForgetRequest
from receraser.errors import (
    DataError,
    EnvironmentMismatchError,
    KeyMismatchError,
    ReceraserError,
    StoreError,
    UsageError,
)
from receraser.evaluation import Evaluation, evaluate
from receraser.execution.local import LocalExecutor
from receraser.fitting import local_executor
from receraser.keys import PUBLIC_KEY
from receraser.partition.partition import Embeddings, Partition
from receraser.partition.registry import PARTITIONS
from receraser.proof.ledger import later
from receraser.proof.receipt import Receipt, receipts_of
from receraser.protocols import Aggregator, Executor, Model, Partitioner, Progress
from receraser.reports import AddReport, ForgetReport
from receraser.serving import Recommendation, best_items, histories_of
from receraser.state import ShardReport, State, rebooked
from receraser.store.directory import DirectoryStore
from receraser.store.export import Export, check_empty, read_export, write_export
from receraser.store.history import replaceable
from receraser.store.pending import Pending
from receraser.store.record import Policy, Record
from receraser.store.snapshot import Snapshot, encode_ahead, read_snapshot
from receraser.work import Work

if TYPE_CHECKING:
    from receraser.proof.keyring import Keyring

_OF_THE_PLACE = (UsageError, DataError)  # by which a request that is right can fail: of its machine, of its keys

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
    >>> engine = Engine(seed=7).fit(rows)  # doctest: +SKIP
    >>> [one.item for one in engine.recommend(users=["u1"], k=2)["u1"]]  # doctest: +SKIP
    ['c']
    >>> engine.forget(users=["u2"]).rows_removed  # doctest: +SKIP
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
        self._own: tuple[str, LocalExecutor | None] = "", None  # workers of an open store, and for which device
        self.wishes = Interactions.empty()
        self.origin = "given"
        self.policy = Policy()
        self._fitted: State | None = None
        self._published: _Published | None = None
        self._custody: Custody | None = None
        self.certificate: Path | None = None
        self.replaced: str | None = None
        self.finished = 0
        self._record = Record()

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
        if self._custody is not None:
            raise UsageError(
                "a store is open here to be changed, and other rows in the place of its own would be on no record; fit "
                "another engine, and save it with replace=True when this block has ended"
            )
        train = self._pseudonymous(interactions)
        held = None if valid is None else self._pseudonymous(valid).without(train)  # a row in both stays in train
        self._fitted, self.wishes, self._record = None, Interactions.empty(), Record()
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
        self.config = resolve(self.config)
        with self._working(self.config, progress) as work:
            state = work.fit(train, valid, partition=partition, embeddings=embeddings)
        self._take(Held(state, self.wishes, self.titles))
        return self

    def _take(self, held: Held) -> None:
        """Go on with what there is now: when work has been done, an engine changes what it holds here alone."""
        self._fitted, self.wishes, self.titles = held.state, held.wishes, dict(held.titles)
        self.config = held.state.config  # a new partition takes somebody's model as it is now

    @contextmanager
    def _working(self, config: EngineConfig, progress: Progress | None) -> Iterator[Work]:
        stored = self._custody is not None or self._published is not None  # and so will be what comes of it
        work = Work(config, self._workers(config), progress, ahead=encode_ahead if stored else None)
        yield work
        self.seconds = work.seconds

    def _workers(self, config: EngineConfig) -> Executor | None:
        """Return who computes; while a store is open our own are kept, so that the second change finds them warm."""
        if self._executor is not None or self._custody is None:
            return self._executor
        device, own = self._own
        if own is None or device != config.device:
            self._end_own()
            own = local_executor(config)
            self._own = config.device, own
        return own

    def _end_own(self) -> None:
        _, own = self._own
        self._own = "", None
        if own is not None:
            own.close()

    def rebuild(
        self, *, device: str | None = None, embeddings: Embeddings | None = None, progress: Progress | None = None
    ) -> Self:
        """Fit everything again, from the surviving rows alone: a new partition, in the environment of today.

        What a data-driven partition remembered of forgotten rows is gone after it. `device` moves it to another one.
        If it fails, nothing has changed. On an open store, requests that could not be finished in this environment are
        done first.
        """
        anew = self._anew(device or "")
        self._finish(progress, anew=anew)
        pending = Pending("rebuild", self._time(), keep_old=self._keep_old, device=device or "")
        if embeddings is not None:  # a request that needs a file cannot be finished by somebody who lacks it
            return self._rebuild(pending, self._renamed(embeddings), progress)
        with self._written_down(pending):
            return self._rebuild(pending, None, progress)

    def _anew(self, device: str) -> EngineConfig:
        """Return the configuration that a fit from nothing takes today: on this device, or its own if none is named."""
        config = renewed(self._state().config)
        return resolve(dataclasses.replace(config, device=device) if device else config)

    def _rebuild(
        self,
        pending: Pending,
        embeddings: Embeddings | None,
        progress: Progress | None,
        *,
        anew: EngineConfig | None = None,
    ) -> Self:
        started = self._time()
        with self._working(anew or self._anew(pending.device), progress) as work:
            held, act = acts.rebuild(self._held(), pending, embeddings, work, started=started)
        self._hand_over(held, act)
        return self

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
        hide: bool = False,
        dry_run: bool = False,
        receipts: Callable[[Sequence[Receipt]], object] | None = None,
        progress: Progress | None = None,
    ) -> ForgetReport:
        """Forget whole users, whole items or single interactions; the affected shards are retrained from nothing.

        What is left is, bit for bit, what a fresh fit on the survivors gives (given the same assignment to shards,
        where the partition looked at the data: see `level`). The engine changes in memory; on a store use
        `Engine.changing`, which publishes what changed and destroys what was there.
        """
        request = ForgetRequest.of(users, items, interactions)
        return self.forget_request(request, hide=hide, dry_run=dry_run, receipts=receipts, progress=progress)

    def forget_request(
        self,
        request: ForgetRequest,
        *,
        hide: bool = False,
        dry_run: bool = False,
        receipts: Callable[[Sequence[Receipt]], object] | None = None,
        progress: Progress | None = None,
    ) -> ForgetReport:
        """Forget a batch; each affected shard is retrained once.

        A forgotten interaction makes its item one that may be recommended to that user again; `hide` keeps the items of
        all interactions of the request out of their users' lists. It is a wish, stored as such, apart from the rows.

        `receipts` is called with a receipt for every subject before the request is written down, where what is done
        will be certified (`certifies`). They are kept nowhere else, and open the certificate even if a later process
        finishes the request: make them durable there. If it raises, nothing was asked for. The report has them too.
        """
        state = self._state()
        names = dict(zip(request.named_users, pseudonyms(request.named_users, self._own_key()), strict=True))
        asked = request.renamed(names)
        outside = {pseudonym: name for name, pseudonym in names.items()}
        self.seconds = {}
        if dry_run:
            planned = plan(asked, state.train, state.valid, state.partition)
            report = Work(self.config, self._executor).forget_report(state, planned, anew=self._due())
            return _by_their_names(report, outside)
        if not request:
            return self.forget_request(request, dry_run=True)
        self._finish(progress)  # what failed a moment ago goes first, or nothing does: the order is kept
        root, drawn = receipts_of(request.subjects if self.certifies else ())
        if receipts is not None and drawn:
            receipts(drawn)
        pending = Pending("forget", self._time(), request=asked, hide=hide, keep_old=self._keep_old, subjects_root=root)
        with self._written_down(pending):
            return dataclasses.replace(self._forget(pending, outside, progress), receipts=tuple(drawn))

    def _forget(
        self,
        pending: Pending,
        outside: Mapping[str, str],
        progress: Progress | None,
        *,
        anew: EngineConfig | None = None,
    ) -> ForgetReport:
        """Do a request, by pseudonyms, that is written down; with `anew` from nothing, by that configuration."""
        started, due = self._time(), anew is not None or (self._custody is not None and self._due())
        with self._working(anew or self.config, progress) as work:
            held, act, report = acts.forget(self._held(), pending, work, anew=due, started=started)
        done = self._hand_over(held, act)
        return dataclasses.replace(_by_their_names(report, outside), certificate=done.certificate)

    def add(self, interactions: Interactions, *, dry_run: bool = False, progress: Progress | None = None) -> AddReport:
        """Take new rows in; only the shards they join are retrained, from nothing.

        Rows held already change nothing; a row held for validation becomes a training row. Where a row goes is a
        function of the row (hash, random), or it follows its user or item, or finds the nearest anchor with room.
        """
        if not dry_run:
            self._finish(progress)
        state = self._state()
        rows = self._pseudonymous(interactions)
        new = rows.without(state.train)
        self.seconds = {}
        if not len(new):
            return AddReport(0, len(rows), 0, (), NOTHING, 0.0)
        if dry_run:
            with self._working(self.config, progress) as work:
                return work.add(state, rows, anew=self._due(), dry_run=True)[1]
        pending = Pending("add", self._time(), rows=rows, keep_old=self._keep_old)
        with self._written_down(pending):
            return self._add(pending, rows, progress)

    def _add(
        self, pending: Pending, rows: Interactions, progress: Progress | None, *, anew: EngineConfig | None = None
    ) -> AddReport:
        """Do an add, by pseudonyms, that is written down; with `anew` from nothing, by that configuration."""
        started, due = self._time(), anew is not None or (self._custody is not None and self._due())
        with self._working(anew or self.config, progress) as work:
            held, act, report = acts.add(self._held(), pending, rows, work, anew=due, started=started)
        done = self._hand_over(held, act)
        return dataclasses.replace(report, certificate=done.certificate)

    # ------------------------------------------------------------------ custody

    @property
    def recipients(self) -> Sequence[Mapping[str, str]]:
        """Who was handed an export or a certificate of the store this engine was read from."""
        return (self._record if self._custody is None else self._custody.record).recipients

    @property
    def certifies(self) -> bool:
        """Whether a change will be certified: a store is open to be changed, and its keys are at hand."""
        return self._custody is not None and self._custody.signs

    @property
    def _keep_old(self) -> bool:
        return self._custody is not None and self._custody.keep_old

    def _time(self) -> str:
        return "" if self._custody is None else self._custody.time()

    @contextmanager
    def _written_down(self, pending: Pending) -> Iterator[None]:
        """Make a request durable before its work; it stays so if the work fails, unless it can never succeed."""
        custody = self._custody
        if custody is None:
            yield
            return
        custody.write_down(pending)
        try:
            yield
        except _OF_THE_PLACE as error:
            if pending.kind == "forget":  # it was a right request when it was made, and is owed: the place is wrong
                raise _owed(error) from None
            custody.store.drop_pending(pending.id)  # the call itself is wrong
            raise

    def _due(self) -> bool:
        """Say whether the store's policy wants a new partition with the next change."""
        config = self._state().config
        if not PARTITIONS[config.partition].remembers_data or config.partition_settings.get("embeddings") == "file":
            return False
        custody = self._custody
        record = self._record if custody is None else custody.record
        with_this = dataclasses.replace(record.debt, requests=record.debt.requests + 1)
        time = later(now(), record.time or None) if custody is None else custody.time()
        return self.policy.due(with_this, now=time)

    def _finish(self, progress: Progress | None, *, anew: EngineConfig | None = None) -> int:
        """Do the requests that were written down and not finished; return how many there were.

        With `anew`, what cannot be done in this environment is done by a new partition and from nothing, by that
        configuration.
        """
        todo = [] if self._custody is None else self._custody.pending()
        for pending in todo:
            try:
                self._do(pending, progress)
            except (EnvironmentMismatchError, *_OF_THE_PLACE) as error:
                if anew is None:
                    raise _owed(error) from None
                self._do(pending, progress, anew=anew)
        return len(todo)

    def _do(self, pending: Pending, progress: Progress | None, *, anew: EngineConfig | None = None) -> None:
        if pending.kind == "forget":
            self._forget(pending, {}, progress, anew=anew)
        elif pending.kind == "add" and pending.rows is not None:
            self._add(pending, pending.rows, progress, anew=anew)
        else:
            self._rebuild(pending, None, progress, anew=anew)

    def _held(self) -> Held:
        return Held(self._state(), self.wishes, self.titles)

    def _hand_over(self, held: Held, act: Act) -> Published:
        """Publish what was done, where a store is open to be changed; go on with it when it is published."""
        custody = self._custody
        if custody is None:
            self._take(held)
            return Published(held.state)
        started = time.perf_counter()
        keep_old = act.pending is not None and act.pending.keep_old
        custody.record = dataclasses.replace(custody.record, policy=self.policy)
        try:
            done = custody.publish(self._snapshot(held), act, keep_old=keep_old, checked=True)
            self._take(dataclasses.replace(held, state=done.state))
            self._published = _Published(custody.store.path.resolve(), custody.store.version(), done.state)
        except BaseException as error:
            self._go_back(custody)
            if isinstance(error, UsageError):  # of the keys: the request itself is right, and is to be kept
                raise StoreError(f"what was done could not be certified, and is to be done again: {error}") from None
            raise
        self.certificate = done.certificate
        self._spent(started, done)
        return done

    def _spent(self, started: float, done: Published) -> None:
        """Note how long publishing took; the certificate is a stage of its own."""
        self.seconds["certificate"] = done.certifying
        self.seconds["publish"] = time.perf_counter() - started - done.certifying

    def _go_back(self, custody: Custody) -> None:
        """Go on from what the store holds, when publishing failed: the old state or, if only the rest did, the new."""
        self._fitted = None  # nothing, if the store cannot be read either
        policy = self.policy
        with suppress(ReceraserError):
            custody.record = self._open(custody.store).record
        self.policy = policy  # of whoever calls: the request that is kept is done again with it

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
        best = best_items(state, histories, k, exclude_seen=exclude_seen, wishes=self.wishes)
        return dict(zip(names, best, strict=True))

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

    def save(self, folder: str | Path, *, replace: bool = False, keyring: Keyring | None = None) -> None:
        """Publish the fitted engine as a store; an existing one is refused, or destroyed with `replace`.

        Refused too if the engine was read from this store and somebody else has changed it since: rows that were
        forgotten meanwhile would come back. With a `keyring` it is certified. `replaced` is then the id of the store
        that was destroyed: the key of its ledger is still among its operator's keys, since a copy of the store, which
        goes by the same id, may need it; `Keyring.shred_ledger_key` destroys it.
        """
        state = rebooked(self._state(), kept_old=False)  # that was of the store it was read from
        store = DirectoryStore(Path(folder))
        started = time.perf_counter()
        store.check_free(replace=replace)
        with store.writing():
            store.check_free(replace=replace)  # again, now that nobody else can write
            self._check_not_stale(store)
            then = self._published
            own = then is not None and then.path == store.path.resolve() and store.exists()
            replaced = None if own else replaceable(store)
            record = Record.from_dict(store.manifest()["record"]) if own else Record()
            record = dataclasses.replace(record, origin=self.origin, policy=self.policy)
            custody = Custody(store, record, signing_for(record, keyring))
            everything = tuple(range(len(state.shards)))
            act = Act("fit", None, added=state.train, retrained=everything, path=REBUILD, anew=not state.inherited)
            done = custody.publish(self._snapshot(dataclasses.replace(self._held(), state=state)), act)
            custody.pending()  # clears away those of a store that is no more
            self._fitted = done.state
            self._published = _Published(store.path.resolve(), store.version(), done.state)
            self.certificate, self.replaced = done.certificate, replaced
        self._spent(started, done)

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

    def _snapshot(self, held: Held) -> Snapshot:
        return Snapshot(held.state, held.known_titles, self._key_check, self._public_key, wishes=held.wishes)

    @classmethod
    def load(cls, folder: str | Path, *, key: bytes | None = PUBLIC_KEY, executor: Executor | None = None) -> Self:
        """Open a store; every file is checked, and the digest computed anew.

        Without its key (None) a store can be looked at, exported and rebuilt; nobody can be asked for by their id.
        """
        engine = cls(key=key, executor=executor)
        engine._open(DirectoryStore(Path(folder)))
        return engine

    def _open(self, store: DirectoryStore) -> Snapshot:
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
        self.wishes = snapshot.wishes
        self.origin, self.policy = snapshot.record.origin, snapshot.record.policy
        self._record = snapshot.record
        self._fitted = snapshot.state
        self._published = _Published(store.path.resolve(), snapshot.version, snapshot.state)
        return snapshot

    @classmethod
    @contextmanager
    def changing(
        cls,
        folder: str | Path,
        *,
        key: bytes | None = PUBLIC_KEY,
        executor: Executor | None = None,
        keyring: Keyring | None = None,
        keep_old: bool = False,
        finish: bool = True,
    ) -> Iterator[Self]:
        """Open a store to change it: nobody else can write meanwhile.

        Every forget, add or rebuild in the block is written down before its work begins, and published when it is done;
        the state before it is destroyed by that, or kept with `keep_old`. Whatever an interrupted change left to do is
        done first (unless `finish` is False: a rebuild does it by itself). If something fails, the store stays as it
        was, and the request stays written down for the next time. With a `keyring`, what was done is certified.

        Examples
        --------
        >>> import tempfile
        >>> rows = Interactions.from_pairs([("u1", "a"), ("u1", "b"), ("u2", "a"), ("u3", "c")])
        >>> with tempfile.TemporaryDirectory() as folder:  # doctest: +SKIP
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
            snapshot = engine._open(store)
            keyring = signing_for(snapshot.record, keyring)
            engine._custody = Custody(store, snapshot.record, keyring, keep_old=keep_old)
            try:
                if finish:
                    engine.finished = engine._finish(None)
                yield engine
            finally:
                engine._record, engine._custody = engine._custody.record, None
                engine._end_own()

    def export(self, folder: str | Path, *, to: str = "") -> None:
        """Write what a fresh fit needs to a new folder: rows (by pseudonyms), assignment, configuration, titles.

        `to` says who gets it; an open store (`changing`) remembers that, and enters it into its ledger.
        """
        state = self._state()
        check_empty(Path(folder))
        if self._custody is not None and to:  # first: nobody is to have one that is not on record
            self._custody.note("export", to=to)
        write_export(
            Path(folder),
            Export(
                config=state.config,
                train=state.train,
                valid=state.valid,
                partition=state.partition,
                titles=self._held().known_titles,
                key_check=self._key_check,
                public_key=self._public_key,
                environment=state.environment,
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
        engine.origin = "given: an export"
        given = export.partition if PARTITIONS[export.config.partition].remembers_data else None
        return engine._fit(export.train, export.valid, given, None, progress)


def _owed(error: ReceraserError) -> ReceraserError:
    """Return what is raised for a request that is right and cannot be done in this place."""
    if isinstance(error, EnvironmentMismatchError):
        return error
    return StoreError(
        f"a request is written down, and cannot be done here: {error}. The next command that changes the store tries "
        "again; to do it on another device: receraser rebuild --device; to take it back: receraser pending withdraw"
    )


def _by_their_names(report: ForgetReport, outside: Mapping[str, str]) -> ForgetReport:
    """Return a report in which users go by the ids they were asked for by, as far as these are known."""
    unknown = report.unknown
    names = {user: outside.get(user, user) for user in unknown.named_users}
    return dataclasses.replace(report, unknown=unknown.renamed(names))


def _own_settings(part: Partitioner | Aggregator) -> dict[str, object]:
    """Return the settings of a part but for those that the engine decides."""
    return {key: value for key, value in settings.values(part).items() if key not in ("device", "n_shards")}


def _which_key(public: bool, given: bytes) -> str:
    """Return the rest of the message about a key that is not the store's."""
    if public:
        return "the public key, and a secret one was given; leave --keys out"
    what = "none" if given == PUBLIC_KEY else "another one"
    return f"a secret key, and {what} was given; name the right folder with --keys"
