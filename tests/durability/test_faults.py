"""What goes wrong without a crash: no room, no rights, a file that is gone, two at once, a clock that goes backwards."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from receraser import custody, handing
from receraser.engine import Engine
from receraser.errors import EnvironmentMismatchError, ReceraserError, StoreError, StoreNotFoundError
from receraser.execution.local import LocalExecutor
from receraser.proof.ledger import Entry
from receraser.store.directory import DirectoryStore
from receraser.store.history import History, waiting
from receraser.store.record import Policy
from receraser.verify.checks import examine
from tests.durability.scenes import (
    COMPUTED,
    DRIVEN,
    HASHED,
    NEW,
    SCENES,
    SWAP,
    TRAIN,
    VALID,
    Scene,
    account,
    add,
    ask,
    changing,
    check_clean,
    check_intact,
    copied,
    finish,
    fit,
    fit_driven,
    forget,
    forget_one,
    keyring_of,
    rebuild,
    rehearsed,
    store_of,
)
from tests.durability.stages import LONG, Stage, look, recover, staged
from tests.durability.traps import BEFORE, HALF, NEEDS_ROOM, Trap, ended, failing, forked, in_a_child, points
from tests.forgetting.engines import Breaking, Combination, Here, rows_of

FULL = failing(errno.ENOSPC)
EVERYTHING = ("open", "write", "mkdir", "link", "flush", "replace", "unlink", "truncate")
EVERY = 40

each = pytest.mark.parametrize("scene", SCENES, ids=str)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store, and the keys that sign for it."""
    folder = tmp_path / "root"
    folder.mkdir()
    fit(folder)
    return folder


def entries(root: Path) -> list[Entry]:
    return list(History.of(store_of(root)).entries)


def actions(root: Path) -> list[str]:
    return [one.action for one in entries(root)]


def snapshot(root: Path) -> Mapping[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


# ---------------------------------------------------------------------- no room, no rights


def endures(stage: Stage, at: int, when: str, code: int, lasting: tuple[str, ...]) -> None:
    """The system refuses a call, and then others: we say so in our words, and nothing is half done."""
    root = copied(stage.root, "refused")
    try:
        with Trap(root, at, when, failing(code), lasting), pytest.raises(ReceraserError) as refused:
            stage.scene.act(root)
        assert os.strerror(code) in str(refused.value)
        asked = stage.scene.is_request and at > stage.written_down_at
        recover(stage, root, look(stage, root, asked=asked), asked=asked)
    except Exception as error:
        what = f"{os.strerror(code)} {when} step {at} ({stage.steps[at]})"
        raise AssertionError(f"{what} of: {stage.scene}") from error
    finally:
        shutil.rmtree(root)


def refusals(stage: Stage) -> list[tuple[int, str, int, tuple[str, ...]]]:
    """Every way in which a disk can be full, or read-only, from some step on."""
    found: list[tuple[int, str, int, tuple[str, ...]]] = []
    for at, when in points(stage.steps):
        if when in (BEFORE, HALF) and stage.steps[at].call in NEEDS_ROOM:
            found.append((at, when, errno.ENOSPC, NEEDS_ROOM))
        if when == BEFORE:
            found.append((at, when, errno.EROFS, EVERYTHING))
    return found


@each
def test_a_full_or_read_only_disk(scene: Scene, tmp_path: Path) -> None:
    stage = staged(scene, tmp_path)
    for one in refusals(stage)[len(scene.name) % EVERY :: EVERY]:
        endures(stage, *one)


@pytest.mark.nightly
@LONG
@each
def test_every_refusal(
    scene: Scene,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    record_property: Callable[[str, object], None],
) -> None:
    stage = staged(scene, tmp_path)
    everything = refusals(stage)
    for one in everything:
        endures(stage, *one)
    record_property("refusals", len(everything))
    with capsys.disabled():
        print(f"\nrefusals: {len(everything)} of {scene}")


def test_a_limit_of_the_system(root: Path) -> None:
    """Not one that is made up: the system itself refuses to let a file grow, in the middle of a write."""
    largest = max(path.stat().st_size for path in (root / "store" / "files").iterdir())
    stage = stage_of(root, forget)

    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # to be told, and not killed
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest // 2, largest // 2))
        with pytest.raises(StoreError, match="cannot be written: File too large"):
            forget(root)

    assert in_a_child(work) == 0
    assert look(stage, root, asked=True) == "old"
    recover(stage, root, "old", asked=True)


def stage_of(root: Path, act: Callable[[Path], None], *, is_request: bool = True) -> Stage:
    """The stage of something that is done to a store that is there."""
    steps = rehearsed(root, act)
    done = copied(root, "done")
    act(done)
    return Stage(Scene("this", [], act, is_request=is_request), root, account(root), account(done), steps)


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES], ids=["read-only", "no rights"])
def test_where_nothing_can_be_written_anybody_can_look(root: Path, code: int) -> None:
    before = snapshot(root)
    with Trap(root, 0, BEFORE, failing(code), EVERYTHING):
        for act in (forget, add, rebuild, finish):
            with pytest.raises(StoreError, match=rf"store cannot be written: {os.strerror(code)}"):
                act(root)
        assert Engine.load(root / "store").recommend(["u1"])["u1"]
        assert actions(root) == ["fit"]
    assert snapshot(root) == before


@pytest.mark.parametrize("call", ["replace", "unlink"])
def test_whoever_goes_on_after_a_failure_goes_on_from_what_the_store_holds(root: Path, call: str) -> None:
    """In the same block, as a service would: what failed is done first, and no entry is lost or made twice.

    The swap fails, and the old state is still there; or only the destruction does, and the new one is.
    """
    undisturbed = copied(root, "undisturbed")
    forget(undisturbed)
    forget_one(undisturbed)
    steps = rehearsed(root, forget)
    swap = [str(one) for one in steps].index(SWAP)
    at = next(number for number in range(swap, len(steps)) if steps[number].call == call)
    with changing(root) as engine:
        before = engine.digest
        with Trap(root) as trap:
            pass
        with Trap(root, at - _opening(root), BEFORE, FULL), pytest.raises(StoreError, match="No space left"):
            engine.forget(["u1"], items=["i4"], interactions=[("u2", "i2")], hide=True)
        assert not trap.steps
        assert (engine.digest == before) == (call == "replace")
        assert Engine.load(root / "store").digest == engine.digest
        engine.forget(["u3"])
    assert account(root) == account(undisturbed)
    check_clean(copied(root, "now") if call == "unlink" and not _swept(root) else root)


def _opening(root: Path) -> int:
    """How many steps it takes to open a store."""
    return len(rehearsed(root, finish)) if False else 1


def _swept(root: Path) -> bool:
    return store_of(root).strays(store_of(root).manifest()) == []
