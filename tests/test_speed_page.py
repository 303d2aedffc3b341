"""The page of speeds says what its JSON files hold, and every part that is measured has its lines there."""

from __future__ import annotations

import pytest
from benchmarks.harness import RESULTS
from benchmarks.speed import page
from benchmarks.speed.__main__ import COMMAND, PARTS


def test_the_page_is_made_of_the_figures_beside_it() -> None:
    assert (RESULTS / "speed.md").read_text() == page.text_of(page.read(RESULTS, list(PARTS)), COMMAND)


def test_every_part_has_lines() -> None:
    assert list(PARTS) == list(page.ROWS)


@pytest.mark.parametrize(
    ("limit", "ratio", "used"),
    [(page.Limit("≤", 0.4), 0.2, 0.5), (page.Limit("≤", 0.4), 0.8, 2.0), (page.Limit("≥", 0.7, ", aim 1"), 1.4, 0.5)],
)
def test_what_is_used_of_a_limit(limit: page.Limit, ratio: float, used: float) -> None:
    assert limit.used(ratio) == pytest.approx(used)
    assert str(limit).startswith(f"{limit.sign} {limit.number}")
