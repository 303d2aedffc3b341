"""A worker process: reads tasks on standard input, computes them, writes results. Started by `execution.local` only.

It is a fresh interpreter whose environment was pinned before anything was imported. It keeps no state between tasks
(memory that it gave free is not wiped). It ends when its parent closes the pipe, and within a second if the parent dies
while a task is running.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import BinaryIO

from receraser.errors import ReceraserError
from receraser.execution.environment import recorded
from receraser.execution.messages import pack_result, read_message, unpack_task, write_message
from receraser.execution.task import run_task
from receraser.protocols import Progress
from receraser.training.kernels import use_threads

__all__ = ["serve"]

_PROGRESS_EVERY = 0.1  # seconds between progress messages


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests until the stream ends."""
    while (message := read_message(requests)) is not None:
        kind, meta, arrays = message
        try:
            if kind == "environment":
                write_message(replies, "environment", dict(recorded(str(meta["device"]))), {})
                continue
            use_threads(int(str(meta["threads"])))
            result = run_task(unpack_task(meta, arrays), progress=_reporter(replies))
            answer, arrays = pack_result(result)
            write_message(replies, "result", answer | {"number": meta.get("number")}, arrays)
        except ReceraserError as error:
            write_message(replies, "error", {"type": type(error).__name__, "text": str(error)}, {})
        except MemoryError:
            write_message(replies, "error", {"type": "TrainingError", "text": "a worker ran out of memory"}, {})


def _reporter(replies: BinaryIO) -> Progress:
    last = 0.0

    def report(what: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _PROGRESS_EVERY or done == total:
            last = now
            write_message(replies, "progress", {"what": what, "done": done, "total": total}, {})

    return report


def end_with_parent(parent: int) -> None:
    """End this process, whatever it does, when its parent is gone."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def main() -> None:
    """Serve on standard input and output; stray prints go to standard error."""
    threading.Thread(target=end_with_parent, args=(os.getppid(),), daemon=True).start()
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    import torch

    torch.set_num_threads(1)
    # As `use_deterministic_algorithms`, which imports torch's compiler to set that up too: a variable of its own does.
    torch.set_deterministic_debug_mode("error")
    # That fills all new memory first, with what is no number. Ours is written before it is read; what somebody else's
    # model makes of it is not known (`Custom`).
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    serve(sys.stdin.buffer, replies)


if __name__ == "__main__":
    main()
