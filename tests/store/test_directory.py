from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from receraser.errors import StoreError, StoreNotFoundError
from receraser.fingerprint import canonical_json, of_bytes
from receraser.proof.manifest import written
from receraser.store import directory
from receraser.store.directory import FORMAT, DirectoryStore


@pytest.fixture
def store(place: Path) -> DirectoryStore:
    return DirectoryStore(place)


def publish(store: DirectoryStore, *contents: bytes, keep_old: bool = False, **more: object) -> dict[str, int]:
    with store.writing():
        files = {store.put(data): len(data) for data in contents}
        store.commit({"files": files, **more}, keep_old=keep_old)
    return files


def names(store: DirectoryStore) -> set[str]:
    return {path.name for path in (store.path / "files").iterdir()}


def write_manifest(store: DirectoryStore, body: dict[str, object]) -> None:
    whole = body | {"checksum": of_bytes(canonical_json(body))}
    (store.path / "manifest.json").write_bytes(canonical_json(whole) + b"\n")


def test_making_the_object_touches_nothing(store: DirectoryStore) -> None:
    assert not store.path.exists()
    assert not store.exists()


def test_what_is_published_is_found(store: DirectoryStore) -> None:
    files = publish(store, b"rows", b"weights", word="ü")
    assert store.exists()
    assert store.manifest() == {"files": files, "word": "ü", "format": FORMAT, "previous": None}
    assert {store.get(name) for name in files} == {b"rows", b"weights"}
    assert all(name == of_bytes(store.get(name)) for name in files)
    assert sorted(path.name for path in store.path.iterdir()) == ["files", "lock", "manifest.json"]
    assert (store.path / "lock").read_bytes() == b""


def test_the_same_content_is_the_same_bytes(place: Path) -> None:
    for name in ("a", "b"):
        publish(DirectoryStore(place / name), b"rows", b"weights", one=1.5, two=[None, True])
    assert (place / "a" / "manifest.json").read_bytes() == (place / "b" / "manifest.json").read_bytes()


def test_threads_may_put_the_same_content_at_a_time(store: DirectoryStore) -> None:
    contents = [bytes([k % 3]) * 200_000 for k in range(24)]
    with store.writing():
        with ThreadPoolExecutor(8) as pool:
            put = list(pool.map(store.put, contents))
        store.commit({"files": dict(zip(put, map(len, contents), strict=True))})
    assert names(store) == set(put) == {of_bytes(one) for one in contents}
    assert all(store.get(name) == data for name, data in zip(put, contents, strict=True))


def test_a_store_may_be_moved(store: DirectoryStore, tmp_path: Path) -> None:
    files = publish(store, b"rows")
    store.path.rename(tmp_path / "elsewhere")
    moved = DirectoryStore(tmp_path / "elsewhere")
    assert [moved.get(name) for name in files] == [b"rows"]


def test_publishing_destroys_what_is_no_longer_named(store: DirectoryStore) -> None:
    first = publish(store, b"old", b"kept")
    second = publish(store, b"new", b"kept")
    assert names(store) == set(second)
    assert not set(first) - set(second) & names(store)


def test_publishing_may_keep_what_was_there(store: DirectoryStore) -> None:
    first = publish(store, b"old", b"shared", word="first")
    manifest = (store.path / "manifest.json").read_bytes()
    second = publish(store, b"new", b"shared", keep_old=True, word="second")
    assert store.manifest() == {
        "files": second,
        "word": "second",
        "format": FORMAT,
        "previous": {"manifest": of_bytes(manifest), "files": sorted(first)},
    }
    assert names(store) == {*first, *second, of_bytes(manifest)}
    assert store.get(of_bytes(manifest)) == manifest
    assert store.strays(store.manifest()) == []
    third = publish(store, b"third")
    assert store.manifest()["previous"] is None
    assert names(store) == set(third)


def test_what_is_kept_keeps_what_it_kept(store: DirectoryStore) -> None:
    publish(store, b"one")
    publish(store, b"two", keep_old=True)
    before = names(store)
    publish(store, b"three", keep_old=True)
    assert before < names(store)
    assert len(names(store)) == 5, "three files and two manifests"
    (store.path / "files" / of_bytes(b"stray")).write_bytes(b"stray")
    assert store.strays(store.manifest()) == [f"files/{of_bytes(b'stray')}"]


def test_a_damaged_manifest_cannot_be_kept(store: DirectoryStore) -> None:
    publish(store, b"one")
    (store.path / "manifest.json").write_text("{}")
    with pytest.raises(StoreError, match="damaged"):
        publish(store, b"two", keep_old=True)
    publish(store, b"two")
    assert names(store) == {of_bytes(b"two")}


def test_leftovers_of_an_interrupted_write_go_with_the_next(store: DirectoryStore) -> None:
    publish(store, b"old")
    with store.writing():
        store.put(b"never published")
    assert len(names(store)) == 2
    (store.path / "files" / ("0" * 64 + ".new")).write_bytes(b"half")
    assert len(store.strays(store.manifest())) == 2
    files = publish(store, b"new")
    assert names(store) == set(files)
    assert store.strays(store.manifest()) == []


def test_sweeping_removes_what_the_manifest_does_not_name(store: DirectoryStore) -> None:
    """As after a write that was interrupted before, or right after, the manifest was swapped."""
    publish(store, b"old")
    files = publish(store, b"new", keep_old=True)
    before = names(store)
    with store.writing():
        store.put(b"superseded")
        (store.path / "manifest.json.new").write_bytes(b"half")
        manifest = (store.path / "manifest.json").read_bytes()
        store.sweep()
        store.sweep()
    assert names(store) == before > set(files), "what is kept on purpose stays"
    assert store.strays(store.manifest()) == []
    assert (store.path / "manifest.json").read_bytes() == manifest


def test_strays_are_found(store: DirectoryStore) -> None:
    publish(store, b"rows")
    (store.path / "notes.txt").write_text("hello")
    (store.path / "files" / "more").write_text("hello")
    assert store.strays(store.manifest()) == ["files/more", "notes.txt"]


def test_a_damaged_file_is_written_again(store: DirectoryStore) -> None:
    files = publish(store, b"rows")
    (name,) = files
    (store.path / "files" / name).write_bytes(b"rowz")
    publish(store, b"rows")
    assert store.get(name) == b"rows"


def test_what_cannot_be_removed_is_named(store: DirectoryStore) -> None:
    publish(store, b"old")
    (store.path / "files" / "in the way").mkdir()
    with pytest.raises(StoreError, match=r"the store is published, but .*in the way cannot be removed"):
        publish(store, b"new")
    assert names(store) == {of_bytes(b"new"), "in the way"}


# ---------------------------------------------------------------------- what is refused


def test_no_store(store: DirectoryStore, tmp_path: Path) -> None:
    with pytest.raises(StoreNotFoundError, match=r"there is no store in .*; make one with: receraser fit DATA --store"):
        store.manifest()
    store.path.mkdir()
    with pytest.raises(StoreNotFoundError):
        store.manifest()
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreNotFoundError, match="a store is a directory"):
        DirectoryStore(tmp_path / "file").manifest()
    with pytest.raises(StoreNotFoundError, match="cannot be opened: File name too long"):
        DirectoryStore(tmp_path / ("x" * 5000)).manifest()
    assert StoreNotFoundError.exit_code == 2


def test_a_half_written_store(store: DirectoryStore) -> None:
    with store.writing():
        store.put(b"rows")
    with pytest.raises(StoreError, match="half-written: a fit did not finish there; run it again with --replace"):
        store.manifest()
    for replace in (False, True):
        store.check_free(replace=replace)
    assert names(store)
    files = publish(store, b"other")
    assert names(store) == set(files)


@pytest.mark.parametrize("name", ["", "x", "../manifest.json", "A" * 64, "0" * 63, "0" * 65, "a\0b"])
def test_a_file_is_named_by_a_digest(store: DirectoryStore, name: str) -> None:
    publish(store, b"rows")
    with pytest.raises(StoreError, match="names no file of a store"):
        store.get(name)


def test_a_missing_or_changed_file_is_named(store: DirectoryStore) -> None:
    (name,) = publish(store, b"rows")
    path = store.path / "files" / name
    path.write_bytes(b"rows ")
    with pytest.raises(StoreError, match=f"damaged: the content of .*{name} is not what it was written with"):
        store.get(name)
    path.unlink()
    with pytest.raises(StoreError, match=rf"damaged: .*{name} cannot be read \(No such file or directory\)"):
        store.get(name)
    path.mkdir()
    with pytest.raises(StoreError, match="Is a directory"):
        store.get(name)


def test_a_manifest_is_checked_once_and_anew_when_it_has_other_bytes(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(store, b"rows", word="one")
    checked: list[bytes] = []

    def counted(body: Mapping[str, object]) -> bytes:
        checked.append(written(body))
        return checked[-1]

    monkeypatch.setattr(directory, "written", counted)
    first = DirectoryStore(store.path)
    assert first.manifest() == first.manifest()
    assert len(checked) == 1
    first.manifest()["word"] = "changed by whoever asked"
    assert first.manifest()["word"] == "one"
    write_manifest(store, {**first.manifest(), "word": "two"})
    assert first.manifest()["word"] == "two"
    assert len(checked) == 2


def test_every_byte_of_the_manifest_is_covered(store: DirectoryStore) -> None:
    publish(store, b"rows", word="ü", numbers=[1, 2.5], nothing=None)
    path = store.path / "manifest.json"
    whole = path.read_bytes()
    for position in range(len(whole)):
        for other in (whole[position] ^ 1, whole[position] ^ 0x20, ord(" "), ord("\n")):
            if other != whole[position]:
                path.write_bytes(whole[:position] + bytes([other]) + whole[position + 1 :])
                with pytest.raises(StoreError, match=r"manifest\.json is damaged|has format"):
                    store.manifest()
    for position in range(len(whole)):
        path.write_bytes(whole[:position])
        with pytest.raises(StoreError, match=r"manifest\.json is damaged"):
            store.manifest()
    path.write_bytes(whole + b"\n")
    with pytest.raises(StoreError, match=r"manifest\.json is damaged"):
        store.manifest()
    path.write_bytes(whole)
    assert store.manifest()["word"] == "ü"


@pytest.mark.parametrize("text", [b"", b"[]", b"3", b"null", b"{}", b"[" * 100_000, b'{"checksum": 1}', b"\xff\xfe"])
def test_what_is_no_manifest_is_refused(store: DirectoryStore, text: bytes) -> None:
    publish(store, b"rows")
    (store.path / "manifest.json").write_bytes(text)
    with pytest.raises(StoreError, match=r"manifest\.json is damaged"):
        store.manifest()


def test_another_format_is_refused_by_number(store: DirectoryStore) -> None:
    publish(store, b"rows")
    write_manifest(store, store.manifest() | {"format": FORMAT + 1})
    with pytest.raises(StoreError, match=f"has format {FORMAT + 1}; this version reads format {FORMAT}"):
        store.manifest()


# ---------------------------------------------------------------------- where a store may be made


def test_a_free_place(store: DirectoryStore) -> None:
    store.check_free(replace=False)
    DirectoryStore(store.path / "deep" / "down").check_free(replace=False)
    assert not store.path.exists()
    store.path.mkdir()
    store.check_free(replace=False)


def test_a_place_that_is_taken(store: DirectoryStore) -> None:
    publish(store, b"rows")
    with pytest.raises(StoreError, match=r"there is a store in .* already; use --replace to destroy it"):
        store.check_free(replace=False)
    store.check_free(replace=True)
    (store.path / "manifest.json").write_text("damaged")
    store.check_free(replace=True)


def test_a_folder_of_something_else(store: DirectoryStore) -> None:
    store.path.mkdir()
    (store.path / "thesis.tex").write_text("")
    for replace in (False, True):
        with pytest.raises(StoreError, match="is not empty and holds no store; choose another folder"):
            store.check_free(replace=replace)


def test_places_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StoreError, match=r"cannot hold a store: .*file is a file"):
            DirectoryStore(path).check_free(replace=True)
    with pytest.raises(StoreError, match="cannot hold a store: File name too long"):
        DirectoryStore(tmp_path / ("x" * 5000)).check_free(replace=False)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(StoreError, match="cannot be written"):
        DirectoryStore(tmp_path / "new").check_free(replace=False)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"), DirectoryStore(tmp_path / "file").writing():
        pass


def test_a_full_disk(store: DirectoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    files = publish(store, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match="cannot be written: No space left on device"):
            publish(store, b"new")
    assert names(store) == set(files)
    assert store.manifest()["files"] == files


# ---------------------------------------------------------------------- the lock


def test_one_writer_at_a_time(store: DirectoryStore) -> None:
    other = DirectoryStore(store.path)
    with store.writing(), pytest.raises(StoreError, match="is being written by another process"), other.writing():
        pass
    with other.writing():
        pass


def test_the_lock_is_released_when_writing_fails(store: DirectoryStore) -> None:
    with pytest.raises(ZeroDivisionError), store.writing():
        raise ZeroDivisionError
    with store.writing():
        pass


def test_somebody_elses_lock_is_respected(store: DirectoryStore) -> None:
    publish(store, b"old")
    with (store.path / "lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match="is being written by another process"):
            publish(store, b"new")
        assert store.manifest()["files"] == {of_bytes(b"old"): 3}  # readers do not wait
    publish(store, b"new")
