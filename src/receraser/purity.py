"""Does somebody's model leak? It must be a pure function of its rows, its hyperparameters and its seed.

`check_purity` tries to show that it is not: it fits small tables again and again, in one process and in others, beside
other tables, with other threads, hash seeds, global generators, clocks and variables, and compares bits. What it finds
is a leak. What it does not find may still be there: it is a test and no proof. An engine runs it before it fits a model
that somebody else wrote (`require_pure`); there is no way around it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import receraser
from receraser.data.interactions import Interactions
from receraser.errors import PurityError, TrainingError, UsageError
from receraser.execution.environment import worker_variables
from receraser.execution.probe import Arrays, Findings, Plan, Step, read_findings, write_plan
from receraser.models.foreign import Rows, checked_values
from receraser.models.source import find
from receraser.protocols import Progress
from receraser.seeds import below, derive

__all__ = ["ROWS", "Check", "Probe", "PurityReport", "check_purity", "in_processes", "require_pure", "tables"]

ROWS = 300  # of a shard
_SEED = 1_234_567
_LEAST_ROWS, _MOST_ROWS = 50, 1_000_000
_ANOTHER_DAY = 400 * 24 * 60 * 60 + 12_345  # seconds
_HASH_SEED = 4321
_THREADS = (2, 4)
_GONE = ("row gone", "user and item gone")
_SMALL = ("one row", "one user", "one item")
# Variables without which a process may not start, or not find what is installed.
_NEEDED = ("PATH", "HOME", "TMPDIR", "VIRTUAL_ENV", "LD_", "DYLD_", "CUDA_", "NVIDIA_", "SYSTEMROOT")


@dataclass(frozen=True)
class Check:
    """One question, and what was seen."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class PurityReport:
    """All of them."""

    model: str
    checks: Sequence[Check]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return all(check.ok for check in self.checks)

    @property
    def leaks(self) -> Sequence[Check]:
        """What was found."""
        return [check for check in self.checks if not check.ok]


@dataclass(frozen=True, eq=False)
class Probe:
    """A plan, and what is special about the process that carries it out.

    Attributes
    ----------
    kernel_threads
        For numba, which has more than one in workers too; BLAS and torch have those of the plan.
    elsewhere
        With other variables, and in another folder.
    """

    plan: Plan
    kernel_threads: int = 1
    hash_seed: int = 0
    elsewhere: bool = False


Run = Callable[[Sequence[Probe]], Iterator[Findings]]


def require_pure(model: str, settings: Mapping[str, object], *, progress: Progress | None = None) -> PurityReport:
    """Raise if somebody's model leaks."""
    report = check_purity(model, settings, progress=progress)
    if not report.ok:
        found = "; ".join(f"{check.name}: {check.detail}" for check in report.leaks)
        raise PurityError(
            f"the model {model} is no pure function of its rows, its hyperparameters and its seed, so that nothing "
            f"could be forgotten exactly. LEAK {found}. See: receraser check-purity {model}, and docs/own-models.md"
        )
    return report


def in_processes(probes: Sequence[Probe]) -> Iterator[Findings]:
    """Carry each of them out in a new process; as many at a time as there are cores."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        yield from pool.map(_in_a_process, probes)


def check_purity(
    model: str,
    settings: Mapping[str, object] | None = None,
    *,
    rows: int = ROWS,
    progress: Progress | None = None,
    run: Run = in_processes,
) -> PurityReport:
    """Try to catch somebody's model leaking.

    Parameters
    ----------
    model, settings
        Its name, as in "package.module:Object", and its hyperparameters.
    rows
        About how many a shard has. More take longer, and may show more: sums over threads, say.
    run
        Carries out what is to be done.
    """
    if not _LEAST_ROWS <= rows <= _MOST_ROWS:
        raise UsageError(f"{rows} rows: expected {_LEAST_ROWS} to {_MOST_ROWS:,}")
    started = time.perf_counter()
    base = Plan(model, checked_values(model, settings or {}), str(find(model).folder), _SEED, tables(rows), _HERE)
    (here,) = _told(run, [Probe(base)], progress, 0)
    if "first" in here.failures:
        raise here.failures["first"]
    there, hashed = _told(run, _together(base), progress, 1)
    checks = list(_checks(here, there, hashed, there, hashed, None))
    if not all(check.ok for check in checks):  # one by one, to say which of them it is
        checks = list(_checks(here, *_told(run, _apart(base), progress, 3)))
    return PurityReport(model, checks, time.perf_counter() - started)


def _told(run: Run, probes: Sequence[Probe], progress: Progress | None, before: int) -> list[Findings]:
    """Carry some out, and tell that it goes on; so many were done before."""
    findings = []
    for done, one in enumerate(run(probes), start=before + 1):
        findings.append(one)
        if progress is not None:
            progress("looking for leaks", done, max(3, before + len(probes)))
    return findings


# ---------------------------------------------------------------------- what is tried


def tables(n: int) -> dict[str, Rows]:
    """Return the tables that are fitted: two shards, the same after something was forgotten, and the smallest.

    Examples
    --------
    >>> made = tables(300)
    >>> len(made["own"]), len(made["own"].users), len(made["own"].items)
    (265, 30, 40)
    >>> [len(made[name]) for name in ("row gone", "user and item gone", "one row")]
    [264, 248, 1]
    """
    own, other = _world(n, "own"), _world(n, "other")
    of_user, of_item = np.diff(own.indptr)[own.user_index], own.item_counts[own.item_index]
    one_row = int(np.argmax((of_user > 1) & (of_item > 1)))  # nobody and nothing vanishes with it
    user, item = own.user_index[len(own) // 2], own.item_index[len(own) // 3]
    each = np.arange(len(own))
    made = {
        "own": own,
        "other": other,
        "other changed": other.take(np.arange(len(other)) % 3 > 0),
        "row gone": own.take(each != one_row),
        "user and item gone": own.take((own.user_index != user) & (own.item_index != item)),
        "one row": Interactions.from_pairs([("u1", "i1")]),
        "one user": Interactions.from_pairs([("u1", "i1"), ("u1", "i2"), ("u1", "i3")]),
        "one item": Interactions.from_pairs([("u1", "i1"), ("u2", "i1"), ("u3", "i1")]),
    }
    return {name: Rows.of(table) for name, table in made.items()}


def _world(n: int, name: str) -> Interactions:
    """Return about n rows of people with two tastes; some items are liked by many, most by few."""
    n_users, n_items = max(5, n // 10), max(6, int(5 * n**0.4))
    key = derive(_SEED, "purity", name)
    draws = np.arange(n * 4 // 3)  # some pairs come twice
    user = draws % n_users
    item = 2 * below(key, draws, 1 + below(derive(key, "width"), draws, n_items // 2)) + user % 2
    return Interactions.from_pairs((f"u{u:04}", f"i{i:04}") for u, i in zip(user.tolist(), item.tolist(), strict=True))


# In one process; and in one that has only ever seen the survivors, and then all rows.
_HERE = (
    Step("first", "own"),
    Step("again", "own"),
    Step("remade", "own", remade=True),
    Step("other generators", "own", generators=97),
    Step("other shard", "other", generators=98),
    Step("after another shard", "own"),
    Step("other shard changed", "other changed"),
    Step("after it changed", "own"),
    *(Step(name, name) for name in (*_GONE, *_SMALL)),
)
_THERE = tuple(Step(name, name) for name in (*_GONE, "own"))
_ALONE = (Step("own", "own"),)


def _together(base: Plan) -> list[Probe]:
    """Return as few processes as will do where there is no leak: everything that may not matter differs in them."""
    two, four = _THREADS
    return [
        Probe(replace(base, steps=_THERE, clock=_ANOTHER_DAY, threads=two), kernel_threads=two, elsewhere=True),
        Probe(replace(base, steps=_ALONE, threads=four), kernel_threads=four, hash_seed=_HASH_SEED),
    ]


def _apart(base: Plan) -> list[Probe]:
    """Return processes that differ in one thing each."""
    alone = replace(base, steps=_ALONE)
    return [
        Probe(replace(base, steps=_THERE, clock=_ANOTHER_DAY), elsewhere=True),
        Probe(alone, hash_seed=_HASH_SEED),
        *(Probe(replace(alone, threads=threads), kernel_threads=threads) for threads in _THREADS),
        Probe(alone, kernel_threads=max(_THREADS)),  # as workers are
    ]


def _in_a_process(probe: Probe) -> Findings:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "receraser.execution.probe"],
            input=write_plan(probe.plan),
            capture_output=True,
            check=False,
            env=_variables(probe),
            cwd=folder if probe.elsewhere else None,
        )
    if done.returncode:
        tail = done.stderr[-2000:].decode(errors="replace").strip()
        raise TrainingError(
            f"a process that fitted {probe.plan.model} ended with status {done.returncode}; its last words:\n{tail}"
        )
    return read_findings(done.stdout)


def _variables(probe: Probe) -> dict[str, str]:
    """Return the environment of a process: a worker's, but for what is tried."""
    threads = str(probe.plan.threads)
    known = dict(os.environ)
    if probe.elsewhere:
        known = {key: value for key, value in known.items() if key.startswith(_NEEDED)}
        known |= {"USER": "somebody", "LOGNAME": "somebody", "TZ": "Pacific/Chatham", "LC_ALL": "C.UTF-8"}
    paths = [str(Path(receraser.__file__).parent.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return worker_variables(probe.kernel_threads, known) | {
        **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), threads),
        "PYTHONHASHSEED": str(probe.hash_seed),
        "PYTHONPATH": os.pathsep.join(paths),
    }


# ---------------------------------------------------------------------- what it says


def _checks(
    here: Findings, there: Findings, hashed: Findings, two: Findings, four: Findings, pinned: Findings | None
) -> Iterator[Check]:
    """Compare; `pinned`: with four threads, but for BLAS and torch, which have one."""

    def same(name: str, what: str, *pairs: tuple[str, Findings, str]) -> Check:
        """Compare fits of the first process with others, of it or of another."""
        seen = [found for own, other, step in pairs if (found := _difference(here, own, other, step))]
        return Check(name, not seen, seen[0] if seen else what)

    yield same("fitted again", "the same bits", ("first", here, "again"))
    yield same("rows made anew", "the same bits, whatever order they came in", ("first", here, "remade"))
    yield same("global generators", "not drawn from: random, numpy.random, torch", ("first", here, "other generators"))
    yield same(
        "other shards",
        "leave no trace: fitted before, and changed",
        ("other shard", here, "other shard"),
        ("first", here, "after another shard"),
        ("other shard changed", here, "other shard changed"),
        ("first", here, "after it changed"),
    )
    yield same(
        "forgetting",
        "equal to a process that never saw what is gone",
        *((name, there, name) for name in _GONE),
    )
    touched = sorted({*here.touched, *there.touched})
    yield Check("the rows", not touched, f"changed by fit ({touched[0]})" if touched else "left as they were")
    shared = sorted({*here.shared, *there.shared})
    yield Check(
        "the results",
        not shared,
        f"in the memory of an earlier fit, or that one's has changed ({shared[0]})" if shared else "each fit's own",
    )
    yield same("another process", "the same bits: other variables, folder and clock", ("first", there, "own"))
    yield same("another hash seed", "the same bits", ("first", hashed, "own"))
    for number, findings in zip(_THREADS, (two, four), strict=True):
        found = same(f"{number} threads", "the same bits as with one", ("first", findings, "own"))
        if not found.ok and pinned is not None and not _difference(here, "first", pinned, "own"):
            found = Check(found.name, True, "only if BLAS or torch have one, as in workers: then the same bits")
        yield found
    failed = [f"{name}: {here.failures[name]}" for name in _SMALL if name in here.failures]
    yield Check("small shards", not failed, failed[0] if failed else "fitted: one row, one user, one item")


def _difference(one: Findings, own: str, other: Findings, step: str) -> str:
    """Say how two fits differ; nothing if they do not."""
    for findings, name in ((one, own), (other, step)):
        if name in findings.failures:
            return str(findings.failures[name])
    return _compared(one.vectors[own], other.vectors[step])


def _compared(one: Arrays, other: Arrays) -> str:
    if any(a.shape != b.shape for a, b in zip(one, other, strict=True)):
        return f"vectors of length {one[0].shape[1]} and {other[0].shape[1]}"
    apart = np.concatenate([(a.astype(np.float64) - b).ravel() for a, b in zip(one, other, strict=True)])
    bits = sum(int((a.view(np.int32) != b.view(np.int32)).sum()) for a, b in zip(one, other, strict=True))
    if not bits:
        return ""
    return f"{bits:,} of {len(apart):,} numbers differ, by up to {np.abs(apart).max():.2g}"
