"""Lines of an earlier run beside new ones: nothing that differs stands on one page, and it says what is of when."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from receraser.errors import DataError, UsageError
from receraser.reproduce.command import orders_of, reproduce
from receraser.reproduce.document import findings_of, read_document
from receraser.reproduce.extending import extended, widened
from receraser.reproduce.order import Order
from receraser.reproduce.report import document_path, write
from receraser.reproduce.studies.registry import find_study
from receraser.reproduce.studies.study import Entry, Findings
from tests.reproduce.conftest import WORLD
from tests.reproduce.test_pages import made_up

BATCH = find_study("batch")


def order(out: Path, *methods: str, **others: Any) -> Order:
    return Order("batch", dataset="ml-1m", models=("wmf",), methods=methods, seeds=1, out=out, **others)


def found(one: Order, known: dict[str, Any], *, date: str = "2026-01-01", code: str = "1.2") -> Findings:
    """What the cells of an order say; those of one cell are always the same."""
    pairs = []
    for entry in BATCH.entries(one):
        result = known.setdefault(repr(entry.cell), made_up(entry))
        pairs.append((entry, dataclasses.replace(result, about={**result.about, "date": date, "code": code})))
    return Findings(one, pairs)


@pytest.fixture
def joined(tmp_path: Path, no_pictures: None) -> Iterator[tuple[Findings, Findings]]:
    """A page of two methods, of one day; and what it comes to with a third of another day and version."""
    known: dict[str, Any] = {}
    earlier = findings_of(read_document(write(found(order(tmp_path, "sisa", "spectral"), known))[0]), tmp_path)
    few = found(order(tmp_path, "grapheraser"), known, date="2026-01-02", code="1.3")
    wide = widened(few.order, BATCH, earlier.order)
    entries = BATCH.entries(wide)
    mine = {repr(entry) for entry, _ in few.found}
    here = Findings(wide, few.found, [entry for entry in entries if repr(entry) not in mine])
    filled, told = extended(here, entries, earlier)
    assert (
        told
        == "16 cells of before are kept beside 16; 8 are in both, of the same quality, in 1.00 to 1.00 of the seconds"
    )
    yield earlier, filled


def test_what_is_missing_is_taken_from_the_results_of_before(joined: tuple[Findings, Findings], tmp_path: Path) -> None:
    earlier, filled = joined
    assert filled.rows("wmf") == ["retrain", "sisa", "grapheraser", "spectral"], "as the study has them"
    assert not filled.missing
    path, page = write(filled)
    text = page.read_text()
    assert "--methods sisa,grapheraser,spectral" in text, "what computes all of it"
    assert (
        "Not computed in one go. 2026-01-01, version 1.2: WMF: SISA, Spectral. "
        "2026-01-02, version 1.3: WMF: Retrain, GraphEraser.\n"
    ) in text
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(lines) == 1 + 3 * 8
    assert all("[" in line.split("|")[-2] for line in lines[1:]), "a share of the retrain's, with its interval, in each"
    again = findings_of(read_document(path), tmp_path)
    settings = [[(entry.cell.config, entry.origin) for entry, _ in some.found] for some in (again, filled)]
    assert [config and config.device for config, _ in settings[0]] == ["cuda"] * 32
    assert [origin for _, origin in settings[0]] == [origin for _, origin in settings[1]]
    assert all(again.shares[pair] == share for pair, share in earlier.shares.items())


def test_results_that_differ_do_not_stand_on_one_page(joined: tuple[Findings, Findings]) -> None:
    earlier, filled = joined
    entries = [entry for entry, _ in filled.found]

    def other(change: dict[str, Any]) -> Findings:
        return dataclasses.replace(
            filled, found=[(entry, dataclasses.replace(one, **change)) for entry, one in filled.found]
        )

    with pytest.raises(DataError, match=r"WMF, Retrain, random left: recall@20 is 0\.900000, and was"):
        extended(other({"metrics": {"recall@20": 0.9}}), entries, earlier)
    alone = dataclasses.replace(filled, found=[pair for pair in filled.found if pair[0].row == "grapheraser"])
    with pytest.raises(DataError, match="no line is both in the results of before and in the cells"):
        extended(alone, entries, earlier)


def test_lines_of_other_settings_stay_missing(joined: tuple[Findings, Findings]) -> None:
    earlier, filled = joined

    def moved(entry: Entry) -> Entry:
        config = entry.cell.config
        assert config is not None
        if entry.row != "sisa":
            return entry
        return dataclasses.replace(
            entry, cell=dataclasses.replace(entry.cell, config=dataclasses.replace(config, shards=7))
        )

    entries = [moved(entry) for entry, _ in filled.found]
    own = dataclasses.replace(
        filled, found=[pair for pair in filled.found if pair[0].row in ("retrain", "grapheraser")]
    )
    again, _ = extended(own, entries, earlier)
    assert {entry.row for entry in again.missing} == {"sisa"}
    assert again.rows("wmf") == ["retrain", "grapheraser", "spectral"]


def test_all_methods_are_named_by_none(tmp_path: Path) -> None:
    rest = tuple(one for one in BATCH.methods if one != "gram")
    assert widened(order(tmp_path, *rest), BATCH, order(tmp_path, "gram")).methods == ()
    assert widened(order(tmp_path), BATCH, order(tmp_path, "gram")).methods == ()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"forgets": 3}, "computed with no --forgets, and is to be extended with --forgets 3"),
        ({"seeds": 2}, "computed with --seeds 1, and is to be extended with --seeds 2"),
    ],
)
def test_other_requests_or_seeds_are_refused(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        widened(dataclasses.replace(order(tmp_path), **changed), BATCH, order(tmp_path))


def test_a_page_is_extended_by_the_command(tmp_path: Path, kept_workers: None, no_pictures: None) -> None:
    """Also where the cells of before are gone."""

    def run(*methods: str, extend: bool) -> list[str]:
        told: list[str] = []
        asked = Order("levels", WORLD, models=("wmf",), methods=methods, seeds=1, forgets=1, device="cpu", out=tmp_path)
        reproduce(orders_of(["levels"], dataclasses.replace(asked, extend=extend)), told.append)
        for path in asked.cells.iterdir():
            path.unlink()
        return told

    with pytest.raises(UsageError, match=r"there is no .*levels.* to be extended; leave out --extend"):
        run("gram", extend=True)
    run("gram", extend=False)
    said = run("spectral", extend=True)
    assert "3 cells of before are kept beside 6; 3 are in both, of the same quality" in said[-1]
    document = read_document(document_path(Order("levels", WORLD, models=("wmf",), out=tmp_path)))
    assert list(dict.fromkeys(line["row"] for line in document["cells"])) == ["retrain", "spectral", "gram"]
    assert not document["missing"]
    assert "--methods spectral,gram" in document["command"]
    run("gram", extend=False)
    assert "spectral" not in document_path(Order("levels", WORLD, models=("wmf",), out=tmp_path)).read_text()
