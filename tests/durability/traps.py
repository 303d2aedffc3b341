"""A trap under every call by which files change: it counts the calls, and strikes at one of them.

`Trap` takes the place of the calls of `os` and `io` that the store and the keyring make. A call that only reads is no
step. Nothing is flushed while it is set: a process that is killed loses nothing that the system has taken over, and a
test of thousands of steps would take hours on a real disk (what must be flushed before what: `test_order`).
"""

from __future__ import annotations

import builtins
import io
import os
import signal
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar
from unittest import mock

T = TypeVar("T")

BEFORE, HALF, AFTER = "before", "half", "after"
NEEDS_ROOM = ("open", "write", "mkdir", "link", "flush")  # what fails on a full disk; what removes does not
_WRITES = set("wax+")


@dataclass(frozen=True)
class Step:
    """One call that changes what lies on disk, and the file or folder it is about."""

    call: str
    path: str

    def __str__(self) -> str:
        return f"{self.call} {self.path}"


def failing(code: int) -> Callable[[], None]:
    """What the system says when it refuses a call."""

    def strike() -> None:
        raise OSError(code, os.strerror(code))

    return strike


def kill() -> None:
    """End this process as the power would: nothing is closed, nothing is cleaned up."""
    os.kill(os.getpid(), signal.SIGKILL)


class Trap:
    """Counts the steps in a folder; with `at`, strikes at that one.

    Parameters
    ----------
    root
        Only what lies in here counts.
    at, when
        The step, and whether the blow comes before it, after it, or (of a write) after half of its bytes.
    strike
        What happens then.
    lasting
        Calls that meet the same fate ever after.
    """

    def __init__(
        self,
        root: Path,
        at: int | None = None,
        when: str = BEFORE,
        strike: Callable[[], None] = kill,
        lasting: Sequence[str] = (),
    ) -> None:
        self.steps: list[Step] = []
        self._root = str(root)
        self._at = at
        self._when = when
        self._strike = strike
        self._lasting = lasting
        self._handles: dict[int, str] = {}
        self._one_at_a_time = threading.Lock()

    def step(self, call: str, path: str, do: Callable[[], T], half: Callable[[], object] | None = None) -> T:
        with self._one_at_a_time:  # files are written by several threads
            number = len(self.steps)
            self.steps.append(Step(call, os.path.relpath(path, self._root)))
        here = number == self._at
        struck = self._at is not None and number > self._at and call in self._lasting
        if struck or (here and self._when == BEFORE):
            self._strike()
        if here and self._when == HALF and half is not None:
            half()
            self._strike()
        try:
            return do()
        finally:
            if here and self._when == AFTER:
                self._strike()

    def __enter__(self) -> Self:
        os_calls = {
            name: self._of_paths(call, getattr(os, name))
            for name, call in [
                ("replace", "replace"),
                ("rename", "replace"),
                ("unlink", "unlink"),
                ("remove", "unlink"),
                ("rmdir", "unlink"),
                ("mkdir", "mkdir"),
                ("link", "link"),
                ("truncate", "truncate"),
            ]
        }
        os_calls |= {"fsync": self._fsync, "open": self._os_open(os.open), "pwrite": self._pwrite(os.pwrite)}
        patches = [mock.patch.object(os, name, call) for name, call in os_calls.items()]
        opened = self._open(io.open)
        patches += [mock.patch.object(io, "open", opened), mock.patch.object(builtins, "open", opened)]
        self._patches = patches
        for patch in patches:
            patch.start()
        return self

    def __exit__(self, *_: object) -> None:
        for patch in self._patches:
            patch.stop()

    # ------------------------------------------------------------------ the calls

    def _within(self, path: object) -> str | None:
        """The path as text, where it is in the folder."""
        if not isinstance(path, str | os.PathLike):
            return None
        text = os.path.abspath(os.fspath(path))  # noqa: PTH100 - of a text, and often
        return text if text.startswith(self._root) else None

    def _of_paths(self, call: str, real: Callable[..., object]) -> Callable[..., object]:
        """A call whose last path is the one that it is about: that which is renamed to, or linked to."""

        def called(*given: object, **more: object) -> object:
            inside = [path for path in map(self._within, given) if path is not None]
            if not inside:
                return real(*given, **more)
            return self.step(call, inside[-1], lambda: real(*given, **more))

        return called

    def _fsync(self, handle: int) -> None:
        self.step("flush", self._handles.get(handle, self._root), lambda: None)

    def _os_open(self, real: Callable[..., int]) -> Callable[..., int]:
        def called(path: object, flags: int, *more: object, **named: object) -> int:
            inside = self._within(path)
            if inside is None:
                return real(path, flags, *more, **named)
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            handle = (
                self.step("open", inside, lambda: real(path, flags, *more, **named))
                if writes
                else real(path, flags, *more, **named)
            )
            self._handles[handle] = inside
            return handle

        return called

    def _pwrite(self, real: Callable[..., int]) -> Callable[..., int]:
        def called(handle: int, data: bytes, offset: int) -> int:
            path = self._handles.get(handle, self._root)
            half = data[: len(data) // 2]
            return self.step(
                "write", path, lambda: real(handle, data, offset), lambda: real(handle, half, offset)
            )  # fmt: skip

        return called

    def _open(self, real: Callable[..., io.IOBase]) -> Callable[..., object]:
        def called(file: object, mode: str = "r", *more: object, **named: object) -> object:
            path = self._handles.get(file) if isinstance(file, int) else self._within(file)
            if path is None or not _WRITES & set(mode):
                return real(file, mode, *more, **named)
            if isinstance(file, int):  # open already
                stream = real(file, mode, *more, **named)
            else:
                stream = self.step("open", path, lambda: real(file, mode, *more, **named))
            self._handles[stream.fileno()] = path
            return _Stream(self, path, stream)

        return called


class _Stream:
    """A file that is written to; what is written is with the system at once."""

    def __init__(self, trap: Trap, path: str, stream: io.IOBase) -> None:
        self._trap = trap
        self._path = path
        self._stream = stream

    def write(self, data: bytes) -> int:
        return self._trap.step("write", self._path, lambda: self._written(data), lambda: self._written(_half(data)))

    def _written(self, data: bytes) -> int:
        self._stream.write(data)
        self._stream.flush()
        return len(data)

    def truncate(self, size: int | None = None) -> int:
        return self._trap.step("truncate", self._path, lambda: self._stream.truncate(size))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def _half(data: bytes) -> bytes:
    return data[: len(data) // 2]


# ---------------------------------------------------------------------- processes


def forked(work: Callable[[], None]) -> int:
    """Do something in a process of its own; return its number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads that wait do not matter: it computes nothing
        child = os.fork()
    if not child:
        status = 1
        try:
            work()
            status = 0
        except BaseException:  # noqa: BLE001 - whatever it is, this process must not go on as the one that tests
            traceback.print_exc()
        finally:
            os._exit(status)
    return child


def ended(child: int) -> int:
    """Wait for a process; return its exit status, or minus the signal it died of."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def in_a_child(work: Callable[[], None]) -> int:
    """Do something in a process of its own, and wait for it."""
    return ended(forked(work))


@contextmanager
def no_flushing() -> Iterator[None]:
    """Nobody pulls the plug while this runs."""
    with mock.patch.object(os, "fsync"):
        yield


def points(steps: Sequence[Step]) -> list[tuple[int, str]]:
    """Every instant at which a process that takes these steps can be killed."""
    found = []
    for number, one in enumerate(steps):
        found += [(number, when) for when in (BEFORE, HALF, AFTER) if when != HALF or one.call == "write"]
    return found


def counts(steps: Sequence[Step]) -> Mapping[str, int]:
    """How many steps there are of each call."""
    return {call: sum(one.call == call for one in steps) for call in sorted({one.call for one in steps})}
