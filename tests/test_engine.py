from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from receraser.aggregation.registry import AGGREGATIONS
from receraser.config import EngineConfig
from receraser.data.ids import pseudonyms
from receraser.data.interactions import Histories, Interactions
from receraser.engine import Engine
from receraser.errors import DataError, KeyMismatchError, StoreError, TrainingError, UsageError
from receraser.execution.local import LocalExecutor
from receraser.execution.task import Result, Task, run_task
from receraser.fingerprint import Tensors
from receraser.keys import PUBLIC_KEY
from receraser.models.bpr import BPR
from receraser.models.factors import FactorModel
from receraser.models.wmf import WMF
from receraser.partition.hashed import Hashed
from receraser.protocols import Model, Progress, Scorer
from receraser.store.directory import DirectoryStore
from tests.contracts.worlds import World, blocks, checkerboard

SECRET = bytes(range(32))
SMALL = WMF(dim=4, n_sweeps=3, cg_steps=4)  # as many steps as dimensions: each solve is exact


def made(worker: LocalExecutor, model: FactorModel = SMALL, *, seed: int = 7, key: bytes = PUBLIC_KEY) -> Engine:
    return Engine(model=model, seed=seed, key=key, executor=worker)


@pytest.fixture(scope="module")
def world() -> World:
    return checkerboard()


@pytest.fixture(scope="module")
def fitted(worker: LocalExecutor, world: World) -> Engine:
    return made(worker).fit(world.train)


def items_of(engine: Engine, user: str, k: int = 100) -> list[str]:
    return [one.item for one in engine.recommend([user], k=k)[user]]


# ---------------------------------------------------------------------- recommend


def test_it_finds_what_was_hidden(fitted: Engine, world: World) -> None:
    for user in world.train.users:
        hidden = {item for name, item in world.held_out.pairs() if name == user}
        assert set(items_of(fitted, user, k=2)) == hidden, user


def test_scores_fall_and_nothing_seen_comes_back(fitted: Engine, world: World) -> None:
    user = world.train.users.ids[3]
    own = {item for name, item in world.train.pairs() if name == user}
    found = fitted.recommend([user], k=1000)[user]
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert {one.item for one in found} == set(world.train.items) - own
    everything = fitted.recommend([user], k=1000, exclude_seen=False)[user]
    assert {one.item for one in everything} == set(world.train.items)


def test_a_user_alone_or_among_others_gets_the_same_list(fitted: Engine, world: World) -> None:
    users = list(world.train.users)
    together = fitted.recommend(users, k=5)
    assert all(fitted.recommend([user], k=5)[user] == together[user] for user in users[::5])
    assert list(together) == users


def test_an_unknown_user_gets_an_empty_list(fitted: Engine, world: World) -> None:
    known = world.train.users.ids[0]
    answer = fitted.recommend(["nobody", known], k=3)
    assert answer["nobody"] == []
    assert answer[known] == fitted.recommend([known], k=3)[known]
    assert fitted.knows(known)
    assert not fitted.knows("nobody")


def test_ids_may_be_integers(worker: LocalExecutor) -> None:
    engine = made(worker).fit(Interactions.from_pairs([(9, 1), (9, 2), (10, 1), (10, 2), (10, 3)]))
    assert engine.recommend([9], k=5) == engine.recommend(["9"], k=5)
    assert items_of(engine, "9") == ["3"]
    assert engine.knows(10)


def test_a_stranger_is_known_by_items(fitted: Engine, world: World) -> None:
    even = [item for item in world.train.items if int(item[1:]) % 2 == 0]
    found = fitted.recommend(k=5, items=even[:4])[""]
    assert len(found) == 5
    assert {one.item for one in found} <= set(even[4:])
    assert fitted.recommend(k=5, items=["nothing like it"]) == {"": []}
    assert fitted.recommend(k=5, items=[*even[:4], "nothing like it"])[""] == found
    both = fitted.recommend(["u00"], k=5, items=even[:4])
    assert both == {"u00": fitted.recommend(["u00"], k=5)["u00"], "": found}


def test_validation_rows_are_not_recommended(worker: LocalExecutor, world: World) -> None:
    engine = made(worker).fit(world.train, valid=world.held_out)
    for user, item in world.held_out.pairs():
        assert item not in items_of(engine, user)
        assert item in {one.item for one in engine.recommend([user], k=100, exclude_seen=False)[user]}


@pytest.mark.parametrize("k", [0, -1])
def test_k_is_at_least_one(fitted: Engine, k: int) -> None:
    with pytest.raises(UsageError, match=f"k is {k}; expected at least 1"):
        fitted.recommend(["u00"], k=k)


def test_an_id_is_checked(fitted: Engine) -> None:
    with pytest.raises(DataError, match="the id is missing"):
        fitted.recommend([""])
    with pytest.raises(UsageError, match="lists of ids"):
        fitted.recommend("u00")
    with pytest.raises(UsageError, match="lists of ids"):
        fitted.recommend(items="i00")


# ---------------------------------------------------------------------- evaluate


def test_evaluate(fitted: Engine, world: World) -> None:
    found = fitted.evaluate(world.held_out, at=[1, 2])
    assert found.metrics["recall@2"] == 1.0
    assert found.metrics["recall@1"] == 0.5
    assert (found.users, found.users_skipped) == (24, 0)
    strangers = Interactions.from_pairs([*world.held_out.pairs(), ("nobody", "i00")])
    assert fitted.evaluate(strangers, at=[2]).users_skipped == 1


def test_evaluate_refuses_strangers_alone_and_no_cuts(fitted: Engine, world: World) -> None:
    with pytest.raises(DataError, match="nobody to rank for"):
        fitted.evaluate(Interactions.from_pairs([("nobody", "i00")]))
    for cuts in ([], [0], [5, -1]):
        with pytest.raises(UsageError, match="at least"):
            fitted.evaluate(world.held_out, at=cuts)


def test_evaluate_shows_progress(fitted: Engine, world: World) -> None:
    told: list[tuple[str, int, int]] = []
    fitted.evaluate(world.held_out, progress=lambda *one: told.append(one))
    assert told == [("users", 24, 24)]


# ---------------------------------------------------------------------- fit


@pytest.mark.parametrize("act", ["recommend", "evaluate", "save", "digest", "shards", "knows"])
def test_an_engine_that_is_not_fitted_says_so(act: str, tmp_path: Path) -> None:
    engine = Engine()
    acts: dict[str, Callable[[], object]] = {
        "recommend": lambda: engine.recommend(["u"]),
        "evaluate": lambda: engine.evaluate(Interactions.empty()),
        "save": lambda: engine.save(tmp_path / "s"),
        "digest": lambda: engine.digest,
        "shards": lambda: engine.shards,
        "knows": lambda: engine.knows("u"),
    }
    with pytest.raises(UsageError, match="not fitted yet"):
        acts[act]()
    assert not (tmp_path / "s").exists()


def test_an_earlier_fit_leaves_no_trace(worker: LocalExecutor, world: World, fitted: Engine) -> None:
    engine = made(worker).fit(blocks(12, 15, 3).train, valid=blocks(12, 15, 3).held_out)
    assert engine.digest != fitted.digest
    assert engine.fit(world.train).digest == fitted.digest
    assert engine.recommend(["u00"]) == fitted.recommend(["u00"])


def test_a_failed_fit_leaves_nothing_either(
    worker: LocalExecutor, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise TrainingError("a training worker was killed")

    engine = made(worker).fit(world.train)
    monkeypatch.setattr(worker, "run", fail)
    with pytest.raises(TrainingError):
        engine.fit(world.train)
    with pytest.raises(UsageError, match="not fitted yet"):
        engine.recommend(["u00"])


def test_a_row_in_train_and_valid_stays_in_train(worker: LocalExecutor, world: World) -> None:
    both = Interactions.union([world.held_out, world.train])
    engine = made(worker).fit(world.train, valid=both)
    assert engine.digest == made(worker).fit(world.train, valid=world.held_out).digest
    assert engine.shards[0].rows == len(world.train)


def test_shards_and_seconds(fitted: Engine, world: World) -> None:
    (shard,) = fitted.shards
    assert (shard.id, shard.rows, shard.users, shard.items) == (0, len(world.train), 24, 20)
    assert list(fitted.seconds) == ["partition", "submodels", "aggregate"]
    assert fitted.level == "L3"


def test_progress_is_passed_on(worker: LocalExecutor, world: World) -> None:
    told: list[tuple[str, int, int]] = []
    made(worker).fit(world.train, progress=lambda *one: told.append(one))
    assert told[-1] == ("sweeps", 3, 3)


def test_from_config(worker: LocalExecutor, world: World, fitted: Engine) -> None:
    config = EngineConfig(model="wmf", seed=7, device="cpu", hyperparameters={"dim": 4, "n_sweeps": 3, "cg_steps": 4})
    engine = Engine.from_config(config, executor=worker)
    assert engine.config == fitted.config
    assert engine.fit(world.train).digest == fitted.digest


# ---------------------------------------------------------------------- the digest


def test_the_digest_depends_on_nothing_but_content(fitted: Engine, world: World, tmp_path: Path) -> None:
    """Another process, another order of the rows, another number of threads: the same bits."""
    rows = list(world.train.pairs())
    rows = [rows[i] for i in np.random.default_rng(1).permutation(len(rows))]
    (tmp_path / "rows.csv").write_text("user,item\n" + "".join(f"{user},{item}\n" for user, item in rows))
    command = [sys.executable, "-m", "receraser", "fit", "rows.csv", "--store", "s", "--json"]
    settings = ["--model", "wmf", "--dim", "4", "--set", "n_sweeps=3", "--set", "cg_steps=4"]
    settings += ["--seed", "7", "--device", "cpu"]
    done = subprocess.run([*command, *settings], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["digest"] == fitted.digest
    assert Engine.load(tmp_path / "s").digest == fitted.digest


def test_whatever_a_fit_depends_on_changes_the_digest(worker: LocalExecutor, world: World, fitted: Engine) -> None:
    rows = list(world.train.pairs())
    digests = {
        "as it is": fitted.digest,
        "a row less": made(worker).fit(Interactions.from_pairs(rows[1:])).digest,
        "a row more": made(worker).fit(Interactions.from_pairs([*rows, ("u00", "i01")])).digest,
        "another user's name": made(worker).fit(Interactions.from_pairs([*rows[1:], ("x", rows[0][1])])).digest,
        "another seed": made(worker, seed=8).fit(world.train).digest,
        "another dim": made(worker, WMF(dim=5, n_sweeps=3, cg_steps=4)).fit(world.train).digest,
        "a setting without effect": made(worker, WMF(dim=4, n_sweeps=3, cg_steps=4, patience=11))
        .fit(world.train)
        .digest,
        "another model": made(worker, BPR(dim=4, n_epochs=1)).fit(world.train).digest,
        "another key": made(worker, key=SECRET).fit(world.train).digest,
        "validation rows": made(worker).fit(world.train, valid=world.held_out).digest,
        "no validation rows, but said so": made(worker).fit(world.train, valid=Interactions.empty()).digest,
    }
    assert len(set(digests.values())) == len(digests)


def test_one_and_one_point_nought_are_one_setting(worker: LocalExecutor, world: World) -> None:
    whole = made(worker, WMF(dim=4, n_sweeps=1, regularization=1)).fit(world.train)
    assert whole.digest == made(worker, WMF(dim=4, n_sweeps=1, regularization=1.0)).fit(world.train).digest


# ---------------------------------------------------------------------- save and load


def every_byte(store: Path) -> bytes:
    """All that can be read in a store: file names, files, and the text inside compressed columns."""
    texts: list[bytes] = []
    for path in sorted(store.rglob("*")):
        texts.append(str(path.relative_to(store)).encode())
        if path.is_file():
            data = path.read_bytes()
            texts.append(data)
            if data[:4] == b"PAR1":
                table = pq.read_table(path)
                texts += [str(value).encode() for column in table.to_pydict().values() for value in column]
                texts.append(str(pq.read_metadata(path).to_dict()).encode() + str(table.schema).encode())
    return b"\n".join(texts)


def holds(store: Path, ids: Iterable[str]) -> list[str]:
    content = every_byte(store)
    return [one for one in ids if one.encode() in content]


def test_a_store_holds_no_outside_user_id(worker: LocalExecutor, tmp_path: Path) -> None:
    users = ["ann@example.org", "bob@example.org", "müller-lüdenscheidt", "user#31337", "4711-0815-42"]
    rows = Interactions.from_pairs([(user, f"item-{n % 3}") for n, user in enumerate(users)] + [(users[0], "item-2")])
    held = Interactions.from_pairs([(users[1], "item-2"), ("only.in.valid@example.org", "item-1")])
    engine = made(worker, key=SECRET).fit(rows, valid=held)
    engine.titles = {"item-0": "A title"}
    engine.save(tmp_path / "s")
    assert holds(tmp_path / "s", [*users, "only.in.valid@example.org", SECRET.hex()]) == []
    present = [*pseudonyms(users, SECRET), "item-0", "item-2", "A title"]
    assert holds(tmp_path / "s", present) == present  # this search does find what is there


def test_save_and_load(worker: LocalExecutor, world: World, tmp_path: Path) -> None:
    engine = made(worker).fit(world.train, valid=world.held_out)
    engine.titles = {"i00": "Nought", "i01": "One", "unknown": "Of an item that is not there"}
    engine.save(tmp_path / "s")
    again = Engine.load(tmp_path / "s")
    assert again.digest == engine.digest
    assert again.config == engine.config
    assert again.shards == engine.shards
    assert again.titles == {"i00": "Nought", "i01": "One"}
    users = [*world.train.users, "nobody"]
    assert again.recommend(users, k=7) == engine.recommend(users, k=7)
    assert again.recommend(items=["i02", "i04"]) == engine.recommend(items=["i02", "i04"])
    assert again.evaluate(world.held_out).metrics == engine.evaluate(world.held_out).metrics
    again.save(tmp_path / "t")
    one, other = (json.loads((tmp_path / name / "manifest.json").read_text()) for name in "st")
    del one["record"], other["record"], one["checksum"], other["checksum"]
    assert one == other


def test_a_loaded_engine_can_be_fitted_again(
    worker: LocalExecutor, world: World, fitted: Engine, tmp_path: Path
) -> None:
    fitted.save(tmp_path / "s")
    engine = Engine.load(tmp_path / "s", executor=worker)
    survivors = world.train.take(np.arange(5, len(world.train)))
    assert engine.fit(survivors).digest == made(worker).fit(survivors).digest


@pytest.mark.parametrize("valid", [None, Interactions.empty()], ids=["no valid", "empty valid"])
def test_a_table_of_no_rows(worker: LocalExecutor, tmp_path: Path, valid: Interactions | None) -> None:
    engine = made(worker).fit(Interactions.empty(), valid=valid)
    engine.save(tmp_path / "s")
    again = Engine.load(tmp_path / "s")
    assert again.digest == engine.digest
    assert again.recommend(["u"], items=["a"]) == {"u": [], "": []}
    assert again.shards[0].rows == 0


def test_a_replaced_store_is_gone(worker: LocalExecutor, world: World, fitted: Engine, tmp_path: Path) -> None:
    """What makes level L3: nothing of the earlier state is left in the folder."""
    earlier = Interactions.from_pairs([*world.train.pairs(), ("u00", "the-forgotten-item"), ("forgotten", "i00")])
    engine = made(worker).fit(earlier)
    engine.titles = {"the-forgotten-item": "A forgotten title", "i00": "Nought"}
    engine.save(tmp_path / "s")
    secrets = ["the-forgotten-item", "A forgotten title", *pseudonyms(["forgotten"], PUBLIC_KEY), engine.digest]
    assert holds(tmp_path / "s", secrets) == secrets
    old = {path.name for path in (tmp_path / "s" / "files").iterdir()}
    fitted.save(tmp_path / "s", replace=True)
    new = {path.name for path in (tmp_path / "s" / "files").iterdir()}
    assert not old & new
    assert holds(tmp_path / "s", [*secrets, *old]) == []
    fitted.save(tmp_path / "fresh")
    own = {"checksum", "record"}  # when it happened, and a name of its own
    one, other = (json.loads((tmp_path / name / "manifest.json").read_text()) for name in ("s", "fresh"))
    assert {key: one[key] for key in one.keys() - own} == {key: other[key] for key in other.keys() - own}
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == ["files", "ledger", "lock", "manifest.json"]


def test_an_existing_store_is_not_touched_without_replace(fitted: Engine, tmp_path: Path) -> None:
    fitted.save(tmp_path / "s")
    before = every_byte(tmp_path / "s")
    with pytest.raises(StoreError, match="already"):
        fitted.save(tmp_path / "s")
    assert every_byte(tmp_path / "s") == before


def test_whoever_publishes_first_wins(fitted: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two fits into a new store: the slower one finds it taken, though it was free when it looked first."""
    fitted.save(tmp_path / "first")
    writing = DirectoryStore.writing

    def overtaken(self: DirectoryStore) -> AbstractContextManager[None]:
        shutil.copytree(tmp_path / "first", self.path)
        return writing(self)

    with monkeypatch.context() as patch:
        patch.setattr(DirectoryStore, "writing", overtaken)
        with pytest.raises(StoreError, match="already"):
            fitted.save(tmp_path / "late")
    assert every_byte(tmp_path / "late") == every_byte(tmp_path / "first")


def test_a_store_of_another_version_is_refused(fitted: Engine, tmp_path: Path) -> None:
    fitted.save(tmp_path / "s")
    store = DirectoryStore(tmp_path / "s")
    whole = store.manifest()
    config = fitted.config.as_dict()
    for change, message in (
        ({"model": "oracle"}, "unknown model 'oracle'"),
        ({"partition": "thirds"}, "unknown partition 'thirds'"),
        ({"aggregation": "vote"}, "unknown aggregation 'vote'"),
        ({"hyperparameters": {"dim": 4, "temperature": 1}}, "temperature"),
        ({"hyperparameters": {"dim": -4}}, "dim is -4"),
    ):
        with store.writing():
            store.commit({key: value for key, value in whole.items() if key != "format"} | {"config": config | change})
        with pytest.raises(StoreError, match=f"was not made by this version: .*{message}"):
            Engine.load(tmp_path / "s")
    for other in ({"seed": 8}, {"method": "magic"}):
        with store.writing():
            store.commit({key: value for key, value in whole.items() if key != "format"} | {"config": config | other})
        with pytest.raises(StoreError, match="does not give the digest in its manifest"):
            Engine.load(tmp_path / "s")


def test_the_right_key_is_needed(worker: LocalExecutor, world: World, fitted: Engine, tmp_path: Path) -> None:
    secret = made(worker, key=SECRET).fit(world.train)
    secret.save(tmp_path / "secret")
    fitted.save(tmp_path / "public")
    assert Engine.load(tmp_path / "secret", key=SECRET).recommend(["u00"]) == secret.recommend(["u00"])
    with pytest.raises(KeyMismatchError, match="made with a secret key, and none was given"):
        Engine.load(tmp_path / "secret")
    with pytest.raises(KeyMismatchError, match="made with a secret key, and another one was given"):
        Engine.load(tmp_path / "secret", key=SECRET[::-1])
    with pytest.raises(KeyMismatchError, match=r"made with the public key.*leave --keys out"):
        Engine.load(tmp_path / "public", key=SECRET)


class _Scaled:
    """A scorer that scales a submodel's scores by a learned number."""

    def __init__(self, model: Model, factor: float) -> None:
        self.items_ = model.items_
        self._model, self._factor = model, factor

    def scores(self, histories: Histories) -> torch.Tensor:
        return self._model.scores(histories) * self._factor


@dataclass(kw_only=True)
class _Scaling:
    """An aggregator that learns something: the sign of every score."""

    name: ClassVar[str] = "scaling"
    learns: ClassVar[bool] = True
    needs_rows: ClassVar[bool] = True
    factor: ClassVar[float] = 1.0

    def fit(
        self,
        submodels: Sequence[FactorModel],
        interactions: Interactions,
        *,
        valid: Interactions | None,
        seed: int,
        progress: Progress | None = None,
    ) -> tuple[Tensors, Mapping[str, object]]:
        return {"factor": np.array([self.factor], dtype=np.float32)}, {}

    def scorer(self, submodels: Sequence[FactorModel], state: Tensors) -> Scorer:
        return _Scaled(submodels[0], float(np.asarray(state["factor"], dtype=np.float32)[0]))


class _Here:
    """Runs tasks in this process, which alone knows the aggregator above."""

    environment: Mapping[str, object] = {}

    def prepare(self, toys: Sequence[Task], n_tasks: int = 1) -> None:
        pass

    def run(self, tasks: Iterable[Task], *, progress: Progress | None = None) -> list[Result]:
        return [run_task(task, progress=progress) for task in tasks]

    def close(self) -> None:
        pass


def test_what_an_aggregator_learned_is_digested_and_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Interactions.from_pairs([("u", "a"), ("u", "b"), ("v", "a"), ("v", "b"), ("v", "c"), ("w", "c"), ("w", "d")])
    monkeypatch.setitem(AGGREGATIONS, "scaling", _Scaling)
    engines = []
    for factor in (1.0, -1.0):
        monkeypatch.setattr(_Scaling, "factor", factor)
        parts = {"partitioner": Hashed(n_shards=1), "aggregator": _Scaling()}
        engines.append(Engine(model=WMF(dim=4), seed=1, executor=_Here(), **parts).fit(rows))  # type: ignore[arg-type]
    right, reversed_ = engines
    lists = [[one.item for one in engine.recommend(["u"])["u"]] for engine in engines]
    assert lists[0] == lists[1][::-1]
    assert right.digest != reversed_.digest
    right.save(tmp_path / "store")
    loaded = Engine.load(tmp_path / "store")  # by an aggregator that would have learned the opposite
    assert [one.item for one in loaded.recommend(["u"])["u"]] == lists[0]
    assert loaded.digest == right.digest
