from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from receraser.errors import StoreError
from receraser.fingerprint import of_tensors
from receraser.store import directory
from receraser.store.directory import DirectoryStore
from receraser.store.snapshot import Snapshot, read_snapshot, write_snapshot
from tests.store.conftest import SHARDS, snapshot_of
from tests.store.test_directory import names, write_manifest


@pytest.fixture
def store(place: Path) -> DirectoryStore:
    store = DirectoryStore(place)
    write_snapshot(store, snapshot_of("a"), replace=False)
    return store


def same(one: Snapshot, other: Snapshot) -> bool:
    assert list(one.train.pairs()) == list(other.train.pairs())
    assert one.partition.train.tolist() == other.partition.train.tolist()
    assert [of_tensors(weights) for weights in one.weights] == [of_tensors(weights) for weights in other.weights]
    assert (one.valid is None) == (other.valid is None)
    if one.valid is not None and other.valid is not None and other.partition.valid is not None:
        assert one.valid == other.valid
        assert one.partition.valid is not None
        assert one.partition.valid.tolist() == other.partition.valid.tolist()
    plain = ("config", "digest", "level", "key_check", "public_key", "shards", "titles", "facts", "environment")
    return all(getattr(one, name) == getattr(other, name) for name in plain)


@pytest.mark.parametrize("valid", [True, False])
def test_it_comes_back_as_it_was(place: Path, valid: bool) -> None:
    """Several shards, one of them empty: more than today's one method needs."""
    write_snapshot(DirectoryStore(place), snapshot_of(valid=valid), replace=False)
    found = read_snapshot(DirectoryStore(place))
    assert found.partition.n_shards == SHARDS
    assert same(found, snapshot_of(valid=valid))


def test_the_same_snapshot_is_the_same_bytes(store: DirectoryStore, tmp_path: Path) -> None:
    other = DirectoryStore(tmp_path / "other")
    write_snapshot(other, read_snapshot(store), replace=False)
    assert (other.path / "manifest.json").read_bytes() == (store.path / "manifest.json").read_bytes()


def test_a_snapshot_without_titles_stores_none(tmp_path: Path) -> None:
    from dataclasses import replace

    store = DirectoryStore(tmp_path / "s")
    write_snapshot(store, replace(snapshot_of(), titles={}), replace=False)
    assert store.manifest()["titles"] is None
    assert read_snapshot(store).titles == {}


def test_an_existing_store_is_refused(store: DirectoryStore) -> None:
    with pytest.raises(StoreError, match="already"):
        write_snapshot(store, snapshot_of("b"), replace=False)
    assert same(read_snapshot(store), snapshot_of("a"))


def test_replacing_leaves_nothing_of_the_old(store: DirectoryStore) -> None:
    old = names(store)
    write_snapshot(store, snapshot_of("b"), replace=True)
    assert same(read_snapshot(store), snapshot_of("b"))
    # the empty shard's table is the same file in both
    assert len(old & names(store)) == 1


def test_the_digest_is_compared() -> None:
    snapshot = snapshot_of("a")
    snapshot.check_digest(snapshot.digest)
    with pytest.raises(StoreError, match="does not give the digest in its manifest"):
        snapshot.check_digest("b" * 64)


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
        write_snapshot(copy, snapshot_of("b"), replace=True)
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


@pytest.mark.parametrize("key", ["config", "digest", "level", "pseudonyms", "shards", "titles", "environment", "files"])
@pytest.mark.parametrize("value", ["missing", None, 3, []])
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
    done = 0
    replace, unlink, write_bytes = Path.replace, Path.unlink, directory.DirectoryStore._write

    def counted() -> None:
        nonlocal done
        done += 1
        if done == crash_at:
            raise Crash

    def crashing_replace(self: Path, target: Path) -> Path:
        counted()
        return replace(self, target)

    def crashing_unlink(self: Path, missing_ok: bool = False) -> None:
        counted()
        unlink(self, missing_ok)

    def crashing_fsync(_: int) -> None:
        counted()

    def half_written(self: DirectoryStore, path: Path, data: bytes) -> None:
        if done + 1 == crash_at:
            path.with_name(path.name + ".new").write_bytes(data[: len(data) // 2])
        counted()
        write_bytes(self, path, data)

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


def test_a_crash_at_any_step_leaves_the_old_state_or_the_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = DirectoryStore(tmp_path / "kept")
    write_snapshot(kept, snapshot_of("a"), replace=False)
    work = DirectoryStore(tmp_path / "work")
    shutil.copytree(kept.path, work.path)
    seen = []
    for _ in crashes(monkeypatch, lambda: write_snapshot(work, snapshot_of("b"), replace=True)):
        found = read_snapshot(work)
        assert same(found, snapshot_of(found.key_check))
        seen.append(found.key_check)
        write_snapshot(work, snapshot_of("c"), replace=True)  # the next writer cleans up
        assert same(read_snapshot(work), snapshot_of("c"))
        assert work.strays(work.manifest()) == []
        shutil.rmtree(work.path)
        shutil.copytree(kept.path, work.path)
    assert seen == sorted(seen)  # once new, never old again
    assert seen.count("a") > 20
    assert seen.count("b") > 3


def test_a_crash_while_a_first_store_is_written_is_recognised(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published = False
    for _ in crashes(monkeypatch, lambda: write_snapshot(DirectoryStore(place), snapshot_of("b"), replace=False)):
        store = DirectoryStore(place)
        if store.exists():
            assert same(read_snapshot(store), snapshot_of("b"))
            published = True
        else:
            assert not published
            with pytest.raises(StoreError, match="half-written"):
                read_snapshot(store)
        write_snapshot(store, snapshot_of("c"), replace=True)
        assert store.strays(store.manifest()) == []
        shutil.rmtree(place)
    assert published


def test_whoever_publishes_first_wins(store: DirectoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two fits into a new store: the slower one finds it taken, though it was free when it looked first."""
    late = DirectoryStore(tmp_path / "late")
    writing = DirectoryStore.writing

    def overtaken(self: DirectoryStore) -> AbstractContextManager[None]:
        shutil.copytree(store.path, self.path)
        return writing(self)

    monkeypatch.setattr(DirectoryStore, "writing", overtaken)
    with pytest.raises(StoreError, match="already"):
        write_snapshot(late, snapshot_of("b"), replace=False)
    assert same(read_snapshot(late), snapshot_of("a"))


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
                write_snapshot(store, snapshot_of(word), replace=True)
        return get(self, name)

    monkeypatch.setattr(DirectoryStore, "get", overtaken)
    assert same(read_snapshot(store), snapshot_of("d"))
