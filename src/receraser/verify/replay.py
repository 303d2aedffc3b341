"""Replay: submodels and aggregation are fitted again, from the rows in the store, and must have the same bits.

This alone shows that the weights were learned from these rows and nothing else: whoever signs can sign anything. It
needs the environment that the store was computed in, and torch; nothing else of the verifier does.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from receraser.errors import ProofError
from receraser.verify.case import Case, Entered
from receraser.verify.checks import Check, checked
from receraser.verify.words import shown

if TYPE_CHECKING:
    from receraser.fingerprint import Tensors
    from receraser.fitting import Fitting
    from receraser.protocols import Executor, Progress
    from receraser.state import State

__all__ = ["replay", "replayed"]


def replayed(
    case: Case,
    way: str,
    certificate: bytes | None = None,
    *,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Check:
    """Return the check of a replay; `certificate` is the content of a file that was brought along."""

    def check() -> str:
        one = None if certificate is None else case.handed(certificate)
        return replay(case, way, certificate=one, executor=executor, progress=progress)

    return checked("replay", check)


def replay(
    case: Case,
    way: str,
    *,
    certificate: Entered | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> str:
    """Fit again and compare; raises a `ProofError` that names the shard and the tensor which differ.

    Parameters
    ----------
    case
        The store.
    way
        "affected": the shards that the newest certificate says were retrained, and the aggregation. "all": every shard,
        the aggregation, and the assignment unless it is inherited. "sample": a shard drawn at random, and the
        aggregation where it looks at no rows.
    certificate
        Instead of the newest one.
    executor
        By default pinned worker processes on this machine.
    """
    from receraser.aggregation.registry import make_aggregator
    from receraser.config import part_settings
    from receraser.fitting import Fitting

    state = _state(case)
    shards, why = _chosen(case, way, len(state.shards), certificate)
    if not shards:
        return f"{why}: there is nothing to fit again; --replay all fits everything"
    aggregator = make_aggregator(*part_settings(state.config, "aggregation"))
    aggregates = way != "sample" or not aggregator.needs_rows
    anew = way == "all" and state.level != "L1"
    with Fitting(state.config, executor, n_tasks=len(shards), partitions=anew, progress=progress) as fitting:
        _check_environment(fitting.environment, state.environment)
        faults = _assignment(fitting, state) if anew else []
        rows = [state.shards[k].shard for k in shards]
        for one in fitting.submodels(rows):
            k = one.shard.id
            faults += _differing(f"shard {k}", one.model.state(), state.shards[k].model.state())
        if aggregates:
            made, _ = fitting.aggregate(state.shards, state.train, state.valid)
            faults += _differing("the aggregation", made, state.aggregate)
    if faults:
        raise ProofError(f"fitted again from the rows in the store, other bits come out: {shown(faults)}")
    also = {True: " and the aggregation", False: "; the aggregation looks at all rows and was left out"}[aggregates]
    taken = "; the assignment was computed anew too" if anew else ""
    if way == "all" and not anew:
        taken = "; the assignment was taken over: it dates from before the last change, as level L1 says"
    which = "every shard" if way == "all" else f"{_listed(shards)} of {len(state.shards)} ({why})"
    return f"{which}{also}: fitted again from the rows in the store, the same bits come out{taken}"


def _state(case: Case) -> State:
    """Return the state in the store, by the engine's own reading; it must be the one that was checked."""
    from receraser.store.directory import DirectoryStore
    from receraser.store.snapshot import read_snapshot

    state = read_snapshot(DirectoryStore(case.evidence.path)).state
    if state.digest != case.manifest["digest"]:
        raise ProofError("cannot be replayed: the store has changed since it was read; verify again")
    return state


def _chosen(case: Case, way: str, n: int, certificate: Entered | None) -> tuple[Sequence[int], str]:
    """Return the shards to fit again, and why these."""
    if way == "all":
        return range(n), "all"
    if way == "sample":
        return [secrets.randbelow(n)], "drawn at random"
    one = certificate or case.newest
    shards = one.certificate.shards["retrained"]
    if shards and shards[-1] >= n:
        raise ProofError(f"certificate {one.sha256} names shard {shards[-1]}; the store has {n}")
    return shards, f"retrained by entry {one.entry.index}, {one.entry.action}" if shards else (
        f"entry {one.entry.index} ({one.entry.action}) retrained no shard"
    )


def _check_environment(found: Mapping[str, object], expected: Mapping[str, object]) -> None:
    """Raise unless bits computed here can be compared with those in the store."""
    differing = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
    if differing:
        wrong = [
            f"{name} is {found.get(name, 'not set')!r} here and {expected.get(name, 'not set')!r} in the store"
            for name in differing
        ]
        raise ProofError(
            f"cannot be replayed in this environment: {shown(wrong)}. Weights computed here would differ without "
            "anything being wrong; replay where the store was computed"
        )


def _assignment(fitting: Fitting, state: State) -> list[str]:
    """Assign all rows anew; return where it differs."""
    made, faults = fitting.partition(state.train, state.valid), []
    for what, found, stored in (
        ("training", made.train, state.partition.train),
        ("validation", made.valid, state.partition.valid),
    ):
        if found is not None and stored is not None and not np.array_equal(found, stored):
            rows = np.flatnonzero(found != stored)
            faults.append(f"the assignment: {len(rows)} {what} rows belong elsewhere, the first is row {rows[0]}")
    marks = [None if one.landmarks is None else one.landmarks.tensors() for one in (made, state.partition)]
    return faults + _differing("the landmarks", marks[0] or {}, marks[1] or {})


def _differing(where: str, made: Tensors, stored: Tensors) -> list[str]:
    """Return which tensors do not have the same bits."""
    from receraser.fingerprint import of_tensors

    faults = []
    for name in sorted({*made, *stored}):
        if name not in made or name not in stored:
            faults.append(f"{where}: {name} is {'not learned' if name in stored else 'missing in the store'}")
            continue
        digests = [of_tensors({name: one[name]}) for one in (made, stored)]
        if digests[0] != digests[1]:
            faults.append(
                f"{where}: {name} gives {digests[0]}; in the store lies {digests[1]}{_by(made[name], stored[name])}"
            )
    return faults


def _by(made: np.ndarray, stored: np.ndarray) -> str:
    """Say how much two tensors differ."""
    if made.shape != stored.shape:
        return f" (of the shape {stored.shape}, not {made.shape})"
    return f" ({np.count_nonzero(made != stored):,} of {made.size:,} entries differ)"


def _listed(shards: Sequence[int]) -> str:
    return f"shard {shards[0]}" if len(shards) == 1 else f"shards {', '.join(str(one) for one in shards)}"
