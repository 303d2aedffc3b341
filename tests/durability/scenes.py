"""What can be interrupted: each scene is a store as it is before, and one thing that is done to it.

A scene lies in a folder of its own, `store` and `keys` side by side, so that it can be copied, spoilt and looked at.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from receraser import handing
from receraser.engine import Engine
from receraser.erasure.request import ForgetRequest
from receraser.execution.messages import pack_task
from receraser.execution.task import Result, Task
from receraser.proof.keyring import Keyring
from receraser.protocols import Progress
from receraser.store.directory import DirectoryStore
from receraser.store.history import History, waiting
from receraser.store.pending import Pending
from receraser.store.record import Policy
from receraser.verify.checks import examine
from receraser.verify.signatures import Vouchers
from tests.durability.traps import AFTER, Step, Trap, in_a_child
from tests.forgetting.engines import Combination, Here, Pair, pseudonym, rows_of

HASHED = Combination("hash", "mean", "wmf", shards=2)
DRIVEN = Combination("ubp", "static", "wmf", shards=2)

TRAIN: list[Pair] = [(f"u{user}", f"i{item}") for user in range(8) for item in range(6) if (user + item) % 3]
VALID: list[Pair] = [("u0", "i0"), ("u1", "i2"), ("u2", "i4"), ("u6", "i3")]
OTHER: list[Pair] = [(f"u{user}", f"i{item}") for user in range(5) for item in range(4)]
NEW: list[Pair] = [("u1", "i5"), ("u8", "i0"), ("u8", "i5"), ("u9", "new")]
TITLES = {f"i{item}": f"Film {item}" for item in range(5)}

SWAP = "replace store/manifest.json"


class Remembering(Here):
    """Computes every task once. Whoever is forked off afterwards computes nothing, and misses no threads."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[str, Result] = {}
        self._process = os.getpid()

    def compute(self, task: Task, progress: Progress | None) -> Result:
        meta, arrays = pack_task(task)
        name = hashlib.sha256(json.dumps(meta, sort_keys=True).encode())
        for key in sorted(arrays):
            name.update(f"{key} {arrays[key].dtype} {arrays[key].shape}".encode() + arrays[key].tobytes())
        found = name.hexdigest()
        if found not in self._known:
            assert os.getpid() == self._process, f"a {task.kind} that was not rehearsed"
            self._known[found] = super().compute(task, progress)
        return self._known[found]


COMPUTED = Remembering()


# ---------------------------------------------------------------------- what is done to a store


def store_of(root: Path) -> DirectoryStore:
    return DirectoryStore(root / "store")


def keyring_of(root: Path) -> Keyring:
    return Keyring(root / "keys")


@contextmanager
def changing(root: Path, executor: Here = COMPUTED, *, keep_old: bool = False, finish: bool = True) -> Iterator[Engine]:
    with Engine.changing(
        root / "store", executor=executor, keyring=keyring_of(root), keep_old=keep_old, finish=finish
    ) as engine:
        yield engine


def _fit(root: Path, combination: Combination, *, policy: Policy | None = None, replace: bool = False) -> None:
    engine = combination.engine(COMPUTED).fit(rows_of(TRAIN), valid=rows_of(VALID))
    engine.titles, engine.policy = dict(TITLES), policy or Policy()
    engine.save(root / "store", replace=replace, keyring=keyring_of(root))


def fit(root: Path) -> None:
    _fit(root, HASHED)


def fit_anew(root: Path) -> None:
    _fit(root, HASHED, replace=True)


def fit_driven(root: Path) -> None:
    _fit(root, DRIVEN)


def fit_with_a_policy(root: Path) -> None:
    _fit(root, DRIVEN, policy=Policy(requests=1))


def fit_others(root: Path) -> None:
    """Another store, with a past: rows that are not ours, and somebody forgotten."""
    HASHED.engine(COMPUTED).fit(rows_of(OTHER)).save(root / "store", keyring=keyring_of(root))
    forget_one(root)


def forget(root: Path) -> None:
    """All kinds at once: a user, an item, an interaction that is to be kept out of its user's list."""
    with changing(root) as engine:
        engine.forget(["u1"], items=["i4"], interactions=[("u2", "i2")], hide=True)


def forget_one(root: Path) -> None:
    with changing(root) as engine:
        engine.forget(["u3"])


def forget_and_keep(root: Path) -> None:
    with changing(root, keep_old=True) as engine:
        engine.forget(["u3"])


def forget_nobody(root: Path) -> None:
    with changing(root) as engine:
        engine.forget(["nobody"])


def forget_everybody(root: Path) -> None:
    with changing(root) as engine:
        engine.forget({user for user, _ in [*TRAIN, *VALID]})


def add(root: Path) -> None:
    with changing(root) as engine:
        engine.add(rows_of(NEW))


def rebuild(root: Path) -> None:
    with changing(root, finish=False) as engine:
        engine.rebuild()


def hand_over(root: Path) -> None:
    with changing(root) as engine:
        assert engine._custody is not None
        engine._custody.note("export", to="an office")


def withdraw(root: Path) -> None:
    (one,) = waiting(store_of(root))
    handing.withdraw(root / "store", keyring_of(root), one.id)


def rotate(root: Path) -> None:
    """A new key signs what comes next."""
    keyring_of(root).rotate("2026-01-01T00:00:00Z")


def ask(root: Path, user: str = "u1") -> None:
    """Leave a request as a process leaves it that is killed before it has begun to work."""
    with changing(root) as engine:
        assert engine.knows(user)
        assert engine._custody is not None
        request = ForgetRequest.of([pseudonym(user)])
        engine._custody.write_down(Pending("forget", engine._custody.time(), request=request))


def forget_and_stop_at_the_swap(root: Path) -> None:
    stop_at_the_swap(root, forget)


def stop_at_the_swap(root: Path, act: Callable[[Path], None]) -> None:
    """The new state is published, and nothing of the old one has been destroyed yet; nor has the request."""
    steps = rehearsed(root, act)
    swapped = [str(one) for one in steps].index(SWAP)

    def work() -> None:
        with Trap(root, swapped, AFTER):
            act(root)

    assert in_a_child(work) < 0


def finish(root: Path) -> None:
    """What any next writer does."""
    with changing(root):
        pass


def rehearsed(root: Path, act: Callable[[Path], None]) -> list[Step]:
    """Every step of an act, which is done in a copy; its results are known afterwards."""
    aside = copied(root, "rehearsal")
    with Trap(aside) as trap:
        act(aside)
    shutil.rmtree(aside)
    return trap.steps


def copied(root: Path, name: str) -> Path:
    """A copy beside it."""
    return Path(shutil.copytree(root, root.with_name(f"{root.name}-{name}")))


# ---------------------------------------------------------------------- scenes


@dataclass(frozen=True)
class Scene:
    """Something that is done, and what it is done to.

    Attributes
    ----------
    name
        For people.
    before
        What is done first, one thing after the other, undisturbed.
    act
        What is interrupted; and done again where nothing came of it.
    is_request
        Whether it is written down before anything else, and must not be lost from then on.
    waits
        Whether something is waiting already, before it.
    resumes
        Whether any next writer finishes what is waiting.
    """

    name: str
    before: Sequence[Callable[[Path], None]]
    act: Callable[[Path], None]
    is_request: bool = True
    waits: bool = False
    resumes: bool = True

    def __str__(self) -> str:
        return self.name


SCENES = [
    Scene("fit", [], fit, is_request=False),
    Scene("fit in the place of another", [fit_others], fit_anew, is_request=False, resumes=False),
    Scene("forget", [fit], forget),
    Scene("forget, by a data-driven partition", [fit_driven], forget),
    Scene("forget, with a new partition", [fit_with_a_policy], forget),
    Scene("forget nobody", [fit], forget_nobody),
    Scene("forget everybody", [fit], forget_everybody),
    Scene("forget, keeping what was", [fit], forget_and_keep),
    Scene("forget, destroying what was kept", [fit, forget_and_keep], forget),
    Scene("forget, with a new key", [fit, rotate], forget),
    Scene("add", [fit], add),
    Scene("add what was forgotten", [fit, forget], add),
    Scene("rebuild", [fit_driven, forget], rebuild),
    Scene("resume a forget", [fit, ask], finish, is_request=False, waits=True),
    Scene("resume the destruction", [fit, forget_and_stop_at_the_swap], finish, is_request=False),
    Scene("withdraw", [fit, ask], withdraw, is_request=False, waits=True, resumes=False),
    Scene("hand over", [fit], hand_over, is_request=False),
]


# ---------------------------------------------------------------------- what there is to be seen


def account(root: Path) -> Mapping[str, object]:
    """All that a store says of itself, but for what is drawn and for times: the state, and how it came about."""
    store = store_of(root)
    whole = store.manifest()
    history = History.of(store)
    record = whole.pop("record")
    assert isinstance(record, dict)
    del whole["seconds"]
    shards = whole["shards"]
    assert isinstance(shards, list)
    for shard in shards:
        del shard["seconds"]
    previous = whole.pop("previous")
    files = whole.pop("files")
    assert isinstance(files, dict)
    assert previous is None or isinstance(previous, dict)
    return {
        "state": whole,
        "files": sorted(files),
        "kept": None if previous is None else len(previous["files"]),
        "ledger": [(one.action, len(one.subjects), one.certificate is not None) for one in history.entries],
        "certificates": [_said(store, history, number) for number in _certified(history)],
        "debt": {name: value for name, value in record["debt"].items() if name != "since"},
        "policy": record["policy"],
        "recipients": [(one["what"], one["to"]) for one in record["recipients"]],
        "signers": len(record["signers"]),
    }


def _certified(history: History) -> list[int]:
    return [one.index for one in history.entries if one.certificate is not None]


def _said(store: DirectoryStore, history: History, number: int) -> Mapping[str, object]:
    said = history.issued(store, history.certified(number)).certificate
    request = {name: value for name, value in said.request.items() if name != "subjects_root"}
    numbers = (said.rows_removed, said.valid_rows_removed, said.rows_added)
    return {
        "action": said.action,
        "level": said.level,
        "request": request,
        "rows": numbers,
        "shards": said.shards,
        "path": said.path,
        "ledger": said.ledger["index"],
        "parent": said.parent is None,
        "not covered": said.not_covered,
    }


def check_intact(root: Path) -> None:
    """Whatever the manifest covers is there, to the last byte."""
    store = store_of(root)
    manifest = store.manifest()
    files, previous = manifest["files"], manifest["previous"]
    assert isinstance(files, dict)
    for name, size in files.items():
        assert len(store.get(name)) == size
    if previous is not None:
        assert isinstance(previous, dict)
        for name in [previous["manifest"], *previous["files"]]:
            store.get(name)
    history = History.of(store)
    for number in _certified(history):
        history.issued(store, history.certified(number))
    history.checkpoint()
    Engine.load(store.path)


def check_clean(root: Path) -> None:
    """Nothing is waiting, nothing lies about, and everything that can be checked holds."""
    store, keyring = store_of(root), keyring_of(root)
    assert store.pending() == {}
    assert store.strays(store.manifest()) == []
    vouchers = Vouchers.of(keyring=keyring, named=True)
    _, checks = examine(store.path, vouchers=vouchers, keyring=keyring)
    assert [one for one in checks if not one.ok] == []
