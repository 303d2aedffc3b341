"""What may be published over what, and which level an engine may claim meanwhile."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from receraser.aggregation.mean import Mean
from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.engine import Engine
from receraser.errors import StoreError, UsageError
from receraser.execution.local import LocalExecutor
from receraser.keys import PUBLIC_KEY
from receraser.models.wmf import WMF
from receraser.partition.balanced import UBP
from receraser.partition.hashed import Hashed
from receraser.partition.partition import Embeddings
from tests.contracts.worlds import checkerboard

SECRET = bytes(range(32))


def sharded(worker: LocalExecutor, *, key: bytes = PUBLIC_KEY) -> Engine:
    return Engine(
        model=WMF(dim=4, n_sweeps=2),
        partitioner=Hashed(n_shards=3),
        aggregator=Mean(),
        seed=1,
        key=key,
        executor=worker,
    )


@pytest.fixture
def store(worker: LocalExecutor, tmp_path: Path) -> Path:
    sharded(worker).fit(checkerboard().train).save(tmp_path / "store")
    return tmp_path / "store"


def test_a_stale_engine_does_not_bring_back_what_was_forgotten(worker: LocalExecutor, store: Path) -> None:
    early = Engine.load(store, executor=worker)
    with Engine.changing(store, executor=worker) as engine:
        engine.forget(["u03"])
    early.forget(["u04"])
    with pytest.raises(StoreError, match="has changed since it was opened here"):
        early.save(store, replace=True)
    assert not Engine.load(store).knows("u03")


@pytest.mark.parametrize("where", ["its own store", "a copy"])
def test_a_damaged_file_is_written_anew(worker: LocalExecutor, store: Path, tmp_path: Path, where: str) -> None:
    """Files that stay as they are are not written again: what is there is looked at before."""
    target = store if where == "its own store" else tmp_path / "copy"
    if target != store:
        shutil.copytree(store, target)
    engine = Engine.load(store, executor=worker)
    engine.forget(["u03"])
    engine.save(target, replace=True)
    digest = engine.digest
    for path in sorted((target / "files").iterdir()):
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(StoreError, match=f"damaged: the content of .*{path.name}"):
            Engine.load(target)
        engine.save(target, replace=True)
        assert path.read_bytes() == whole
        assert Engine.load(target).digest == digest


def test_an_engine_may_publish_over_what_it_published(worker: LocalExecutor, store: Path, tmp_path: Path) -> None:
    engine = Engine.load(store, executor=worker)
    for user in ("u03", "u04"):
        engine.forget([user])
        engine.save(store, replace=True)
    assert not Engine.load(store).knows("u04")
    engine.save(tmp_path / "elsewhere")
    sharded(worker).fit(checkerboard().train).save(store, replace=True)
    assert Engine.load(store).knows("u03"), "a new fit replaces whatever is there"


def test_a_level_is_not_claimed_before_the_store_holds_it(worker: LocalExecutor, store: Path) -> None:
    engine = Engine.load(store, executor=worker)
    assert engine.level == "L3"
    engine.forget(["u03"])
    assert engine.level == "L2", "the store still knows them"
    engine.save(store, replace=True)
    assert engine.level == Engine.load(store).level == "L3"
    fresh = sharded(worker).fit(checkerboard().train)
    fresh.forget(["u03"])
    assert fresh.level == "L3", "it was never stored"


def test_vectors_from_a_file_are_a_memory_that_a_rebuild_does_not_lose(worker: LocalExecutor, tmp_path: Path) -> None:
    rows = checkerboard().train
    pretrained = WMF(dim=3).fit(rows, seed=1)
    vectors = Embeddings(rows.users, pretrained.user_vectors_, rows.items, pretrained.item_vectors_)
    by_file = UBP(n_shards=2, embeddings="file")
    engine = Engine(model=WMF(dim=4, n_sweeps=2), partitioner=by_file, seed=1, executor=worker)
    engine.fit(rows, embeddings=vectors)
    assert engine.level == "L1"
    engine.forget(["u03"])
    engine.rebuild(embeddings=vectors)
    assert engine.level == "L1"
    engine.save(tmp_path / "store")
    assert Engine.load(tmp_path / "store").level == "L1"


def test_the_order_of_a_file_of_vectors_does_not_matter(worker: LocalExecutor) -> None:
    """Pseudonyms are ordered otherwise than ids: each must keep its own vector."""
    rows = checkerboard().train
    apart = np.array([[float(int(name[1:]) % 2), 0.0] for name in rows.users], dtype=np.float32)
    vectors = Embeddings(rows.users, apart, rows.items, np.zeros((len(rows.items), 2), dtype=np.float32))
    by_file = UBP(n_shards=2, embeddings="file")
    engine = Engine(model=WMF(dim=4, n_sweeps=2), partitioner=by_file, seed=1, executor=worker)
    engine.fit(rows, embeddings=vectors)
    assert [(shard.users, shard.items) for shard in engine.shards] == [(12, 10), (12, 10)], (
        "even and odd, as in the file"
    )


def test_a_store_opens_without_its_key_to_be_looked_at(worker: LocalExecutor, tmp_path: Path) -> None:
    made = sharded(worker, key=SECRET).fit(checkerboard().train)
    made.save(tmp_path / "store")
    engine = Engine.load(tmp_path / "store", key=None, executor=worker)
    assert engine.digest == made.digest
    engine.export(tmp_path / "export")
    engine.rebuild()
    engine.save(tmp_path / "again")
    assert Engine.load(tmp_path / "again", key=SECRET).knows("u03"), "the key is still the same one"
    for ask in (lambda: engine.knows("u03"), lambda: engine.forget(["u03"]), lambda: engine.recommend(["u03"])):
        with pytest.raises(UsageError, match="no key"):
            ask()
    fresh = Engine.fit_export(tmp_path / "export", executor=worker)
    assert fresh.digest == made.digest


def test_two_numbers_of_shards_are_refused() -> None:
    with pytest.raises(UsageError, match="4 shards were asked for, but the partitioner makes 10"):
        Engine(partitioner=UBP(n_shards=10), shards=4)


def test_rows_keep_their_labels() -> None:
    rows, labels = Interactions.labelled(
        ["b", "a"], ["y", "x"], np.array([0, 1, 1]), np.array([0, 0, 1]), np.array([7, 8, 9], dtype=np.int32)
    )
    assert rows.users == IdMap(["a", "b"])
    assert dict(zip(rows.pairs(), labels.tolist(), strict=True)) == {("b", "y"): 7, ("a", "y"): 8, ("a", "x"): 9}
    assert rows.timestamps is None
    with pytest.raises(ValueError, match="stands twice"):
        Interactions.labelled(["a"], ["x"], np.array([0, 0]), np.array([0, 0]), np.array([1, 2], dtype=np.int32))
