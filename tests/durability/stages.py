"""A scene that is set, what there is to be seen in it after something went wrong, and how it goes on."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from receraser.store.history import waiting
from tests.durability.scenes import (
    Scene,
    account,
    changing,
    check_clean,
    check_intact,
    copied,
    keyring_of,
    rehearsed,
    store_of,
)
from tests.durability.traps import Step

LONG = pytest.mark.skipif("RECERASER_NIGHTLY" not in os.environ, reason="takes longer: RECERASER_NIGHTLY=1")


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
    check_clean(root)
