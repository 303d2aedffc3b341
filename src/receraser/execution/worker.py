"""A worker process: reads tasks on standard input, fits them, writes results. Started by `execution.local` only.

It is a fresh interpreter whose environment was pinned before anything was imported. It keeps nothing between tasks. It
ends when its parent closes the pipe, and within a second if the parent dies while a task is running.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from typing import BinaryIO

from receraser.data.interactions import Interactions
from receraser.errors import ReceraserError, TrainingError
from receraser.execution.messages import pack_rows, read_message, unpack_rows, write_message
from receraser.execution.task import FitTask, run_task

__all__ = ["pack_task", "serve"]

_PROGRESS_EVERY = 0.1  # seconds between progress messages


def pack_task(task: FitTask) -> tuple[dict[str, object], dict[str, object]]:
    """Return a task as the header and the arrays of a message."""
    meta: dict[str, object] = {
        "model": task.model,
        "hyperparameters": dict(task.hyperparameters),
        "seed": task.seed,
        "valid": task.valid is not None,
    }
    arrays: dict[str, object] = dict(pack_rows("train", task.train))
    if task.valid is not None:
        arrays |= pack_rows("valid", task.valid)
    return meta, arrays


def _unpack_task(meta: dict[str, object], arrays: dict[str, object]) -> FitTask:
    return FitTask(
        model=str(meta["model"]),
        hyperparameters=meta["hyperparameters"],  # type: ignore[arg-type]
        seed=int(meta["seed"]),  # type: ignore[call-overload]
        train=unpack_rows("train", arrays),  # type: ignore[arg-type]
        valid=unpack_rows("valid", arrays) if meta["valid"] else None,  # type: ignore[arg-type]
    )


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests until the stream ends."""
    while (message := read_message(requests)) is not None:
        kind, meta, arrays = message
        try:
            if kind == "warm":
                _warm_up(str(meta["model"]), meta["hyperparameters"])
                write_message(replies, "warm", _environment(meta["hyperparameters"]), {})
                continue
            result = run_task(_unpack_task(meta, arrays), progress=_reporter(replies))  # type: ignore[arg-type]
            write_message(
                replies, "result", {"facts": dict(result.facts), "seconds": result.seconds}, dict(result.state)
            )
        except ReceraserError as error:
            write_message(replies, "error", {"type": type(error).__name__, "text": str(error)}, {})
        except MemoryError:
            write_message(replies, "error", {"type": "TrainingError", "text": "a worker ran out of memory"}, {})


def _environment(hyperparameters: object) -> dict[str, object]:
    from receraser.execution.environment import recorded

    assert isinstance(hyperparameters, dict)
    return dict(recorded(str(hyperparameters.get("device", "cpu"))))


def _warm_up(model: str, hyperparameters: object) -> None:
    """Import and compile what the model needs by fitting a toy: not part of anybody's time."""
    assert isinstance(hyperparameters, dict)
    toy = Interactions.from_pairs([("u", "a"), ("u", "b"), ("v", "a"), ("w", "c")])
    brief = {key: min(value, 2) for key, value in hyperparameters.items() if key in ("n_epochs", "n_sweeps")}
    with suppress(TrainingError):  # the toy may diverge where the rows would not
        run_task(FitTask(model, hyperparameters | brief, 0, toy, toy))


def _reporter(replies: BinaryIO):  # type: ignore[no-untyped-def]
    last = 0.0

    def report(what: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _PROGRESS_EVERY or done == total:
            last = now
            write_message(replies, "progress", {"what": what, "done": done, "total": total}, {})

    return report


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def main() -> None:
    """Serve on standard input and output; stray prints go to standard error."""
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    import torch

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    serve(sys.stdin.buffer, replies)


if __name__ == "__main__":
    main()
