"""What must be on disk before what: a kill cannot show it, since the system keeps what a dead process wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path, PurePath

import pytest

from receraser.keys import flush_folder
from receraser.store import directory, snapshot
from receraser.store.directory import DirectoryStore
from tests.durability.scenes import SCENES, SWAP, Scene, keyring_of, rehearsed
from tests.durability.traps import Step

each = pytest.mark.parametrize("scene", SCENES, ids=str)


def steps_of(scene: Scene, folder: Path) -> list[Step]:
    root = folder / "root"
    root.mkdir()
    keyring_of(root).signing()
    for act in scene.before:
        act(root)
    return rehearsed(root, scene.act)


def faults(steps: Sequence[Step]) -> list[str]:
    """Where the power could go out and leave something else than the old state or the new one.

    A file's bytes are on disk once it is flushed, a name once the folder is flushed that it is in. The store's files
    are written several at a time: one of them may get its name while another is not on disk yet, but not the manifest.
    """
    bytes_at_risk: set[str] = set()
    names_at_risk: dict[str, set[str]] = {}  # by folder
    found = []

    def named(path: str) -> None:
        names_at_risk.setdefault(str(PurePath(path).parent), set()).add(path)

    swapped = False
    for number, one in enumerate(steps):
        where = f"step {number} ({one})"
        if one.call in ("write", "truncate"):
            bytes_at_risk.add(one.path)
        elif one.call == "flush":
            bytes_at_risk.discard(one.path)
            names_at_risk.pop(one.path, None)
        elif one.call in ("replace", "link") and (missed := _missed(one, bytes_at_risk)):
            found.append(f"{where}: not flushed: {sorted(missed)}")
        if str(one) == SWAP:
            swapped = True
            waiting = {path for paths in names_at_risk.values() for path in paths}
            waiting -= {"store/manifest.json.new", "store/lock"}  # the latter is nobody's loss
            found += [f"{where}: the name of {path} is not on disk" for path in sorted(waiting)]
        destroys = one.call == "unlink" and not one.path.endswith((".new", ".pem")) and one.path.startswith("store")
        if destroys and swapped and "store/manifest.json" in names_at_risk.get("store", ()):
            found.append(f"{where}: destroyed before what takes its place is on disk")
        if one.call in ("replace", "link", "unlink", "mkdir", "open"):
            if one.call == "open" and one.path.startswith("store/files") and "store/pending" in names_at_risk:
                found.append(f"{where}: work is published, and the request is not on disk")
            named(one.path)
    found += [f"never flushed: {path}" for path in sorted(bytes_at_risk)]
    return found + [f"the end of {path} is not on disk" for path in sorted(_destroyed(steps, names_at_risk))]


def _missed(step: Step, bytes_at_risk: set[str]) -> set[str]:
    """What should have been on disk before a file gets its name."""
    if not step.path.startswith("store/files/"):
        return bytes_at_risk
    return {path for path in bytes_at_risk if path == f"{step.path}.new" or not path.startswith("store/files/")}


def _destroyed(steps: Sequence[Step], names_at_risk: dict[str, set[str]]) -> set[str]:
    gone = {one.path for one in steps if one.call == "unlink"}
    return {path for paths in names_at_risk.values() for path in paths if path in gone and path.startswith("store")}


@each
def test_everything_is_on_disk_before_it_is_needed(scene: Scene, tmp_path: Path) -> None:
    assert faults(steps_of(scene, tmp_path)) == []


@pytest.mark.usefixtures("several_files_at_a_time")
@each
def test_everything_is_on_disk_while_several_files_are_written(scene: Scene, tmp_path: Path) -> None:
    assert faults(steps_of(scene, tmp_path)) == []


def careless_about_names(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(directory, "flush_folder", lambda path: None)


def careless_about_new_folders(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(directory, "make_folder", lambda path: path.mkdir(parents=True, exist_ok=True))


def careless_about_bytes(patch: pytest.MonkeyPatch) -> None:
    def write(self: DirectoryStore, path: Path, *pieces: bytes, flush: bool = True) -> None:
        path.parent.mkdir(exist_ok=True)
        new = path.with_name(path.name + ".new")
        new.write_bytes(b"".join(pieces))
        new.replace(path)
        flush_folder(path.parent)

    patch.setattr(DirectoryStore, "_write", write)


@pytest.mark.parametrize("writers", [1, 4])
@pytest.mark.parametrize("careless", [careless_about_names, careless_about_new_folders, careless_about_bytes])
def test_carelessness_would_be_found(
    careless: Callable[[pytest.MonkeyPatch], None], writers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "_WRITTEN_AT_ONCE", writers)
    careless(monkeypatch)
    assert faults(steps_of(next(one for one in SCENES if one.name == "forget"), tmp_path)) != []
