from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from receraser.config import EngineConfig, resolve
from receraser.data.interactions import Interactions
from receraser.errors import StoreError
from receraser.fingerprint import of_tensors
from receraser.partition.partition import Partition
from receraser.state import State
from receraser.store import directory
from receraser.store import snapshot as snapshot_module
from receraser.store.directory import DirectoryStore
from receraser.store.encoding import encode_rows
from receraser.store.record import Record
from receraser.store.snapshot import Snapshot, encode_ahead, read_snapshot, write_snapshot
from tests.store.conftest import SHARDS, changed, fitted_shard, snapshot_of, state_of
from tests.store.test_directory import names, write_manifest


def publish(store: DirectoryStore, snapshot: Snapshot, *, keep_old: bool = False, checked: bool = False) -> None:
    with store.writing():
        write_snapshot(store, snapshot, keep_old=keep_old, checked=checked)


@pytest.fixture
def store(place: Path) -> DirectoryStore:
    store = DirectoryStore(place)
    publish(store, snapshot_of("a"))
    return store


def same(one: Snapshot, other: Snapshot) -> bool:
    """Equal in all that is digested, and in all that is only for people."""
    assert one.state.digest == other.state.digest
    assert one.state.train == other.state.train
    assert one.state.valid == other.state.valid
    assert one.state.partition.train.tolist() == other.state.partition.train.tolist()
    assert of_tensors(one.state.aggregate) == of_tensors(other.state.aggregate)
    for mine, theirs in zip(one.state.shards, other.state.shards, strict=True):
        assert of_tensors(mine.model.state()) == of_tensors(theirs.model.state())
        assert (mine.report, mine.facts, mine.seconds) == (theirs.report, theirs.facts, theirs.seconds)
    plain = ("config", "environment", "inherited", "level", "aggregate_facts", "seconds")
    assert [getattr(one.state, name) for name in plain] == [getattr(other.state, name) for name in plain]
    return all(getattr(one, name) == getattr(other, name) for name in ("titles", "key_check", "public_key"))


@pytest.mark.parametrize("valid", [True, False])
@pytest.mark.parametrize("inherited", [True, False])
def test_it_comes_back_as_it_was(place: Path, valid: bool, inherited: bool) -> None:
    """Several shards, one of them empty."""
    snapshot = snapshot_of(valid=valid)
    snapshot = replace(snapshot, state=replace(snapshot.state, inherited=inherited))
    publish(DirectoryStore(place), snapshot)
    found = read_snapshot(DirectoryStore(place))
    assert found.state.partition.n_shards == SHARDS
    assert same(found, snapshot)
    assert found.state.level == ("L1" if inherited else "L3")


def test_all_that_may_be_missing_may_be_missing(place: Path) -> None:
    """No titles, no landmarks, nothing learned by the aggregation, no rows, seconds nobody has taken."""
    config = resolve(EngineConfig(model="bpr", partition="hash", aggregation="mean", shards=2, device="cpu"))
    none = Interactions.empty()
    partition = Partition(2, np.empty(0, dtype=np.int32), None)
    shards = [replace(fitted_shard(shard, 0.0, config), seconds=None) for shard in partition.shards(none, None)]
    state = State(config, none, None, partition, shards, {}, {})
    store = DirectoryStore(place)
    publish(store, Snapshot(state, {}, "", public_key=False))
    found = read_snapshot(store)
    assert same(found, Snapshot(state, {}, "", public_key=False))
    manifest = store.manifest()
    assert [manifest[key] for key in ("titles", "landmarks", "previous")] == [None, None, None]
    assert manifest["aggregate"] == {"files": {}, "facts": {}}


def test_a_table_of_validation_rows_without_rows_is_not_none(place: Path) -> None:
    state = state_of()
    held = Interactions.empty()
    partition = replace(state.partition, valid=np.empty(0, dtype=np.int32))
    shards = [fitted_shard(shard, 1.0) for shard in partition.shards(state.train, held)]
    state = replace(state, valid=held, partition=partition, shards=shards)
    publish(DirectoryStore(place), Snapshot(state, {}, "", public_key=True))
    found = read_snapshot(DirectoryStore(place)).state
    assert found.valid == held
    assert found.digest == state.digest


def test_the_same_snapshot_is_the_same_bytes(store: DirectoryStore, tmp_path: Path) -> None:
    other = DirectoryStore(tmp_path / "other")
    publish(other, read_snapshot(store))
    assert (other.path / "manifest.json").read_bytes() == (store.path / "manifest.json").read_bytes()
    assert names(other) == names(store)


def test_rows_encoded_ahead_are_the_same_bytes(store: DirectoryStore, tmp_path: Path) -> None:
    """And are not kept when they are written."""
    ahead = DirectoryStore(tmp_path / "ahead")
    snapshot = snapshot_of("a")
    shards = [one.shard for one in snapshot.state.shards]
    encode_ahead(shards)
    assert all(set(one.files) == {"train", "valid"} for one in shards)
    publish(ahead, snapshot)
    assert all(one.files == {} for one in shards)
    assert names(ahead) == names(store)


def test_what_was_read_knows_which_state_it_was(store: DirectoryStore) -> None:
    first = read_snapshot(store).version
    assert first == store.version() == read_snapshot(store).version
    store.swap({**store.manifest(), "record": Record().as_dict()})
    assert store.version() == first, "what happened is no part of a state"
    publish(store, snapshot_of("b"))
    assert read_snapshot(store).version == store.version() != first


def test_a_row_in_two_shards_is_refused(store: DirectoryStore) -> None:
    held = read_snapshot(store)
    both = fitted_shard(replace(held.state.shards[1].shard, train=held.state.train), 1.0)
    publish(store, replace(held, state=replace(held.state, shards=[held.state.shards[0], both, held.state.shards[2]])))
    with pytest.raises(StoreError, match="a row stands twice"):
        read_snapshot(store)


def test_replacing_leaves_nothing_of_the_old(store: DirectoryStore) -> None:
    old = names(store)
    publish(store, snapshot_of("b"))
    assert same(read_snapshot(store), snapshot_of("b"))
    # the empty shard's table is the same file in both, and so are its weights
    assert len(old & names(store)) == 2


def test_the_digest_is_compared(store: DirectoryStore) -> None:
    write_manifest(store, store.manifest() | {"digest": "b" * 64})
    with pytest.raises(StoreError, match=r"does not give the digest in its manifest \(.*expected bbbbbbbbbbbb"):
        read_snapshot(store)


# ---------------------------------------------------------------------- shards that have not changed


def files_of(store: DirectoryStore, number: int) -> dict[str, tuple[int, int]]:
    """The files of a shard, with what changes when they are written again."""
    shards = store.manifest()["shards"]
    assert isinstance(shards, list)
    paths = [store.path / "files" / name for name in shards[number]["files"].values() if name is not None]
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths}


@pytest.mark.parametrize("read", [True, False])
def test_files_of_unchanged_shards_are_not_written_again(store: DirectoryStore, read: bool) -> None:
    """Neither those of a state that was read from here, nor those that would be made anew with the same content."""
    before = [files_of(store, k) for k in range(SHARDS)]
    held = read_snapshot(store) if read else snapshot_of("a")
    publish(store, replace(held, state=changed(held.state, 1, 7.0)))
    after = [files_of(store, k) for k in range(SHARDS)]
    assert after[0] == before[0]
    assert after[2] == before[2]
    gone = set(before[1]) - set(after[1])
    assert len(gone) == 1, "the weights; its rows are what they were"
    assert not gone & names(store)
    assert read_snapshot(store).state.digest == changed(state_of("a"), 1, 7.0).digest


def test_files_of_unchanged_shards_are_not_even_encoded(store: DirectoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that their names stay, also where another version would write the same rows in another way."""
    held = read_snapshot(store)
    encoded: list[int] = []

    def counted(rows: Interactions) -> bytes:
        encoded.append(len(rows))
        return encode_rows(rows)

    monkeypatch.setattr(snapshot_module, "encode_rows", counted)
    publish(store, replace(held, state=changed(held.state, 1, 7.0)))
    (train, valid) = (held.state.shards[1].shard.train, held.state.shards[1].shard.valid)
    assert valid is not None
    assert encoded == [len(train), len(valid)]


def test_files_in_another_store_are_written(store: DirectoryStore, tmp_path: Path) -> None:
    other = DirectoryStore(tmp_path / "other")
    publish(other, snapshot_of("b"))
    publish(other, read_snapshot(store))
    assert same(read_snapshot(other), snapshot_of("a"))
    assert names(other) == names(store)


def test_a_file_that_was_cut_short_meanwhile_is_written_again(store: DirectoryStore) -> None:
    held = read_snapshot(store)
    for name in files_of(store, 0):
        path = store.path / "files" / name
        path.write_bytes(path.read_bytes()[:10])
    publish(store, held)
    assert same(read_snapshot(store), snapshot_of("a"))


def test_a_byte_that_was_changed_meanwhile_is_noticed_at_the_next_opening(store: DirectoryStore) -> None:
    """Whoever has opened the store does not read untouched files again for every change."""
    held = read_snapshot(store)
    path = store.path / "files" / min(files_of(store, 0))
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    publish(store, held, checked=True)
    with pytest.raises(StoreError, match="is not what it was written with"):
        read_snapshot(store)


def test_a_byte_that_was_changed_before_is_written_again(store: DirectoryStore) -> None:
    """Of a store that was not opened, nobody knows that its files are whole."""
    held = read_snapshot(store)
    path = store.path / "files" / min(files_of(store, 0))
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    publish(store, held)
    assert same(read_snapshot(store), snapshot_of("a"))


# ---------------------------------------------------------------------- keeping the old state


def previous(store: DirectoryStore) -> Mapping[str, object]:
    kept = store.manifest()["previous"]
    assert isinstance(kept, dict)
    return kept


def test_the_old_state_may_be_kept(store: DirectoryStore) -> None:
    old, manifest = names(store), (store.path / "manifest.json").read_bytes()
    publish(store, snapshot_of("b"), keep_old=True)
    kept = previous(store)
    assert kept["files"] == sorted(old)
    assert store.get(str(kept["manifest"])) == manifest, "as it was, byte for byte"
    assert old < names(store)
    assert store.strays(store.manifest()) == []
    found = read_snapshot(store).state
    assert (found.level, found.kept_old) == ("L2", True)
    assert found.digest == state_of("b").digest


def test_what_was_kept_makes_the_old_store_again(store: DirectoryStore, tmp_path: Path) -> None:
    publish(store, snapshot_of("b"), keep_old=True)
    back = DirectoryStore(tmp_path / "back")
    shutil.copytree(store.path, back.path)
    (back.path / "manifest.json").write_bytes(back.get(str(previous(store)["manifest"])))
    assert same(read_snapshot(back), snapshot_of("a"))


def test_all_old_states_are_kept_until_they_are_not(store: DirectoryStore) -> None:
    first = names(store)
    publish(store, snapshot_of("b"), keep_old=True)
    second = names(store)
    publish(store, snapshot_of("c"), keep_old=True)
    assert first < second < names(store)
    assert store.strays(store.manifest()) == []
    publish(store, snapshot_of("d"))
    fresh = DirectoryStore(store.path.parent / "fresh")
    publish(fresh, snapshot_of("d"))
    assert names(store) == names(fresh), "nothing of any of them is left"
    assert (store.path / "manifest.json").read_bytes() == (fresh.path / "manifest.json").read_bytes()
    assert read_snapshot(store).state.level == "L3"


def test_what_was_kept_does_not_come_along(store: DirectoryStore, tmp_path: Path) -> None:
    """A state whose predecessor is kept in one store has none in another, and its level says so."""
    publish(store, snapshot_of("b"), keep_old=True)
    other = DirectoryStore(tmp_path / "other")
    publish(other, read_snapshot(store))
    assert other.manifest()["level"] == "L3"
    assert same(read_snapshot(other), snapshot_of("b"))


def test_there_is_nothing_to_keep_in_a_new_store(place: Path) -> None:
    publish(DirectoryStore(place), snapshot_of("a"), keep_old=True)
    assert same(read_snapshot(DirectoryStore(place)), snapshot_of("a"))


def test_strays_beside_what_is_kept(store: DirectoryStore) -> None:
    publish(store, snapshot_of("b"), keep_old=True)
    (store.path / "files" / "more").write_text("hello")
    assert store.strays(store.manifest()) == ["files/more"]


# ---------------------------------------------------------------------- damage


def positions(size: int) -> list[int]:
    return sorted({0, 1, size - 1, *range(0, size, max(1, size // 25))})


def test_any_flipped_bit_in_any_file_is_found_and_the_file_named(store: DirectoryStore) -> None:
    paths = [path for path in store.path.rglob("*") if path.is_file() and path.name != "lock"]
    assert len(paths) > SHARDS
    for path in paths:
        whole = path.read_bytes()
        for position in positions(len(whole)):
            path.write_bytes(whole[:position] + bytes([whole[position] ^ 4]) + whole[position + 1 :])
            with pytest.raises(StoreError, match=r"damaged|has format") as caught:
                read_snapshot(store)
            assert path.name in str(caught.value) or "has format" in str(caught.value)
        for size in (0, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:size])
            with pytest.raises(StoreError, match=path.name):
                read_snapshot(store)
        path.write_bytes(whole)
    assert same(read_snapshot(store), snapshot_of("a"))


def test_any_deleted_file_is_found(store: DirectoryStore, tmp_path: Path) -> None:
    for name in sorted(names(store)):
        copy = DirectoryStore(tmp_path / name[:8])
        shutil.copytree(store.path, copy.path)
        (copy.path / "files" / name).unlink()
        with pytest.raises(StoreError, match=f"damaged: .*{name} cannot be read"):
            read_snapshot(copy)
        publish(copy, snapshot_of("b"))
        assert same(read_snapshot(copy), snapshot_of("b"))
    (store.path / "manifest.json").unlink()
    with pytest.raises(StoreError, match="half-written"):
        read_snapshot(store)


def test_files_may_not_be_exchanged(store: DirectoryStore) -> None:
    first, second = sorted(names(store))[:2]
    files = store.path / "files"
    (files / first).rename(files / "x")
    (files / second).rename(files / first)
    (files / "x").rename(files / second)
    with pytest.raises(StoreError, match="is not what it was written with"):
        read_snapshot(store)


KEYS = [
    *("config", "digest", "level", "inherited", "pseudonyms", "shards", "landmarks", "aggregate", "titles"),
    *("environment", "seconds", "files", "previous"),
]
VALUES: list[object] = ["missing", None, 3, []]


@pytest.mark.parametrize(
    ("key", "value"),
    [(key, value) for key in KEYS for value in VALUES if (key, value) != ("previous", None)],
)
def test_a_manifest_that_does_not_fit_is_refused(store: DirectoryStore, key: str, value: object) -> None:
    body = store.manifest()
    if value == "missing":
        del body[key]
    else:
        body[key] = value
    write_manifest(store, body)
    with pytest.raises(StoreError, match=r"cannot be read|damaged"):
        read_snapshot(store)


def test_a_wrong_size_or_a_file_too_many_is_refused(store: DirectoryStore) -> None:
    body = store.manifest()
    files = body["files"]
    assert isinstance(files, dict)
    name = next(iter(files))
    write_manifest(store, body | {"files": files | {name: files[name] + 1}})
    with pytest.raises(StoreError, match=f"the size of {name}"):
        read_snapshot(store)
    write_manifest(store, body | {"files": files | {"0" * 64: 1}})
    with pytest.raises(StoreError, match="files that nothing refers to"):
        read_snapshot(store)


# ---------------------------------------------------------------------- crashes


class Crash(BaseException):
    """Power fails: nothing after it happens, not even cleaning up."""


def steps(monkeypatch: pytest.MonkeyPatch, crash_at: int) -> Callable[[], int]:
    """Let the n-th call to the system end the process, before or halfway through."""
    done, one_at_a_time = 0, threading.Lock()
    replace, unlink, write_bytes = Path.replace, Path.unlink, directory.DirectoryStore._write

    def counted() -> None:
        nonlocal done
        with one_at_a_time:  # files are written by several threads
            done += 1
            if done >= crash_at:
                raise Crash

    def crashing_replace(self: Path, target: Path) -> Path:
        counted()
        return replace(self, target)

    def crashing_unlink(self: Path, missing_ok: bool = False) -> None:
        counted()
        unlink(self, missing_ok)

    def crashing_fsync(_: int) -> None:
        counted()

    def half_written(self: DirectoryStore, path: Path, *pieces: bytes, flush: bool = True) -> None:
        if done + 1 == crash_at:
            path.with_name(path.name + ".new").write_bytes(pieces[-1][: len(pieces[-1]) // 2])
        counted()
        write_bytes(self, path, *pieces, flush=flush)

    monkeypatch.setattr(Path, "replace", crashing_replace)
    monkeypatch.setattr(Path, "unlink", crashing_unlink)
    monkeypatch.setattr(os, "fsync", crashing_fsync)
    monkeypatch.setattr(DirectoryStore, "_write", half_written)
    return lambda: done


def crashes(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> Iterator[int]:
    """Do something again and again, each time crashing one step later, until it comes to its end."""
    for step in range(1, 1000):
        with monkeypatch.context() as patch:
            steps(patch, step)
            try:
                act()
            except Crash:
                pass
            else:
                return
        yield step


@pytest.mark.parametrize("keep_old", [False, True])
def test_a_crash_at_any_step_leaves_the_old_state_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep_old: bool
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # slow, and here nobody really pulls the plug
    kept = DirectoryStore(tmp_path / "kept")
    publish(kept, snapshot_of("a"))
    work = DirectoryStore(tmp_path / "work")
    shutil.copytree(kept.path, work.path)
    seen = []
    for _ in crashes(monkeypatch, lambda: publish(work, snapshot_of("b"), keep_old=keep_old)):
        found = read_snapshot(work)
        expected = snapshot_of(found.key_check)
        if keep_old and found.key_check == "b":
            expected = replace(expected, state=replace(expected.state, kept_old=True))
            assert names(kept) < names(work)
        assert same(found, expected)
        seen.append(found.key_check)
        publish(work, snapshot_of("c"))  # the next writer cleans up
        assert same(read_snapshot(work), snapshot_of("c"))
        assert work.strays(work.manifest()) == []
        shutil.rmtree(work.path)
        shutil.copytree(kept.path, work.path)
    assert seen == sorted(seen)  # once new, never old again
    assert seen.count("a") > 20
    assert seen.count("b") > (0 if keep_old else 3)


def test_a_crash_while_a_first_store_is_written_is_recognised(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    published = False
    for _ in crashes(monkeypatch, lambda: publish(DirectoryStore(place), snapshot_of("b"))):
        store = DirectoryStore(place)
        if store.exists():
            assert same(read_snapshot(store), snapshot_of("b"))
            published = True
        else:
            assert not published
            with pytest.raises(StoreError, match="half-written"):
                read_snapshot(store)
        publish(store, snapshot_of("c"))
        assert store.strays(store.manifest()) == []
        shutil.rmtree(place)
    assert published


def test_whoever_reads_while_another_publishes_sees_one_state(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    get = DirectoryStore.get
    others = iter("bcd")

    def overtaken(self: DirectoryStore, name: str) -> bytes:
        word = next(others, None)
        if word is not None:
            with monkeypatch.context() as patch:
                patch.setattr(DirectoryStore, "get", get)
                publish(store, snapshot_of(word))
        return get(self, name)

    monkeypatch.setattr(DirectoryStore, "get", overtaken)
    assert same(read_snapshot(store), snapshot_of("d"))
