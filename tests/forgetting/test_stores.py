"""Forgetting in a store: what is published, what is destroyed, and that nothing else is left lying about."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from receraser.acts import Held
from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.engine import Engine
from receraser.erasure.request import ForgetRequest
from receraser.errors import KeyMismatchError, StoreError, StoreNotFoundError
from receraser.keys import PUBLIC_KEY
from receraser.models.additive import AdditiveModel
from receraser.models.factors import FactorModel
from receraser.partition.partition import Landmarks
from receraser.state import FittedShard, State
from receraser.store.directory import DirectoryStore
from tests.contracts.worlds import blocks
from tests.forgetting.engines import (
    COMBINATIONS,
    OF_SUMS,
    ONE_OF_EACH_PARTITION,
    Book,
    Combination,
    Here,
    differences,
    every_byte,
    pseudonym,
    rows_of,
    state_of,
    tensors,
)
from tests.nightly import NIGHT

USER, ITEM, TITLE = "forgotten@example.org", "the-forgotten-item", "A forgotten title"
HIDDEN, CONCEALED = "hidden@example.org", "an-item-in-validation-rows"
REQUEST = ForgetRequest.of([USER, HIDDEN], [ITEM, CONCEALED])
OTHERS = blocks(14, 12, 2)
TRAIN = [*OTHERS.train.pairs(), *((USER, f"i{n:02}") for n in range(0, 12, 3)), (USER, ITEM), ("u02", ITEM)]
VALID = [*OTHERS.held_out.pairs(), (USER, "i01"), (HIDDEN, "i02"), ("u04", CONCEALED)]

each_partition = pytest.mark.parametrize("combination", ONE_OF_EACH_PARTITION, ids=str)
PARTS = ["files", "ledger", "lock", "manifest.json", "pending"]
HASHED = Combination("hash", "static", "wmf")
DRIVEN = Combination("ubp", "attention", "wmf")
both_kinds = pytest.mark.parametrize("combination", [HASHED, DRIVEN], ids=str)


def fitted(combination: Combination) -> Engine:
    engine = combination.engine().fit(rows_of(TRAIN), valid=rows_of(VALID))
    engine.titles = {ITEM: TITLE, CONCEALED: "A concealed title", "i00": "Nought"}
    return engine


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "s"


@contextmanager
def changing(store: Path, *, keep_old: bool = False) -> Iterator[Engine]:
    with Engine.changing(store, executor=Here(), keep_old=keep_old) as engine:
        yield engine


def snapshot(store: Path) -> Mapping[str, tuple[int, int, bytes]]:
    """Every file with its inode, time and content."""
    found = {path: path.stat() for path in sorted(store.rglob("*")) if path.is_file()}
    return {str(path): (status.st_ino, status.st_mtime_ns, path.read_bytes()) for path, status in found.items()}


def manifest(store: Path) -> dict[str, object]:
    """What the manifest says, but for times and the account of what happened: nobody's rows, and never the same."""
    whole = json.loads((store / "manifest.json").read_text())
    del whole["checksum"], whole["seconds"], whole["record"]
    for shard in whole["shards"]:
        del shard["seconds"]
    assert isinstance(whole, dict)
    return whole


def names(store: Path) -> set[str]:
    return {path.name for path in (store / "files").iterdir()}


# ---------------------------------------------------------------------- what is left


@pytest.mark.parametrize("combination", COMBINATIONS if NIGHT else COMBINATIONS[::4], ids=str)
def test_a_store_is_byte_for_byte_that_of_a_fresh_fit(combination: Combination, tmp_path: Path) -> None:
    """Not only the digest: the same files, and the same manifest, but for how long it took."""
    engine = fitted(combination)
    book = Book(combination, engine, TRAIN, VALID)
    engine.save(tmp_path / "s")
    with changing(tmp_path / "s") as opened:
        opened.forget_request(REQUEST)
        opened.add(rows_of([("u05", "i02")]))
        opened.forget(interactions=[("u05", "i02"), ("u00", "i00")])
    book.forget(REQUEST)
    book.forget(ForgetRequest.of(interactions=[("u00", "i00")]))
    fresh = book.fresh()
    fresh.titles = {"i00": "Nought", ITEM: TITLE}
    fresh.save(tmp_path / "t")
    assert manifest(tmp_path / "s") == manifest(tmp_path / "t")
    assert names(tmp_path / "s") == names(tmp_path / "t")
    assert (tmp_path / "s" / "lock").read_bytes() == b""
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == PARTS
    assert list((tmp_path / "s" / "pending").iterdir()) == []
    assert differences(Engine.load(tmp_path / "s"), fresh) == []


def secrets(engine: Engine) -> list[str]:
    """Texts that must be gone: who and what was forgotten, and every digest of what held it."""
    affected = engine.forget_request(REQUEST, dry_run=True).shards_retrained
    digests = [engine.digest, *(engine.shards[k].digest for k in affected)]
    return [USER, HIDDEN, pseudonym(USER), pseudonym(HIDDEN), ITEM, CONCEALED, TITLE, "A concealed title", *digests]


def found(folder: Path, texts: list[str]) -> list[str]:
    content = every_byte(folder)
    return [one for one in texts if one.encode() in content]


def vectors(state: State) -> list[NDArray[np.generic]]:
    """What was learned of the user and of the item that are to be forgotten, wherever it stands."""
    wanted = {pseudonym(USER), ITEM}
    sides: list[tuple[IdMap, NDArray[np.generic]]] = []
    for model in (*(one.model for one in state.shards), state.scorer):
        if isinstance(model, FactorModel):
            sides += [(model.users_, model.user_vectors_), (model.items_, model.item_vectors_)]
        elif isinstance(model, AdditiveModel):
            sides += [(model.items_, table) for table in model.state().values()]
    marks = state.partition.landmarks
    if marks is not None and marks.vectors.shape[1] > 1:  # that of blpa is a number of a shard, and not one of its own
        sides.append((marks.ids, marks.vectors))
    return [table[row] for ids, table in sides for row, name in enumerate(ids) if name in wanted]


def holding(folder: Path, wanted: list[NDArray[np.generic]]) -> int:
    """Count the vectors that still stand somewhere as a row of a table."""
    tables = [one for one in tensors(folder) if one.ndim == 2 and one.dtype == np.float32]
    rows = {np.ascontiguousarray(row).tobytes() for table in tables for row in table}
    return sum(one.tobytes() in rows for one in wanted)


@pytest.mark.parametrize("combination", [*ONE_OF_EACH_PARTITION, OF_SUMS["ease"], OF_SUMS["graphfilter"]], ids=str)
def test_nothing_of_what_was_forgotten_is_left(combination: Combination, store: Path, tmp_path: Path) -> None:
    engine = fitted(combination)
    engine.save(store)
    texts, learned, files = secrets(engine), vectors(state_of(engine)), names(store)
    absent = [USER, HIDDEN, "A concealed title"]  # outside ids, and titles of items that cannot be recommended
    assert found(store, texts) == [one for one in texts if one not in absent], "this search finds what is there"
    assert holding(store, learned) == len(learned) >= (2 if combination.model in OF_SUMS else 3)
    with changing(store) as opened:
        opened.forget_request(REQUEST)
        opened.export(tmp_path / "x")
        assert ITEM not in opened.titles
    for folder in (store, tmp_path / "x"):
        assert found(folder, texts) == []
        assert holding(folder, learned) == 0
    assert len(files - names(store)) > 2
    assert found(store, sorted(files - names(store))) == [], "nor the names of the files that held it"


@pytest.mark.parametrize("leak", ["files", "landmarks", "titles"])
def test_the_search_would_find_a_leak(leak: str, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = fitted(DRIVEN)
    engine.save(store)
    texts, learned = secrets(engine), vectors(state_of(engine))
    if leak == "files":
        monkeypatch.setattr(DirectoryStore, "_purge", lambda self, paths: None)
    elif leak == "landmarks":
        monkeypatch.setattr(Landmarks, "among", lambda self, alive: self)
    else:
        monkeypatch.setattr(Held, "known_titles", property(lambda self: {ITEM: TITLE}))
    with changing(store) as opened:
        opened.forget_request(REQUEST)
    assert found(store, texts) != []
    assert (holding(store, learned) > 0) == (leak != "titles")


def test_what_comes_back_brings_no_title_and_no_landmark_along(store: Path) -> None:
    """An item that was forgotten and is added again is a new one."""
    engine = fitted(DRIVEN)
    engine.save(store)
    with changing(store) as opened:
        opened.forget_request(REQUEST)
        opened.add(rows_of([("u02", ITEM)]))
    again = Engine.load(store)
    assert ITEM in again.items
    assert again.titles == {"i00": "Nought"}
    marks = state_of(again).partition.landmarks
    assert marks is not None
    assert ITEM not in marks.ids


# ---------------------------------------------------------------------- what was interrupted


class Stop(BaseException):
    """The power goes out."""


@both_kinds
def test_what_an_interrupted_forget_left_is_destroyed_by_the_next_attempt(
    combination: Combination, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Published, but the old files are still there: asking again finds nothing held, and destroys them all the same."""
    engine = fitted(combination)
    engine.save(store)
    texts = secrets(engine)

    def stop(*_: object) -> None:
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(DirectoryStore, "_purge", stop)
        with pytest.raises(Stop), changing(store) as opened:
            opened.forget_request(REQUEST)
    assert found(store, texts) != []
    assert not Engine.load(store).knows(USER)
    with changing(store) as opened:
        assert opened.forget_request(REQUEST).shards_retrained == ()
    assert found(store, texts) == []
    assert DirectoryStore(store).strays(DirectoryStore(store).manifest()) == []


@both_kinds
@pytest.mark.parametrize("at", range(8))
def test_an_interruption_leaves_the_old_state_or_the_new_one(
    combination: Combination, at: int, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = fitted(combination)
    engine.save(store)
    before = engine.digest
    after = (engine.forget_request(REQUEST), engine.digest)[1]
    original, count = DirectoryStore._write, iter(range(100))
    written, one_at_a_time = 0, threading.Lock()

    def write(self: DirectoryStore, path: Path, *pieces: bytes, flush: bool = True) -> None:
        nonlocal written
        with one_at_a_time:  # files are written by several threads
            written += 1
            here = next(count) == at
        if here:
            path.parent.mkdir(exist_ok=True)
            path.with_name(path.name + ".new").write_bytes(pieces[-1][: len(pieces[-1]) // 2])
            raise Stop
        original(self, path, *pieces, flush=flush)

    with monkeypatch.context() as patch:
        patch.setattr(DirectoryStore, "_write", write)
        try:
            with changing(store) as opened:
                opened.forget_request(REQUEST)
        except Stop:
            assert Engine.load(store).digest == before
    with changing(store) as opened:
        assert opened.finished == int(0 < at < written), "a request that was written down is finished"
        opened.forget_request(REQUEST)
    assert Engine.load(store).digest == after
    assert DirectoryStore(store).strays(DirectoryStore(store).manifest()) == []


# ---------------------------------------------------------------------- Engine.changing


def test_nobody_else_can_write_meanwhile(store: Path) -> None:
    engine = fitted(HASHED)
    engine.save(store)
    before = snapshot(store)
    with changing(store) as opened:
        with pytest.raises(StoreError, match="is being written by another process"), changing(store):
            pass
        with pytest.raises(StoreError, match="is being written by another process"):
            engine.save(store, replace=True)
        assert Engine.load(store).digest == engine.digest, "anybody may look"
        assert snapshot(store) == before
        opened.forget(users=[USER])
        assert Engine.load(store).digest == opened.digest, "what is done is published"
    assert Engine.load(store).digest == opened.digest != engine.digest
    with changing(store):
        pass


def test_a_forget_does_not_read_again_what_it_leaves_as_it_was(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was read when the store was opened. Whoever has not opened it reads it before they rely on it."""
    fitted(HASHED).save(store)
    files, read = names(store), set()
    is_sound = DirectoryStore.is_sound

    def counted(self: DirectoryStore, name: str) -> bool:
        read.add(name)
        return is_sound(self, name)

    monkeypatch.setattr(DirectoryStore, "is_sound", counted)
    with changing(store) as opened:
        opened.forget_request(REQUEST)
    assert names(store) & files, "something was left as it was"
    assert not read
    opened.save(store, replace=True)
    assert names(store) & files <= read


def test_a_shard_is_digested_once(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not again at every later change of a store that stays open."""
    fitted(HASHED).save(store)
    digested: list[int] = []
    of_shard = FittedShard._digest

    def counted(self: FittedShard) -> str:
        digested.append(self.shard.id)
        return of_shard(self)

    with changing(store) as opened:
        monkeypatch.setattr(FittedShard, "_digest", counted)
        retrained = [k for user in ("u00", "u01", "u02", "u03") for k in opened.forget([user]).shards_retrained]
    assert len(retrained) == 4
    assert digested == retrained


@pytest.mark.parametrize(
    "what",
    ["nothing", "a dry run", "rows held already", "an empty batch"],
)
def test_where_nothing_changed_nothing_is_published(what: str, store: Path) -> None:
    fitted(HASHED).save(store)
    before = snapshot(store)
    with changing(store, keep_old=True) as opened:
        if what == "a dry run":
            opened.forget_request(REQUEST, dry_run=True)
            opened.add(rows_of([("u05", "i02")]), dry_run=True)
        elif what == "rows held already":
            opened.add(OTHERS.train)
        elif what == "an empty batch":
            opened.forget()
            opened.add(Interactions.empty())
    assert snapshot(store) == before
    assert "publish" not in opened.seconds


def test_that_nothing_was_held_is_entered_and_changes_nothing_else(store: Path) -> None:
    fitted(HASHED).save(store)
    before, files = manifest(store), names(store)
    with changing(store, keep_old=True) as opened:
        report = opened.forget(["nobody"], items=["nothing"])
    assert report.path == "nothing"
    assert manifest(store) == before
    assert names(store) == files
    lines = (store / "ledger").read_text().splitlines()
    assert [json.loads(line)["action"] for line in lines] == ["fit", "forget"]


def test_what_was_done_before_the_block_raises_is_done(store: Path) -> None:
    fitted(HASHED).save(store)

    def fail() -> None:
        with changing(store) as opened:
            opened.forget_request(REQUEST)
            raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else"):
        fail()
    with changing(store) as opened:  # the lock is free again
        assert opened.finished == 0
        assert not opened.knows(USER)


def test_there_must_be_a_store_and_the_right_key(store: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreNotFoundError, match="there is no store"), changing(store):
        pass
    assert not store.exists()
    fitted(HASHED).save(store)
    before = snapshot(store)
    with pytest.raises(KeyMismatchError), Engine.changing(store, key=PUBLIC_KEY[::-1]):
        pass
    assert snapshot(store) == before


def test_a_damaged_store_is_not_changed(store: Path) -> None:
    fitted(HASHED).save(store)
    victim = max((store / "files").iterdir(), key=lambda path: path.stat().st_size)
    victim.write_bytes(victim.read_bytes()[:-1])
    before = snapshot(store)
    with pytest.raises(StoreError, match="damaged"), changing(store):
        pass
    assert snapshot(store) == before


@both_kinds
def test_the_old_state_can_be_kept(combination: Combination, store: Path, tmp_path: Path) -> None:
    engine = fitted(combination)
    engine.save(store)
    texts = [one for one in secrets(engine) if one not in (USER, HIDDEN, "A concealed title")]
    old = names(store)
    expected = "L1" if combination.remembers_data else "L2"
    with changing(store, keep_old=True) as opened:
        opened.forget_request(REQUEST)
    assert opened.level == Engine.load(store).level == manifest(store)["level"] == expected
    assert old <= names(store)
    assert set(found(store, texts)) == set(texts)
    assert not Engine.load(store).knows(USER)
    assert DirectoryStore(store).strays(DirectoryStore(store).manifest()) == []
    with changing(store, keep_old=True):  # nothing changed: what is kept stays
        pass
    assert Engine.load(store).level == expected
    with changing(store, keep_old=True) as opened:
        opened.forget(users=["u00"])
    assert Engine.load(store).level == expected
    assert set(found(store, texts)) == set(texts), "those kept before are kept"
    shutil.copytree(store, tmp_path / "copy")
    with changing(store) as opened:
        opened.forget(users=["u01"])
    assert Engine.load(store).level == ("L1" if combination.remembers_data else "L3")
    assert found(store, texts) == []
    with changing(tmp_path / "copy") as opened:
        opened.rebuild()
    assert Engine.load(tmp_path / "copy").level == "L3"
    assert found(tmp_path / "copy", texts) == []


def test_a_copy_keeps_no_old_state(store: Path, tmp_path: Path) -> None:
    """The level is that of the store that is written, not of the one that was read."""
    engine = fitted(HASHED)
    engine.save(store)
    with changing(store, keep_old=True) as opened:
        opened.forget_request(REQUEST)
    loaded = Engine.load(store)
    assert loaded.level == "L2"
    loaded.save(tmp_path / "t")
    assert manifest(tmp_path / "t")["level"] == loaded.level == Engine.load(tmp_path / "t").level == "L3"
    assert found(tmp_path / "t", secrets(engine)) == []


@each_partition
def test_rebuild(combination: Combination, store: Path) -> None:
    """Level L3 after a forget: the state of a fit that has never seen anything else, and nothing of the old one."""
    engine = fitted(combination)
    engine.save(store)
    texts = secrets(engine)
    with changing(store) as opened:
        opened.forget_request(REQUEST)
    assert opened.level == ("L1" if combination.remembers_data else "L3")
    old = names(store)
    with changing(store) as opened:
        opened.rebuild()
    left = [
        [(user, item) for user, item in pairs if user not in REQUEST.users and item not in REQUEST.items]
        for pairs in (TRAIN, VALID)
    ]
    fresh = combination.engine().fit(rows_of(left[0]), valid=rows_of(left[1]))
    again = Engine.load(store)
    assert differences(again, fresh) == []
    assert again.level == manifest(store)["level"] == "L3"
    assert found(store, texts) == []
    assert combination.remembers_data or names(store) == old
