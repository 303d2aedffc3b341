"""Spectral's merge tree across changes: what is kept of it never shows, at any depth, in memory or through a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from receraser.aggregation.spectral import Spectral
from receraser.data.interactions import Interactions
from receraser.engine import Engine
from receraser.models.bpr import BPR
from receraser.models.factors import FactorModel
from receraser.models.wmf import WMF
from receraser.partition.hashed import Hashed
from tests.contracts.worlds import blocks
from tests.forgetting.engines import Here

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
