"""Forgetting on ML-1M, warm, from the request to the published, certified store, beside a full fit to the same.

`spectral` with 32 shards and no polish, one user at a time; the cost of many at once, with the crossover; and the
paper's own method, one interaction at a time.
"""

from __future__ import annotations

import csv
import dataclasses
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import timed
from receraser.reproduce.datasets import Dataset

if TYPE_CHECKING:
    from receraser.config import EngineConfig
    from receraser.execution.local import LocalExecutor

__all__ = ["attended", "many", "one_user"]

USERS = (1, 3, 10, 30, 100, 300, 1000)
ITEMS = (1, 10, 100, 300, 1000)
CATEGORIES = (1, 3, 6)

FITS = {"wmf": 3, "bpr": 3, "lightgcn": 2, "wmf-adagrad": 2}  # full fits that are timed
_timed_already: dict[str, dict[str, list[float]]] = {}  # for all parts of a run that ask for them


def config_for(model: str, method: str, shards: int) -> EngineConfig:
    """Return the preset of a method over a model, or the method over the model's own preset.

    "wmf-adagrad" is WMF's preset with the paper's solver.
    """
    from receraser.config import load_config, preset_names

    name = model.removesuffix("-adagrad")
    preset = f"{method}-{name}-ml-1m"
    found = load_config(preset if preset in preset_names() else f"{name}-ml-1m")
    settings = {**found.hyperparameters, **({"solver": "adagrad"} if name != model else {})}
    return dataclasses.replace(found, method=method, shards=shards, device="cpu", seed=0, hyperparameters=settings)


def retrain(data: Dataset, executor: LocalExecutor, model: str) -> dict[str, list[float]]:
    """Return the seconds of full fits of a model, to a published store and alone; one that warms up is left out."""
    if model in _timed_already:
        return _timed_already[model]
    with tempfile.TemporaryDirectory() as place:
        fits = FullFits(data, executor, model, Path(place))
        for _ in range(FITS[model]):
            fits.time()
    _timed_already[model] = fits.found
    return fits.found


class FullFits:
    """Full fits of a model, from rows in memory to a published, certified store of its own, timed one by one."""

    def __init__(self, data: Dataset, executor: LocalExecutor, model: str, place: Path) -> None:
        from receraser.proof.keyring import Keyring

        self.found: dict[str, list[float]] = {"retrain": [], "fit_alone": []}
        self._config, self._executor = config_for(model, "retrain", 1), executor
        self._rows, self._valid = data.train, None if model == "wmf" else data.valid
        self._place, self._keyring = place, Keyring(place / "keys-of-full-fits")
        settings = {**self._config.hyperparameters, **_short(model)}
        self._fit(dataclasses.replace(self._config, hyperparameters=settings), "warm")

    def time(self) -> None:
        """Fit once more, and note the seconds."""
        fit, save = self._fit(self._config, str(len(self.found["retrain"])))
        self.found["fit_alone"].append(fit)
        self.found["retrain"].append(fit + save)

    def _fit(self, config: EngineConfig, name: str) -> tuple[float, float]:
        from receraser.engine import Engine

        engine = Engine.from_config(config, executor=self._executor)
        fit = timed(lambda: engine.fit(self._rows, valid=self._valid))
        return fit, timed(lambda: engine.save(self._place / f"full-{name}", keyring=self._keyring))


def _short(model: str) -> dict[str, object]:
    return {} if model == "wmf" else {"n_epochs": 1}


def one_user(data: Dataset, executor: LocalExecutor, model: str, n: int = 7, *, in_turn: bool = True) -> dict[str, Any]:
    """Time full fits, and users forgotten one by one by `spectral` with 32 shards.

    Parameters
    ----------
    in_turn
        Let fits and forgets take turns; otherwise the fits, which take long, come first.
    """
    from receraser.data.readers import read
    from receraser.engine import Engine
    from receraser.proof.keyring import Keyring

    whole = {} if in_turn else retrain(data, executor, model)
    config = config_for(model, "spectral", 32)
    valid = None if model == "wmf" else data.valid
    with tempfile.TemporaryDirectory() as place:
        keyring = Keyring(Path(place) / "keys")
        few = {"n_sweeps": 1} if model == "wmf" else {"n_epochs": 1}
        warm = dataclasses.replace(config, hyperparameters={**config.hyperparameters, **few})
        Engine.from_config(warm, executor=executor).fit(data.train, valid=valid)  # workers, imports, compilers
        engine = Engine.from_config(config, executor=executor)
        first = timed(lambda: engine.fit(data.train, valid=valid))
        engine.save(Path(place) / "store", keyring=keyring)
        stored = sum(one.stat().st_size for one in (Path(place) / "store").rglob("*") if one.is_file())
        metrics = engine.evaluate(data.test).metrics
        found = []
        fits = FullFits(data, executor, model, Path(place)) if in_turn else None
        with Engine.changing(Path(place) / "store", executor=executor, keyring=keyring) as opened:
            for user in data.train.users.ids[:: len(data.train.users) // (n + 1)][: n + 1]:
                seconds = timed(lambda: opened.forget(users=[user]))  # noqa: B023
                found.append({"total": seconds, **opened.seconds})
                if fits is not None and len(found) > 1:
                    fits.time()
        whole = whole if fits is None else fits.found
    found = found[1:]
    middle = statistics.median(one["total"] for one in found)
    return {
        **whole,
        "read": timed(lambda: read(data.folder / "train.txt.gz")),
        "first_fit": first,
        "stored_bytes": stored,
        "forgets": found,
        "ratio": middle / statistics.median(whole["retrain"]),
        "recall@20": metrics["recall@20"],
        "ndcg@20": metrics["ndcg@20"],
    }


def many(data: Dataset, executor: LocalExecutor, users: Sequence[int] = USERS) -> dict[str, Any]:
    """Time batches of users, of items and of categories (all films of a genre), beside a full refit of WMF."""
    from receraser.engine import Engine
    from receraser.proof.keyring import Keyring

    whole = retrain(data, executor, "wmf")
    found = []
    with tempfile.TemporaryDirectory() as place:
        keyring = Keyring(Path(place) / "keys")
        engine = Engine.from_config(config_for("wmf", "spectral", 32), executor=executor).fit(data.train)
        engine.save(Path(place) / "store", keyring=keyring)
        with Engine.changing(Path(place) / "store", executor=executor, keyring=keyring) as opened:
            opened.forget(users=[data.train.users.ids[-1]])  # warms up
            given = 0
            for m in users:
                asked = data.train.users.ids[given : given + m]
                given += m
                reports: list[Any] = []
                seconds = timed(lambda: reports.append(opened.forget(users=asked)))  # noqa: B023
                found.append(_point("users", m, seconds, reports[0]))
        found += _batches_of_items(data, executor, Path(place), "items", [data.train.items.ids[:m] for m in ITEMS])
        genres = sorted(films_by_genre(data).values(), key=len)
        of_genres = [sorted(set().union(*genres[:m])) for m in CATEGORIES]
        found += _batches_of_items(data, executor, Path(place), "categories", of_genres, CATEGORIES)
    return {**whole, "points": found}


def films_by_genre(data: Dataset) -> dict[str, set[str]]:
    """Return the films of every genre of ML-1M that have a row; a film may have several."""
    found: dict[str, set[str]] = {}
    with (data.folder / "items.csv").open(newline="", encoding="utf-8") as lines:
        for film in csv.DictReader(lines):
            for genre in film["genres"].split("|"):
                found.setdefault(genre, set()).add(film["item"])
    held = set(data.train.items.ids)
    return {genre: films & held for genre, films in found.items() if films & held}


def _batches_of_items(
    data: Dataset,
    executor: LocalExecutor,
    place: Path,
    what: str,
    batches: Sequence[Sequence[str]],
    sizes: Sequence[int] | None = None,
) -> list[dict[str, Any]]:
    """Forget items, each batch from a store of its own: an item is forgotten once, and batches overlap."""
    from receraser.engine import Engine
    from receraser.proof.keyring import Keyring

    keyring, found = Keyring(place / "keys"), []
    for number, asked in enumerate(batches):
        store = place / f"{what}-{number}"
        engine = Engine.from_config(config_for("wmf", "spectral", 32), executor=executor).fit(data.train)
        engine.save(store, keyring=keyring)
        with Engine.changing(store, executor=executor, keyring=keyring) as opened:
            reports: list[Any] = []
            seconds = timed(lambda: reports.append(opened.forget(items=asked)))  # noqa: B023
        found.append(_point(what, len(asked) if sizes is None else sizes[number], seconds, reports[0]))
    return found


def _point(what: str, m: int, seconds: float, report: Any) -> dict[str, Any]:
    return {
        "what": what,
        "m": m,
        "seconds": seconds,
        "shards": len(report.shards_retrained),
        "path": report.path,
        "rows": report.rows_removed,
    }


def attended(data: Dataset, executor: LocalExecutor, model: str, n: int = 3) -> dict[str, Any]:
    """Time full fits, and interactions forgotten one by one by the paper's method with ten shards."""
    from receraser.engine import Engine
    from receraser.proof.keyring import Keyring

    whole = retrain(data, executor, model)
    with tempfile.TemporaryDirectory() as place:
        keyring = Keyring(Path(place) / "keys")
        engine = Engine.from_config(config_for(model, "receraser", 10), executor=executor)
        first = timed(lambda: engine.fit(data.train, valid=data.valid))
        engine.save(Path(place) / "store", keyring=keyring)
        metrics = engine.evaluate(data.test).metrics
        found = []
        pairs = list(data.train.pairs())
        with Engine.changing(Path(place) / "store", executor=executor, keyring=keyring) as opened:
            for pair in pairs[:: len(pairs) // n][:n]:
                seconds = timed(lambda: opened.forget(interactions=[pair]))  # noqa: B023
                found.append({"total": seconds, **opened.seconds})
    middle = statistics.median(one["total"] for one in found)
    return {
        **whole,
        "first_fit": first,
        "forgets": found,
        "ratio": middle / statistics.median(whole["retrain"]),
        "recall@20": metrics["recall@20"],
        "ndcg@20": metrics["ndcg@20"],
    }
