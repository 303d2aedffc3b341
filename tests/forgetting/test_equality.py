"""The heart: what is left after forgetting is, bit for bit, what somebody has who never saw what is gone."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from receraser.engine import Engine
from receraser.erasure.request import ForgetRequest
from receraser.methods import METHODS
from receraser.models.registry import FACTOR_MODELS, MODELS
from tests.forgetting.engines import (
    COMBINATIONS,
    EVERY_METHOD,
    ONE_OF_EACH_PARTITION,
    Book,
    Combination,
    Here,
    Pair,
    differences,
    rows_of,
    state_of,
    told,
)
from tests.forgetting.stories import Story, requests, rows, stories
from tests.nightly import examples

each = pytest.mark.parametrize("combination", COMBINATIONS, ids=str)
each_partition = pytest.mark.parametrize("combination", ONE_OF_EACH_PARTITION, ids=str)


def fitted(combination: Combination, story: Story, executor: Here | None = None) -> tuple[Engine, Book]:
    valid = None if story.valid is None else rows_of(story.valid)
    engine = combination.engine(executor).fit(rows_of(story.train), valid=valid)
    return engine, Book(combination, engine, story.train, story.valid)


def live(story: Story, engine: Engine, book: Book) -> None:
    """Let everything happen, and look at every report."""
    for step in story.steps:
        untouched = {one.shard.id: one for one in state_of(engine).shards}
        if isinstance(step, ForgetRequest):
            planned = engine.forget_request(step, dry_run=True)
            report = engine.forget_request(step)
            assert planned == report
            assert told(report) == book.forget(step)
            retrained = report.shards_retrained
        else:
            added = engine.add(rows_of(step))
            assert {key: getattr(added, key) for key in book_keys} == book.add(step, engine)
            retrained = added.shards_retrained
        for one in state_of(engine).shards:
            assert (one is untouched[one.shard.id]) == (one.shard.id not in retrained)


book_keys = ("rows_added", "rows_held", "valid_rows_moved", "shards_retrained", "path")


def again(engine: Engine, executor: Here | None = None) -> Engine:
    """A fresh fit of an export."""
    with tempfile.TemporaryDirectory() as folder:
        engine.export(Path(folder, "export"))
        return Engine.fit_export(Path(folder, "export"), executor=executor or Here())


def test_every_method_and_every_model_is_among_them() -> None:
    assert {(one.config().partition, one.config().aggregation, one.model) for one in EVERY_METHOD} == {
        (method.partition, method.aggregation, model)
        for method in METHODS.values()
        for model in (MODELS if method.name == "retrain" else FACTOR_MODELS)
    }


@each
@given(story=stories(), backwards=st.booleans(), threads=st.permutations([1, 2]))
@settings(max_examples=examples(2, 12))
def test_forgetting_equals_never_having_seen(
    combination: Combination, story: Story, backwards: bool, threads: list[int]
) -> None:
    """With one thread here and two over there, or the other way round, for every model (in shards: `test_workers`)."""
    if combination.partition != "whole":
        threads = [1, 1]  # two that wait for each other take their time
    engine, book = fitted(combination, story, Here(backwards=backwards, threads=threads[0]))
    live(story, engine, book)
    other = Here(backwards=not backwards, threads=threads[1])
    assert differences(engine, book.fresh(other)) == []
    assert differences(engine, again(engine, other)) == []
    assert engine.level == ("L1" if combination.remembers_data and book.changed else "L3")
    assert engine.titles == {}


@each_partition
@given(story=stories(), order=st.randoms(use_true_random=False))
@settings(max_examples=examples(3, 16))
def test_a_batch_is_its_requests_one_by_one_in_any_order(
    combination: Combination, story: Story, order: random.Random
) -> None:
    batch = ForgetRequest()
    for step in story.steps:
        batch |= step if isinstance(step, ForgetRequest) else ForgetRequest.of(interactions=step)
    alone = [ForgetRequest.of(users=[one]) for one in batch.users]
    alone += [ForgetRequest.of(items=[one]) for one in batch.items]
    alone += [ForgetRequest.of(interactions=[one]) for one in batch.interactions]
    order.shuffle(alone)
    together, _ = fitted(combination, story)
    report = together.forget_request(batch)
    apart, _ = fitted(combination, story)
    reports = [apart.forget_request(one) for one in alone]
    assert differences(together, apart) == []
    assert sum(one.rows_removed for one in reports) == report.rows_removed
    assert sum(one.valid_rows_removed for one in reports) == report.valid_rows_removed
    assert {shard for one in reports for shard in one.shards_retrained} == set(report.shards_retrained)
    assert together.level == apart.level
    again_the_same = together.forget_request(batch)
    assert (again_the_same.rows_removed, again_the_same.shards_retrained) == (0, ())
    assert differences(together, apart) == []


@each_partition
@given(story=stories(adds=False), new=rows(least=1, most=8))
@settings(max_examples=examples(3, 16))
def test_rows_that_come_and_go_leave_no_trace(combination: Combination, story: Story, new: frozenset[Pair]) -> None:
    engine, book = fitted(combination, story)
    live(story, engine, book)
    before, digest = state_of(engine), engine.digest
    new = new - set(book.train) - set(book.valid or {})
    engine.add(rows_of(new))
    assert (engine.digest == digest) == (not new)
    engine.forget(interactions=new)
    assert engine.digest == digest
    assert state_of(engine).train == before.train
    assert differences(engine, book.fresh()) == []


@each_partition
@given(story=stories(adds=False), request=requests())
@settings(max_examples=3)
def test_forgetting_is_the_same_after_a_rebuild(combination: Combination, story: Story, request: ForgetRequest) -> None:
    """A rebuild is a fit of the survivors, whatever was there before; and forgetting goes on from there."""
    engine, book = fitted(combination, story)
    live(story, engine, book)
    executor = Here(backwards=True)
    rebuilt = engine.rebuild()
    assert differences(rebuilt, book.rebuilt(executor)) == []
    assert rebuilt.level == "L3"
    new = Book(combination, rebuilt, book.train, book.valid)
    assert told(rebuilt.forget_request(request)) == new.forget(request)
    assert differences(rebuilt, new.fresh(executor)) == []
