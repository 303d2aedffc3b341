"""`LocalExecutor`: tasks run in worker processes on this machine, in parallel, with a pinned environment.

Workers are fresh interpreters (never forks: a fork inherits threads, locks and state) that talk over pipes, so a script
needs no `if __name__ == "__main__"`. They are started when first needed, kept for the next task, and end with us.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Self

import receraser
from receraser import errors
from receraser.execution.environment import worker_variables
from receraser.execution.messages import Arrays, Message, pack_task, read_message, unpack_result, write_message
from receraser.execution.task import Result, Task
from receraser.protocols import Progress

__all__ = ["LocalExecutor", "workers_for"]

_GPU_WORKERS = 2  # processes that share one GPU take turns: more of them only wait
_PIPE = 1 << 20  # bytes that a pipe should hold, so that few switches are needed


def workers_for(device: str) -> int | None:
    """Return how many workers serve a device; None: one per core."""
    return _GPU_WORKERS if device == "cuda" else None


class LocalExecutor:
    """Runs tasks in worker processes.

    Parameters
    ----------
    n_workers
        At most so many at a time; by default one per core. The results do not depend on it.
    threads
        Threads of our kernels in each worker; by default the tasks that run share out the cores. The results do not
        depend on it.
    """

    def __init__(self, n_workers: int | None = None, threads: int | None = None) -> None:
        self._cores = len(os.sched_getaffinity(0))
        self._n_workers = n_workers or self._cores
        self._threads = threads
        self._workers: list[_Worker] = []
        self._environment: Mapping[str, object] = {}
        self._lock = threading.RLock()  # a pipe is for one at a time: whoever borrows it in another thread waits
        self._numbers = itertools.count()

    @property
    def environment(self) -> Mapping[str, object]:
        """What the workers said about themselves when they were prepared."""
        return self._environment

    def prepare(self, toys: Sequence[Task], n_tasks: int = 1) -> None:
        """Start the workers and let them import and compile; time spent here is nobody's training time."""
        with self._lock:
            self._prepare(toys, n_tasks)

    def _prepare(self, toys: Sequence[Task], n_tasks: int) -> None:
        for _ in range(len(self._workers), max(1, min(self._n_workers, n_tasks))):
            self._workers.append(_Worker(self._threads or self._cores))
        device = next((d for d in map(_device, toys) if d != "cpu"), "cpu")
        kinds = {json.dumps([device, toy.kind, dict(toy.settings)], sort_keys=True, default=str) for toy in toys}
        kinds |= {device}
        new = [worker for worker in self._workers if not kinds <= worker.warm]  # a worker needs it once
        try:
            for toy in toys:
                for worker in new:
                    worker.send("task", *_with_threads(toy, 1))
                for worker in new:
                    with contextlib.suppress(errors.TrainingError):  # a toy may diverge where the rows would not
                        worker.receive(None)
            for worker in new:
                worker.send("environment", {"device": device}, {})
            for worker in new:
                worker.environments[device] = worker.receive(None)[1]
                worker.warm |= kinds
            answers = [worker.environments[device] for worker in self._workers]
            if any(answer != answers[0] for answer in answers):
                raise errors.TrainingError("the workers found themselves in different environments; try again")
            self._environment = answers[0]
        except BaseException:
            self.close(kill=True)  # other workers' answers lie unread in their pipes and would be taken for later ones
            raise

    def run(self, tasks: Iterable[Task], *, progress: Progress | None = None) -> list[Result]:
        """Run the tasks; the results come in the order of the tasks."""
        todo = list(tasks)
        if not todo:
            return []
        with self._lock:
            return self._run(todo, progress)

    def _run(self, todo: list[Task], progress: Progress | None) -> list[Result]:
        if not self._workers:
            self._prepare([], len(todo))
        workers = self._workers[: len(todo)]
        share = self._threads or max(1, self._cores // len(workers))
        queue: SimpleQueue[tuple[int, int]] = SimpleQueue()
        for place in range(len(todo)):
            queue.put((place, next(self._numbers)))
        results: list[Result | None] = [None] * len(todo)
        failures: list[BaseException] = []
        threads = [
            threading.Thread(target=_drive, args=(worker, share, todo, queue, results, failures, progress), daemon=True)
            for worker in workers
        ]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive() and not failures:
                    thread.join(0.1)
        except BaseException:  # of the keyboard or of a signal's handler: answers lie unread in the pipes
            self.close(kill=True)
            raise
        if failures:  # the others may have hours to go, for nothing
            self.close(kill=True)
            raise failures[0]
        return [result for result in results if result is not None]

    def close(self, *, kill: bool = False) -> None:
        """End the workers."""
        for worker in self._workers:
            worker.end(kill=kill)
        self._workers = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _drive(
    worker: _Worker,
    share: int,
    todo: list[Task],
    queue: SimpleQueue[tuple[int, int]],
    results: list[Result | None],
    failures: list[BaseException],
    progress: Progress | None,
) -> None:
    """Hand one worker tasks until there are none left, or something failed anywhere."""
    while not failures:
        try:
            # And not `empty`, then `get`: another thread may take the last one in between.
            place, number = queue.get_nowait()
        except Empty:
            return
        try:
            meta, arrays = _with_threads(todo[place], share)
            worker.send("task", meta | {"number": number}, arrays)
            _, answer, arrays = worker.receive(progress)
            if answer.get("number") != number:  # it would become a shard's weights
                raise errors.TrainingError("a worker gave the answer to another task: our fault, nothing was taken")
            results[place] = unpack_result(answer, arrays)
        except BaseException as error:  # noqa: BLE001 - carried over to the caller's thread
            failures.append(error)


def _with_threads(task: Task, threads: int) -> tuple[dict[str, object], Arrays]:
    """Return a task as a message that also says how many threads our kernels may use; the result is the same."""
    meta, arrays = pack_task(task)
    return meta | {"threads": threads}, arrays


def _device(task: Task) -> str:
    """Return where a task computes."""
    settings = [task.settings, *(value for value in task.settings.values() if isinstance(value, Mapping))]
    return next((str(one["device"]) for one in settings if one.get("device", "cpu") != "cpu"), "cpu")


class _Worker:
    """One process and its two pipes."""

    def __init__(self, threads: int) -> None:
        self.warm: set[str] = set()  # the kinds of tasks that it has imported and compiled everything for
        self.environments: dict[str, Mapping[str, object]] = {}  # what it said about itself, by device
        home = str(Path(receraser.__file__).parent.parent)
        paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "receraser.execution.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=worker_variables(threads, os.environ) | {"PYTHONPATH": os.pathsep.join(paths)},
        )
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(OSError):  # a user may have so much in pipes and no more: then it stays as it is
                fcntl.fcntl(stream, fcntl.F_SETPIPE_SZ, _PIPE)

    def send(self, kind: str, meta: Mapping[str, object], arrays: Mapping[str, object]) -> None:
        """Send a request."""
        assert self._process.stdin is not None
        try:
            write_message(self._process.stdin, kind, meta, arrays)  # type: ignore[arg-type]
        except BrokenPipeError:
            raise self._death() from None

    def receive(self, progress: Progress | None) -> Message:
        """Wait for the answer, passing progress on; an error over there is raised here."""
        assert self._process.stdout is not None
        while True:
            try:
                message = read_message(self._process.stdout)  # type: ignore[arg-type]
            except EOFError:  # it died in the middle of an answer
                message = None
            if message is None:
                raise self._death()
            kind, meta, _ = message
            if kind == "error":
                kinds: dict[str, Callable[[str], Exception]] = {
                    name: getattr(errors, name) for name in errors.__all__ if name.endswith("Error")
                }
                raise kinds[str(meta["type"])](str(meta["text"]))
            if kind != "progress":
                return message
            if progress is not None:
                progress(str(meta["what"]), int(str(meta["done"])), int(str(meta["total"])))

    def _death(self) -> errors.TrainingError:
        code = self._process.wait()
        self._log.seek(0)
        tail = self._log.read()[-2000:].decode(errors="replace").strip()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
        hint = " (out of memory?)" if code == -9 else ""
        return errors.TrainingError(f"a training worker {how}{hint}" + (f"; its last words:\n{tail}" if tail else ""))

    def end(self, *, kill: bool) -> None:
        """Close the pipe, which ends the process; or kill it."""
        if kill:
            self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
