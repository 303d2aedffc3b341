"""Several cells at a time: the same cells, but for those whose seconds count, which are computed alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import pytest

from receraser.errors import TrainingError
from receraser.reproduce import jobs
from receraser.reproduce.cell import Cell
from receraser.reproduce.datasets import Dataset, load
from receraser.reproduce.jobs import Done, side_by_side, timed
from receraser.reproduce.kept import Kept
from receraser.reproduce.runner import run
from receraser.reproduce.settings import additive, chosen
from tests.nightly import at_night
from tests.reproduce.conftest import WORLD

DATA = load(None, WORLD)


def cell(method: str, kind: str = "fit", **extras: str | float) -> Cell:
    return Cell(kind, WORLD, chosen(WORLD, "wmf", method, shards=3).config, extras)


FITS = [cell("sisa"), cell("spectral")]


@pytest.mark.parametrize(
    ("one", "counts"),
    [
        (cell("sisa"), False),
        (cell("spectral", "sweeps"), False),
        (cell("spectral", "store"), False),
        (cell("spectral", "first"), True),
        (Cell("rows", WORLD), False),
        (cell("retrain"), True),
        (Cell("fit", WORLD, additive(WORLD, "gram").config), True),
        (cell("spectral", "forgets", level="users", n=1), True),
        (cell("spectral", "batch", who="random", size=1), True),
        (cell("spectral", "gradual", share=0.3, steps=2), False),
        (Cell("gradual", WORLD, additive(WORLD, "gram").config, {"share": 0.3, "steps": 2}), False),
        (cell("retrain", "store"), False),
    ],
)
def test_whose_seconds_count(one: Cell, counts: bool) -> None:
    assert timed(one) is counts


def test_what_is_timed_is_computed_alone_and_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_workers: None
) -> None:
    beside: list[list[str]] = []

    def noted(groups: Sequence[Sequence[Cell]], data: Dataset, kept: Kept, device: str, n: int) -> Iterator[Done]:
        assert (data, device, n) == (DATA, "cpu", 4)
        assert kept.holds(cell("retrain").digest(DATA.digest, "cpu"))
        for group in groups:
            beside.append([one.label for one in group])
            yield from (Done(one, 1.0, error="no luck") for one in group)

    monkeypatch.setattr(jobs, "side_by_side", noted)
    told: list[str] = []
    ran = run([*FITS, cell("retrain")], DATA, Kept(tmp_path), "cpu", told.append, jobs=4)
    assert beside == [["fit: wmf, sisa, K=3, seed 0"], ["fit: wmf, spectral, K=3, seed 0"]]
    assert (ran.done, ran.failed) == (1, [f"{one[0]}: no luck" for one in beside])
    assert told[0] == "3 of 3 cells to compute"
    assert told[1].startswith("[1/3] fit: wmf, retrain, seed 0: R@20")
    assert told[-1].endswith("fit: wmf, spectral, K=3, seed 0: failed: no luck, 1 s")


def test_one_process_keeps_what_it_computes(tmp_path: Path, kept_workers: None) -> None:
    kept = Kept(tmp_path)
    jobs._open(DATA.pseudonymous(), kept, DATA.digest, "cpu", 2, os.getppid())
    done = jobs._run(FITS)
    assert [one.cell for one in done] == FITS
    for one in done:
        found = kept.read(one.cell.digest(DATA.digest, "cpu"))
        assert found is not None
        assert one.result is not None
        assert one.result.metrics == found.metrics
        assert (one.result.per_user, len(found.per_user)) == ({}, 6)


@pytest.mark.parametrize("n", at_night(2))
def test_side_by_side_is_as_one_after_the_other(tmp_path: Path, n: int) -> None:
    alone, beside = Kept(tmp_path / "alone"), Kept(tmp_path / "beside")
    run(FITS, DATA, alone, "cpu", lambda _: None)
    done = list(side_by_side([[one] for one in FITS], DATA, beside, "cpu", n))
    assert {one.cell.label for one in done} == {one.label for one in FITS}
    for one in FITS:
        digest = one.digest(DATA.digest, "cpu")
        first, second = alone.read(digest), beside.read(digest)
        assert first is not None
        assert second is not None
        assert first.notes["digest"] == second.notes["digest"]
        assert np.array_equal(first.per_user["ndcg@20"], second.per_user["ndcg@20"])


def test_a_process_that_dies_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, *_: object) -> None:
            pass

        def submit(self, *_: object) -> None:
            raise BrokenProcessPool

        def shutdown(self, *, cancel_futures: bool) -> None:
            assert cancel_futures

    monkeypatch.setattr(jobs, "ProcessPoolExecutor", Broken)
    with pytest.raises(TrainingError, match=r"died, perhaps for want of memory; .* with fewer --jobs goes on"):
        list(side_by_side([FITS], DATA, Kept(tmp_path), "cpu", 2))


@pytest.mark.parametrize("how", at_night(signal.SIGINT, signal.SIGKILL))
def test_nothing_goes_on_when_the_command_is_ended(tmp_path: Path, how: signal.Signals) -> None:
    command = [sys.executable, "-m", "receraser.reproduce", "figure3", "--dataset", WORLD, "--device", "cpu"]
    command += ["--jobs", "2", "--out", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as started:
        assert started.stderr is not None
        for line in started.stderr:  # until the first group that is computed beside others is done
            if "K=10" in line:
                break
        (os.killpg if how == signal.SIGINT else os.kill)(started.pid, how)
        started.stderr.read()
    assert started.returncode == (130 if how == signal.SIGINT else -signal.SIGKILL)
    deadline = time.monotonic() + 20
    while _alive(started.pid) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not _alive(started.pid)


def _alive(group: int) -> list[int]:
    """The processes of a group that are not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, own = path.read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(own) == group and state != "Z":
            found.append(int(path.parent.name))
    return found
