"""Every request has a defined answer: of nobody, of nothing, twice over, of everything, and where something breaks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.engine import AddReport, Engine
from receraser.erasure.request import ForgetRequest
from receraser.errors import DataError, EnvironmentMismatchError, KeyMismatchError, UsageError
from receraser.models.wmf import WMF
from receraser.partition.balanced import UBP
from receraser.partition.partition import Embeddings
from tests.contracts.worlds import blocks
from tests.forgetting.engines import (
    COMBINATIONS,
    ONE_OF_EACH_PARTITION,
    Book,
    Breaking,
    Combination,
    Here,
    assignment,
    differences,
    pseudonym,
    rows_of,
    state_of,
    told,
)

WORLD = blocks(14, 12, 2)
HASHED = Combination("hash", "attention", "wmf")
DRIVEN = Combination("inbp", "attention", "wmf")
SECRET = bytes(range(32))

each_partition = pytest.mark.parametrize("combination", ONE_OF_EACH_PARTITION, ids=str)
both_kinds = pytest.mark.parametrize("combination", [HASHED, DRIVEN], ids=str)


def fitted(combination: Combination, *, valid: bool = True) -> tuple[Engine, Book]:
    held = WORLD.held_out if valid else None
    engine = combination.engine().fit(WORLD.train, valid=held)
    return engine, Book(combination, engine, WORLD.train.pairs(), None if held is None else held.pairs())


def nothing_happens(engine: Engine, request: ForgetRequest) -> None:
    before, executor = state_of(engine), engine._executor
    assert isinstance(executor, Here)
    executor.ran.clear()
    report = engine.forget_request(request)
    assert told(report) == {
        "rows_removed": 0,
        "valid_rows_removed": 0,
        "shards_retrained": (),
        "path": "nothing",
        "unknown": request,
        "users_left_empty": 0,
        "items_left_empty": 0,
    }
    assert report.estimated_seconds == 0.0
    assert state_of(engine) is before
    assert executor.ran == []
    assert engine.seconds == {}


# ---------------------------------------------------------------------- nothing to do


@both_kinds
def test_of_nobody_and_nothing(combination: Combination) -> None:
    engine, _ = fitted(combination)
    nothing_happens(engine, ForgetRequest())
    nothing_happens(engine, ForgetRequest.of(users=["nobody"]))
    nothing_happens(engine, ForgetRequest.of(items=["nothing"]))
    nothing_happens(engine, ForgetRequest.of(interactions=[("u00", "i01"), ("nobody", "i00"), ("u00", "nothing")]))
    nothing_happens(engine, ForgetRequest.of(users=[pseudonym("u00")]))  # a pseudonym is nobody's name
    assert engine.level == "L3"


@both_kinds
def test_twice(combination: Combination) -> None:
    engine, _ = fitted(combination)
    request = ForgetRequest.of(["u03", "u05"], ["i04"], [("u00", "i00"), *WORLD.held_out.pairs()])
    assert engine.forget_request(request).rows_removed > 0
    nothing_happens(engine, request)


def test_what_is_known_is_forgotten_beside_what_is_not() -> None:
    engine, book = fitted(HASHED)
    request = ForgetRequest.of(["u03", "nobody", "u03"], ["nothing", "i04"], [("u00", "i00"), ("u03", "i01")])
    report = engine.forget_request(request)
    assert report.unknown == ForgetRequest.of(["nobody"], ["nothing"])  # u03,i01 goes with u03
    assert told(report) == book.forget(request)
    assert differences(engine, book.fresh()) == []


def test_ids_may_be_integers() -> None:
    rows = Interactions.from_pairs([(9, 1), (9, 2), (10, 1), (10, 2), (10, 3)])
    one, other = (Combination("whole", "alone", "wmf").engine().fit(rows) for _ in range(2))
    assert one.forget(users=[9], interactions=[(10, 3)]).rows_removed == 3
    assert other.forget(users=["9"], interactions=[("10", "3")]).rows_removed == 3
    assert one.digest == other.digest


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda engine: engine.forget("u00"), UsageError),
        (lambda engine: engine.forget(items="i00"), UsageError),
        (lambda engine: engine.forget([""]), DataError),
        (lambda engine: engine.forget(interactions=[("u00",)]), DataError),
        (lambda engine: engine.forget([1.5]), DataError),
    ],
)
def test_a_request_that_is_none(ask: Callable[[Engine], object], error: type[Exception]) -> None:
    engine, _ = fitted(HASHED)
    before = state_of(engine)
    with pytest.raises(error):
        ask(engine)
    assert state_of(engine) is before


@pytest.mark.parametrize("act", ["forget", "add", "rebuild", "export"])
def test_an_engine_that_is_not_fitted_says_so(act: str, tmp_path: Path) -> None:
    engine = HASHED.engine()
    acts: dict[str, Callable[[], object]] = {
        "forget": lambda: engine.forget(["u00"]),
        "add": lambda: engine.add(WORLD.train),
        "rebuild": engine.rebuild,
        "export": lambda: engine.export(tmp_path / "x"),
    }
    with pytest.raises(UsageError, match="not fitted yet"):
        acts[act]()
    assert list(tmp_path.iterdir()) == []


@both_kinds
def test_a_dry_run_says_it_all_and_does_nothing(combination: Combination) -> None:
    engine, _ = fitted(combination)
    before, executor = state_of(engine), engine._executor
    assert isinstance(executor, Here)
    executor.ran.clear()
    request = ForgetRequest.of(["u03", "nobody"], [], list(WORLD.held_out.pairs())[:1])
    planned = engine.forget_request(request, dry_run=True)
    assert state_of(engine) is before
    assert executor.ran == []
    assert planned.estimated_seconds is not None
    assert 0 < planned.estimated_seconds < 60
    assert engine.forget_request(request) == planned
    new = rows_of([("u05", "i02"), ("stranger", "i02"), ("u00", "i02")])
    before = state_of(engine)
    would = engine.add(new, dry_run=True)
    assert state_of(engine) is before
    assert "submodel" not in [task.kind for task in executor.ran[-1:]]
    did = engine.add(new)
    assert (would.rows_added, would.rows_held, would.shards_retrained) == (
        did.rows_added, did.rows_held, did.shards_retrained
    )  # fmt: skip


def test_rows_held_already_are_not_added_again() -> None:
    engine, _ = fitted(DRIVEN)
    before = state_of(engine)
    assert engine.add(WORLD.train) == AddReport(0, len(WORLD.train), 0, (), "nothing", 0.0)
    assert engine.add(Interactions.empty()) == AddReport(0, 0, 0, (), "nothing", 0.0)
    assert state_of(engine) is before


# ---------------------------------------------------------------------- what becomes empty


@each_partition
def test_a_shard_that_becomes_empty(combination: Combination) -> None:
    engine, book = fitted(combination)
    full = max(set(book.train.values()), key=list(book.train.values()).count)
    request = ForgetRequest.of(interactions=[pair for pair, shard in book.train.items() if shard == full])
    report = engine.forget_request(request)
    assert told(report) == book.forget(request)
    assert report.shards_retrained == (full,)
    assert (engine.shards[full].rows, engine.shards[full].users, engine.shards[full].items) == (0, 0, 0)
    assert differences(engine, book.fresh()) == []
    lists = engine.recommend(sorted({user for user, _ in book.train}), k=99, exclude_seen=False).values()
    assert all({one.item for one in found} == set(engine.items) for found in lists)


@each_partition
def test_the_last_row_of_a_user(combination: Combination) -> None:
    """Whoever has lost it is as one who was never seen."""
    pairs = [*WORLD.train.pairs(), ("brief", "i02")]
    engine = combination.engine().fit(rows_of(pairs), valid=WORLD.held_out)
    assert engine.knows("brief")
    report = engine.forget(interactions=[("brief", "i02")])
    assert (report.rows_removed, report.users_left_empty, report.items_left_empty) == (1, 1, 0)
    assert not engine.knows("brief")
    assert engine.recommend(["brief", "nobody"]) == {"brief": [], "nobody": []}
    assert pseudonym("brief") not in state_of(engine).train.users
    if not combination.remembers_data:
        assert differences(engine, fitted(combination)[0]) == []


@each_partition
def test_the_last_row_of_an_item(combination: Combination) -> None:
    engine = combination.engine().fit(rows_of([*WORLD.train.pairs(), ("u02", "rare")]), valid=WORLD.held_out)
    assert "rare" in engine.items
    report = engine.forget(interactions=[("u02", "rare")])
    assert (report.rows_removed, report.users_left_empty, report.items_left_empty) == (1, 0, 1)
    assert "rare" not in engine.items
    assert "rare" not in {one.item for one in engine.recommend(["u00"], k=99, exclude_seen=False)["u00"]}
    marks = state_of(engine).partition.landmarks
    assert marks is None or "rare" not in marks.ids
    if not combination.remembers_data:
        assert differences(engine, fitted(combination)[0]) == []


@each_partition
def test_an_item_that_is_called_like_somebodys_pseudonym(combination: Combination) -> None:
    """Users and items do not know each other's names: the one may vanish while the other stays."""
    called = pseudonym("u02")
    pairs = [*WORLD.train.pairs(), ("u00", called), ("u04", called), ("u05", called)]
    for request in (ForgetRequest.of(users=["u02"]), ForgetRequest.of(items=[called])):
        engine = combination.engine().fit(rows_of(pairs), valid=WORLD.held_out)
        book = Book(combination, engine, pairs, WORLD.held_out.pairs())
        assert told(engine.forget_request(request)) == book.forget(request)
        assert differences(engine, book.fresh()) == []
        assert (called in engine.items, engine.knows("u02")) == (bool(request.users), bool(request.items))


@pytest.mark.parametrize(
    ("combination", "valid"),
    [*((one, True) for one in COMBINATIONS), *((one, False) for one in ONE_OF_EACH_PARTITION)],
    ids=lambda one: str(one) if isinstance(one, Combination) else "valid" if one else "no valid",
)
def test_everything(combination: Combination, valid: bool, tmp_path: Path) -> None:
    """A valid store of no rows is left: it opens, recommends nothing, exports, fits again, takes rows in, rebuilds."""
    engine, book = fitted(combination, valid=valid)
    engine.titles = {"i00": "Nought"}
    request = ForgetRequest.of(users=WORLD.train.users)
    assert told(engine.forget_request(request)) == book.forget(request)
    assert [shard.rows for shard in engine.shards] == [0] * len(engine.shards)
    assert differences(engine, book.fresh()) == []
    engine.save(tmp_path / "s")
    again = Engine.load(tmp_path / "s", executor=Here())
    assert again.digest == engine.digest
    assert (again.titles, len(again.items), again.balance) == ({}, 0, 1.0)
    assert again.recommend(["u00", "nobody"], items=["i00"]) == {"u00": [], "nobody": [], "": []}
    again.export(tmp_path / "x")
    assert differences(Engine.fit_export(tmp_path / "x", executor=Here()), engine) == []
    new = list(WORLD.train.pairs())
    report = again.add(rows_of(new))
    assert {key: getattr(report, key) for key in ("rows_added", "rows_held", "valid_rows_moved")} == {
        "rows_added": len(new), "rows_held": 0, "valid_rows_moved": 0
    }  # fmt: skip
    book.add(new, again)
    assert differences(again, book.fresh()) == []
    assert len(again.recommend(["u00"], k=3)["u00"]) == 3
    assert differences(engine.rebuild(), combination.engine().fit(Interactions.empty(), valid=book_valid(valid))) == []


def book_valid(valid: bool) -> Interactions | None:
    return Interactions.empty() if valid else None


# ---------------------------------------------------------------------- validation rows


@each_partition
def test_validation_rows_are_forgotten_too(combination: Combination) -> None:
    engine, book = fitted(combination)
    request = ForgetRequest.of(interactions=list(WORLD.held_out.pairs())[:1])
    report = engine.forget_request(request)
    assert told(report) == book.forget(request)
    assert (report.rows_removed, report.valid_rows_removed, len(report.shards_retrained)) == (0, 1, 1)
    assert differences(engine, book.fresh()) == []


@each_partition
def test_a_user_and_an_item_known_only_by_validation_rows(combination: Combination) -> None:
    held = [*WORLD.held_out.pairs(), ("hidden", "i02"), ("hidden", "concealed"), ("u02", "concealed")]
    engine = combination.engine().fit(WORLD.train, valid=rows_of(held))
    book = Book(combination, engine, WORLD.train.pairs(), held)
    assert not engine.knows("hidden")
    for request, rows in ((ForgetRequest.of(users=["hidden"]), 2), (ForgetRequest.of(items=["concealed"]), 1)):
        report = engine.forget_request(request)
        assert told(report) == book.forget(request)
        assert (report.rows_removed, report.valid_rows_removed, report.unknown) == (0, rows, ForgetRequest())
        assert (report.users_left_empty, report.items_left_empty) == (0, 0)
        assert differences(engine, book.fresh()) == []
    valid = state_of(engine).valid
    assert valid is not None
    assert pseudonym("hidden") not in valid.users
    if not combination.remembers_data:
        assert differences(engine, fitted(combination)[0]) == []


@each_partition
def test_a_row_held_for_validation_becomes_a_training_row(combination: Combination) -> None:
    engine, book = fitted(combination)
    new = [*list(WORLD.held_out.pairs())[:2], next(iter(WORLD.train.pairs()))]
    report = engine.add(rows_of(new))
    assert {key: getattr(report, key) for key in ("rows_added", "rows_held", "valid_rows_moved")} == {
        "rows_added": 2, "rows_held": 1, "valid_rows_moved": 2
    }  # fmt: skip
    assert report.shards_retrained == book.add(new, engine)["shards_retrained"]
    assert differences(engine, book.fresh()) == []
    nothing_happens(engine, ForgetRequest())
    assert engine.forget(interactions=new).valid_rows_removed == 0


# ---------------------------------------------------------------------- levels


def test_levels() -> None:
    for combination in ONE_OF_EACH_PARTITION:
        engine, _ = fitted(combination)
        assert engine.level == "L3"
        engine.forget(users=["nobody"])
        assert engine.level == "L3"
        engine.forget(users=["u03"])
        assert engine.level == ("L1" if combination.remembers_data else "L3")
        assert engine.rebuild().level == "L3"
        engine.add(rows_of([("u03", "i02")]))
        assert engine.level == ("L1" if combination.remembers_data else "L3")


# ---------------------------------------------------------------------- what breaks


@pytest.mark.parametrize(
    ("combination", "kind", "act"),
    [
        (HASHED, "submodel", "forget"),
        (HASHED, "aggregation", "forget"),
        (DRIVEN, "submodel", "forget"),
        (DRIVEN, "aggregation", "forget"),
        (DRIVEN, "placement", "add"),
        (DRIVEN, "submodel", "add"),
        (DRIVEN, "aggregation", "add"),
        (DRIVEN, "partition", "rebuild"),
        (DRIVEN, "submodel", "rebuild"),
        (DRIVEN, "aggregation", "rebuild"),
    ],
    ids=str,
)
def test_a_failure_leaves_everything_as_it_was(combination: Combination, kind: str, act: str, tmp_path: Path) -> None:
    engine, _ = fitted(combination)
    engine.titles = {"i04": "The fourth", "i05": "The fifth"}
    engine.save(tmp_path / "s")
    acts: dict[str, Callable[[Engine], object]] = {
        "forget": lambda engine: engine.forget(users=["u03"], items=["i04"]),
        "add": lambda engine: engine.add(rows_of([("u03", "i02"), ("stranger", "i03")])),
        "rebuild": lambda engine: engine.rebuild(),
    }
    before, titles = state_of(engine), dict(engine.titles)
    manifest = (tmp_path / "s" / "manifest.json").stat(), (tmp_path / "s" / "manifest.json").read_bytes()
    names = sorted(path.name for path in (tmp_path / "s" / "files").iterdir())
    engine._executor = Breaking(kind)
    with pytest.raises(MemoryError, match=kind):
        acts[act](engine)
    assert state_of(engine) is before
    assert engine.titles == titles
    with pytest.raises(MemoryError), Engine.changing(tmp_path / "s", executor=Breaking(kind)) as opened:
        acts[act](opened)
    assert ((tmp_path / "s" / "manifest.json").stat(), (tmp_path / "s" / "manifest.json").read_bytes()) == manifest
    assert sorted(path.name for path in (tmp_path / "s" / "files").iterdir()) == names
    with Engine.changing(tmp_path / "s", executor=Here()) as opened:  # and it can be done again
        acts[act](opened)
    engine._executor = Here()
    acts[act](engine)
    assert Engine.load(tmp_path / "s").digest == engine.digest


@both_kinds
def test_another_environment_is_refused(combination: Combination, tmp_path: Path) -> None:
    """New weights would not fit beside the old ones; a rebuild makes them all anew."""
    engine, book = fitted(combination)
    engine.save(tmp_path / "s")
    elsewhere = Here(environment={"computed": "elsewhere", "probe": "1"})
    moved = Engine.load(tmp_path / "s", executor=elsewhere)
    before = state_of(moved)
    message = (
        r"computed was 'here', here it is 'elsewhere' \(and 1 more\).*refit everything here with: receraser rebuild"
    )
    with pytest.raises(EnvironmentMismatchError, match=message):
        moved.forget(users=["u03"])
    with pytest.raises(EnvironmentMismatchError, match="receraser rebuild"):
        moved.add(rows_of([("u05", "i02")]))
    assert state_of(moved) is before
    assert [task.kind for task in elsewhere.ran if task.kind != "placement"] == []
    nothing_happens(moved, ForgetRequest.of(users=["nobody"]))
    moved.rebuild()
    moved.forget(users=["u03"])
    request = ForgetRequest.of(users=["u03"])
    new = Book(combination, moved.rebuild(), *remaining(book, request))
    assert differences(moved, new.fresh(elsewhere)) == []


def remaining(book: Book, request: ForgetRequest) -> tuple[dict[tuple[str, str], int], dict[tuple[str, str], int]]:
    book.forget(request)
    assert book.valid is not None
    return book.train, book.valid


# ---------------------------------------------------------------------- exports and keys


def test_an_export_needs_no_key_to_be_fitted_but_one_to_be_asked(tmp_path: Path) -> None:
    engine = Engine(model=WMF(dim=4, n_sweeps=2), method="sisa", shards=3, key=SECRET, executor=Here())
    engine.fit(WORLD.train)
    engine.forget(users=["u03"])
    engine.export(tmp_path / "x")
    nobody = Engine.fit_export(tmp_path / "x", executor=Here())
    assert nobody.digest == engine.digest
    for ask in (
        lambda: nobody.forget(["u00"]), lambda: nobody.knows("u00"), lambda: nobody.add(WORLD.train),
        lambda: nobody.recommend(["u00"]),
    ):  # fmt: skip
        with pytest.raises(UsageError, match="no key to find its users by"):
            ask()
    nobody.save(tmp_path / "s")
    assert Engine.load(tmp_path / "s", key=SECRET).knows("u00")
    somebody = Engine.fit_export(tmp_path / "x", key=SECRET, executor=Here())
    assert somebody.forget(["u00"]).rows_removed == engine.forget(["u00"]).rows_removed > 0
    assert somebody.digest == engine.digest
    with pytest.raises(KeyMismatchError, match="made with a secret key, and another one was given"):
        Engine.fit_export(tmp_path / "x", key=SECRET[::-1], executor=Here())


def test_an_export_is_not_written_over_anything(tmp_path: Path) -> None:
    engine, _ = fitted(HASHED)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "mine").write_text("")
    with pytest.raises(UsageError, match="is not empty; choose another folder for the export"):
        engine.export(tmp_path / "x")
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["mine"]


def test_an_export_takes_the_assignment_along_only_where_it_must(tmp_path: Path) -> None:
    for combination in (HASHED, DRIVEN):
        folder = tmp_path / combination.partition
        engine, _ = fitted(combination)
        engine.forget(users=["u03"])
        engine.export(folder)
        again = Engine.fit_export(folder, executor=(executor := Here()))
        assert assignment(again) == assignment(engine)
        assert "partition" not in [task.kind for task in executor.ran]
        assert again.level == ("L1" if combination is DRIVEN else "L3")


def test_vectors_from_a_file_go_by_outside_ids_when_rebuilding_too() -> None:
    """They come from outside, as rows do: pseudonyms are made of them on the way in, every time."""
    rng = np.random.default_rng(1)
    users, items = IdMap([*WORLD.train.users, "nobody"]), WORLD.train.items
    vectors = [rng.random((len(ids), 3), dtype=np.float32) for ids in (users, items)]
    given = Embeddings(users, vectors[0], items, vectors[1])

    def engine() -> Engine:
        return Engine(model=WMF(dim=4, n_sweeps=2), partitioner=UBP(n_shards=3, embeddings="file"), executor=Here())

    one = engine().fit(WORLD.train, embeddings=given)
    assert one.level == "L1", "nobody knows which rows they were learned from"
    one.forget(users=["u03"])
    one.rebuild(embeddings=given)
    left = rows_of((user, item) for user, item in WORLD.train.pairs() if user != "u03")
    assert differences(one, engine().fit(left, embeddings=given)) == []
    before = state_of(one)
    with pytest.raises(UsageError, match="no vectors were handed in"):
        one.rebuild()
    assert state_of(one) is before
