"""Models of sums across changes: which way is taken and told, and that every way leads to the same bits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from receraser.changes import without
from receraser.engine import Engine
from receraser.erasure.plan import DOWNDATE, NOTHING, REFIT, SHARDS
from receraser.erasure.request import ForgetRequest
from receraser.errors import UsageError
from receraser.fitting import Fitting
from tests.contracts.worlds import blocks
from tests.forgetting.engines import (
    COMBINATIONS,
    OF_SUMS,
    Book,
    Combination,
    Here,
    differences,
    planned_for,
    rows_of,
    state_of,
    sums_of,
    tensors,
)

WORLD = blocks(14, 12, 2)
SUMMED = [OF_SUMS["gram"], OF_SUMS["ease"]]
ALONE = [one for one in COMBINATIONS if one.model in OF_SUMS and one.partition == "whole"]
FROM_ROWS = [one for one in ALONE if not one.keeps_sums(WORLD.train.pairs()) and "core_rows" not in one.hyperparameters]
MOST = [f"u{n:02}" for n in range(8)]


def fitted(combination: Combination) -> tuple[Engine, Book]:
    engine = combination.engine().fit(WORLD.train, valid=WORLD.held_out)
    return engine, Book(combination, engine, WORLD.train.pairs(), WORLD.held_out.pairs())


# ---------------------------------------------------------------------- which way


@pytest.mark.parametrize("combination", SUMMED, ids=str)
def test_what_is_told_of_sums_at_hand(combination: Combination, tmp_path: Path) -> None:
    """A downdate; a refit where most would have to be taken away, or where the sums are not at hand: they come back."""
    engine, _ = fitted(combination)
    assert engine.forget(["nobody"]).path == NOTHING
    assert engine.add(rows_of([])).path == NOTHING
    assert engine.forget(["u13"], dry_run=True).path == DOWNDATE
    assert engine.forget(["u13"]).path == DOWNDATE
    assert engine.forget(interactions=list(WORLD.held_out.pairs())[:1]).path == DOWNDATE, "a validation row: no sum"
    assert engine.add(rows_of([("u13", "i00"), ("new", "i99")])).path == DOWNDATE
    assert engine.forget(MOST, dry_run=True).path == REFIT
    engine.save(tmp_path / "s")
    assert engine.forget(MOST).path == REFIT
    assert engine.forget(["u08"]).path == DOWNDATE, "the refit has left sums behind"
    few = DOWNDATE if combination.model == "ease" else REFIT  # gram keeps none for so few rows
    assert engine.rebuild().forget(["u09"]).path == few
    loaded = Engine.load(tmp_path / "s", executor=Here())
    assert sums_of(loaded) is None
    assert [loaded.forget(["u08"]).path, loaded.forget(["u09"]).path] == [REFIT, DOWNDATE]
    assert loaded.add(WORLD.train).path == DOWNDATE
    loaded.export(tmp_path / "x")
    assert Engine.fit_export(tmp_path / "x", executor=Here()).forget(["u08"]).path == DOWNDATE


@pytest.mark.parametrize("combination", FROM_ROWS, ids=str)
def test_without_sums_it_is_a_refit(combination: Combination) -> None:
    engine, _ = fitted(combination)
    assert sums_of(engine) is None
    assert engine.forget(["u13"]).path == engine.add(rows_of([("u13", "i00")])).path == REFIT


def test_among_models_without_sums_are_all_that_keep_none() -> None:
    assert [str(one) for one in FROM_ROWS] == [
        "whole-alone-graphfilter", "whole-alone-gram-0.0", "whole-alone-gram-1"
    ]  # fmt: skip


@pytest.mark.parametrize("model", ["wmf", "gram"])
def test_what_is_told_of_shards(model: str) -> None:
    """Some of them, or most of them; the only one there is, is all of them. Sums of a shard are nobody's business."""
    engine, book = fitted(Combination("hash", "spectral", model, shards=5))
    by_shard = {shard: user for (user, _), shard in book.train.items()}
    assert len(by_shard) == 5
    one, two, three = (list(by_shard.values())[:n] for n in (1, 2, 3))
    assert [engine.forget(users, dry_run=True).path for users in ([], one, two, three)] == [
        NOTHING, SHARDS, SHARDS, REFIT
    ]  # fmt: skip
    assert fitted(Combination("whole", "alone", "wmf"))[0].forget(["u00"]).path == REFIT


def test_a_downdate_is_not_told_where_the_rows_that_are_left_keep_no_sums() -> None:
    """Then it is a fit of those rows, which costs what a fit costs."""
    just = 78 / len(WORLD.train)  # pairs of twelve items for each row: one row less, and sums are no longer kept
    engine, _ = fitted(Combination("whole", "alone", "gram", hyperparameters={"pairs_per_row": just}))
    assert sums_of(engine) is not None
    report = engine.forget(interactions=[next(iter(WORLD.train.pairs()))])
    assert sums_of(engine) is None
    assert report.path == REFIT


@pytest.mark.parametrize(
    "combination",
    [*SUMMED, *(Combination("hash", name, "bpr", shards=5) for name in ("spectral", "static"))],
    ids=str,
)
def test_every_way_leads_to_the_same_state(combination: Combination) -> None:
    engine, book = fitted(combination)
    state = state_of(engine)
    request = ForgetRequest.of(["u03"], [], [("u00", "i00")])
    planned = planned_for(state, request)
    book.forget(request)
    fresh = book.fresh()
    for path in (DOWNDATE, SHARDS, REFIT):
        with Fitting(engine.config, Here(), n_tasks=1, partitions=False, progress=None) as fitting:
            engine._fitted = fitting.changed(state, without(state, planned), path)
        assert differences(engine, fresh) == []


@pytest.mark.parametrize("combination", SUMMED, ids=str)
def test_a_refit_makes_no_use_of_earlier_sums(combination: Combination, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("sums of superseded rows")

    engine, _ = fitted(combination)
    monkeypatch.setattr(f"receraser.models.{combination.model}.recounted", never)
    assert engine.forget(MOST).path == REFIT
    with pytest.raises(AssertionError, match="superseded"):
        engine.forget(["u08"])


# ---------------------------------------------------------------------- what travels, and what stays


@pytest.mark.parametrize("combination", SUMMED, ids=str)
def test_sums_travel_and_no_row_does(combination: Combination) -> None:
    engine, _ = fitted(combination)
    engine.forget(["u03"])
    executor = engine._executor
    assert isinstance(executor, Here)
    assert [task.kind for task in executor.ran] == ["sums", "sums"]
    for task in executor.ran:
        assert task.tables == {}
        assert set(task.settings) == {"model", "hyperparameters", "seed"}
        assert set(task.ids) == {"items"}
        assert {array.dtype for array in task.arrays.values()} == {np.dtype(np.int64)}


@pytest.mark.parametrize("combination", SUMMED, ids=str)
def test_sums_are_not_stored(combination: Combination, tmp_path: Path) -> None:
    """They are a function of the rows; what is not there need not be destroyed."""
    engine, _ = fitted(combination)
    engine.save(tmp_path / "s")
    engine.export(tmp_path / "x")
    stored = tensors(tmp_path / "s")
    assert stored
    assert {array.dtype for array in stored} == {np.dtype(np.float32)}
    assert tensors(tmp_path / "x") == []


def test_a_catalogue_that_grows_too_large_is_refused_and_nothing_has_changed() -> None:
    engine, book = fitted(replace(OF_SUMS["ease"], hyperparameters={"max_items": 12}))
    before = state_of(engine)
    with pytest.raises(UsageError, match=r"13 items need a matrix.* --model graphfilter"):
        engine.add(rows_of([("u00", "i99")]))
    assert state_of(engine) is before
    engine.forget(items=["i00"])
    engine.add(rows_of([("u00", "i99")]))
    book.forget(ForgetRequest.of(items=["i00"]))
    book.add([("u00", "i99")], engine)
    assert differences(engine, book.fresh()) == []
