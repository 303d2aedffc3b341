"""Lines of an earlier run beside new ones: nothing that differs stands on one page, and it says what is of when."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from receraser.errors import DataError, UsageError
from receraser.reproduce.cell import Result
from receraser.reproduce.command import orders_of, reproduce
from receraser.reproduce.document import document_of, findings_of, read_document, write_document
from receraser.reproduce.extending import check, extended, widened
from receraser.reproduce.order import Order
from receraser.reproduce.report import document_path, rewrite, write
from receraser.reproduce.studies.registry import find_study
from receraser.reproduce.studies.study import Entry, Findings
from tests.reproduce.conftest import WORLD
from tests.reproduce.test_pages import made_up

BATCH = find_study("batch")
KNOWN: dict[str, Result] = {}


def order(out: Path, *methods: str, study: str = "batch", seeds: int = 1, **others: Any) -> Order:
    return Order(study, dataset="ml-1m", models=("wmf",), methods=methods, seeds=seeds, out=out, **others)


def found(one: Order, **about: str) -> Findings:
    """What the cells of an order say; those of one cell are always the same."""
    pairs = []
    for entry in find_study(one.study).entries(one):
        result = KNOWN.setdefault(repr(entry.cell), made_up(entry))
        device = entry.cell.device("cuda")
        pairs.append((entry, dataclasses.replace(result, about={**result.about, "device": device, **about})))
    return Findings(one, pairs)


def published(one: Order, **about: str) -> Findings:
    """The same, as its document says it."""
    return findings_of(read_document(write(found(one, **about))[0]), one.out)


def joined(few: Findings, earlier: Findings, without: Iterable[Entry] = ()) -> Findings:
    """What a page comes to with a few lines more."""
    study = find_study(few.order.study)
    wide = widened(few.order, study, earlier.order)
    entries = study.entries(wide)
    check([entry for entry, _ in few.found], entries, earlier, study, None)
    left_out = {repr(entry) for entry in without}
    mine = [pair for pair in few.found if repr(pair[0]) not in left_out]
    return extended(Findings(wide, mine), entries, earlier, study)


def changed(some: Findings, row: str, **parts: Any) -> Findings:
    """Findings in which the results of a line are others."""
    return dataclasses.replace(
        some, found=[(e, dataclasses.replace(one, **parts) if e.row == row else one) for e, one in some.found]
    )


def moved(some: Findings, row: str, **settings: Any) -> Findings:
    """Findings in which a line has other settings."""

    def entry(one: Entry) -> Entry:
        config = one.cell.config
        if one.row != row or config is None:
            return one
        return dataclasses.replace(
            one, cell=dataclasses.replace(one.cell, config=dataclasses.replace(config, **settings))
        )

    return dataclasses.replace(some, found=[(entry(one), result) for one, result in some.found])


def test_a_page_has_the_lines_of_both(tmp_path: Path, no_pictures: None) -> None:
    earlier = published(order(tmp_path, "sisa", "spectral"), date="2026-01-01", code="1.2")
    filled = joined(found(order(tmp_path, "grapheraser"), date="2026-01-02", code="1.3"), earlier)
    assert filled.rows("wmf") == ["retrain", "sisa", "grapheraser", "spectral"], "as the study has them"
    assert not filled.missing
    path, page = write(filled)
    text = page.read_text()
    assert "--methods sisa,grapheraser,spectral" in text, "what computes all of it"
    assert (
        "- 2026-01-01, version 1.2: WMF: Retrain; SISA; Spectral\n- 2026-01-02, version 1.3: WMF: GraphEraser\n"
    ) in text
    assert (
        "Extended: 2026-01-02: WMF: GraphEraser. 8 cells of before were computed again, with the same result.\n" in text
    )
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(lines) == 1 + 3 * 8
    assert all("[" in line.split("|")[-2] for line in lines[1:]), "a share of the retrain's, with its interval, in each"
    again = findings_of(read_document(path), tmp_path)
    assert [entry.cell.config and entry.cell.config.device for entry, _ in again.found] == ["cuda"] * 32
    assert [entry.origin for entry, _ in again.found] == [entry.origin for entry, _ in filled.found]
    assert all(again.shares[pair] == share for pair, share in earlier.shares.items())


def test_a_page_that_was_extended_is_extended_again(tmp_path: Path, no_pictures: None) -> None:
    """And still says of every line when and by which version it was computed."""
    write(joined(found(order(tmp_path, "gram"), date="2026-01-02", code="1.3"), published(order(tmp_path, "sisa"))))
    path = document_path(order(tmp_path))
    earlier = findings_of(read_document(path), tmp_path)
    write(joined(found(order(tmp_path, "spectral"), date="2026-01-03", code="1.3"), earlier))
    document = read_document(path)
    days = {(line["row"], line["date"]) for line in document["cells"]}
    assert days == {
        ("retrain", "2026-01-01"),
        ("sisa", "2026-01-01"),
        ("gram", "2026-01-02"),
        ("spectral", "2026-01-03"),
    }
    assert document["dates"] == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert document["code"] == ["1.2", "1.3"]
    assert len(document["extended"]) == 2


def test_what_an_old_document_does_not_say_of_a_line_stays_unknown(tmp_path: Path, no_pictures: None) -> None:
    """Its days are those of the page, and none of them becomes that of a line."""
    one = order(tmp_path, "sisa")
    document = dict(document_of(BATCH, found(one)))
    document["dates"] = ["2025-12-30", "2025-12-31"]
    path = document_path(one)
    write_document(path, document)
    for method in ("gram", "spectral"):
        few = found(order(tmp_path, method), date="2026-01-02")
        write(joined(few, findings_of(read_document(path), tmp_path)))
        rewrite(path)
    document = dict(read_document(path))
    assert document["dates"] == ["2025-12-30", "2025-12-31", "2026-01-02"]
    assert {line["row"] for line in document["cells"] if line["date"] is None} == {"retrain", "sisa"}
    assert "- on a day that is not known, version 1.2: WMF: Retrain; SISA\n" in path.with_suffix(".md").read_text()


def test_the_seconds_of_before_stay(tmp_path: Path, no_pictures: None) -> None:
    """The others were measured beside them."""
    few = changed(found(order(tmp_path, "gram")), "retrain", seconds={"submodels": 40.0})
    earlier = changed(published(order(tmp_path, "sisa")), "retrain", seconds={"submodels": 10.0})
    filled = joined(few, earlier)
    assert [one.seconds for one in filled.of("wmf", "retrain", "random left")] == [{"submodels": 10.0}] * 8
    assert filled.extensions[-1].endswith(", in 4.00 to 4.00 of their time")
    storage = [order(tmp_path, "retrain", method, study="storage") for method in ("sisa", "gram")]
    again = joined(changed(found(storage[1]), "retrain", seconds={"submodels": 40.0}), published(storage[0]))
    assert again.extensions[-1].endswith("with the same result"), "nothing is timed there"


def test_twice_is_once(tmp_path: Path, no_pictures: None) -> None:
    earlier = published(order(tmp_path, "sisa"))
    few = found(order(tmp_path, "gram"))
    path = write(joined(few, earlier))[0]
    text = path.read_text()
    write(joined(few, findings_of(read_document(path), tmp_path)))
    assert path.read_text() == text


def test_results_that_differ_do_not_stand_on_one_page(tmp_path: Path, no_pictures: None) -> None:
    earlier = published(order(tmp_path, "sisa"))
    few = found(order(tmp_path, "gram"))
    numbers = few.found[0][1].numbers
    for parts, message in (
        ({"metrics": {"recall@20": 0.9}}, r"WMF: Retrain, random left: recall@20 is 0\.900000, and was"),
        ({"numbers": {**numbers, "interactions": 1_000_210}}, "interactions is 1,000,210, and was 1,000,209"),
        ({"about": {"split": "at random"}}, "the split is at random, and was the files"),
        ({"metrics": {}, "numbers": {}}, "nothing of it tells whether it is of the same rows"),
    ):
        split = changed(earlier, "retrain", about={**earlier.found[0][1].about, "split": "the files"})
        with pytest.raises(DataError, match=message):
            joined(changed(few, "retrain", **parts), split)
    retrains = [entry for entry, _ in few.found if entry.row == "retrain"]
    with pytest.raises(UsageError, match="nothing of WMF is both on the page and computed now"):
        joined(few, earlier, without=retrains)
    with pytest.raises(UsageError, match="was computed on cuda before and on cpu now"):
        joined(changed(few, "retrain", about={"device": "cpu"}), earlier)


def test_times_of_two_machines_are_not_put_together(tmp_path: Path, no_pictures: None) -> None:
    earlier = published(order(tmp_path, "sisa"))
    joined(found(order(tmp_path, "gram"), hardware="a machine"), earlier)  # the cores beside the GPU
    with pytest.raises(DataError, match="WMF was timed on a GPU; a machine, and now on a laptop"):
        joined(found(order(tmp_path, "gram"), hardware="a laptop"), earlier)
    quality = published(order(tmp_path, "retrain", "sisa", study="table3"))
    joined(found(order(tmp_path, "retrain", "receraser", study="table3"), hardware="a laptop"), quality)


def test_what_cannot_be_put_together_is_told_beforehand(tmp_path: Path, no_pictures: None) -> None:
    earlier = published(order(tmp_path, "sisa", "spectral"))
    entries = BATCH.entries(order(tmp_path, "sisa", "spectral", "gram"))
    asked = BATCH.entries(order(tmp_path, "gram"))
    check(asked, entries, earlier, BATCH, "cuda")
    with pytest.raises(UsageError, match="was computed on cuda before and on cpu now"):
        check(asked, entries, earlier, BATCH, "cpu")
    with pytest.raises(UsageError, match="lines that are none of this order: WMF: Spectral, random"):
        check(asked, [one for one in entries if one.row != "spectral"], earlier, BATCH, None)
    stale = moved(earlier, "sisa", hyperparameters={"dim": 7})
    with pytest.raises(UsageError, match="lines of other settings than today's: WMF: SISA, random"):
        check(asked, entries, stale, BATCH, None)
    check(BATCH.entries(order(tmp_path, "sisa", "gram")), entries, stale, BATCH, None)
    alone = [entry for entry in asked if entry.row == "gram"]
    with pytest.raises(
        UsageError, match="name a method in --methods that the page has, such as retrain, of sisa, spectral"
    ):
        check(alone, entries, earlier, BATCH, None)
    with pytest.raises(UsageError, match="lines of other settings than today's: WMF: Retrain"):
        check(alone, entries, moved(earlier, "retrain", hyperparameters={"dim": 7}), BATCH, None)
    table3 = order(tmp_path, "retrain", "sisa", study="table3")
    with pytest.raises(UsageError, match="has 1 seeds, and is to be extended with 2: say --seeds 1"):
        joined(found(order(tmp_path, "retrain", "receraser", study="table3", seeds=2)), published(table3))


def test_a_line_of_other_settings_is_brought_up_to_date(tmp_path: Path, no_pictures: None) -> None:
    stale = changed(moved(published(order(tmp_path, "sisa")), "sisa", hyperparameters={"dim": 7}), "sisa", metrics={})
    pairs = list(stale.shares)
    filled = joined(found(order(tmp_path, "sisa", "gram")), stale)
    assert all(one.metrics for one in filled.of("wmf", "sisa", "random"))
    assert not any(pair in filled.shares for pair in pairs), "nothing that was compared before stands beside it"
    assert filled.share(*pairs[0]) is not None, "it is compared again"
    lost = [entry for entry, _ in found(order(tmp_path, "sisa")).found if entry.row == "sisa"]
    with pytest.raises(DataError, match="WMF: SISA, random: has other settings than today's, and there is no cell"):
        joined(found(order(tmp_path, "sisa", "gram")), stale, without=lost)


def test_every_model_has_something_in_both(tmp_path: Path, no_pictures: None) -> None:
    sisa, gram = (dataclasses.replace(order(tmp_path, name), models=("wmf", "bpr")) for name in ("sisa", "gram"))
    earlier, few = published(sisa), found(gram)
    lost = [entry for entry, _ in few.found if (entry.model, entry.row) == ("bpr", "retrain")]
    with pytest.raises(UsageError, match="nothing of BPR is both on the page and computed now"):
        joined(few, earlier, without=lost)


def test_one_shard_has_the_settings_of_the_retrain(tmp_path: Path, no_pictures: None) -> None:
    """Whichever line it stands in: where those are others today, it is none of today's."""
    one = order(tmp_path, "receraser", study="figure4")
    earlier = published(one)
    assert joined(found(order(tmp_path, "gram", study="figure4")), earlier).rows("wmf") == [
        "retrain",
        "receraser",
        "gram",
    ]
    document = dict(read_document(document_path(one)))
    document["settings"]["wmf, retrain"]["hyperparameters"]["n_sweeps"] = 3
    write_document(document_path(one), document)
    stale = findings_of(read_document(document_path(one)), tmp_path)
    with pytest.raises(UsageError, match=r"WMF: RecEraser, fit\. They"):
        joined(found(order(tmp_path, "gram", study="figure4")), stale)


def test_seeds_are_compared_whole_or_not_at_all(tmp_path: Path, no_pictures: None) -> None:
    """A mean over two seeds does not stand beside a share of one."""
    earlier = published(order(tmp_path, "retrain", "sisa", study="table3", seeds=2))
    few = found(order(tmp_path, "retrain", "receraser", study="table3", seeds=2))
    half = [entry for entry, _ in few.found if entry.cell.seed == 1 and entry.row == "retrain"]
    ours, full = (("wmf", row, "fit", None) for row in ("receraser", "retrain"))
    share = joined(few, earlier).share(ours, full, "ndcg@20")
    assert share is not None
    assert share.low <= share.mean <= share.high
    assert joined(few, earlier, without=half).share(ours, full, "ndcg@20") is None


def test_comparisons_of_lines_that_stay_stay(tmp_path: Path, no_pictures: None) -> None:
    earlier = published(order(tmp_path, "retrain", "sisa", "receraser", study="table3", seeds=2))
    filled = joined(found(order(tmp_path, "retrain", "spectral", study="table3", seeds=2)), earlier)
    assert any(earlier.p_values.values())
    assert filled.p_values == {pair: some for pair, some in earlier.p_values.items() if some}
    again = findings_of(read_document(write(filled)[0]), tmp_path)
    assert {pair: some for pair, some in again.p_values.items() if some} == filled.p_values
    assert all(again.shares[pair] == share for pair, share in earlier.shares.items() if share is not None)


def test_all_methods_are_named_by_none(tmp_path: Path) -> None:
    rest = tuple(one for one in BATCH.methods if one != "gram")
    assert widened(order(tmp_path, *rest), BATCH, order(tmp_path, "gram")).methods == ()
    assert widened(order(tmp_path), BATCH, order(tmp_path, "gram")).methods == ()


def test_a_page_is_extended_by_the_command(tmp_path: Path, kept_workers: None, no_pictures: None) -> None:
    """Also where the cells of before are gone."""
    path = document_path(Order("levels", WORLD, models=("wmf",), out=tmp_path))

    def run(*methods: str, forgets: int = 1, **others: Any) -> list[str]:
        told: list[str] = []
        asked = Order(
            "levels", WORLD, models=("wmf",), methods=methods, seeds=1, forgets=forgets, device="cpu", out=tmp_path
        )
        reproduce(orders_of(["levels"], dataclasses.replace(asked, **others)), told.append)
        return told

    with pytest.raises(UsageError, match=r"there is no .*levels.* to be extended; or leave out --extend"):
        run("gram", extend=True)
    run("gram")
    for cell in (tmp_path / "cells").iterdir():
        cell.unlink()
    with pytest.raises(UsageError, match="ask for as many requests"):
        run("spectral", forgets=2, extend=True)
    assert not list((tmp_path / "cells").iterdir()), "before anything is computed"
    said = run("spectral", extend=True)
    assert "WMF: Spectral. 3 cells of before were computed again, with the same result, in " in said[-1]
    document = read_document(path)
    assert list(dict.fromkeys(line["row"] for line in document["cells"])) == ["retrain", "spectral", "gram"]
    assert not document["missing"]
    assert "--methods spectral,gram" in document["command"]
    run("gram")
    assert "spectral" not in path.read_text(), "that order has one method"
    said = run("spectral", extend=True, report=True)
    assert said[-1].endswith("WMF: Spectral. 6 cells of before were computed again, with the same result"), (
        "by Gram too"
    )
    assert '"row": "spectral"' in path.read_text()
    for cell in (tmp_path / "cells").iterdir():
        cell.unlink()
    with pytest.raises(UsageError, match=r"there are no cells in .* that it could be extended by"):
        run("gram", extend=True, report=True)
