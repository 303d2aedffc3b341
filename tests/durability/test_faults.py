"""What goes wrong without a crash: no room, no rights, a file that is gone, two at once, a clock gone backwards."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from receraser import custody, handing
from receraser.engine import Engine
from receraser.errors import EnvironmentMismatchError, ReceraserError, StoreError, StoreNotFoundError
from receraser.execution.local import LocalExecutor
from receraser.proof.ledger import Entry
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
from tests.nightly import nightly

FULL = failing(errno.ENOSPC)
EVERYTHING = ("open", "write", "mkdir", "link", "flush", "replace", "unlink", "truncate")
EVERY = 97

each = pytest.mark.parametrize("scene", SCENES, ids=str)


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


@pytest.mark.usefixtures("several_files_at_a_time")
def test_a_full_or_read_only_disk_while_several_files_are_written(tmp_path: Path) -> None:
    """Each of the threads may be the one that is refused: the others' work counts for nothing."""
    stage = staged(next(one for one in SCENES if one.name == "forget"), tmp_path)
    writing = [number for number, one in enumerate(stage.steps) if one.path.startswith("store/files/")]
    swap = [str(one) for one in stage.steps].index(SWAP)
    refused = [one for one in refusals(stage) if writing[0] <= one[0] < swap and one[1] == BEFORE]
    for one in refused[::6]:
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
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest * 3 // 4, largest * 3 // 4))  # the request still fits
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


def forget_all_kinds(engine: Engine) -> None:
    engine.forget(["u1"], items=["i4"], interactions=[("u2", "i2")], hide=True)


@pytest.mark.parametrize("call", ["replace", "flush", "unlink"])
def test_whoever_goes_on_after_a_failure_goes_on_from_what_the_store_holds(root: Path, call: str) -> None:
    """In the same block, as a service would: what failed is done first, and no entry is lost or made twice.

    Either the swap fails, and the old state is still there; or something after it, and the new one is.
    """
    aside = copied(root, "undisturbed")
    with changing(aside) as engine:
        with Trap(aside) as trap:
            forget_all_kinds(engine)
        engine.forget(["u3"])
    swap = [str(one) for one in trap.steps].index(SWAP)
    at = next(number for number in range(swap, len(trap.steps)) if trap.steps[number].call == call)
    with changing(root) as engine:
        before = engine.digest
        with Trap(root, at, BEFORE, FULL), pytest.raises(StoreError, match="No space left on device"):
            forget_all_kinds(engine)
        assert (engine.digest == before) == (call == "replace")
        assert Engine.load(root / "store").digest == engine.digest
        engine.forget(["u3"])
    assert account(root) == account(aside)
    check_clean(root)


def test_an_engine_whose_store_cannot_be_read_either_is_of_no_use(root: Path) -> None:
    with changing(root) as engine:

        def gone() -> None:
            shutil.rmtree(root / "store" / "files")
            FULL()

        with Trap(root, 12, BEFORE, gone), pytest.raises(StoreError, match="No space left"):
            forget_all_kinds(engine)
        with pytest.raises(ReceraserError, match="not fitted"):
            engine.forget(["u3"])


def test_a_key_that_cannot_be_read_for_a_moment_loses_no_request(root: Path) -> None:
    """It is the keys that are wrong, and not what was asked for."""
    stage = stage_of(root, forget)
    key = root / "keys" / "signing.key"
    with changing(root) as engine:
        hidden = key.rename(root / "elsewhere")
        key.mkdir()
        with pytest.raises(StoreError, match=r"could not be certified.*signing\.key cannot be used as a key"):
            forget_all_kinds(engine)
    key.rmdir()
    hidden.rename(key)
    assert look(stage, root, asked=True) == "old"
    recover(stage, root, "old", asked=True)


# ---------------------------------------------------------------------- a file that is gone


def test_a_file_that_is_gone_is_missed(root: Path) -> None:
    """Before anything is written down. What the engine does not need, the verifier misses."""
    forget_one(root)
    store = root / "store"
    for path in sorted(path for path in store.rglob("*") if path.is_file()):
        before, data = snapshot(root), path.read_bytes()
        path.unlink()
        if path.name == "lock":  # it is made anew, and holds nothing
            finish(root)
            continue
        missing = {name: content for name, content in before.items() if name != str(path)}
        if path.parent.name == "certificates":
            Engine.load(store)
        else:
            with pytest.raises(
                StoreError, match=path.name if path.parent != store else "half-written|damaged: .*ledger"
            ):
                forget(root)
            assert snapshot(root) == missing
        if path.name == "manifest.json":
            with pytest.raises((StoreError, StoreNotFoundError)):
                examine(store)
        else:
            assert not all(one.ok for one in examine(store)[1])
        path.write_bytes(data)
    check_clean(root)


def test_what_an_interrupted_write_left_is_no_obstacle(root: Path) -> None:
    store = root / "store"
    (store / "pending").mkdir(exist_ok=True)
    left = [
        store / "manifest.json.new",
        store / "ledger-0123456789abcdef0123456789abcdef.new",
        store / "files" / f"{'0' * 64}.new",
        store / "files" / ("1" * 64),
        store / "certificates" / f"{'2' * 64}.json.new",
        store / "certificates" / f"{'3' * 64}.json",
        store / "pending" / f"{'4' * 32}.json.new",
    ]
    for path in left:
        path.write_bytes(b"half of someth")
    with (store / "ledger").open("ab") as ledger:
        ledger.write(b'{"action":"forg')
    assert len(store_of(root).strays(store_of(root).manifest())) == len(left) + 1
    check_intact(root)
    aside = copied(root, "finish")
    finish(aside)
    check_clean(aside)
    forget(root)
    assert actions(root) == ["fit", "forget"]
    check_clean(root)


# ---------------------------------------------------------------------- two at once


def test_a_second_writer_is_refused_and_a_dead_one_is_in_nobodys_way(root: Path) -> None:
    """The file of the lock stays behind; what is held is not the file."""
    reading, writing = os.pipe()

    def work() -> None:
        with changing(root):
            os.write(writing, b"x")
            time.sleep(600)

    child = forked(work)
    os.close(writing)  # so that nothing is read, and nobody waits, if the child fails
    try:
        assert os.read(reading, 1) == b"x"
        before = snapshot(root)
        for act in (forget, add, rebuild, finish):
            with pytest.raises(StoreError, match="is being written by another process; try again later"):
                act(root)
        assert snapshot(root) == before
        check_intact(root)
    finally:
        os.kill(child, signal.SIGKILL)
        assert ended(child) == -signal.SIGKILL
        os.close(reading)
    assert (root / "store" / "lock").exists()
    forget(root)
    check_clean(root)


def test_readers_see_one_state_or_the_other(root: Path) -> None:
    """Somebody publishes a hundred times; whoever looks meanwhile sees a state that was published, and whole."""
    digests = set()
    with changing(root) as engine:  # computed here, since a child computes nothing
        for _ in range(2):
            engine.forget(["u1"])
            digests.add(engine.digest)
            engine.add(rows_of(pair for pair in TRAIN if pair[0] == "u1"))
            digests.add(engine.digest)
    assert len(digests) == 2

    def work() -> None:
        with changing(root) as engine:
            for _ in range(50):
                engine.forget(["u1"])
                engine.add(rows_of(pair for pair in TRAIN if pair[0] == "u1"))

    child = forked(work)
    seen: list[str] = []
    sizes: list[int] = []
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        seen.append(Engine.load(root / "store").digest)
        sizes.append(len(entries(root)))
    assert set(seen) <= digests
    assert len(entries(root)) == 105
    assert sizes == sorted(sizes)
    assert len(set(sizes)) > 3, "it did look while somebody published"
    check_clean(root)


@nightly
def test_the_lock_is_not_inherited_by_workers_who_die_with_their_parent(root: Path) -> None:
    """The engine is killed while a real worker is there: the store is free at once, and nobody is left behind."""
    reading, writing = os.pipe()

    def work() -> None:
        executor = LocalExecutor(n_workers=1, threads=1)
        with Engine.changing(root / "store", executor=executor, keyring=keyring_of(root)):
            executor.prepare([])
            (worker,) = executor._workers
            os.write(writing, json.dumps(worker._process.pid).encode())
            time.sleep(600)

    child = forked(work)
    os.close(writing)  # so that nothing is read, and nobody waits, if the child fails
    try:
        worker = int(os.read(reading, 100))
        held = {str(path.readlink()) for path in Path(f"/proc/{worker}/fd").iterdir()}
        assert not [path for path in held if path.startswith(str(root))]
        with pytest.raises(StoreError, match="is being written by another process"):
            finish(root)
    finally:
        os.kill(child, signal.SIGKILL)
        assert ended(child) == -signal.SIGKILL
        os.close(reading)
    forget(root)
    deadline = time.monotonic() + 30
    while is_alive(worker):
        assert time.monotonic() < deadline, "the worker has outlived its parent"
        time.sleep(0.05)


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"  # dead, and whoever has inherited it has not looked yet


# ---------------------------------------------------------------------- clocks


def test_a_clock_that_goes_backwards_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries are in order, and a partition does not come of age by it."""
    clock = datetime(2026, 11, 15, 17, tzinfo=UTC)
    monkeypatch.setattr(custody, "now", lambda: clock)
    engine = DRIVEN.engine(COMPUTED).fit(rows_of(TRAIN), valid=rows_of(VALID))
    engine.policy = Policy(days=30)
    engine.save(tmp_path / "store", keyring=keyring_of(tmp_path))
    paths = []
    for days, user in [(-400, "u1"), (0, "u2"), (-29, "u3"), (29, "u4"), (-1, "u5"), (30, "u6"), (-400, "u7")]:
        clock = datetime(2026, 11, 15, 17, tzinfo=UTC) + timedelta(days=days)
        with changing(tmp_path) as opened:
            paths.append(opened.forget([user]).path == "rebuild")
    assert paths == [False, False, False, False, False, True, False], "after thirty days, and never before"
    times = [one.time for one in entries(tmp_path)]
    assert times == sorted(times)
    assert times[0] == times[3] == "2026-11-15T17:00:00Z"
    assert times[4] == times[5] == "2026-12-14T17:00:00Z"
    check_clean(tmp_path)


def test_a_request_is_not_older_than_what_was_entered_before_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = datetime(2030, 1, 1, tzinfo=UTC)
    monkeypatch.setattr(custody, "now", lambda: clock)
    forget_one(root)
    clock = datetime(2020, 1, 1, tzinfo=UTC)
    ask(root)
    (one,) = waiting(store_of(root))
    assert one.time == "2030-01-01T00:00:00Z"


# ---------------------------------------------------------------------- what cannot be done


def test_a_request_that_always_fails_waits_and_can_be_taken_back(root: Path) -> None:
    before = account(root)
    broken = Breaking("submodel")
    with pytest.raises(MemoryError), changing(root, broken) as engine:
        engine.forget(["u1"])
    for _ in range(2):
        with pytest.raises(MemoryError), changing(root, broken):
            pytest.fail("what is waiting goes first")
    (one,) = waiting(store_of(root))
    assert Engine.load(root / "store").recommend(["u1"])["u1"], "readers do not mind"
    assert account(root) == before
    aside = copied(root, "withdrawn")
    handing.withdraw(aside / "store", keyring_of(aside), one.id)
    assert actions(aside) == ["fit", "withdraw"]
    check_clean(aside)
    store_of(root).drop_pending(one.id)
    finish(root)
    assert account(root) == before
    check_clean(root)


def test_what_comes_after_a_request_that_failed_does_not_overtake_it(root: Path) -> None:
    """Or rows would be added that had to be forgotten: they were asked for in this order."""

    class Moody(Here):
        well = False

        def compute(self, task, progress):  # type: ignore[no-untyped-def]
            if not self.well:
                raise MemoryError("not now")
            return COMPUTED.compute(task, progress)

    moody = Moody()
    with changing(root, moody) as engine:
        with pytest.raises(MemoryError):
            engine.add(rows_of([("u8", "i0"), ("u8", "i1")]))
        with pytest.raises(MemoryError):
            engine.forget(["u8"])
        assert len(waiting(store_of(root))) == 1, "the second one was refused"
        moody.well = True
        report = engine.forget(["u8"])
    assert report.rows_removed == 2
    assert actions(root) == ["fit", "add", "forget"]
    assert not Engine.load(root / "store").knows("u8")
    check_clean(root)


ELSEWHERE = Here(environment={"computed": "elsewhere"})
both = pytest.mark.parametrize("combination", [HASHED, DRIVEN], ids=str)


@both
@pytest.mark.parametrize("kind", ["forget", "add"])
def test_another_environment_is_refused_and_a_rebuild_finishes_what_waits(
    combination: Combination, kind: str, tmp_path: Path
) -> None:
    (fit if combination is HASHED else fit_driven)(tmp_path)
    before = account(tmp_path)

    def asked(engine: Engine) -> None:
        if kind == "forget":
            engine.forget(["u1"])
        else:
            engine.add(rows_of(NEW))

    with pytest.raises(EnvironmentMismatchError, match="receraser rebuild"), changing(tmp_path, ELSEWHERE) as engine:
        asked(engine)
    with pytest.raises(EnvironmentMismatchError), changing(tmp_path, ELSEWHERE):
        pytest.fail("what is waiting goes first")
    assert account(tmp_path) == before
    (one,) = waiting(store_of(tmp_path))
    assert one.kind == kind
    at_home = copied(tmp_path, "home")
    finish(at_home)
    assert actions(at_home) == ["fit", kind]
    check_clean(at_home)
    with changing(tmp_path, ELSEWHERE, finish=False) as engine:
        engine.rebuild()
    assert actions(tmp_path) == ["fit", kind, "rebuild"]
    history = History.of(store_of(tmp_path))
    said = [history.issued(store_of(tmp_path), one).certificate for one in history.entries]
    assert [one.path for one in said[1:]] == ["rebuild", "rebuild"]
    assert [dict(one.environment) for one in said[1:]] == [{"computed": "elsewhere"}] * 2
    assert [(one.rows_removed, one.valid_rows_removed, one.rows_added) for one in said[1:]] == [
        ((4, 1, 0) if kind == "forget" else (0, 0, 4)),
        (0, 0, 0),
    ]
    left = [pair for pair in TRAIN if kind != "forget" or pair[0] != "u1"] + (NEW if kind == "add" else [])
    held = [pair for pair in VALID if kind != "forget" or pair[0] != "u1"]
    fresh = combination.engine(ELSEWHERE).fit(rows_of(left), valid=rows_of(held))
    loaded = Engine.load(tmp_path / "store")
    assert loaded.digest == fresh.digest
    assert loaded.level == "L3"
    check_clean(tmp_path)
    with changing(tmp_path, ELSEWHERE) as engine:
        assert engine.finished == 0
        assert engine.forget(["u2"]).rows_removed
