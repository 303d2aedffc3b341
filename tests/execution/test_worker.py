from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator

import numba
import pytest

from receraser.data.interactions import Interactions
from receraser.execution import worker
from receraser.execution.environment import recorded, worker_variables
from receraser.execution.messages import Message, pack_task, read_message, unpack_result, write_message
from receraser.execution.task import Task, run_task, submodel_task
from receraser.execution.worker import serve
from receraser.training.kernels import use_threads
from tests.contracts.executor_contract import digest, digests, tasks
from tests.contracts.worlds import checkerboard

QUICK: dict[str, object] = {"dim": 5, "n_epochs": 4, "validate_every": 2}


def answers(*requests: tuple[str, dict[str, object], dict[str, object]]) -> list[Message]:
    """What a worker says to these requests, without the process around it."""
    asked, said = io.BytesIO(), io.BytesIO()
    for kind, meta, arrays in requests:
        write_message(asked, kind, meta, arrays)  # type: ignore[arg-type]
    asked.seek(0)
    serve(asked, said)
    said.seek(0)

    def messages() -> Iterator[Message]:
        while (message := read_message(said)) is not None:
            yield message

    return list(messages())


Request = tuple[str, dict[str, object], dict[str, object]]


def asked(task: Task, threads: int = 1) -> Request:
    meta, arrays = pack_task(task)
    return "task", meta | {"threads": threads}, dict(arrays)


def results(*requests: Request) -> list[str]:
    """The digests of what came out, in the order of the requests."""
    return digests(unpack_result(meta, arrays) for kind, meta, arrays in answers(*requests) if kind == "result")


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """A worker sets the threads of its process; here it is ours."""
    before = numba.get_num_threads()
    yield
    numba.set_num_threads(before)


@pytest.mark.parametrize("valid", [None, Interactions.empty(), checkerboard().held_out])
def test_a_fit_over_there_is_the_fit_over_here(valid: Interactions | None) -> None:
    task = submodel_task("bpr", QUICK, 2**63 + 5, checkerboard().train, valid)
    *progress, (kind, meta, arrays) = answers(asked(task))
    here, there = run_task(task), unpack_result(meta, arrays)
    assert kind == "result"
    assert digest(there) == digest(here)
    assert there.facts == json.loads(json.dumps(here.facts))
    assert progress[-1] == ("progress", {"what": "epochs", "done": 4, "total": 4}, {})


def test_every_kind_of_task_over_there_is_the_task_over_here() -> None:
    assert results(*map(asked, tasks())) == digests(map(run_task, tasks()))


def test_the_threads_of_a_task_change_nothing() -> None:
    counts = []

    def counted(n: int) -> None:
        counts.append(n)
        use_threads(n)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "use_threads", counted)
        one, two, many = (results(*(asked(task, threads) for task in tasks())) for threads in (1, 2, 64))
    assert one == two == many
    assert counts == [1] * len(tasks()) + [2] * len(tasks()) + [64] * len(tasks())


def test_nothing_is_kept_between_tasks() -> None:
    one = submodel_task("bpr", QUICK, 1, checkerboard().train)
    other = submodel_task("lightgcn", QUICK, 2, checkerboard().held_out)
    found = results(*map(asked, (one, other, one)))
    assert found[0] == found[2] != found[1]


def test_progress_comes_now_and_then_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    task = submodel_task("bpr", QUICK | {"n_epochs": 30}, 1, checkerboard().train)
    monkeypatch.setattr(worker, "_PROGRESS_EVERY", 1e9)
    told = [meta["done"] for kind, meta, _ in answers(asked(task)) if kind == "progress"]
    assert told[-1] == 30
    assert len(told) <= 2
    monkeypatch.setattr(worker, "_PROGRESS_EVERY", 0.0)
    told = [meta["done"] for kind, meta, _ in answers(asked(task)) if kind == "progress"]
    assert told == list(range(1, 31))


def test_errors_are_answers_and_the_next_request_is_served() -> None:
    rows = checkerboard().train
    bad, diverging = (
        submodel_task("wmf", {"solver": "guess"}, 1, rows),
        submodel_task("bpr", {"dim": 4, "n_epochs": 3, "learning_rate": 1e38}, 1, rows),
    )
    found = answers(asked(bad), asked(diverging), asked(submodel_task("bpr", QUICK, 1, rows)))
    kinds = [(kind, meta.get("type")) for kind, meta, _ in found if kind != "progress"]
    assert kinds == [("error", "UsageError"), ("error", "TrainingError"), ("result", None)]
    assert found[0][1]["text"] == "wmf: unknown solver 'guess': known: adagrad, als"


def test_too_little_memory_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(worker, "run_task", exhausted)
    ((kind, meta, _),) = answers(asked(submodel_task("bpr", QUICK, 1, checkerboard().train)))
    assert kind == "error"
    assert meta == {"type": "TrainingError", "text": "a worker ran out of memory"}


def test_it_says_where_it_is() -> None:
    ((kind, meta, arrays),) = answers(("environment", {"device": "cpu"}, {}))
    assert (kind, arrays) == ("environment", {})
    assert meta == recorded("cpu")


def test_it_is_deterministic_and_imports_no_compiler() -> None:
    """`torch.use_deterministic_algorithms` would import one: twice the time and a third more memory, in each worker."""
    source = """
import sys
from receraser.execution import toys, worker
from receraser.execution.task import run_task
worker.main()
for model in ("wmf", "bpr", "lightgcn"):
    run_task(toys.toy_submodel(model, {"n_epochs": 2}))
    for aggregation in ("attention", "static", "spectral"):
        run_task(toys.toy_aggregation(aggregation, {}, model, {}))
import torch
print(torch.get_deterministic_debug_mode(), torch.get_num_threads(), "torch._dynamo" in sys.modules, file=sys.stderr)
"""
    ended = subprocess.run(
        [sys.executable, "-c", source],
        env=worker_variables(1, os.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stderr.split() == ["2", "1", "False"]


def test_new_memory_is_written_before_it_is_read() -> None:
    """Workers do not let torch fill it, and numpy never does. Whatever it is filled with, all results are the same."""
    source = """
import sys
from receraser.execution import toys, worker
from receraser.execution.task import run_task
from receraser.fingerprint import of_tensors
worker.main()
import torch
about = torch.utils.deterministic
assert not about.fill_uninitialized_memory
solvers = [("wmf", {"solver": "adagrad", "n_epochs": 2}), ("ease", {}), ("gram", {}), ("graphfilter", {})]
tasks = [toys.toy_sums(*one) or toys.toy_submodel(*one) for one in solvers]
for model in ("wmf", "bpr", "lightgcn"):
    tasks.append(toys.toy_submodel(model, {"n_epochs": 2}))
    for aggregation in ("attention", "static", "spectral"):
        tasks.append(toys.toy_aggregation(aggregation, {}, model, {}))
tasks.append(toys.toy_aggregation("attention", {"user_parts": 2}, "bpr", {}))
tasks += [toys.toy_partition(name, {"n_shards": 2, "dim": 4}) for name in ("inbp", "bekm")]
about.fill_uninitialized_memory = sys.argv[1] == "filled"
for task in tasks:
    print(of_tensors(run_task(task).arrays), file=sys.stderr)
"""
    found = []
    for filled, byte in (("", "0"), ("filled", "165")):  # by torch, and by the C library, with this byte
        ended = subprocess.run(
            [sys.executable, "-c", source, filled],
            env=worker_variables(1, os.environ) | {"MALLOC_PERTURB_": byte},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        found.append(ended.stderr.split())
    assert len(found[0]) == 19
    assert found[0] == found[1]
