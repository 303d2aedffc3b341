"""A process that fits somebody's model and tells what it saw, for `purity`. Started there, and only there.

It reads a `Plan` on standard input, carries it out step by step, and writes its `Findings`: the vectors of every fit,
and whether the rows or earlier results were touched. What makes the process another one (threads, hash seed, variables,
the folder it runs in) was decided before it began. It needs numpy alone, unless the model needs more.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from receraser.errors import EnvironmentMismatchError, ReceraserError, TrainingError, UsageError
from receraser.models.foreign import Rows, call, vectors_of
from receraser.models.source import find, load

__all__ = ["Findings", "Plan", "Step", "carry_out", "read_findings", "read_plan", "write_findings", "write_plan"]

Arrays = tuple[NDArray[np.float32], NDArray[np.float32]]
_ERRORS = {kind.__name__: kind for kind in (EnvironmentMismatchError, TrainingError, UsageError)}


@dataclass(frozen=True, eq=False)
class Step:
    """One fit.

    Attributes
    ----------
    name
        What the result goes by.
    table
        Which rows of the plan.
    remade
        Whether they are put together anew, from pairs in another order.
    generators
        What the global random generators are set to before, where they are.
    """

    name: str
    table: str
    remade: bool = False
    generators: int | None = None


@dataclass(frozen=True, eq=False)
class Plan:
    """What a process does: the model, the tables, the fits in their order.

    Attributes
    ----------
    folder
        Where the model's module was found.
    threads
        For torch; other libraries take them from the environment.
    clock
        Seconds by which the time of day is wrong.
    """

    model: str
    settings: Mapping[str, object]
    folder: str
    seed: int
    tables: Mapping[str, Rows]
    steps: Sequence[Step]
    threads: int = 1
    clock: int = 0


@dataclass(frozen=True, eq=False)
class Findings:
    """What a process saw.

    Attributes
    ----------
    vectors
        Of the users and of the items, by the names of the steps.
    failures
        What went wrong, by the names of the steps.
    touched
        The steps that changed the rows they were handed.
    shared
        The steps whose result lies, or lay, in the same memory as that of an earlier one.
    """

    vectors: Mapping[str, Arrays] = field(default_factory=dict)
    failures: Mapping[str, ReceraserError] = field(default_factory=dict)
    touched: Sequence[str] = ()
    shared: Sequence[str] = ()


def carry_out(plan: Plan) -> Findings:
    """Fit, again and again, in this process."""
    vectors: dict[str, Arrays] = {}
    failures: dict[str, ReceraserError] = {}
    held: list[tuple[object, list[NDArray[np.generic]]]] = []
    touched, shared = [], []
    with _clock_that_is_wrong(plan.clock):
        for step in plan.steps:
            original = plan.tables[step.table]
            rows = _remade(original) if step.remade else _copied(original)
            try:
                _prepare_torch(plan)
                if step.generators is not None:
                    _set_generators(step.generators)
                result = call(plan.model, plan.settings, rows, plan.seed, folder=plan.folder)
                vectors[step.name] = vectors_of(plan.model, result, original)
            except ReceraserError as error:
                failures[step.name] = error
                continue
            finally:
                if not _same(rows, original):
                    touched.append(step.name)
            if any(_overlap(result, other) or not _equal(_arrays(other), then) for other, then in held):
                shared.append(step.name)
            held.append((result, [one.copy() for one in _arrays(result)]))
    return Findings(vectors, failures, touched, shared)


def _copied(rows: Rows) -> Rows:
    return Rows(rows.users, rows.items, rows.user_index.copy(), rows.item_index.copy())


def _remade(rows: Rows) -> Rows:
    """Return the same rows, put together from pairs that came in another order; ids are new objects too."""
    index = zip(rows.user_index, rows.item_index, strict=True)
    mixed = sorted(((rows.users[u], rows.items[i]) for u, i in index), key=lambda pair: pair[::-1], reverse=True)
    pairs = sorted((f"{user} "[:-1], f"{item} "[:-1]) for user, item in mixed)
    users, items = (tuple(sorted({pair[side] for pair in pairs})) for side in (0, 1))
    places = [{name: place for place, name in enumerate(ids)} for ids in (users, items)]
    return Rows(
        users, items, *(np.array([places[side][pair[side]] for pair in pairs], dtype=np.int32) for side in (0, 1))
    )


def _same(rows: Rows, other: Rows) -> bool:
    return np.array_equal(rows.user_index, other.user_index) and np.array_equal(rows.item_index, other.item_index)


def _equal(one: Sequence[NDArray[np.generic]], other: Sequence[NDArray[np.generic]]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


def _overlap(one: object, other: object) -> bool:
    return any(np.may_share_memory(a, b) for a in _arrays(one) for b in _arrays(other))


def _arrays(result: object) -> list[NDArray[np.generic]]:
    """Return a result, which has been looked at, as the arrays that it is; not as copies."""
    assert isinstance(result, Sequence)
    return [np.asarray(table.detach().cpu() if hasattr(table, "detach") else table) for table in result]


# ---------------------------------------------------------------------- what surrounds a fit


def _prepare_torch(plan: Plan) -> None:
    """Set torch up as workers do, but for the threads, where the model has imported it or looks as if it will."""
    load(plan.model, plan.folder)
    source = find(plan.model, plan.folder).path.read_bytes()
    if "torch" in sys.modules or re.search(rb"^\s*(import|from)\s+torch\b", source, flags=re.MULTILINE):
        import torch

        torch.set_num_threads(plan.threads)
        torch.set_deterministic_debug_mode("error")


def _set_generators(seed: int) -> None:
    """Set the global generators, which a pure function does not draw from."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    if "torch" in sys.modules:
        import torch

        torch.manual_seed(seed)


@contextmanager
def _clock_that_is_wrong(seconds: int) -> Iterator[None]:
    """Let the time of day be another one meanwhile."""
    right = time.time, time.time_ns
    time.time, time.time_ns = lambda: right[0]() + seconds, lambda: right[1]() + seconds * 10**9
    try:
        yield
    finally:
        time.time, time.time_ns = right


# ---------------------------------------------------------------------- there and back


def write_plan(plan: Plan) -> bytes:
    """Return a plan as it is sent."""
    tables = {
        name: [list(rows.users), list(rows.items), rows.user_index.tolist(), rows.item_index.tolist()]
        for name, rows in plan.tables.items()
    }
    steps = [vars(step) for step in plan.steps]
    return json.dumps(vars(plan) | {"settings": dict(plan.settings), "tables": tables, "steps": steps}).encode()


def read_plan(data: bytes) -> Plan:
    """Return the plan that `write_plan` wrote."""
    about = json.loads(data)
    about["tables"] = {
        name: Rows(tuple(users), tuple(items), np.array(u, dtype=np.int32), np.array(i, dtype=np.int32))
        for name, (users, items, u, i) in about["tables"].items()
    }
    about["steps"] = [Step(**step) for step in about["steps"]]
    return Plan(**about)


def write_findings(findings: Findings) -> bytes:
    """Return findings as they are sent."""
    about = {
        "failures": {name: [type(error).__name__, str(error)] for name, error in findings.failures.items()},
        "touched": list(findings.touched),
        "shared": list(findings.shared),
        "vectors": list(findings.vectors),
    }
    arrays = {f"{name} {side}": one for name, pair in findings.vectors.items() for side, one in enumerate(pair)}
    stream = io.BytesIO()
    np.savez(stream, about=np.frombuffer(json.dumps(about).encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def read_findings(data: bytes) -> Findings:
    """Return the findings that `write_findings` wrote."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        about = json.loads(arrays["about"].tobytes())
        return Findings(
            {name: (arrays[f"{name} 0"], arrays[f"{name} 1"]) for name in about["vectors"]},
            {name: _ERRORS.get(kind, TrainingError)(text) for name, (kind, text) in about["failures"].items()},
            about["touched"],
            about["shared"],
        )


def main(requests: BinaryIO, replies: BinaryIO) -> None:
    """Carry out the one plan that comes in."""
    plan = read_plan(requests.read())
    replies.write(write_findings(carry_out(plan)))
    replies.flush()


if __name__ == "__main__":
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what the model prints is no answer
    main(sys.stdin.buffer, answers)
