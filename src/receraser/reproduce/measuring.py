"""How a cell is computed: fitted, measured on the test rows, weighed. `forgetting` has those in which somebody leaves.

A `Workshop` holds the data, read once, and the last fit: cells that ask for the very same submodels under another
aggregation, or for what forgetting does to the very same state, share it. Users go by pseudonyms; nothing is published.
Needs numpy, scipy and torch, and nothing else (but for the kind "store").
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from receraser import fingerprint
from receraser.aggregation.spectral import Spectral
from receraser.config import ADDITIVE_NAMES, EngineConfig, part_settings
from receraser.data.interactions import Interactions
from receraser.erasure.request import ForgetRequest
from receraser.evaluation import Evaluation, evaluate
from receraser.execution.task import submodel_task
from receraser.fitting import Fitting
from receraser.models.factors import initial_vectors
from receraser.models.folded import FoldedScorer
from receraser.models.registry import make_factor_model
from receraser.protocols import Executor, Scorer
from receraser.reproduce.cell import METRICS, Cell, Rest, Result
from receraser.reproduce.datasets import Dataset
from receraser.reproduce.drawn import gone_in, without
from receraser.seeds import derive
from receraser.state import State
from receraser.training.least_squares import polished
from receraser.work import Work

__all__ = ["FITS", "QUICK", "Fitted", "Workshop", "ranked", "shards_key", "swept"]

FITS, QUICK = 3, 5.0  # a full retrain of fewer seconds is timed so often; the median counts
_CUTS = (10, 20, 50)
_Name = tuple[str, ForgetRequest]
_FEW = 500  # users, to warm up with
_ROW = 8  # bytes of a row in memory: two numbers


@dataclass(frozen=True, eq=False)
class Fitted:
    """A state, and how long its stages took."""

    state: State
    seconds: Mapping[str, float]


class Workshop:
    """Where cells are computed.

    The last fit's submodels are kept, and what they were put together to in other ways.

    Parameters
    ----------
    data
        With users by pseudonyms.
    executor
        Lent: whoever made it ends it.
    """

    def __init__(self, data: Dataset, executor: Executor, device: str) -> None:
        self.data = data
        self.executor = executor
        self.device = device
        self._last: dict[str, tuple[_Name, Fitted]] = {}  # by stage: what the last fit's submodels depend on, the fit
        self._combined: dict[str, list[Fitted]] = {}  # by stage: the last fit's submodels, put together in other ways
        self._epochs: dict[str, int] = {}
        self.pretraining: dict[str, float] = {}  # seconds of a partition's vectors, by what they depend on
        self.warm: set[str] = set()  # configurations that somebody was forgotten with, once, before times count
        self.few: dict[str, State] = {}  # fits of a few rows, by configuration, that a GPU was warmed up with

    # ------------------------------------------------------------------ kinds

    def rows(self, _: Cell) -> Result:
        """Count the data set."""
        data = self.data
        tables = {"train": data.train, "valid": data.valid, "test": data.test}
        whole = Interactions.union(list(tables.values()))
        numbers = {"users": len(whole.users), "items": len(whole.items), "interactions": len(whole)}
        numbers |= {f"{name} rows": len(one) for name, one in tables.items()} | {"fitted on": len(data.full)}
        density = 100 * len(whole) / max(1, len(whole.users) * len(whole.items))
        return Result(numbers={**numbers, "density": density}, notes={"origin": data.origin})

    def fit(self, cell: Cell) -> Rest:
        """Fit, without whoever is gone; return what measures it."""
        config = self.config(cell)
        fitted = self.fitted(config, gone_in(self.data, cell))
        runs = self._runs(config, fitted)

        def rest() -> Result:
            found = self.measured(fitted.state)
            return dataclasses.replace(
                ranked(found),
                seconds=sorted(runs, key=_total)[len(runs) // 2],
                numbers=_sizes(fitted.state) | {"users": found.users, "fits timed": len(runs)},
                notes=dict(ranked(found).notes) | self._about(fitted.state),
            )

        return rest

    def _runs(self, config: EngineConfig, fitted: Fitted) -> list[dict[str, float]]:
        """Return the seconds of a fit; of a quick full retrain, which times of forgetting are shares of, of several."""
        runs = [dict(fitted.seconds)]
        if len(fitted.state.shards) == 1 and config.model not in ADDITIVE_NAMES and sum(runs[0].values()) < QUICK:
            for _ in range(FITS - 1):
                work = Work(config, self.executor)
                work.fit(fitted.state.train, fitted.state.valid)
                runs.append(dict(work.seconds))
        return runs

    def first(self, cell: Cell) -> Result:
        """Fit from nothing, whatever was fitted before; nothing is ranked: it is the stages' seconds that count.

        Up to three fits, as many as begin within 5 s; the median counts, of two the slower.
        """
        config = self.config(cell)
        self.warmed(config)
        self._last.clear()  # two at a time would take twice the memory
        self._combined.clear()
        runs: list[dict[str, float]] = []
        found = Result()
        while len(runs) < FITS and sum(map(_total, runs)) < QUICK:
            work = Work(config, self.executor)
            fitted = Fitted(work.fit(self.data.full, self.data.held), dict(work.seconds))
            runs.append(self.stages(fitted))
            found = Result(numbers=_sizes(fitted.state), notes=self._about(fitted.state))
            del fitted
        median = sorted(runs, key=_total)[len(runs) // 2]
        return dataclasses.replace(found, seconds=median, numbers={**found.numbers, "fits timed": len(runs)})

    def sweeps(self, cell: Cell) -> Result:
        """Polish random item vectors, as `spectral` polishes merged ones: same rank, same weights, same sweeps."""
        rows = self.data.full
        return ranked(evaluate(swept(rows, self.config(cell)), rows, self.data.test, at=_CUTS))

    def store(self, cell: Cell) -> Result:
        """Publish a fit, and count the bytes on disk. Here alone the packages that write stores are needed."""
        from receraser.custody import Act, Custody
        from receraser.data.ids import key_check
        from receraser.erasure.plan import REBUILD
        from receraser.keys import PUBLIC_KEY
        from receraser.store.directory import DirectoryStore
        from receraser.store.record import Record
        from receraser.store.snapshot import Snapshot

        state = self.fitted(self.config(cell)).state
        everything = tuple(range(len(state.shards)))
        with tempfile.TemporaryDirectory() as folder:
            store = DirectoryStore(Path(folder) / "store")
            with store.writing():
                snapshot = Snapshot(state, {}, key_check(PUBLIC_KEY), True, wishes=Interactions.empty())
                act = Act("fit", None, added=state.train, retrained=everything, path=REBUILD, anew=True)
                Custody(store, Record(), None).publish(snapshot, act)
            size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
        return Result(numbers=_sizes(state) | {"bytes on disk": size}, notes=self._about(state))

    # ------------------------------------------------------------------ fits

    def config(self, cell: Cell) -> EngineConfig:
        """Return a cell's configuration for this device; epochs that are still to be chosen are chosen."""
        config = cell.placed(self.device)
        assert config is not None, cell.kind
        if "epochs" not in cell.extras:
            return config
        name = fingerprint.of_settings(config.as_dict())
        if name not in self._epochs:
            trial = self._fit(config, self.data.train, self.data.valid, "choices")
            self._epochs[name] = max(1, int(str(trial.state.aggregate_facts["best_epoch"])))
        settings = {**config.aggregation_settings, "n_epochs": self._epochs[name]}
        return dataclasses.replace(config, aggregation_settings=settings)

    def fitted(self, config: EngineConfig, gone: ForgetRequest | None = None) -> Fitted:
        """Return the final fit of a configuration, without whoever is gone."""
        gone = gone or ForgetRequest()
        held = self.data.held
        rest = None if held is None else without(held, gone)
        return self._fit(config, without(self.data.full, gone), rest, "final", gone)

    def _fit(
        self,
        config: EngineConfig,
        train: Interactions,
        valid: Interactions | None,
        stage: str,
        gone: ForgetRequest | None = None,
    ) -> Fitted:
        self.warmed(config)
        name = shards_key(config), gone or ForgetRequest()
        known, last = self._last.get(stage, (None, None))
        if last is None or known != name:
            self._last.pop(stage, None)  # two at a time would take twice the memory
            self._combined.pop(stage, None)
            work = Work(config, self.executor)
            last = Fitted(work.fit(train, valid), dict(work.seconds))
            self._last[stage] = name, last
        if last.state.config == config:
            return last
        others = self._combined.setdefault(stage, [])
        combined = next((one for one in others if one.state.config == config), None)
        if combined is None:
            combined = self._combined_anew(last, config)
            others.append(combined)
        return combined

    def warmed(self, config: EngineConfig) -> State | None:
        """Fit a few rows for nothing on a GPU, once; return what it came to, None on a CPU.

        What is compiled when it is first called is nobody's training time. On a CPU workers warm up by themselves.
        """
        plain = dataclasses.replace(config, seed=0)
        name = fingerprint.of_settings(plain.as_dict())
        if config.device != "cpu" and name not in self.few:
            few, held = self.data.full, self.data.held
            few = few.take(few.user_index < _FEW)
            held = None if held is None else held.take(held.user_index < _FEW)
            self.few[name] = Work(plain, self.executor).fit(few, held)
        return self.few.get(name)

    def _combined_anew(self, last: Fitted, config: EngineConfig) -> Fitted:
        """Put the very same submodels together in another way: what a fit from nothing comes to, bit for bit."""
        state = last.state
        shards = [dataclasses.replace(one, config=config) for one in state.shards]
        with Fitting(config, self.executor, n_tasks=1, partitions=False, progress=None) as fitting:
            learned, facts = fitting.aggregate(shards, state.train, state.valid)
            seconds = dict(fitting.seconds)
        made = dataclasses.replace(
            state, config=config, shards=shards, aggregate=learned, aggregate_facts=facts, aggregate_files={}
        )
        return Fitted(made, {**last.seconds, "aggregate": seconds.get("aggregate", 0.0)})

    def stages(self, fitted: Fitted) -> dict[str, float]:
        """Return the seconds of a fit; those of a partition's vectors, which it learns first, told apart.

        They depend on the rows, on what is learned and on the seed: it is done once for all cells that have these.
        """
        seconds = dict(fitted.seconds)
        config = fitted.state.config
        _, settings = part_settings(config, "partition")
        if "embeddings" not in settings:
            return seconds
        own = {"dim": settings["dim"], "device": settings.get("device", "cpu")}
        model = str(settings["embeddings"])
        name = fingerprint.of_settings({"model": model, "seed": config.seed, **own})
        if name not in self.pretraining:
            task = submodel_task(model, own, derive(config.seed, "pretrain"), fitted.state.train, fitted.state.valid)
            self.pretraining[name] = self.executor.run([task])[0].seconds
        spent = self.pretraining[name]
        return seconds | {"pretrain": spent, "partition": max(0.0, seconds["partition"] - spent)}

    def measured(self, state: State) -> Evaluation:
        """Rank for the test users who are left."""
        scorer: Scorer = state.scorer
        return evaluate(scorer, state.train, self.data.test, at=_CUTS)

    def _about(self, state: State) -> dict[str, str]:
        facts = {"digest": state.digest, "level": state.level}
        epoch = state.aggregate_facts.get("best_epoch")
        return facts if epoch is None else facts | {"epochs of the aggregation": str(epoch)}


def swept(rows: Interactions, config: EngineConfig) -> FoldedScorer:
    """Return random item vectors, polished as this configuration of `spectral` polishes merged ones: the control."""
    settings = {key: value for key, value in part_settings(config, "aggregation")[1].items() if key != "device"}
    merge = Spectral(**settings)  # type: ignore[arg-type]
    weight, penalty = merge.fold_in_settings(make_factor_model(*part_settings(config, "model")), rows.density)
    start = initial_vectors(rows.items, merge.rank, 0.1 / merge.rank**0.5, config.seed, "item")
    vectors = polished(start, rows, merge.polish, missing_weight=weight, regularization=penalty)
    return FoldedScorer(rows.items, vectors, weight, penalty)


def ranked(found: Evaluation) -> Result:
    """Return metrics, and those of each user; who they are, as a digest alone."""
    users = fingerprint.of_bytes("\n".join(found.user_ids).encode())
    return Result(
        metrics={name: found.metrics[name] for name in METRICS},
        numbers={"users": found.users},
        notes={"users": users},
        per_user={name: found.per_user[name].astype("float32") for name in METRICS},
    )


def shards_key(config: EngineConfig) -> str:
    """Return a name of everything that the submodels depend on besides the rows: all but what combines them."""
    parts = {
        key: value
        for key, value in config.as_dict().items()
        if key not in ("method", "aggregation", "aggregation_settings")
    }
    return fingerprint.of_settings(parts)


def _total(seconds: Mapping[str, float]) -> float:
    return sum(seconds.values())


def _sizes(state: State) -> dict[str, float]:
    """Return what a state consists of, in shards, rows and bytes."""
    landmarks = state.partition.landmarks
    tensors = {} if landmarks is None else landmarks.tensors()
    return {
        "shards": len(state.shards),
        "rows": len(state.train),
        "balance": state.partition.balance,
        "bytes of rows": _ROW * len(state.train),
        "bytes of submodels": sum(array.nbytes for one in state.shards for array in one.model.state().values()),
        "bytes of aggregation": sum(array.nbytes for array in state.aggregate.values()),
        "bytes of partition": sum(array.nbytes for array in tensors.values()) + 4 * len(state.train) * bool(tensors),
    }
