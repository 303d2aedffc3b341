"""A process is killed at every step it takes: it leaves the old state or the new one, and no request is lost."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from receraser.custody import Act, Custody, Published
from receraser.errors import StoreError
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
    copied,
    finish,
    fit,
    fit_anew,
    forget,
    keyring_of,
    rehearsed,
    store_of,
)
from tests.durability.stages import LONG, Stage, look, recover, staged
from tests.durability.traps import AFTER, BEFORE, Trap, counts, in_a_child, points

EVERY = 127  # by default; all of them with the marker `nightly`

each = pytest.mark.parametrize("scene", SCENES, ids=str)


def killed(act: Callable[[Path], None], root: Path, at: int, when: str) -> int:
    def work() -> None:
        with Trap(root, at, when):
            act(root)

    return in_a_child(work)


def survives(stage: Stage, at: int, when: str) -> None:
    root = copied(stage.root, "killed")
    try:
        assert killed(stage.scene.act, root, at, when) == -signal.SIGKILL
        asked = False
        if stage.scene.is_request:
            asked = (at, when == AFTER) >= (stage.written_down_at, True)
        recover(stage, root, look(stage, root, asked=asked), asked=asked)
    except Exception as error:
        raise AssertionError(f"killed {when} step {at} ({stage.steps[at]}) of: {stage.scene}") from error
    finally:
        shutil.rmtree(root)


def survives_all(stage: Stage, instants: Sequence[tuple[int, str]]) -> None:
    for at, when in instants:
        survives(stage, at, when)


@each
def test_a_kill_leaves_the_old_state_or_the_new_one(scene: Scene, tmp_path: Path) -> None:
    """A sample of all the instants; those right before and right after the swap are among them."""
    stage = staged(scene, tmp_path)
    swaps = [number for number, one in enumerate(stage.steps) if str(one) == SWAP]
    decisive = [(number, when) for number in swaps for when in (BEFORE, AFTER)]
    everything = points(stage.steps)
    survives_all(stage, [*decisive, *everything[len(scene.name) % len(everything) :: EVERY]])


@pytest.mark.usefixtures("several_files_at_a_time")
def test_a_kill_while_several_files_are_written(tmp_path: Path) -> None:
    stage = staged(next(one for one in SCENES if one.name == "forget"), tmp_path)
    writing = [number for number, one in enumerate(stage.steps) if one.path.startswith("store/files/")]
    first, last = writing[0], stage.steps.index(next(one for one in stage.steps if str(one) == SWAP))
    # Half a write, only where the step is sure to be one.
    survives_all(stage, [(at, when) for at in range(first, last + 1, 4) for when in (BEFORE, AFTER)])


@pytest.mark.nightly
@LONG
@each
def test_every_kill_leaves_the_old_state_or_the_new_one(
    scene: Scene,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    record_property: Callable[[str, object], None],
) -> None:
    stage = staged(scene, tmp_path)
    everything = points(stage.steps)
    survives_all(stage, everything)
    calls = ", ".join(f"{n} {call}" for call, n in counts(stage.steps).items())
    record_property("kills", len(everything))
    with capsys.disabled():
        print(f"\nkills: {len(everything)} at {len(stage.steps)} steps of {scene} ({calls})")


def test_there_are_so_many_instants(tmp_path: Path) -> None:
    """If the store came to write by calls that the trap does not know, there would be fewer."""
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
            if event == "open" and not (
                isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            ):
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
            act = finish
    assert kills > 3
    recover(stage, stage.root, "new", asked=True)


# ---------------------------------------------------------------------- what these tests would find


def in_place(patch: pytest.MonkeyPatch) -> None:
    """The manifest is written over the old one, and not renamed into its place."""
    real = DirectoryStore._write

    def write(self: DirectoryStore, path: Path, *pieces: bytes, flush: bool = True) -> None:
        if path.name == "manifest.json":
            path.write_bytes(b"".join(pieces))
        else:
            real(self, path, *pieces, flush=flush)

    patch.setattr(DirectoryStore, "_write", write)


def too_soon(patch: pytest.MonkeyPatch) -> None:
    """The request is cleared away before what it asked for is published."""
    real = Custody.publish

    def publish(self: Custody, snapshot: Snapshot, act: Act, **how: bool) -> Published:
        assert act.pending is not None
        self.store.drop_pending(act.pending.id)
        return real(self, snapshot, act, **how)

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


MISTAKES: list[tuple[str, Callable[[pytest.MonkeyPatch], None]]] = [
    ("forget", in_place),
    ("forget", too_soon),
    ("forget", twice),
    ("forget", emptied),
    ("forget", left_behind),
    ("fit in the place of another", overwritten),
]


@pytest.mark.parametrize(("name", "mistake"), MISTAKES, ids=[f"{name}: {one.__name__}" for name, one in MISTAKES])
def test_a_mistake_would_be_found(
    name: str, mistake: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Around the swap at the latest, where everything is decided."""
    scene = next(one for one in SCENES if one.name == name)
    stage = staged(scene, tmp_path)
    mistake(monkeypatch)
    with pytest.raises((AssertionError, StoreError)):
        survives_around_the_swap(stage)


def survives_around_the_swap(stage: Stage) -> None:
    steps = rehearsed(stage.root, stage.scene.act)
    swap = max(number for number, one in enumerate(steps) if one.path.startswith("store/manifest.json"))
    near = sorted(points(steps), key=lambda point: abs(point[0] - swap))[:20]
    survives_all(dataclasses.replace(stage, steps=steps), near)
