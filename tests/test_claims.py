"""What docs/guarantees.md and docs/threat-model.md claim is shown by tests that exist, or they say that none does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "docs" / name for name in ("guarantees.md", "threat-model.md")]
NOTHING = "nothing shows it"

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda one: one.stem)


@each_page
def test_every_test_that_is_named_is_there(page: Path) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page.read_text())
    missing = [f"{path}::{name}" for path, name in named if not holds(ROOT / path, name)]
    assert missing == []
    assert len(named) > 20


def holds(path: Path, name: str) -> bool:
    return path.is_file() and (not name or f"\ndef {name}(" in path.read_text())


@each_page
def test_every_claim_in_a_table_says_what_shows_it(page: Path) -> None:
    tables = [one.splitlines() for one in re.findall(r"(?:^\|.*\|\n)+", page.read_text(), flags=re.MULTILINE)]
    claims = [row for head, _, *rows in tables if head.endswith("| shown by |") for row in rows]
    assert len(claims) > 15
    for row in claims:
        *_, shown = row.removesuffix(" |").split(" | ")
        assert "::test_" in shown or shown == NOTHING, row
