"""Somebody else's model: found, called, checked, and used as a submodel like any other."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from receraser import fingerprint
from receraser.config import EngineConfig, renewed, resolve
from receraser.data.interactions import Interactions
from receraser.engine import Engine
from receraser.errors import EnvironmentMismatchError, PurityError, ReceraserError, TrainingError, UsageError
from receraser.evaluation import evaluate
from receraser.execution.local import LocalExecutor
from receraser.execution.task import run_task, submodel_task
from receraser.models.custom import Custom
from receraser.models.foreign import SOURCE, Rows, call, vectors_of
from receraser.models.popularity import Popularity
from receraser.models.registry import make_factor_model, make_model
from receraser.models.source import find, load
from tests.contracts.worlds import bits, checkerboard, edges
from tests.forgetting.engines import Here

ALS = "tests.models.pure:ALS"
ROOT = Path(__file__).parent.parent.parent
WORLD = checkerboard()
ROWS = Rows.of(WORLD.train)

MODEL = """
import numpy as np

from beside import SCALE  # a neighbour


class Model:
    def __init__(self, dim=2):
        self.dim = dim

    def fit(self, rows, seed):
        draw = np.random.default_rng(seed)
        return [draw.normal(size=(len(ids), self.dim)) * SCALE for ids in (rows.users, rows.items)]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model of one's own, where one works."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one])
    for name in ("mine", "beside"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "mine.py").write_text(MODEL)
    (tmp_path / "beside.py").write_text("SCALE = 0.5\n")
    return tmp_path


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Leaks are looked for elsewhere; here it is noted that they were."""
    asked: list[str] = []
    monkeypatch.setattr("receraser.fitting.require_pure", lambda model, *_, **__: asked.append(model))
    return asked


def config(model: str = ALS, **more: object) -> EngineConfig:
    return EngineConfig(**{"model": model, "partition": "hash", "aggregation": "mean", "shards": 3, "seed": 5} | more)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- where it is


def test_it_is_found_without_being_run(folder: Path) -> None:
    (folder / "mine.py").write_text("raise SystemExit\n")
    source = find("mine:Model")
    assert (source.path, source.folder) == (folder / "mine.py", folder)
    assert source.sha256 == fingerprint.of_bytes(b"raise SystemExit\n")
    assert "mine" not in sys.modules


def test_a_module_in_a_package(folder: Path) -> None:
    package = folder / "pkg" / "deep"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("from pkg.deep.model import f\n")  # imports it by itself
    (package / "__init__.py").write_text("def g(rows, seed): ...\n")
    (package / "model.py").write_text("from . import g\ndef f(rows, seed): ...\n")
    for name, path in (("pkg.deep.model:f", package / "model.py"), ("pkg.deep:g", package / "__init__.py")):
        source = find(name)
        assert (source.path, source.folder) == (path, folder)
        assert load(name)[1] == source.sha256
    with pytest.raises(UsageError, match=r"made of function|pkg.deep.model.f, whose source would not be digested"):
        load("pkg:f")
    with pytest.raises(UsageError, match=r"there is no module 'pkg.deep.model.more'"):
        find("pkg.deep.model.more:f")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere:Model", r"there is no module 'nowhere', .* nor in .*; go to the folder of the file, or name it in"),
        ("mine:Nothing", r"the module 'mine' \(.*mine.py\) has no 'Nothing'"),
        ("mine:np", r"mine:np is made of builtins.module"),
        ("mine:", r"expected one that comes with the package, or MODULE:OBJECT as in als:ALS"),
        ("mine.py:Model", r"there is no module 'mine.py'"),
        ("not a name:Model", r"or MODULE:OBJECT"),
        ("__main__:Model", r"in a file of its own"),
        ("collections:OrderedDict", r"'collections' comes with Python"),
        ("receraser.models.wmf:WMF", r"comes with Python or with this package"),
        ("numpy._core._multiarray_umath:add", r"is no Python source file"),
        ("broken:Model", r"cannot be imported: ZeroDivisionError: division by zero \(broken.py, line 2\)"),
        ("wrong:Model", r"cannot be imported: SyntaxError"),
    ],
)
def test_what_is_not_there(folder: Path, name: str, message: str) -> None:
    (folder / "broken.py").write_text("\n1 / 0\n")
    (folder / "wrong.py").write_text("def\n")
    with pytest.raises(UsageError, match=message):
        load(name)
    assert {"broken", "wrong"}.isdisjoint(sys.modules)


def test_what_is_run_is_the_file_as_it_is_now(folder: Path) -> None:
    """Whatever was imported or compiled before, even within a second and of the same length."""
    seen = []
    for number in (1, 2, 1):
        (folder / "mine.py").write_text(f"def f(rows, seed): return {number}\n")
        found, sha256 = load("mine:f")
        assert sha256 == find("mine:f").sha256
        assert load("mine:f")[0] is found, "not again for every fit"
        seen.append(call("mine:f", {}, ROWS, 1))
    assert seen == [1, 2, 1]


# ---------------------------------------------------------------------- what it is called with


def test_a_class_a_function_and_an_object() -> None:
    for model, own, dim in (
        (ALS, {"dim": 3}, 3),
        ("tests.models.pure:counts", {}, 1),
        ("tests.models.pure:made", {}, 2),
    ):
        users, items = vectors_of(model, call(model, own, ROWS, 1), ROWS)
        assert (users.shape, items.shape) == ((24, dim), (20, dim))
        assert users.dtype == items.dtype == np.float32


def test_what_it_is_handed(folder: Path) -> None:
    (folder / "mine.py").write_text("def f(rows, seed, **own): return rows, seed, own\n")
    rows = Rows.of(WORLD.train)
    handed = call("mine:f", {"a": 1, SOURCE: find("mine:f").sha256, "device": "cpu"}, rows, 7)
    assert handed == (rows, 7, {"a": 1})
    assert list(zip(rows.users, rows.items, strict=False))[:1] == [("u00", "i00")]
    pairs = [(rows.users[u], rows.items[i]) for u, i in zip(rows.user_index, rows.item_index, strict=True)]
    assert pairs == list(WORLD.train.pairs())
    assert len(rows) == len(WORLD.train)
    rows.item_index[:] = 0
    assert WORLD.train == checkerboard().train, "a copy"


def test_new_memory_is_filled_for_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker's may hold what an earlier task left there; our own models write theirs before they read it."""
    switch = torch.utils.deterministic
    (folder / "mine.py").write_text(
        "import numpy as np, torch\n"
        "def f(rows, seed):\n"
        "    filled = torch.utils.deterministic.fill_uninitialized_memory\n"
        "    return np.full((len(rows.users), 1), filled, np.float32), np.ones((len(rows.items), 1), np.float32)\n"
    )
    for outside in (False, True):
        monkeypatch.setattr(switch, "fill_uninitialized_memory", outside)
        assert Custom("mine:f", {}).fit(WORLD.train, seed=1).user_vectors_[0, 0] == 1.0
        assert switch.fill_uninitialized_memory is outside  # type: ignore[attr-defined]


def test_the_seed_is_one_that_any_library_takes(folder: Path) -> None:
    (folder / "mine.py").write_text(
        "import numpy as np\ndef f(rows, seed):\n    assert type(seed) is int and 0 <= seed < 2**31\n"
        "    return np.full((len(rows.users), 1), float(seed)), np.ones((len(rows.items), 1))\n"
    )
    fits = [Custom("mine:f", {}).fit(WORLD.train, seed=seed).user_vectors_[0, 0] for seed in (0, 1, 2**64 - 1)]
    assert len(set(fits)) == 3


@pytest.mark.parametrize("kind", ["class", "function"])
def test_the_device_is_handed_to_whoever_asks_for_it(folder: Path, kind: str) -> None:
    (folder / "mine.py").write_text(
        "def function(rows, seed, device): return device\n"
        "class M:\n    def __init__(self, device): self.own = device\n    def fit(self, rows, seed): return self.own\n"
    )
    assert call("mine:M" if kind == "class" else "mine:function", {"device": "cuda"}, ROWS, 1) == "cuda"


@pytest.mark.parametrize(
    ("body", "own", "kind", "message"),
    [
        ("def f(rows): ...", {}, UsageError, r"mine:f cannot be called with \(rows, seed\): too many positional"),
        ("def f(rows, seed): ...", {"a": "b"}, UsageError, r"cannot be called with \(rows, seed, a='b'\)"),
        ("def f(rows, seed): raise KeyError('x')", {}, TrainingError, r"fit failed: KeyError: 'x' \(mine.py, line 1\)"),
        ("class f: pass", {}, UsageError, r"mine:f has no fit\(rows, seed\), and is no function"),
        ("class f:\n    def __init__(self): 1 / 0", {}, UsageError, r"cannot be made of its .*: ZeroDivisionError"),
        ("class C:\n    def fit(self, r, s): ...\nf = C()", {"a": 1}, UsageError, r"takes no hyperparameters; found a"),
        ("def f(rows, seed): raise MemoryError('much')", {}, MemoryError, "much"),
    ],
)
def test_what_cannot_be_called(
    folder: Path, body: str, own: dict[str, object], kind: type[Exception], message: str
) -> None:
    (folder / "mine.py").write_text(body + "\n")
    with pytest.raises(kind, match=message):
        call("mine:f", own, ROWS, 1)


# ---------------------------------------------------------------------- what it returns

GOOD = np.ones((24, 2)), np.ones((20, 2))


@pytest.mark.parametrize(
    ("result", "kind", "message"),
    [
        (None, UsageError, r"x:y: fit returned NoneType; expected a pair \(user_vectors, item_vectors\)"),
        ((*GOOD, 1), UsageError, r"returned 3 values"),
        ((GOOD[1], GOOD[1]), UsageError, r"the user vectors are float64 of shape \(20, 2\); expected .* \(24, dim\)"),
        (
            (GOOD[0], GOOD[0]),
            UsageError,
            r"the item vectors are .* of shape \(24, 2\); .* \(20, dim\), one row for each",
        ),
        ((GOOD[0], np.ones((20, 3))), UsageError, r"the users have 2 numbers and those of the items 3"),
        ((GOOD[0], np.ones(20)), UsageError, r"of shape \(20,\)"),
        ((np.ones((24, 0)), np.ones((20, 0))), UsageError, r"of shape \(24, 0\)"),
        ((GOOD[0].astype(int), GOOD[1]), UsageError, r"are int64"),
        ((GOOD[0], "text"), UsageError, r"are <U4"),
        ((GOOD[0] * np.nan, GOOD[1]), TrainingError, r"a user vector is no finite number"),
        ((GOOD[0], GOOD[1] * 1e300), TrainingError, r"an? item vector is no finite number"),
    ],
)
def test_what_is_no_pair_of_tables(result: object, kind: type[ReceraserError], message: str) -> None:
    with pytest.raises(kind, match=message):
        vectors_of("x:y", result, ROWS)


# ---------------------------------------------------------------------- as a model


def test_it_is_made_like_any_other() -> None:
    model = make_model(ALS, {"dim": 3, "device": "cpu"})
    assert model == make_factor_model(ALS, {"dim": 3}) == Custom(ALS, {"dim": 3})
    assert model != Custom(ALS, {"dim": 4})
    assert model != Custom("tests.models.pure:Narrow", {"dim": 3})
    assert model != make_model("wmf", {})
    assert model.name == ALS
    assert model.hyperparameters() == {"dim": 3, "device": "cpu"}
    assert repr(model) == f"Custom({ALS!r}, {{'dim': 3, 'device': 'cpu'}})"


@pytest.mark.parametrize("value", [None, [1], {}, float("nan"), float("inf")])
def test_hyperparameters_are_what_a_configuration_can_hold(value: object) -> None:
    with pytest.raises(UsageError, match=r"penalty is .*; expected a"):
        Custom(ALS, {"penalty": value})


def test_it_learns_and_its_state_comes_back() -> None:
    model = Custom(ALS, {"dim": 2}).fit(WORLD.train, seed=3)
    found = evaluate(model, WORLD.train, WORLD.held_out, at=(2,)).metrics["recall@2"]
    popular = evaluate(Popularity().fit(WORLD.train), WORLD.train, WORLD.held_out, at=(2,)).metrics["recall@2"]
    assert found > max(0.95, popular + 0.4)
    assert model.facts() == {"dim": 2}
    other = Custom(ALS, {"dim": 2}).restore(WORLD.train, model.state())
    assert bits(other) == bits(model)
    assert (other.dim, other.users_) == (2, WORLD.train.users)
    assert bits(Custom(ALS, {"dim": 2}).fit(WORLD.train, seed=4)) != bits(model)


@pytest.mark.parametrize("name", edges())
def test_tables_at_the_edge(name: str) -> None:
    """Where there are no rows, nobody is asked."""
    rows = edges()[name]
    model = Custom(ALS, {"dim": 2}).fit(rows, seed=3)
    assert model.user_vectors_.shape == (len(rows.users), 2 if len(rows) else 1)
    assert model.item_vectors_.shape[0] == len(rows.items)


def test_a_task_says_where_the_module_is(folder: Path, worker: LocalExecutor) -> None:
    """To a worker that runs elsewhere and was started before there was such a file."""
    task = submodel_task("mine:Model", {"dim": 3}, 4, WORLD.train)
    assert task.settings == {"model": "mine:Model", "hyperparameters": {"dim": 3}, "seed": 4, "folder": str(folder)}
    (result,) = worker.run([task])
    here = run_task(task)
    assert fingerprint.of_tensors(result.arrays) == fingerprint.of_tensors(here.arrays)
    with pytest.raises(UsageError, match=r"cannot be called with \(depth=3\)"):
        run_task(submodel_task("mine:Model", {"depth": 3}, 4, WORLD.train))


# ---------------------------------------------------------------------- in a configuration


def test_a_configuration_notes_the_source() -> None:
    given = config(hyperparameters={"dim": 3})
    complete = resolve(given, {"sweeps": "2"})
    assert complete.hyperparameters == {"dim": 3, "sweeps": 2, SOURCE: find(ALS).sha256}
    assert (complete.model, complete.device) == (ALS, "cpu"), "on the CPU, unless it is said"
    assert resolve(complete) == complete
    assert renewed(complete).hyperparameters == {"dim": 3, "sweeps": 2}
    assert renewed(given) == given
    ours = resolve(EngineConfig(model="wmf", device="cpu"))
    assert renewed(ours) is ours


@pytest.mark.parametrize("key", ["device", "n_shards"])
def test_what_the_configuration_decides_is_no_hyperparameter(key: str) -> None:
    with pytest.raises(UsageError, match=f"{key} is no hyperparameter of {ALS}; the configuration has"):
        resolve(config(hyperparameters={key: "x"}))


def test_every_partition_and_aggregation_takes_it(unchecked: list[str]) -> None:
    """Even if its vectors are not everywhere of one length; and a shard may be left empty."""
    model = "tests.models.pure:Narrow"
    combinations = [
        *(("hash", one) for one in ("mean", "static", "attention", "spectral")),
        *((one, "attention") for one in ("random", "ubp", "ibp", "inbp", "bekm", "blpa")),
        ("whole", "alone"),
    ]
    few = {"n_epochs": 2}
    for partition, aggregation in combinations:
        chosen = config(
            model,
            partition=partition,
            aggregation=aggregation,
            shards=1 if partition == "whole" else 3,
            hyperparameters={"dim": 11},
            aggregation_settings=few if aggregation in ("static", "attention") else {},
        )
        engine = Engine.from_config(chosen, executor=Here()).fit(WORLD.train, valid=WORLD.held_out)
        assert len(engine.recommend(["u03"], k=2)["u03"]) == 2
        engine.forget(users=["u03"], items=["i04"])
        assert engine.recommend(["u03"])["u03"] == []
        engine.forget(items=list(WORLD.train.items))
        assert len(engine.state.train) == 0
        engine.add(WORLD.train.take(np.arange(3)))
        assert len(engine.recommend(["u00"], k=2, exclude_seen=False)["u00"]) >= 1
    assert unchecked == [model] * len(combinations), "at every fit, and at no forget"


# ---------------------------------------------------------------------- in a store


def test_in_a_store_with_workers(folder: Path, worker: LocalExecutor, unchecked: list[str]) -> None:
    """Fitted, published, opened, forgotten, exported; and when its source changes, refused until it is rebuilt."""
    store = folder / "store"
    engine = Engine.from_config(config("mine:Model", hyperparameters={"dim": 3}), executor=worker)
    engine.fit(WORLD.train, valid=WORLD.held_out)
    assert "purity" in engine.seconds
    engine.save(store)
    assert Engine.load(store).digest == engine.digest
    with Engine.changing(store, executor=worker) as opened:
        assert opened.forget(users=["u03"]).rows_removed == 8
    Engine.load(store).export(folder / "export")
    after = Engine.load(store).digest
    fresh = Engine.fit_export(folder / "export", executor=worker)
    assert fresh.digest == after
    assert unchecked == ["mine:Model"] * 2

    (folder / "mine.py").write_text(MODEL.replace("dim=2", "dim=4"))
    assert len(Engine.load(store).recommend(["u04"], k=2)["u04"]) == 2, "serving runs none of it"
    changes: list[Callable[[], object]] = [
        lambda: changed(store, worker, lambda own: own.forget(users=["u04"])),
        lambda: changed(store, worker, lambda own: own.add(Interactions.from_pairs([("new", "i00")]))),
        lambda: Engine.fit_export(folder / "export", executor=worker),
    ]
    for change in changes:
        with pytest.raises(EnvironmentMismatchError, match=r"the source of the model mine:Model has changed.*rebuild"):
            change()
    assert Engine.load(store).digest == after
    with Engine.changing(store, executor=worker, finish=False) as opened:
        opened.rebuild()  # and what was asked for meanwhile
    rebuilt = Engine.load(store)
    assert rebuilt.config.hyperparameters[SOURCE] == find("mine:Model").sha256
    assert [rebuilt.knows(user) for user in ("u03", "u04", "u05")] == [False, False, True]
    changed(store, worker, lambda own: own.forget(users=["u05"]))
    assert not Engine.load(store).knows("u05")


def changed(store: Path, worker: LocalExecutor, change: Callable[[Engine], object]) -> None:
    with Engine.changing(store, executor=worker, finish=False) as engine:
        change(engine)


def test_a_module_that_is_gone_is_asked_for(folder: Path, unchecked: list[str]) -> None:
    engine = Engine.from_config(config("mine:Model"), executor=Here()).fit(WORLD.train)
    (folder / "mine.py").unlink()
    with pytest.raises(EnvironmentMismatchError, match=r"is not here: there is no module 'mine'.*PYTHONPATH"):
        engine.forget(users=["u03"])
    assert engine.knows("u03")


def test_a_model_that_leaks_is_not_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = Here()
    engine = Engine.from_config(config("tests.models.leaky:ByTheDay"), executor=executor)
    with pytest.raises(PurityError, match=r"LEAK forgetting: .* numbers differ.*; another process: .* differ"):
        engine.fit(WORLD.train)
    assert executor.ran == []
