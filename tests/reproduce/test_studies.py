"""Every table and figure from end to end, on a tiny made world: cells, page, picture."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from receraser.config import EngineConfig
from receraser.data.interactions import Interactions
from receraser.errors import DataError, UsageError
from receraser.reproduce.command import orders_of, planned, reproduce
from receraser.reproduce.datasets import load
from receraser.reproduce.kept import Kept
from receraser.reproduce.measuring import FITS, Fitted, Workshop, shards_key
from receraser.reproduce.order import STUDIES, Order
from receraser.reproduce.picture import colour, face, marker
from receraser.reproduce.studies import batch, figure4, gradual, pareto
from receraser.reproduce.studies.registry import find_study
from receraser.reproduce.studies.study import ATTENDED, POLISHED, SWEPT
from receraser.state import State
from receraser.work import Work
from tests.nightly import at_night
from tests.reproduce.conftest import WORLD

METHODS = {"batch": ("receraser", "spectral"), "gradual": ("receraser", "gram"), "levels": ("receraser", "gram")}
PICTURES = [name for name in STUDIES if name != "table2"]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all studies, as in life: they share cells."""
    return tmp_path_factory.mktemp("reproduce")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, kept_workers: None) -> None:
    monkeypatch.setattr(figure4, "SHARDS", (1, 3, 10))
    monkeypatch.setattr(pareto, "SHARDS", (10,))
    monkeypatch.setattr(gradual, "STEPS", 2)
    monkeypatch.setattr(batch, "RANDOM", (1, 0.2))


def order(study: str, out: Path, **changes: object) -> Order:
    methods = METHODS.get(study, ())
    small = Order(study, dataset=WORLD, models=("wmf",), methods=methods, seeds=1, forgets=2, out=out, device="cpu")
    return dataclasses.replace(small, **changes)  # type: ignore[arg-type]


AT_NIGHT = ("figure3", "levels", "pareto", "storage")


@pytest.mark.parametrize("study", [*(name for name in STUDIES if name not in AT_NIGHT), *at_night(*AT_NIGHT)])
def test_from_end_to_end(study: str, out: Path) -> None:
    told: list[str] = []
    ran, files = reproduce([order(study, out)], told.append)
    assert ran.failed == []
    expected = ["json", "md"] + (["png", "svg"] if study in PICTURES else [])
    name = f"{study}-{WORLD}" + ("" if study == "table2" else "-wmf")  # a data set has no model
    assert [file.name for file in files] == [f"{name}.{kind}" for kind in expected]
    assert all(file.stat().st_size > 300 for file in files)
    document = json.loads(files[0].read_text())
    assert document["missing"] == {}
    assert document["command"].startswith(f"receraser reproduce {study} --dataset {WORLD} --models wmf ")
    assert document["hardware"]
    assert len(document["cells"]) == len(find_study(study).entries(order(study, out)))
    page = files[1].read_text()
    assert "Not complete" not in page
    assert "nan" not in page
    for table in re.findall(r"(?:^\|.*\|\n)+", page, flags=re.MULTILINE):
        widths = {line.count("|") for line in table.splitlines()}
        assert len(widths) == 1, table


def test_no_row_and_no_id_is_in_the_files(out: Path) -> None:
    _, files = reproduce([order("figure2", out)], lambda _: None)
    data = load(None, WORLD)
    names = [*data.pseudonymous().full.users, *data.full.users]
    cells = [path.read_text() for path in (out / "cells").glob("*.json")]
    for text in [*cells, *(file.read_text() for file in files if file.suffix in (".json", ".md", ".svg"))]:
        assert not any(name in text for name in names)
        assert '"users": "' not in text or text in cells, "who was ranked for, not even as a digest"


def test_a_report_needs_no_data_and_computes_nothing(
    out: Path, monkeypatch: pytest.MonkeyPatch, no_pictures: None
) -> None:
    reproduce([order("table3", out)], lambda _: None)
    page = (out / f"table3-{WORLD}-wmf.md").read_text()
    monkeypatch.setattr("receraser.reproduce.command.load", None)
    monkeypatch.setattr("receraser.reproduce.command.run", None)
    _, files = reproduce([order("table3", out, report=True)], lambda _: None)
    assert files[1].read_text() == page


def test_a_report_where_there_are_no_cells(out: Path, tmp_path: Path, no_pictures: None) -> None:
    """In a clone there are documents alone; where there are cells too, what has more of them counts."""
    asked = order("figure2", tmp_path, report=True)
    with pytest.raises(DataError, match=rf"there are no cells of {WORLD}, .* and no figure2-{WORLD}-wmf.json"):
        reproduce([asked], lambda _: None)
    reproduce([order("figure2", out)], lambda _: None)
    name = f"figure2-{WORLD}-wmf"
    (tmp_path / f"{name}.json").write_text((out / f"{name}.json").read_text())
    told: list[str] = []
    _, files = reproduce([asked], told.append)
    assert [file.name for file in files] == [f"{name}.json", f"{name}.md"]
    assert files[1].read_text() == (out / f"{name}.md").read_text()
    assert told == [f"{name}: made of {name}.json, which has more than the cells in {tmp_path / 'cells'}"]
    with pytest.raises(DataError, match=rf"no figure2-{WORLD}-bpr.json \(there is {name}.json: name its models with"):
        reproduce([dataclasses.replace(asked, models=("bpr",))], told.append)
    here, rows = Kept(out / "cells"), load(None, WORLD).digest
    entries = find_study("figure2").entries(asked)
    for entry in entries[:2]:
        result = here.read(entry.cell.digest(rows, "cpu"))
        assert result is not None
        Kept(tmp_path / "cells").write(entry.cell, rows, "cpu", result)
    _, files = reproduce([asked], told.append)
    assert "Not complete" not in files[1].read_text()
    assert len(told) == 2
    (tmp_path / f"{name}.json").unlink()
    _, files = reproduce([asked], told.append)
    assert f"{len(entries) - 2} of {len(entries)} cells are missing" in files[1].read_text()


def test_a_page_says_how_many_requests_were_timed(tmp_path: Path, no_pictures: None) -> None:
    asked = order("table4", tmp_path, methods=("retrain", "spectral"), forgets=3, within=1e-9)
    _, files = reproduce([asked], lambda _: None)
    page = files[1].read_text()
    assert "--forgets 3 --within 1e-09" in page
    assert "began within 1e-09 s (1 of a line)" in page
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("|")]
    assert lines[0][-1] == "timed"
    assert {len(line) for line in lines[:4]} == {len(lines[0])}
    assert [line[-1] for line in lines[2:4]] == ["", "1 and 1"], "of the retrain, and of spectral"
    assert "side by side" not in page
    kept, rows = Kept(asked.cells), load(None, WORLD).digest
    for entry in find_study("table4").entries(asked):  # as a tool leaves them that fits many at once
        result = kept.read(entry.cell.digest(rows, "cpu"))
        assert result is not None
        if entry.row == "spectral":
            kept.write(entry.cell, rows, "cpu", dataclasses.replace(result, seconds={}))
    _, files = reproduce([dataclasses.replace(asked, report=True)], lambda _: None)
    assert "with every rebuild; blank where\nfirst fits ran side by side: `receraser" in files[1].read_text()


def test_a_page_says_what_is_missing(out: Path, no_pictures: None) -> None:
    reproduce([order("figure2", out)], lambda _: None)
    two = Order("figure2", dataset=WORLD, models=("wmf",), seeds=2, out=out, report=True)
    _, files = reproduce([two], lambda _: None)
    assert "**Not complete**: 6 of 12 cells are missing (WMF: Retrain; WMF: Random; " in files[1].read_text()


def test_cells_of_another_device_are_found_where_there_is_none(out: Path, tmp_path: Path, no_pictures: None) -> None:
    """Computed on a GPU, copied, and reported on a machine that has none."""
    reproduce([order("figure2", out)], lambda _: None)
    rows = load(None, WORLD).digest
    here, there = Kept(out / "cells"), Kept(tmp_path / "cells")
    for entry in find_study("figure2").entries(order("figure2", out)):
        result = here.read(entry.cell.digest(rows, "cpu"))
        assert result is not None
        there.write(entry.cell, rows, "cuda", dataclasses.replace(result, about={**result.about, "device": "cuda"}))
    _, files = reproduce([order("figure2", tmp_path, report=True, device="auto")], lambda _: None)
    document = json.loads(files[0].read_text())
    assert document["missing"] == {}
    assert document["settings"]["wmf, inbp"]["device"] == "cuda"


def test_a_plan_counts_cells_of_two_ranks_apart(tmp_path: Path) -> None:
    cells = planned([order("table3", tmp_path, methods=("gram",))])
    assert cells == ["fit: gram, retrain, seed 0", "fit: gram, retrain, seed 0, rank=128"]


def test_models_without_shards_alone_have_a_page_and_no_picture(tmp_path: Path) -> None:
    ran, files = reproduce([order("table3", tmp_path, methods=("gram",))], lambda _: None)
    assert ran.failed == []
    assert [file.suffix for file in files] == [".json", ".md"]
    assert "Gram" in files[1].read_text()


def test_several_studies_at_once_fit_once_what_they_share(
    tmp_path: Path, no_pictures: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each study takes the methods that it has; what is computed once is computed once over all of them."""
    fits, combined = [], []
    fit, combine = Work.fit, Workshop._combined_anew

    def counted_fit(self: Work, train: Interactions, valid: Interactions | None = None) -> State:
        fits.append((self._config.partition, self._config.shards))
        return fit(self, train, valid)

    def counted_combine(self: Workshop, last: Fitted, config: EngineConfig) -> Fitted:
        combined.append(config.aggregation)
        return combine(self, last, config)

    monkeypatch.setattr(Work, "fit", counted_fit)
    monkeypatch.setattr(Workshop, "_combined_anew", counted_combine)
    asked = order("batch", tmp_path, methods=("spectral", "spectral-32", "attention-on-hash"))
    orders = orders_of(["batch", "first", "gradual"], asked)
    assert orders[0].methods == asked.methods
    assert orders[1].methods == orders[2].methods == ("spectral", "attention-on-hash")
    ran, files = reproduce(orders, lambda _: None)
    assert (ran.failed, ran.done) == ([], len(planned(orders)))
    assert [file.stem for file in files if file.suffix == ".json"] == [f"{one.study}-{WORLD}-wmf" for one in orders]
    # Both sizes of a batch and the leave in steps set out from one fit; one more is of what is left at the end, and
    # first fits are timed from nothing, up to three times each.
    assert fits.count(("hash", 10)) == 1 + 1 + 2 * FITS
    assert fits.count(("hash", 32)) == 1
    assert combined == ["attention"] * 2
    again, _ = reproduce(orders, lambda _: None)
    assert again.done == 0
    told = "The control: attention over the very same submodels"
    assert told in (tmp_path / f"batch-{WORLD}-wmf.md").read_text()
    reproduce([order("batch", tmp_path, methods=("spectral",), report=True)], lambda _: None)
    assert told not in (tmp_path / f"batch-{WORLD}-wmf.md").read_text()


def test_methods_that_a_study_has_not(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none of batch, storage has a method 'spectra': did you mean 'spectral'\?"):
        orders_of(["batch", "storage"], order("batch", tmp_path, methods=("spectra",)))
    with pytest.raises(UsageError, match="storage has none of the methods spectral-32; name one of retrain, sisa"):
        orders_of(["batch", "storage"], order("batch", tmp_path, methods=("spectral-32",)))
    twice = orders_of(["batch", "batch"], order("batch", tmp_path))
    assert [one.study for one in twice] == ["batch"]


@pytest.mark.parametrize("study", PICTURES)
def test_every_method_is_known_by_its_study(study: str) -> None:
    assert find_study(study).methods
    for method in find_study(study).methods:
        assert find_study(study).entries(Order(study, dataset=WORLD, models=("wmf",), methods=(method,), seeds=1))


def test_studies_share_cells(tmp_path: Path) -> None:
    """Table 3's RecEraser is Figure 2's InBP, Figure 3's attention and Figure 4's ten shards."""
    rows = {"table3": "receraser", "figure2": "inbp", "figure3": "attention", "figure4": "receraser"}
    digests = set()
    for study, row in rows.items():
        for entry in find_study(study).entries(order(study, tmp_path)):
            if (entry.row, entry.what) == (row, "fit") and entry.cell.config and entry.cell.config.shards == 10:
                digests.add(entry.cell.digest("rows", "cpu"))
    assert len(digests) == 1


@pytest.mark.parametrize("study", ["table3", "table4", "figure3", "figure4", "batch", "levels", "gradual", "pareto"])
def test_controls_stand_wherever_spectral_does(study: str) -> None:
    """Attention on the very same submodels and the very same requests; gram; sweeps from random vectors for polish."""
    asked = Order(study, dataset="yelp2018", seeds=2)
    entries = find_study(study).entries(asked)

    def cells(aggregation: str) -> set[tuple[object, ...]]:
        of = [
            (entry, entry.cell.config)
            for entry in entries
            if entry.cell.config is not None and entry.cell.config.partition == "hash" and "rank" not in entry.row
        ]
        return {
            (
                (entry.model, entry.cell.kind, entry.what, entry.x, shards_key(config)),
                tuple((key, value) for key, value in entry.cell.extras.items() if key != "epochs"),
            )
            for entry, config in of
            if config.aggregation == aggregation and not config.aggregation_settings.get("polish")
        }

    assert cells("spectral")
    assert cells("spectral") == cells("attention")
    rows = {entry.row for entry in entries}
    assert "gram" in rows
    assert (POLISHED in rows) == (SWEPT in rows) == (study in ("table3", "pareto"))
    without = find_study(study).entries(dataclasses.replace(asked, methods=("spectral",)))
    assert {entry.row.partition(",")[0] for entry in without} <= {"retrain", "spectral"}


def test_a_control_is_grey_and_dashed() -> None:
    assert colour("receraser") != colour(ATTENDED) == colour(SWEPT) == colour(f"{ATTENDED}, K=32")
    assert marker(ATTENDED) != marker(SWEPT)
    assert face(ATTENDED) == colour(ATTENDED) != face(f"{ATTENDED}, K=32") == face(POLISHED) == "white"


@pytest.mark.parametrize("dataset", ["ml-100k", "yelp2018", "ml-10m"])
@pytest.mark.parametrize("study", ["table3", "figure3", "table4", "batch"])
def test_every_data_set_has_settings(study: str, dataset: str) -> None:
    entries = find_study(study).entries(Order(study, dataset=dataset, seeds=1))
    assert entries
    for entry in entries:
        config = entry.cell.config
        assert entry.origin
        if config is not None and "rank" not in entry.row and config.model != "graphfilter":
            assert config.hyperparameters.get("dim", config.hyperparameters.get("rank", 64)) == 64
            assert config.aggregation_settings.get("rank", 64) == 64
    assert len(planned([Order(study, dataset=dataset, seeds=1)])) > 5
