from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numba
import pytest
import torch

import receraser
from receraser.errors import DataError, TrainingError
from receraser.execution import local
from receraser.execution.environment import pinned_variables
from receraser.execution.local import LocalExecutor, workers_for
from receraser.execution.task import Task, submodel_task
from receraser.execution.toys import toy_submodel
from tests.contracts.executor_contract import ExecutorContract, digests, tasks
from tests.contracts.worlds import checkerboard
from tests.nightly import nightly

SOURCE = str(Path(receraser.__file__).parents[1])
LONG: dict[str, object] = {"dim": 4, "n_epochs": 10**7}


@pytest.fixture(scope="module")
def two_workers() -> Iterator[LocalExecutor]:
    with LocalExecutor(2, threads=1) as executor:
        yield executor


def pids(executor: LocalExecutor) -> list[int]:
    return [worker._process.pid for worker in executor._workers]


def alive(pid: int) -> bool:
    """A zombie that nobody has collected yet is as dead as one that somebody has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def cpu_seconds(pid: int) -> float:
    """What a process has computed so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / os.sysconf("SC_CLK_TCK")


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


# ---------------------------------------------------------------------- the same bits everywhere

ALONE = """
import json, torch
import receraser.execution.worker as worker
from receraser.execution.task import run_task
from tests.contracts.executor_contract import digests, tasks

def look_around(requests, replies):
    print("a stray print")
    pins = [torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()]
    replies.write(json.dumps([pins, digests([run_task(task) for task in tasks()])]).encode())
    replies.flush()

worker.serve = look_around
worker.main()
"""


@nightly
def test_the_bits_depend_neither_on_workers_nor_on_threads_nor_on_who_asks(two_workers: LocalExecutor) -> None:
    """Two workers of one thread each, or all tasks in one process with two threads for our kernels.

    That process is a worker seen from inside. It finds a single thread for torch whatever its environment says.
    """
    expected = digests(two_workers.run(tasks()))
    threads = {"OMP_NUM_THREADS": "4", "MKL_NUM_THREADS": "4"}
    paths = os.pathsep.join([SOURCE, str(Path(__file__).parents[2])])
    changes = {"PYTHONPATH": paths, "PYTHONHASHSEED": "7"} | threads
    alone = subprocess.run(
        [sys.executable, "-c", ALONE], env=os.environ | pinned_variables(2) | changes, capture_output=True, check=True
    )
    assert json.loads(alone.stdout) == [[1, True], expected]
    assert alone.stderr.decode().strip() == "a stray print", "what is printed does not get into the answers"


def test_pins_are_in_place_before_anything_is_imported(two_workers: LocalExecutor) -> None:
    two_workers.prepare([toy_submodel("wmf", {"dim": 4})], 2)
    assert len(pids(two_workers)) == 2
    for pid in pids(two_workers):
        raw = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        variables = dict(entry.decode().split("=", 1) for entry in raw if b"=" in entry)
        assert pinned_variables(1).items() <= variables.items()
    noted = two_workers.environment
    assert noted["device"] == "cpu"
    assert noted["version.torch"] == torch.__version__
    assert noted["version.numba"] == numba.__version__


class TestTwoWorkers(ExecutorContract):
    @pytest.fixture
    def executor(self, two_workers: LocalExecutor) -> LocalExecutor:
        return two_workers


# ---------------------------------------------------------------------- the end


def test_a_killed_worker_is_an_error_that_says_so(two_workers: LocalExecutor) -> None:
    two_workers.prepare([toy_submodel("bpr", LONG)])
    pid = pids(two_workers)[0]
    with pytest.raises(TrainingError, match=r"a training worker was killed by signal 9 \(out of memory\?\)"):
        two_workers.run(
            [submodel_task("bpr", LONG, 1, checkerboard().train)],
            progress=lambda what, done, total: os.kill(pid, signal.SIGKILL),
        )
    assert pids(two_workers) == [], "the next run starts new ones"


def test_an_error_while_waiting_leaves_no_answer_to_be_taken_for_another(
    two_workers: LocalExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler of a signal may raise in the thread that waits."""
    expected = digests(two_workers.run(tasks()))
    join = threading.Thread.join

    def interrupted(self: threading.Thread, timeout: float | None = None) -> None:
        join(self, timeout)
        raise TimeoutError("an alarm went off")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "join", interrupted)
        with pytest.raises(TimeoutError):
            two_workers.run([submodel_task("bpr", LONG, 1, checkerboard().train)])
    assert pids(two_workers) == []
    assert digests(two_workers.run(tasks())) == expected


def test_two_threads_may_borrow_it_at_once(two_workers: LocalExecutor) -> None:
    some = tasks()
    expected = [digests(two_workers.run([one])) for one in some]
    found: dict[int, list[str]] = {}

    def borrow(number: int) -> None:
        found[number] = [one for _ in range(5) for one in digests(two_workers.run([some[number]]))]

    threads = [threading.Thread(target=borrow, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: 5 * expected[number] for number in range(2)}


def test_the_answer_to_another_task_is_not_taken(two_workers: LocalExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    receive = local._Worker.receive

    def of_another(self: local._Worker, progress: object) -> object:
        kind, meta, arrays = receive(self, None)
        return kind, {**meta, "number": -1}, arrays

    monkeypatch.setattr(local._Worker, "receive", of_another)
    with pytest.raises(TrainingError, match="the answer to another task"):
        two_workers.run(tasks()[:1])


PARENT = """
from receraser.data.interactions import Interactions
from receraser.execution.local import LocalExecutor
from receraser.execution.task import submodel_task
from receraser.execution.toys import toy_submodel
executor = LocalExecutor(2, threads=1)
executor.prepare([toy_submodel("wmf", {"dim": 4})], 2)
print(*[worker._process.pid for worker in executor._workers], flush=True)
rows = Interactions.from_pairs([(u, i) for u in range(400) for i in range(400) if u != i])
executor.run([submodel_task("bpr", {"dim": 4, "n_epochs": 1, "batch_size": 1}, 1, rows)])  # an epoch of 160,000 steps
print("that was quick")
"""


def test_workers_end_with_their_parent_however_that_ends() -> None:
    """One of them waits for a task; the other is in the middle of one, and will not look at its pipe for long."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": SOURCE},
    )
    try:
        assert parent.stdout is not None
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(workers) == 2
        assert all(alive(pid) for pid in workers)
        busy = cpu_seconds(workers[0])
        assert wait_until(lambda: cpu_seconds(workers[0]) > busy + 0.3, 10), "it has not begun"
        parent.kill()
        parent.wait()
        assert wait_until(lambda: not any(alive(pid) for pid in workers), 15), "a worker outlives its parent"
    finally:
        parent.kill()
        rest, _ = parent.communicate()
    assert rest == b"", "the task should have gone on for a long time"


# ---------------------------------------------------------------------- workers that only play a part

STUB = """#!{python}
import os, sys, time
sys.path.insert(0, {source!r})
from receraser.execution.messages import read_message, write_message
import numpy as np
out = sys.stdout.buffer
while (message := read_message(sys.stdin.buffer)) is not None:
    kind, meta, arrays = message
    if kind == "environment":
        write_message(out, "environment", {{"device": meta["device"], "who": os.environ.get("WHO", "all")}}, {{}})
        continue
    part, seed = meta["settings"]["hyperparameters"]["part"], meta["settings"]["seed"]
    if part == "die":
        sys.exit("something went wrong in here")
    if part == "break off":
        out.write((100).to_bytes(8, "little") + b"[1, 2")
        out.flush()
        os._exit(4)
    if part == "sleep":
        time.sleep(60)
    if part == "diverge":
        write_message(out, "error", {{"type": "TrainingError", "text": "the loss is no number"}}, {{}})
    elif part == "refuse":
        write_message(out, "error", {{"type": "DataError", "text": "x.csv, line 3: no item"}}, {{}})
    else:
        found = {{"array seed": np.array([seed]), "array threads": np.array([meta["threads"]])}}
        answer = {{"facts": {{}}, "seconds": 0, "ids": [], "arrays": ["seed", "threads"], "number": meta.get("number")}}
        write_message(out, "result", answer, found)
"""


@pytest.fixture
def stubs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalExecutor]:
    """An executor whose workers start at once and do as they are told."""
    script = tmp_path / "stub"
    script.write_text(STUB.format(python=sys.executable, source=SOURCE))
    script.chmod(0o755)
    with monkeypatch.context() as patch, LocalExecutor(2, threads=1) as executor:
        patch.setattr(sys, "executable", str(script))
        yield executor


def part(name: str, seed: int = 1, **more: object) -> Task:
    return submodel_task("stub", {"part": name, **more}, seed, checkerboard().train)


def test_no_more_workers_than_tasks_and_they_are_kept(stubs: LocalExecutor) -> None:
    stubs.prepare([part("work")], 1)
    (first,) = pids(stubs)
    stubs.prepare([part("work")], 1)
    assert pids(stubs) == [first]
    stubs.prepare([], 7)
    both = pids(stubs)
    assert len(both) == 2, "no more than asked for"
    assert both[0] == first
    stubs.prepare([], 1)
    found = stubs.run(part("work", seed) for seed in range(20))
    assert [result.arrays["seed"].tolist() for result in found] == [[seed] for seed in range(20)]
    assert pids(stubs) == both


def test_workers_start_by_themselves(stubs: LocalExecutor) -> None:
    assert len(stubs.run([part("work")])) == 1
    assert len(pids(stubs)) == 1
    assert len(stubs.run(part("work") for _ in range(3))) == 3


def test_the_cores_are_shared_out_among_the_tasks_that_run(stubs: LocalExecutor) -> None:
    stubs._threads, stubs._cores = None, 5
    stubs.prepare([], 2)
    assert [result.arrays["threads"].tolist() for result in stubs.run([part("work")])] == [[5]]
    assert [result.arrays["threads"].tolist() for result in stubs.run([part("work")] * 3)] == [[2]] * 3
    stubs._cores = 1
    assert [result.arrays["threads"].tolist() for result in stubs.run([part("work")] * 2)] == [[1]] * 2


def test_the_environment_is_that_of_the_device_that_computes(stubs: LocalExecutor) -> None:
    assert stubs.environment == {}
    stubs.prepare([part("work")])
    assert stubs.environment == {"device": "cpu", "who": "all"}
    stubs.prepare([part("work"), part("work", device="cuda"), part("work", device="cpu")])
    assert stubs.environment == {"device": "cuda", "who": "all"}


def test_workers_in_different_environments_are_refused(stubs: LocalExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    stubs.prepare([])
    monkeypatch.setenv("WHO", "another")
    with pytest.raises(TrainingError, match="the workers found themselves in different environments"):
        stubs.prepare([], 2)
    assert pids(stubs) == []


def test_a_toy_may_diverge(stubs: LocalExecutor) -> None:
    stubs.prepare([part("diverge"), part("work")], 2)
    assert len(stubs.run(part("work") for _ in range(4))) == 4


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """Which worker was sent what, by its process."""
    seen: list[tuple[int, str]] = []
    send = local._Worker.send

    def noted(worker: local._Worker, kind: str, meta: Mapping[str, object], arrays: Mapping[str, object]) -> None:
        seen.append((worker._process.pid, kind))
        send(worker, kind, meta, arrays)

    monkeypatch.setattr(local._Worker, "send", noted)
    return seen


def test_a_worker_is_warmed_once_for_each_kind_of_task(stubs: LocalExecutor, asked: list[tuple[int, str]]) -> None:
    toys = [part("work"), part("diverge")]
    stubs.prepare(toys)
    (first,) = pids(stubs)
    assert asked == [(first, "task"), (first, "task"), (first, "environment")]
    asked.clear()
    stubs.prepare(toys)
    stubs.prepare(toys[:1])
    stubs.prepare([])
    assert asked == [], "it has seen all that before"
    stubs.prepare([part("work", dim=8)])
    assert asked == [(first, "task"), (first, "environment")], "other settings may compile something else"
    assert stubs.environment == {"device": "cpu", "who": "all"}


def test_a_worker_that_comes_later_is_warmed_alone(stubs: LocalExecutor, asked: list[tuple[int, str]]) -> None:
    stubs.prepare([part("work")], 1)
    asked.clear()
    stubs.prepare([part("work")], 2)
    _, second = pids(stubs)
    assert asked == [(second, "task"), (second, "environment")]


def test_workers_that_come_after_an_end_are_warmed_anew(stubs: LocalExecutor, asked: list[tuple[int, str]]) -> None:
    stubs.prepare([part("work")])
    with pytest.raises(DataError):
        stubs.prepare([part("refuse")])
    asked.clear()
    stubs.prepare([part("work")])
    (new,) = pids(stubs)
    assert asked == [(new, "task"), (new, "environment")]


def test_what_is_warm_for_one_device_is_not_for_another(stubs: LocalExecutor, asked: list[tuple[int, str]]) -> None:
    stubs.prepare([part("work")])
    asked.clear()
    stubs.prepare([part("work", device="cuda")])
    assert [kind for _, kind in asked] == ["task", "environment"]
    assert stubs.environment == {"device": "cuda", "who": "all"}
    asked.clear()
    stubs.prepare([part("work")])
    assert stubs.environment == {"device": "cpu", "who": "all"}, "as it said then"
    assert asked == []


def test_pipes_stay_small_where_the_system_gives_no_more(stubs: LocalExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ordinary user may have 64 MiB in pipes altogether, which many workers use up."""

    def refuse(*_: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("receraser.execution.local.fcntl.fcntl", refuse)
    assert len(stubs.run([part("work"), part("work")])) == 2


def test_closing_ends_the_workers(stubs: LocalExecutor) -> None:
    stubs.prepare([], 2)
    both = pids(stubs)
    assert all(alive(pid) for pid in both)
    stubs.close()
    assert not any(alive(pid) for pid in both)
    stubs.close()
    assert pids(stubs) == []


def test_a_worker_that_ends_is_quoted(stubs: LocalExecutor) -> None:
    with pytest.raises(TrainingError, match=r"(?s)ended with status 1; its last words:\nsomething went wrong in here"):
        stubs.run([part("die")])


def test_a_worker_that_ends_over_a_toy_is_quoted_too(stubs: LocalExecutor) -> None:
    with pytest.raises(TrainingError, match="something went wrong in here"):
        stubs.prepare([part("die")], 2)
    assert pids(stubs) == []


def test_a_worker_that_ends_in_the_middle_of_an_answer(stubs: LocalExecutor) -> None:
    stubs.prepare([])
    with pytest.raises(TrainingError, match=r"a training worker ended with status 4$"):
        stubs.run([part("break off")])


def test_a_worker_killed_while_it_waited(stubs: LocalExecutor) -> None:
    stubs.prepare([], 2)
    pid = pids(stubs)[0]
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: not alive(pid), 3)
    with pytest.raises(TrainingError, match="killed by signal 9"):
        stubs.run([part("work"), part("work")])
    assert len(stubs.run([part("work"), part("work")])) == 2


def test_an_error_over_there_is_raised_here(stubs: LocalExecutor) -> None:
    stubs.prepare([])
    with pytest.raises(DataError, match=r"^x\.csv, line 3: no item$"):
        stubs.run([part("refuse")])


def test_after_a_failed_start_no_answer_is_taken_for_another(stubs: LocalExecutor) -> None:
    """Both workers refuse; the refusal of the second, which nobody has read, must not answer the next request."""
    with pytest.raises(DataError):
        stubs.prepare([part("refuse")], 2)
    stubs.prepare([], 2)
    assert len(stubs.run(part("work", seed) for seed in range(4))) == 4


def test_after_a_failure_no_further_task_is_started(stubs: LocalExecutor) -> None:
    stubs.prepare([], 1)
    started = time.monotonic()
    with pytest.raises(DataError):
        stubs.run([part("work"), part("refuse"), part("sleep")])
    assert time.monotonic() - started < 10


def test_few_workers_share_a_gpu() -> None:
    assert workers_for("cpu") is None
    assert workers_for("cuda") == 2
