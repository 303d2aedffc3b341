"""Leaks that are put in on purpose are all found out, and pure models pass."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch

from receraser.errors import PurityError, TrainingError, UsageError
from receraser.execution.probe import Findings, carry_out, read_findings, read_plan, write_findings, write_plan
from receraser.purity import Probe, PurityReport, check_purity, require_pure, tables

# What is not of the first fit alone shows wherever something was fitted before, in another process too.
EARLIER_FITS = {"fitted again", "rows made anew", "global generators", "other shards", "forgetting", "another process"}
ANYWHERE = EARLIER_FITS | {"another hash seed", "2 threads", "4 threads"}


def here(probes: Sequence[Probe]) -> Iterator[Findings]:
    """Carry everything out in this process; a module that is loaded anew knows nothing of earlier fits."""
    for probe in probes:
        sys.modules.pop(probe.plan.model.partition(":")[0], None)
        plan = read_plan(write_plan(probe.plan))
        try:
            yield read_findings(write_findings(carry_out(plan)))
        finally:
            torch.set_num_threads(1)
            torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("GlobalGenerator", ANYWHERE),
        ("StateOnTheClass", EARLIER_FITS),
        ("CacheBySize", {"forgetting", "the results", "another process"}),
        ("ReadsOtherShards", EARLIER_FITS),
        ("MutatesRows", {"the rows"}),
        ("WarmStart", EARLIER_FITS),
        ("ByTheDay", {"forgetting", "another process"}),
        ("OneBuffer", {"the results"}),
        ("NeedsTwoItems", {"small shards"}),
    ],
)
def test_a_leak_is_found(model: str, found: set[str]) -> None:
    report = check_purity(f"tests.models.leaky:{model}", run=here)
    assert not report.ok
    assert {check.name for check in report.leaks} == found, "and nothing else is blamed"
    assert all(check.detail for check in report.checks)


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("pure:ALS", {"dim": 5, "penalty": 0.5}),
        ("pure:counts", {"power": 0.25}),
        ("pure:made", {}),
        ("pure:Narrow", {"dim": 40}),
        ("pure_torch:Descent", {"steps": 3}),
    ],
)
def test_a_pure_model_passes(model: str, settings: dict[str, object]) -> None:
    told: list[tuple[str, int, int]] = []
    report = check_purity(f"tests.models.{model}", settings, run=here, progress=lambda *one: told.append(one))
    assert report.leaks == []
    assert report.ok
    assert len(report.checks) == 12
    assert told == [("looking for leaks", done, 3) for done in (1, 2, 3)]
    assert report.seconds > 0


def test_what_only_another_process_shows() -> None:
    report = check_purity("tests.models.leaky:ByTheUser")
    assert {check.name for check in report.leaks} == {"forgetting", "another process"}


def test_threads_that_workers_do_not_have_are_no_leak() -> None:
    report = check_purity("tests.models.leaky:SumsAsTorchDoes")
    assert report.ok
    said = {check.name: check.detail for check in report.checks if check.name.endswith("threads")}
    assert said == dict.fromkeys(
        ["2 threads", "4 threads"], "only if BLAS or torch have one, as in workers: then the same bits"
    )


def test_a_model_that_leaks_is_refused_with_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found: PurityReport = check_purity("tests.models.leaky:OneBuffer", run=here)
    monkeypatch.setattr("receraser.purity.check_purity", lambda model, settings, progress: found)
    with pytest.raises(PurityError, match=r"no pure function .* LEAK the results: in the memory of an earlier fit"):
        require_pure("tests.models.leaky:OneBuffer", {})
    found = check_purity("tests.models.pure:ALS", run=here)
    assert require_pure("tests.models.pure:ALS", {}) is found


def test_a_model_that_cannot_be_fitted_is_no_leak() -> None:
    with pytest.raises(UsageError, match=r"pure:ALS cannot be called with \(depth=3\): got an unexpected keyword"):
        check_purity("tests.models.pure:ALS", {"depth": 3}, run=here)
    with pytest.raises(TrainingError, match=r"pure:ALS: fit failed: ValueError: negative dimensions"):
        check_purity("tests.models.pure:ALS", {"dim": -1}, run=here)


def test_a_process_that_dies_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("receraser.purity.write_plan", lambda plan: b"no plan")
    with pytest.raises(
        TrainingError, match=r"(?s)a process that fitted tests.models.pure:ALS ended with status 1.*JSON"
    ):
        check_purity("tests.models.pure:ALS")


@pytest.mark.parametrize("rows", [0, 49, 1_000_001])
def test_neither_too_few_rows_nor_too_many(rows: int) -> None:
    with pytest.raises(UsageError, match=r"expected 50 to 1,000,000"):
        check_purity("tests.models.pure:ALS", rows=rows)


@pytest.mark.parametrize("rows", [50, 300, 2000])
def test_what_is_fitted(rows: int) -> None:
    """Something is forgotten without anybody or anything vanishing, and with; the tables are in canonical order."""
    made = tables(rows)
    own, fewer, gone = made["own"], made["row gone"], made["user and item gone"]
    assert 0.5 * rows < len(own) < 1.5 * rows
    assert (len(fewer), fewer.users, fewer.items) == (len(own) - 1, own.users, own.items)
    assert (len(gone.users), len(gone.items)) == (len(own.users) - 1, len(own.items) - 1)
    for one in made.values():
        assert list(one.users) == sorted(set(one.users))
        assert list(one.items) == sorted(set(one.items))
        keys = one.user_index.astype(np.int64) * len(one.items) + one.item_index
        assert (np.diff(keys) > 0).all()
