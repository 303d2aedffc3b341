"""A process is killed at every step it takes: what it leaves is the old state or the new one, and no request is lost."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from receraser.custody import Act, Custody, Published
from receraser.store.directory import DirectoryStore
from receraser.store.history import waiting
from receraser.store.record import Record
from receraser.store.snapshot import Snapshot
from tests.durability.scenes import (
    SCENES,
    SWAP,
    Scene,
    account,
    add,
    changing,
    check_clean,
    check_intact,
    copied,
    fit,
    fit_anew,
    forget,
    keyring_of,
    rehearsed,
    store_of,
)
from tests.durability.traps import AFTER, BEFORE, Step, Trap, counts, in_a_child, no_flushing, points

EVERY = 29  # by default; all of them with the marker `nightly`

each = pytest.mark.parametrize("scene", SCENES, ids=str)


@pytest.fixture(autouse=True)
def nobody_pulls_the_plug() -> Iterator[None]:
    with no_flushing():
        yield


@dataclass(frozen=True)
class Stage:
    """A scene that is set: the folder before the act, what there is to be seen before and after, and the steps."""

    scene: Scene
    root: Path
    before: Mapping[str, object] | None
    after: Mapping[str, object]
    steps: Sequence[Step]

    @property
    def written_down_at(self) -> int:
        """The step with which the request cannot be lost any more."""
        return next(
            number for number, one in enumerate(self.steps) if one.call == "replace" and "/pending/" in one.path
        )


def staged(scene: Scene, folder: Path) -> Stage:
    root = folder / "root"
    root.mkdir()
    keyring_of(root).signing()
    for act in scene.before:
        act(root)
    before = account(root) if store_of(root).exists() else None
    steps = rehearsed(root, scene.act)
    done = copied(root, "done")
    scene.act(done)
    after = account(done)
    check_clean(done)
    return Stage(scene, root, before, after, steps)


def killed(act: Callable[[Path], None], root: Path, at: int, when: str) -> int:
    def work() -> None:
        with Trap(root, at, when):
            act(root)

    return in_a_child(work)


def look(stage: Stage, root: Path, *, asked: bool) -> str:
    """Say whether the old state is there or the new one; it must be one of them, and whole."""
    if not store_of(root).exists():
        assert stage.before is None
        return "old"
    check_intact(root)
    found = account(root)
    assert found in (stage.before, stage.after)
    state = "new" if found == stage.after else "old"
    if stage.before == stage.after:  # only what lies about is cleared away
        return "new"
    left = waiting(store_of(root))
    expected = stage.scene.waits or (stage.scene.is_request and asked)
    assert len(left) == (expected and state == "old")
    return state


def recover(stage: Stage, root: Path, state: str, *, asked: bool) -> None:
    """Let the next writer come, and do again what nothing came of."""
    scene = stage.scene
    left = scene.waits or asked
    if state == "old" and not (left and scene.resumes):
        scene.act(root)
    with changing(root) as engine:
        assert engine.finished == (state == "old" and left and scene.resumes)
    assert account(root) == stage.after
    check_intact(root)
    check_clean(root)


def survives(stage: Stage, at: int, when: str) -> None:
    root = copied(stage.root, "killed")
    try:
        assert killed(stage.scene.act, root, at, when) == -signal.SIGKILL
        asked = False
        if stage.scene.is_request:
            asked = (at, when == AFTER) >= (stage.written_down_at, True)
        state = look(stage, root, asked=asked)
        recover(stage, root, state, asked=asked)
    except Exception as error:
        raise AssertionError(f"killed {when} step {at} ({stage.steps[at]}) of: {stage.scene}") from error
    finally:
        shutil.rmtree(root)


@each
def test_a_kill_leaves_the_old_state_or_the_new_one(scene: Scene, tmp_path: Path) -> None:
    """A sample of all the instants; the last steps, where the old state is destroyed, among them."""
    stage = staged(scene, tmp_path)
    everything = points(stage.steps)
    for at, when in everything[len(scene.name) % EVERY :: EVERY]:
        survives(stage, at, when)


@pytest.mark.nightly
@each
def test_every_kill_leaves_the_old_state_or_the_new_one(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = staged(scene, tmp_path)
    everything = points(stage.steps)
    for at, when in everything:
        survives(stage, at, when)
    calls = ", ".join(f"{n} {call}" for call, n in counts(stage.steps).items())
    with capsys.disabled():
        print(f"\nkills: {len(everything)} at {len(stage.steps)} steps of {scene} ({calls})")


def test_there_are_so_many_instants(tmp_path: Path) -> None:
    """If the store came to write by calls that the trap does not know, there would be fewer, and nobody would notice."""
    stage = staged(next(one for one in SCENES if one.name == "forget"), tmp_path)
    assert len(points(stage.steps)) > 120
    found = counts(stage.steps)
    assert set(found) == {"flush", "mkdir", "open", "replace", "truncate", "unlink", "write"}
    assert [str(one) for one in stage.steps].count(SWAP) == 1


WATCHED = ("open", "os.rename", "os.remove", "os.mkdir", "os.truncate", "os.link", "os.rmdir", "shutil.rmtree")


def test_nothing_is_written_past_the_trap(tmp_path: Path) -> None:
    """The interpreter itself reports what is opened, renamed and removed: no more than the trap has seen."""
    root = tmp_path / "root"
    root.mkdir()
    keyring_of(root).signing()
    acts = (fit, forget, add, fit_anew)
    for act in acts:  # computed here, since the child computes nothing
        act(copied(root, "rehearsal") if act is fit else root.with_name("root-rehearsal"))
    seen = tmp_path / "seen.json"

    def work() -> None:
        reported: list[str] = []
        watching = True

        def hook(event: str, given: tuple[object, ...]) -> None:
            if not watching or event not in WATCHED or not str(given[0]).startswith(str(root)):
                return
            if event == "open" and not (isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)):
                return
            reported.append(event)

        sys.addaudithook(hook)
        with Trap(root) as trap:
            for act in acts:
                act(root)
        watching = False
        seen.write_text(json.dumps([len(reported), counts(trap.steps)]))

    assert in_a_child(work) == 0
    reported, found = json.loads(seen.read_text())
    # a truncation of an open file, a write and a flush are reported to nobody
    assert reported == sum(n for call, n in found.items() if call not in ("flush", "write", "truncate"))
    assert reported > 80


def test_a_run_of_bad_luck(tmp_path: Path) -> None:
    """Killed again and again, each time somewhere else, until it is done: as if nothing had happened."""
    scene = next(one for one in SCENES if one.name == "forget")
    stage = staged(scene, tmp_path)
    luck, kills = random.Random(3), 0
    status, act = -signal.SIGKILL, scene.act
    while status:
        status = killed(act, stage.root, luck.randrange(len(stage.steps)), luck.choice([BEFORE, AFTER]))
        kills += status < 0
        asked = bool(waiting(store_of(stage.root)))
        if asked or account(stage.root) == stage.after:
            act = finish_only
    assert kills > 3
    recover(stage, stage.root, "new", asked=True)


def finish_only(root: Path) -> None:
    with changing(root):
        pass


# ---------------------------------------------------------------------- what these tests would find


def in_place(patch: pytest.MonkeyPatch) -> None:
    """The manifest is written over the old one, and not renamed into its place."""
    real = DirectoryStore._write

    def write(self: DirectoryStore, path: Path, data: bytes) -> None:
        if path.name == "manifest.json":
            path.write_bytes(data)
        else:
            real(self, path, data)

    patch.setattr(DirectoryStore, "_write", write)


def too_soon(patch: pytest.MonkeyPatch) -> None:
    """The request is cleared away before what it asked for is published."""
    real = Custody.publish

    def publish(self: Custody, snapshot: Snapshot, act: Act, *, keep_old: bool = False) -> Published:
        assert act.pending is not None
        self.store.drop_pending(act.pending.id)
        return real(self, snapshot, act, keep_old=keep_old)

    patch.setattr(Custody, "publish", publish)


def twice(patch: pytest.MonkeyPatch) -> None:
    """That a request is done is not said in the manifest that it is published with."""
    patch.setattr(Record, "is_settled", lambda self, request, *, of: False)


def emptied(patch: pytest.MonkeyPatch) -> None:
    """The old files are destroyed before the new manifest is there."""
    real = DirectoryStore.swap

    def swap(self: DirectoryStore, manifest: Mapping[str, object]) -> None:
        files = manifest["files"]
        assert isinstance(files, Mapping)
        self._purge(path for path in (self.path / "files").iterdir() if path.name not in files)
        real(self, manifest)

    patch.setattr(DirectoryStore, "swap", swap)


def left_behind(patch: pytest.MonkeyPatch) -> None:
    """Nobody clears away what an interrupted write left."""
    patch.setattr(DirectoryStore, "sweep", lambda self: None)


def overwritten(patch: pytest.MonkeyPatch) -> None:
    """The ledger of a store is written over that of the one it takes the place of, which is still there."""
    patch.setattr(DirectoryStore, "_published_is_another", lambda self, store: False)


def inherited(patch: pytest.MonkeyPatch) -> None:
    """Requests to a store are taken for those of the one in its place."""
    patch.setattr(Record, "is_settled", lambda self, request, *, of: request == self.done)


MISTAKES: list[tuple[str, Callable[[pytest.MonkeyPatch], None]]] = [
    ("forget", in_place),
    ("forget", too_soon),
    ("forget", twice),
    ("forget", emptied),
    ("forget", left_behind),
    ("fit in the place of another", overwritten),
    ("fit in the place of another", inherited),
]


@pytest.mark.parametrize(("name", "mistake"), MISTAKES, ids=[f"{name}: {one.__name__}" for name, one in MISTAKES])
def test_a_mistake_would_be_found(
    name: str, mistake: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Around the swap at the latest, where everything is decided."""
    scene = next(one for one in SCENES if one.name == name)
    stage = staged(scene, tmp_path)
    mistake(monkeypatch)
    steps = rehearsed(stage.root, scene.act)
    spoilt = Stage(scene, stage.root, stage.before, stage.after, steps)
    swap = max(number for number, one in enumerate(steps) if one.path.startswith("store/manifest.json"))
    near = [point for point in points(steps) if -6 <= point[0] - swap <= 6]
    with pytest.raises(AssertionError, match=f"of: {name}"):
        for at, when in near:
            survives(spoilt, at, when)
