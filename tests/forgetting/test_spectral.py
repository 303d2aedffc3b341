"""Spectral's merge tree across changes: what is kept of it never shows, at any depth, in memory or through a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from receraser.aggregation.spectral import Spectral
from receraser.data.interactions import Interactions
from receraser.engine import Engine
from receraser.erasure.request import ForgetRequest
from receraser.models.bpr import BPR
from receraser.models.factors import FactorModel
from receraser.models.wmf import WMF
from receraser.partition.hashed import Hashed
from tests.contracts.worlds import blocks
from tests.forgetting.engines import Book, Combination, Here, Pair, differences, rows_of, state_of, told

WORLD = blocks(40, 21, 3)
MODELS: dict[str, FactorModel] = {"wmf": WMF(dim=3, n_sweeps=2), "bpr": BPR(dim=3, n_epochs=2, batch_size=16)}


def engine(model: str, n_shards: int, *, merge: str = "concat", polish: int = 0) -> Engine:
    return Engine(
        model=MODELS[model],
        partitioner=Hashed(n_shards=n_shards),
        aggregator=Spectral(rank=3, width=4, merge=merge, polish=polish),
        seed=3,
        executor=Here(),
    )


@pytest.mark.parametrize(("model", "n_shards", "merge", "polish"), [
    ("wmf", 2, "concat", 0), ("wmf", 8, "product", 0), ("wmf", 13, "concat", 1), ("bpr", 9, "product", 0)
])  # fmt: skip
def test_a_long_story_ends_as_a_fresh_fit(model: str, n_shards: int, merge: str, polish: int, tmp_path: Path) -> None:
    rows = WORLD.train
    told = engine(model, n_shards, merge=merge, polish=polish).fit(rows, valid=WORLD.held_out)
    told.save(tmp_path / "store")
    new = Interactions.from_pairs([("new", "i00"), ("new", "i99"), ("u03", "i20")])
    with Engine.changing(tmp_path / "store", executor=Here()) as held:
        for user in ("u00", "u11", "u07"):
            held.forget([user])
        held.add(new)
        held.forget(items=["i01"], interactions=[("u02", "i02"), ("new", "i99")])
    held = Engine.load(tmp_path / "store", executor=Here())
    for user in ("u31", "new", "u05"):
        held.forget([user])
    gone = {"u00", "u11", "u07", "u31", "new", "u05"}

    def left(table: Interactions) -> Interactions:
        return Interactions.from_pairs(
            (user, item)
            for user, item in table.pairs()
            if user not in gone and item != "i01" and (user, item) != ("u02", "i02")
        )

    survivors = left(Interactions.union([rows, new]))
    fresh = engine(model, n_shards, merge=merge, polish=polish).fit(
        survivors, valid=left(WORLD.held_out).without(survivors)
    )
    assert held.digest == fresh.digest
    held.save(tmp_path / "store", replace=True)
    assert Engine.load(tmp_path / "store").level == "L3"


def test_only_one_path_is_computed_and_written(tmp_path: Path) -> None:
    told = engine("wmf", 8).fit(WORLD.train)
    told.save(tmp_path / "store")
    before = {path.name for path in (tmp_path / "store" / "files").iterdir()}
    executor = Here()
    with Engine.changing(tmp_path / "store", executor=executor) as held:
        (shard,) = held.forget(["u00"]).shards_retrained
    (task,) = [one for one in executor.ran if one.kind == "aggregation"]
    sent = {name.partition(".")[0] for name in task.ids}
    assert sent == {str(shard), str(shard ^ 1)}, "the shard and its neighbour"
    assert sum(name.endswith(".items") and name.startswith("known.") for name in task.arrays) == 2, (
        "two nodes beside it"
    )
    after = {path.name for path in (tmp_path / "store" / "files").iterdir()}
    # rows and weights of the shard, item vectors, and of two nodes columns and items at most
    assert len(after - before) <= 2 + 1 + 4


@pytest.mark.parametrize("model", MODELS)
def test_what_vanishes_from_a_shard_or_from_all_of_them(model: str) -> None:
    """One step after the other, each on what the last one left: the tree that was kept is that of a fresh fit."""
    combination = Combination("hash", "spectral", model, shards=5)
    held = combination.engine().fit(WORLD.train)
    book = Book(combination, held, WORLD.train.pairs(), None)

    def step(request: ForgetRequest) -> None:
        assert told(held.forget_request(request)) == book.forget(request)
        assert differences(held, book.fresh()) == []

    def of_shard(number: int) -> list[Pair]:
        return [pair for pair, shard in book.train.items() if shard == number]

    some = of_shard(2)[0][1]
    step(ForgetRequest.of(interactions=[pair for pair in of_shard(2) if pair[1] == some]))
    assert some not in state_of(held).shards[2].model.items_
    assert some in held.items
    step(ForgetRequest.of(items=[some]))
    assert some not in held.items
    gone = of_shard(4)  # it has no neighbour at the bottom of the tree
    step(ForgetRequest.of(interactions=gone))
    assert held.shards[4].rows == 0
    step(ForgetRequest.of(interactions=of_shard(0)))
    back = gone[:3]
    assert held.add(rows_of(back)).path == "shards"
    book.add(back, held)
    assert differences(held, book.fresh()) == []


def test_directions_of_equal_weight_are_cut_alike() -> None:
    """Everybody has items of their own, and as many: the cut goes through values that differ by rounding alone."""
    rows = [(f"u{n}", f"i{n}{which}") for n in range(24) for which in "ab"]
    combination = Combination(
        "hash", "spectral", "wmf", shards=5, hyperparameters={"dim": 12, "n_sweeps": 20, "cg_steps": 8}
    )
    held = combination.engine().fit(rows_of(rows))
    book = Book(combination, held, rows, None)
    gaps = []
    for user in ("u3", "u11", "u20"):
        request = ForgetRequest.of([user])
        assert held.forget_request(request).path == "shards"
        book.forget(request)
        assert differences(held, book.fresh()) == []
        gaps.append(held.aggregate_facts["gap"])
    assert min(float(str(gap)) for gap in gaps) < 1.001
