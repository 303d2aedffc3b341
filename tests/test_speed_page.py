"""The pages of speeds say what their JSON files hold, and every part that is measured has its lines there."""

from __future__ import annotations

import json
from importlib import metadata

import pytest
from benchmarks import gpu
from benchmarks.harness import RESULTS, facts
from benchmarks.speed import page
from benchmarks.speed.__main__ import COMMAND, PARTS

from receraser.reproduce.cell import code_version


def test_the_page_is_made_of_the_figures_beside_it() -> None:
    assert (RESULTS / "speed.md").read_text() == page.text_of(page.read(RESULTS, list(PARTS)), COMMAND)


def test_the_page_of_the_gpu_too() -> None:
    assert (RESULTS / "gpu.md").read_text() == gpu.report(json.loads((RESULTS / "gpu.json").read_text()))


def test_runs_of_several_versions_are_told_apart() -> None:
    found = json.loads((RESULTS / "gpu.json").read_text())
    newest = found["runs"][0]
    newest["version"] = "1.2.3"
    lines = gpu.report(found).splitlines()
    assert sum(line.endswith(f"| {newest['date']}, 1.2.3 |") for line in lines) == 1
    assert sum(line.endswith("| measured |") for line in lines) == 1


def test_runs_of_one_version_say_it_once() -> None:
    found = json.loads((RESULTS / "gpu.json").read_text())
    for one in found["runs"]:
        one["version"] = "1.2.3"
    page_of_them = gpu.report(found)
    assert "measured |" not in page_of_them
    assert page_of_them.count("1.2.3") == 1


def test_a_bare_tree_knows_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    here = facts("")["version"]

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    monkeypatch.setattr("benchmarks.harness.code_version", code_version.__wrapped__)
    assert facts("")["version"] == here


def test_every_part_has_lines() -> None:
    assert list(PARTS) == list(page.ROWS)


@pytest.mark.parametrize(
    ("limit", "ratio", "used"),
    [(page.Limit("≤", 0.4), 0.2, 0.5), (page.Limit("≤", 0.4), 0.8, 2.0), (page.Limit("≥", 0.7, ", aim 1"), 1.4, 0.5)],
)
def test_what_is_used_of_a_limit(limit: page.Limit, ratio: float, used: float) -> None:
    assert limit.used(ratio) == pytest.approx(used)
    assert str(limit).startswith(f"{limit.sign} {limit.number}")
