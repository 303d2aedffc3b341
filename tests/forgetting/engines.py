"""What the tests of forgetting share: small engines of every kind, and the plain truth about which rows are left.

`Book` is written as simply as can be, with dictionaries of pairs. It shares no code with `plan`, `Partition` or the
engine's `forget`, so it does not share their mistakes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from safetensors.numpy import load

from receraser import fingerprint, seeds
from receraser.config import ADDITIVE_NAMES, EngineConfig
from receraser.data.ids import IdMap, pseudonyms
from receraser.data.interactions import Histories, Interactions
from receraser.engine import Engine, ForgetReport
from receraser.erasure.plan import Plan, plan
from receraser.erasure.request import ForgetRequest
from receraser.execution.messages import pack_result, pack_task, unpack_result, unpack_task
from receraser.execution.task import Result, Task, run_task
from receraser.fingerprint import Tensors
from receraser.keys import PUBLIC_KEY
from receraser.methods import METHODS
from receraser.models.registry import FACTOR_MODELS
from receraser.partition.partition import Landmarks, Partition
from receraser.partition.registry import PARTITIONS
from receraser.protocols import Executor, Progress
from receraser.state import State
from receraser.training.kernels import use_threads

Pair = tuple[str, str]

SEED = 5


# ---------------------------------------------------------------------- where it is computed


class Here:
    """Runs tasks in this process, one after the other; tasks and results are messages, as with a worker.

    Parameters
    ----------
    threads
        Of our kernels.
    backwards
        The last task first, as it may happen beside another worker.
    environment
        What it says of itself.
    """

    def __init__(
        self, *, threads: int = 1, backwards: bool = False, environment: Mapping[str, object] | None = None
    ) -> None:
        self._threads = threads
        self._backwards = backwards
        self.environment = environment or {"computed": "here"}
        self.ran: list[Task] = []

    def prepare(self, toys: Sequence[Task], n_tasks: int = 1) -> None:
        pass

    def run(self, tasks: Iterable[Task], *, progress: Progress | None = None) -> list[Result]:
        todo = dict(enumerate(tasks))
        order = reversed(todo) if self._backwards else iter(todo)
        use_threads(self._threads)
        try:
            done = {number: self.compute(todo[number], progress) for number in order}
        finally:
            use_threads(1)
        return [done[number] for number in todo]

    def compute(self, task: Task, progress: Progress | None) -> Result:
        self.ran.append(task)
        meta, arrays = pack_result(run_task(unpack_task(*pack_task(task)), progress=progress))
        return unpack_result(json.loads(json.dumps(meta)), arrays)

    def close(self) -> None:
        pass


class Breaking(Here):
    """Breaks down at the first task of a kind."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind

    def compute(self, task: Task, progress: Progress | None) -> Result:
        if task.kind == self._kind:
            raise MemoryError(f"no room for a {self._kind}")
        return super().compute(task, progress)


# ---------------------------------------------------------------------- what is fitted

_SHORT: Mapping[str, Mapping[str, object]] = {
    "wmf": {"dim": 4, "n_sweeps": 2},
    "bpr": {"dim": 4, "n_epochs": 3, "batch_size": 8, "n_negatives": 2, "validate_every": 1, "patience": 1},
    "lightgcn": {"dim": 4, "n_epochs": 3, "batch_size": 8, "n_layers": 2, "validate_every": 1, "patience": 1},
    "gram": {"rank": 3},
    "ease": {"regularization": 2.0},
    "graphfilter": {"rank": 4, "n_steps": 3},
}
_LEARNED: Mapping[str, object] = {"n_epochs": 2, "batch_size": 16, "user_batch_size": 4, "patience": 1}
_AGGREGATIONS: Mapping[str, Mapping[str, object]] = {
    "static": _LEARNED,
    "attention": {**_LEARNED, "attention_dim": 3},
    "spectral": {"rank": 3, "width": 5},
}
_CLUSTERED: Mapping[str, object] = {"dim": 3, "max_iterations": 4}


@dataclass(frozen=True)
class Combination:
    """A partition, an aggregation and a model, with settings that take no time."""

    partition: str
    aggregation: str
    model: str
    shards: int = 3
    hyperparameters: Mapping[str, object] = field(default_factory=dict, hash=False)
    partition_settings: Mapping[str, object] = field(default_factory=dict, hash=False)
    aggregation_settings: Mapping[str, object] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        changed = (self.hyperparameters, self.partition_settings, self.aggregation_settings)
        more = [str(value) for settings in changed for value in settings.values()]
        return "-".join([self.partition, self.aggregation, self.model, *more])

    @property
    def remembers_data(self) -> bool:
        return PARTITIONS[self.partition].remembers_data

    def keeps_sums(self, rows: Iterable[Pair]) -> bool:
        """Whether it is a model of sums that keeps them, for these rows."""
        if self.aggregation != "alone":
            return False
        if self.model != "gram":
            return self.model == "ease"
        items = [item for _, item in rows]
        n_pairs = len(set(items)) * (len(set(items)) + 1) / 2
        most = float(str(self.hyperparameters.get("pairs_per_row", 4.0)))
        return "polish" not in self.hyperparameters and n_pairs <= most * len(items)

    def core(self, rows: Iterable[Pair]) -> float:
        """The share of the users that the solve sets out from, for these rows; 1 for none."""
        wanted = float(str(self.hyperparameters.get("core_rows", 20.0)))
        pairs = set(rows)
        if self.model != "gram" or self.aggregation != "alone" or self.keeps_sums(pairs):
            return 1.0
        n_users, n_items = len({user for user, _ in pairs}), len({item for _, item in pairs})
        n_directions = int(str({**_SHORT["gram"], **self.hyperparameters}["rank"])) + 16
        shares = [2.0**-n for n in range(20)]
        enough = [
            share
            for share in shares
            if share * len(pairs) >= wanted * n_items > 0 and share * n_users >= wanted / 10 * n_directions
        ]
        return min([1.0, *enough])

    def config(self, seed: int = SEED) -> EngineConfig:
        clustered = self.remembers_data and self.partition != "blpa"
        return EngineConfig(
            model=self.model,
            partition=self.partition,
            aggregation=self.aggregation,
            shards=1 if self.partition == "whole" else self.shards,
            seed=seed,
            device="cpu",
            hyperparameters={**_SHORT.get(self.model, {}), **self.hyperparameters},
            partition_settings={**(_CLUSTERED if clustered else {}), **self.partition_settings},
            aggregation_settings={**_AGGREGATIONS.get(self.aggregation, {}), **self.aggregation_settings},
        )

    def engine(self, executor: Executor | None = None, *, seed: int = SEED) -> Engine:
        return Engine.from_config(self.config(seed), executor=executor or Here())


OF_SUMS = {model: Combination("whole", "alone", model) for model in ADDITIVE_NAMES}
EVERY_METHOD = [
    Combination(method.partition, method.aggregation, model) for method in METHODS.values() for model in FACTOR_MODELS
]
EVERY_METHOD += OF_SUMS.values()
MORE = [
    Combination("whole", "alone", "gram", hyperparameters={"pairs_per_row": 0.0}),
    Combination("whole", "alone", "gram", hyperparameters={"pairs_per_row": 1.5}),  # sums that come and go
    Combination("whole", "alone", "gram", hyperparameters={"polish": 1}),
    Combination("whole", "alone", "gram", hyperparameters={"pairs_per_row": 0.0, "core_rows": 0.8}),
    Combination("whole", "alone", "gram", hyperparameters={"polish": 1, "core_rows": 0.5}),
    Combination("hash", "spectral", "gram"),
    Combination("hash", "spectral", "gram", 5, {"pairs_per_row": 0.0, "rank": 3}, aggregation_settings={"width": 4}),
    Combination("ubp", "spectral", "gram", 2, {"pairs_per_row": 1.5}, aggregation_settings={"polish": 1}),
    Combination("hash", "mean", "wmf"),
    Combination("hash", "static", "lightgcn", shards=2),
    Combination("hash", "attention", "bpr", shards=4),
    Combination("hash", "attention", "wmf", hyperparameters={"solver": "adagrad", "n_epochs": 3, "batch_size": 4}),
    Combination("random", "attention", "wmf"),
    Combination("inbp", "attention", "bpr", aggregation_settings={"user_parts": 2}),
    Combination("hash", "spectral", "wmf", 17, {"dim": 70}, aggregation_settings={"width": 0}),  # wide nodes, cut
    Combination("ubp", "attention", "wmf"),
    Combination("ubp", "static", "bpr", partition_settings={"capacity": "users"}),
    Combination("ubp", "mean", "lightgcn", shards=2),
    Combination("ibp", "mean", "wmf"),
    Combination("ibp", "attention", "lightgcn", shards=2),
    Combination("ibp", "static", "bpr", shards=4),
    Combination("inbp", "mean", "bpr", shards=4, partition_settings={"embeddings": "bpr"}),
    Combination("bekm", "attention", "wmf", partition_settings={"rows": "nearer"}),
    Combination("blpa", "attention", "bpr"),
    Combination("blpa", "static", "wmf", shards=2),
    Combination("blpa", "mean", "lightgcn"),
]
COMBINATIONS = EVERY_METHOD + MORE

ONE_OF_EACH_PARTITION = [
    Combination("whole", "alone", "wmf"),
    Combination("whole", "alone", "gram"),
    Combination("hash", "static", "wmf"),
    Combination("random", "attention", "wmf"),
    Combination("ubp", "attention", "wmf"),
    Combination("ibp", "static", "wmf"),
    Combination("inbp", "attention", "wmf"),
    Combination("bekm", "static", "wmf"),
    Combination("bekm", "mean", "wmf", partition_settings={"rows": "nearer"}),
    Combination("blpa", "mean", "wmf"),
]


def pseudonym(user: str) -> str:
    return pseudonyms([user], PUBLIC_KEY)[0]


def state_of(engine: Engine) -> State:
    return engine._state()


def planned_for(state: State, request: ForgetRequest) -> Plan:
    """What a request by outside ids means for a state."""
    named = request.renamed({name: pseudonym(name) for name in request.named_users})
    return plan(named, state.train, state.valid, state.partition)


# ---------------------------------------------------------------------- which rows are left


class Book:
    """The rows that are left and the shard of each, by outside ids.

    Parameters
    ----------
    engine
        Just fitted, on these rows.

    Attributes
    ----------
    sums
        Whether sums of these rows are at hand; an engine that was loaded has none.
    core
        Likewise, the share of the users that the solve set out from; 1 for none.
    """

    def __init__(
        self, combination: Combination, engine: Engine, train: Iterable[Pair], valid: Iterable[Pair] | None
    ) -> None:
        self._combination = combination
        shards, of_valid = assignment(engine)
        self.train = {pair: shards[pseudonym(pair[0]), pair[1]] for pair in train}
        self.valid: dict[Pair, int] | None = None
        if valid is not None:
            self.valid = {
                pair: of_valid[pseudonym(pair[0]), pair[1]] for pair in valid if pair not in self.train
            }  # fmt: skip
        self.changed = False
        self.sums = combination.keeps_sums(self.train)
        self.core = self._own_core()
        marks = state_of(engine).partition.landmarks
        self._anchors = None if marks is None else marks.anchors
        self._marks = {} if marks is None else dict(zip(marks.ids, marks.vectors, strict=True))

    def forget(self, request: ForgetRequest) -> Mapping[str, object]:
        """Take the rows out; return what a report must say."""
        tables = [self.train, {} if self.valid is None else self.valid]
        gone = [
            {
                (user, item): shard
                for (user, item), shard in table.items()
                if user in request.users or item in request.items or (user, item) in request.interactions
            }
            for table in tables
        ]
        users_before, items_before = self._sides()
        everything = [*tables[0], *tables[1]]
        unknown = ForgetRequest.of(
            [one for one in request.users if one not in {user for user, _ in everything}],
            [one for one in request.items if one not in {item for _, item in everything}],
            [one for one in request.interactions if one not in everything],
        )
        affected = tuple(sorted({*gone[0].values(), *gone[1].values()}))
        path = self._path(affected, gone[0], [pair for pair in self.train if pair not in gone[0]])
        self.train = {pair: shard for pair, shard in self.train.items() if pair not in gone[0]}
        if self.valid is not None:
            self.valid = {pair: shard for pair, shard in self.valid.items() if pair not in gone[1]}
        users, items = self._sides()
        alive = {pseudonym(user) for user in users} if self._combination.partition == "ibp" else items
        self._marks = {name: vector for name, vector in self._marks.items() if name in alive}
        if self._anchors is not None:  # a shard without rows has none
            held = set(self.train.values())
            self._anchors = np.array([one if k in held else one + np.inf for k, one in enumerate(self._anchors)])
        self._note(affected)
        return {
            "rows_removed": len(gone[0]),
            "valid_rows_removed": len(gone[1]),
            "shards_retrained": affected,
            "path": path,
            "unknown": unknown,
            "users_left_empty": len(users_before - users),
            "items_left_empty": len(items_before - items),
        }

    def _path(self, affected: Sequence[int], touched: Iterable[Pair], after: Iterable[Pair]) -> str:
        """What a report calls the way; `touched` rows are among those of the table as it is, `after` are those left."""
        if not affected:
            return "nothing"
        rows_of_user = Counter(user for user, _ in self.train)
        everybody = sum(n * n for n in rows_of_user.values())
        some = sum(rows_of_user[user] ** 2 for user in {user for user, _ in touched})
        if self.sums and self._combination.keeps_sums(after) and (2 * some < everybody or not everybody):
            return "downdate"
        if self.core < 1 and self._combination.core(after) == self.core and not self._of_core(touched):
            return "core"
        return "refit" if 2 * len(affected) > self._combination.config().shards else "shards"

    def _own_core(self) -> float:
        """The share of the users that the solve sets out from; 1 where the hash happens to choose none."""
        self.core = self._combination.core(self.train)
        return self.core if self._of_core(self.train) else 1.0

    def _of_core(self, rows: Iterable[Pair]) -> bool:
        """Whether one of these rows is of a user whom the solve sets out from."""
        key = seeds.derive(seeds.derive(SEED, "shard", 0), "core")
        users = [pseudonym(user) for user, _ in rows]
        return any(chance < self.core for chance in seeds.uniform(key, seeds.id_counters(users)))

    def _note(self, affected: Sequence[int]) -> None:
        """Something has changed, or nothing has."""
        if affected:
            self.changed = True
            self.sums = self._combination.keeps_sums(self.train)
            self.core = self._own_core()

    def _sides(self) -> tuple[set[str], set[str]]:
        return {user for user, _ in self.train}, {item for _, item in self.train}

    def add(self, rows: Iterable[Pair], engine: Engine) -> Mapping[str, object]:
        """Take rows in; where they went is read from the engine, which has done so too."""
        given = set(rows)
        new = given - set(self.train)
        shards, _ = assignment(engine)
        placed = {pair: shards[pseudonym(pair[0]), pair[1]] for pair in new}
        self.train |= placed
        moved: dict[Pair, int] = {}
        if self.valid is not None:
            moved = {pair: shard for pair, shard in self.valid.items() if pair in new}
            self.valid = {pair: shard for pair, shard in self.valid.items() if pair not in new}
        affected = tuple(sorted({*placed.values(), *moved.values()}))
        path = self._path(affected, new, self.train)
        self._note(affected)
        return {
            "rows_added": len(new),
            "rows_held": len(given) - len(new),
            "valid_rows_moved": len(moved),
            "shards_retrained": affected,
            "path": path,
        }

    def fresh(self, executor: Executor | None = None) -> Engine:
        """Return what a fit makes of these rows that has never seen any others.

        A partition that looks at the data is handed in, for the survivors alone.
        """
        engine = self._combination.engine(executor)
        if not self._combination.remembers_data:
            return engine.fit(rows_of(self.train), valid=None if self.valid is None else rows_of(self.valid))
        train, of_train = self._assigned(self.train)
        valid, of_valid = (None, None) if self.valid is None else self._assigned(self.valid)
        assert self._anchors is not None
        ids = IdMap(self._marks)
        empty = np.empty((0, state_width(self._anchors, self._combination)), dtype=np.float32)
        vectors = np.stack([self._marks[name] for name in ids]) if self._marks else empty
        partition = Partition(engine.config.shards, of_train, of_valid, Landmarks(self._anchors, ids, vectors))
        return engine._fit(train, valid, partition, None, None)

    @staticmethod
    def _assigned(shards: Mapping[Pair, int]) -> tuple[Interactions, NDArray[np.int32]]:
        named = {(pseudonym(user), item): shard for (user, item), shard in shards.items()}
        rows = Interactions.from_pairs(named)
        return rows, np.array([named[pair] for pair in rows.pairs()], dtype=np.int32)

    def rebuilt(self, executor: Executor | None = None) -> Engine:
        """Return a fit of these rows with a partition of its own."""
        engine = self._combination.engine(executor)
        return engine.fit(rows_of(self.train), valid=None if self.valid is None else rows_of(self.valid))


def state_width(anchors: NDArray[np.float64], combination: Combination) -> int:
    """The length of a landmark's vector."""
    width = int(anchors.shape[1])
    return {"blpa": 1, "inbp": width // 2}.get(combination.partition, width)


def rows_of(pairs: Iterable[Pair]) -> Interactions:
    return Interactions.from_pairs(pairs)


def assignment(engine: Engine) -> tuple[dict[Pair, int], dict[Pair, int]]:
    """The shard of every row, of the training rows and of the validation rows, by pseudonyms."""
    state = state_of(engine)
    train = dict(zip(state.train.pairs(), state.partition.train.tolist(), strict=True))
    if state.valid is None or state.partition.valid is None:
        return train, {}
    return train, dict(zip(state.valid.pairs(), state.partition.valid.tolist(), strict=True))


# ---------------------------------------------------------------------- what equal means


def scores(engine: Engine) -> torch.Tensor:
    """What everybody who is held, and a stranger with every other item, is scored by."""
    state = state_of(engine)
    items = state.scorer.items_
    known = Histories.of(list(state.train.users), state.train, items)
    lists = [known.item_index[known.indptr[row] : known.indptr[row + 1]] for row in range(len(known))]
    everybody = Histories.from_lists([*known.users, ""], [*lists, np.arange(0, len(items), 2, dtype=np.int64)])
    return state.scorer.scores(everybody)


def differences(one: Engine, other: Engine) -> list[str]:
    """In what two engines are not the same, down to the last bit."""
    found = {
        "digest": one.digest == other.digest,
        "rows": all_rows(one) == all_rows(other),
        "shards": one.shards == other.shards,
        "facts": one.facts == other.facts and one.aggregate_facts == other.aggregate_facts,
        "items": one.items == other.items,
        "configuration": one.config == other.config,
        "scores": torch.equal(scores(one), scores(other)),
        "sums": len({fingerprint.of_tensors(own) for own in (sums_of(one), sums_of(other)) if own is not None}) < 2,
        "start": len({fingerprint.of_tensors(own) for own in (start_of(one), start_of(other)) if own}) < 2,
    }
    return [name for name, same in found.items() if not same]


def all_rows(engine: Engine) -> tuple[object, ...]:
    """The tables of all rows, and the shard of each: a digest is of the shards' rows, and knows nothing of these."""
    state = state_of(engine)
    of_valid = state.partition.valid
    return state.train, state.partition.train.tolist(), state.valid, None if of_valid is None else of_valid.tolist()


def sums_of(engine: Engine) -> Tensors | None:
    """The sums that are at hand."""
    return state_of(engine).shards[0].sums


def start_of(engine: Engine) -> Tensors | None:
    """What the solve set out from, where that is at hand."""
    return state_of(engine).shards[0].start


def told(report: ForgetReport) -> Mapping[str, object]:
    """A report without the estimate, which nobody can foresee."""
    return {
        name: value
        for name, value in vars(report).items()
        if name not in ("estimated_seconds", "certificate", "receipts")
    }


# ---------------------------------------------------------------------- what can be read


def every_byte(folder: Path) -> bytes:
    """All that can be read in a folder: names, files, and what is inside compressed columns and tensors."""
    texts: list[bytes] = []
    for path in sorted(folder.rglob("*")):
        texts.append(str(path.relative_to(folder)).encode())
        if not path.is_file():
            continue
        data = path.read_bytes()
        texts.append(data)
        if data[:4] == b"PAR1":
            table = pq.read_table(path)
            texts += [str(value).encode() for column in table.to_pydict().values() for value in column]
            texts.append(str(pq.read_metadata(path).to_dict()).encode() + str(table.schema).encode())
            dictionaries = [
                chunk.dictionary for column in table.columns for chunk in column.chunks if is_encoded(chunk)
            ]
            texts += [str(value).encode() for one in dictionaries for value in one.to_pylist()]
    return b"\n".join(texts)


def is_encoded(chunk: object) -> bool:
    return hasattr(chunk, "dictionary")


def tensors(folder: Path) -> list[NDArray[np.generic]]:
    """Every array in a folder."""
    found: list[NDArray[np.generic]] = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != "manifest.json" and path.read_bytes()[8:9] == b"{":
            found += load(path.read_bytes()).values()
    return found
