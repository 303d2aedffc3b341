from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest

from receraser import fingerprint
from receraser.data.interactions import Interactions
from receraser.execution import worker
from receraser.execution.environment import recorded
from receraser.execution.messages import Message, read_message, write_message
from receraser.execution.task import FitTask, run_task
from receraser.execution.worker import pack_task, serve
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


def fit(task: FitTask) -> tuple[str, dict[str, object], dict[str, object]]:
    return ("fit", *pack_task(task))


def test_a_task_is_packed_with_all_that_it_depends_on() -> None:
    world = checkerboard()
    meta, arrays = pack_task(FitTask("bpr", {"dim": 4}, 2**63, world.train, world.held_out))
    assert meta == {"model": "bpr", "hyperparameters": {"dim": 4}, "seed": 2**63, "valid": True}
    assert len(arrays) == 8
    meta, arrays = pack_task(FitTask("bpr", {"dim": 4}, 1, world.train))
    assert not meta["valid"]
    assert len(arrays) == 4


@pytest.mark.parametrize("valid", [None, Interactions.empty(), checkerboard().held_out])
def test_a_fit_over_there_is_the_fit_over_here(valid: Interactions | None) -> None:
    task = FitTask("bpr", QUICK, 2**63 + 5, checkerboard().train, valid)
    *progress, (kind, meta, state) = answers(fit(task))
    here = run_task(task)
    assert kind == "result"
    assert fingerprint.of_tensors(state) == fingerprint.of_tensors(here.state)
    assert meta["facts"] == json.loads(json.dumps(here.facts))
    assert progress[-1] == ("progress", {"what": "epochs", "done": 4, "total": 4}, {})


def test_nothing_is_kept_between_tasks() -> None:
    one = FitTask("bpr", QUICK, 1, checkerboard().train)
    other = FitTask("lightgcn", QUICK, 2, checkerboard().held_out)
    states = [
        fingerprint.of_tensors(state) for kind, _, state in answers(*map(fit, (one, other, one))) if kind == "result"
    ]
    assert states[0] == states[2] != states[1]


def test_progress_comes_now_and_then_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    task = FitTask("bpr", QUICK | {"n_epochs": 30}, 1, checkerboard().train)
    monkeypatch.setattr(worker, "_PROGRESS_EVERY", 1e9)
    told = [meta["done"] for kind, meta, _ in answers(fit(task)) if kind == "progress"]
    assert told[-1] == 30
    assert len(told) <= 2
    monkeypatch.setattr(worker, "_PROGRESS_EVERY", 0.0)
    told = [meta["done"] for kind, meta, _ in answers(fit(task)) if kind == "progress"]
    assert told == list(range(1, 31))


def test_errors_are_answers_and_the_next_request_is_served() -> None:
    rows = checkerboard().train
    bad, diverging = (
        FitTask("wmf", {"solver": "guess"}, 1, rows),
        FitTask("bpr", {"dim": 4, "n_epochs": 3, "learning_rate": 1e38}, 1, rows),
    )
    found = answers(fit(bad), fit(diverging), fit(FitTask("bpr", QUICK, 1, rows)))
    kinds = [(kind, meta.get("type")) for kind, meta, _ in found if kind != "progress"]
    assert kinds == [("error", "UsageError"), ("error", "TrainingError"), ("result", None)]
    assert found[0][1]["text"] == "wmf: unknown solver 'guess': expected als or adagrad"


def test_too_little_memory_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(worker, "run_task", exhausted)
    ((kind, meta, _),) = answers(fit(FitTask("bpr", QUICK, 1, checkerboard().train)))
    assert kind == "error"
    assert meta == {"type": "TrainingError", "text": "a worker ran out of memory"}


@pytest.mark.parametrize("model", ["bpr", "wmf", "lightgcn"])
def test_warming_up_answers_with_the_environment(model: str) -> None:
    ((kind, meta, _),) = answers(
        (
            "warm",
            {
                "model": model,
                "hyperparameters": {"dim": 4, "n_epochs": 10**7, "n_sweeps": 1}
                if model == "wmf"
                else {"dim": 4, "n_epochs": 10**7},
            },
            {},
        )
    )
    assert kind == "warm"
    assert meta == recorded("cpu")


def test_a_toy_that_diverges_is_nobodys_business_but_a_wrong_name_is() -> None:
    diverging: dict[str, object] = {"dim": 4, "n_epochs": 3, "learning_rate": 1e38}
    found = answers(
        ("warm", {"model": "bpr", "hyperparameters": diverging}, {}),
        ("warm", {"model": "wmf", "hyperparameters": {"solver": "guess"}}, {}),
    )
    assert [(kind, meta.get("type")) for kind, meta, _ in found] == [("warm", None), ("error", "UsageError")]
