"""A process is killed at every step it takes: what it leaves is the old state or the new one, and no request is lost."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from receraser.store.history import waiting
from tests.durability.scenes import (
    SCENES,
    Scene,
    account,
    changing,
    check_clean,
    check_intact,
    copied,
    fit,
    forget,
    keyring_of,
    rehearsed,
    store_of,
)
from tests.durability.traps import AFTER, Step, Trap, counts, in_a_child, no_flushing, points

EVERY = 15  # by default; all of them with the marker `nightly`

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
