"""Pages and pictures of the paper's own data sets, from made-up findings: the paper's numbers stand beside ours."""

from __future__ import annotations

import dataclasses
import io
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from receraser.errors import DataError
from receraser.reproduce import paper
from receraser.reproduce.cell import METRICS, Cell, Result
from receraser.reproduce.document import findings_of, read_document
from receraser.reproduce.order import Order
from receraser.reproduce.picture import colour
from receraser.reproduce.progress import teller
from receraser.reproduce.report import page_of, rewrite, write
from receraser.reproduce.studies import pareto
from receraser.reproduce.studies.registry import find_study
from receraser.reproduce.studies.study import Entry, Findings

STAGES = {"pretrain": 0.5, "partition": 1.0, "submodels": 2.0, "aggregate": 0.5}
GENERATOR = np.random.default_rng(0)


def made_up(entry: Entry) -> Result:
    """What a cell of that kind could have found."""
    quality = GENERATOR.uniform(0.1, 0.4, 50).astype(np.float32)
    steps = int(entry.cell.extras.get("steps", 2)) + 1
    return Result(
        metrics=dict.fromkeys(METRICS, float(quality.mean())),
        seconds=STAGES,
        numbers={
            "users": 6040,
            "items": 3706,
            "interactions": 1_000_209,
            "density": 4.47,
            "balance": 1.2,
            "of shards": 10,
            **dict.fromkeys(("train rows", "valid rows", "test rows", "fitted on"), 7),
            "forgotten": max(1, round(100 * entry.x)),
            "shards": 3,
            "total": 0.7,
            "bytes on disk": 2**21,
            **{f"bytes of {part}": 2**20 for part in ("rows", "submodels", "aggregation", "partition")},
        },
        series={
            key: [0.5] * steps for key in ("total", "submodels", "aggregate", "shards", "rows", "balance", *METRICS)
        }
        | {"gone": np.linspace(0, 0.3, steps).tolist()},
        notes={"users": "everybody", "origin": "made up", "level": "L3"},
        per_user=dict.fromkeys(METRICS, quality),
        about={
            "hardware": "a GPU; a machine",
            "date": "2026-01-01",
            "versions": "torch 2",
            "code": "1.2",
            "device": "cuda",
        },
    )


def findings(study: str, dataset: str, out: Path, models: tuple[str, ...] = paper.MODELS) -> Findings:
    order = Order(study, dataset=dataset, models=models, seeds=2, out=out, report=True)
    return Findings(order, [(entry, made_up(entry)) for entry in find_study(study).entries(order)])


def test_kinds_of_users_have_tables_of_their_own(tmp_path: Path, no_pictures: None) -> None:
    page = write(findings("batch", "ml-100k", tmp_path))[1].read_text()
    assert re.findall(r"^## BPR, (\w+) users$", page, flags=re.MULTILINE) == ["random", "core", "edge"]
    for table in re.findall(r"(?:^\|.*\|\n)+", page, flags=re.MULTILINE):
        assert len({line.count("|") for line in table.splitlines()}) == 1, table


def test_the_papers_numbers_and_the_difference(tmp_path: Path) -> None:
    files = write(findings("table3", "ml-1m", tmp_path))
    page = files[1].read_text()
    for cell in paper.TABLE3["ml-1m"].values():
        assert f"| · paper | {' | '.join(f'{cell[metric]:.4f}' for metric in METRICS)} |" in page
    assert page.count("| · difference | ") == 12
    assert re.search(r"\| Retrain \| 0\.\d{4} ± 0\.\d{4} \(paper 0\.2389, [+-]0\.\d{4}\)", page)
    assert "surely .2832" in page
    assert "Computed on a GPU; a machine, version 1.2." in page


@pytest.mark.parametrize(("dataset", "told"), [("synthetic", True), ("ml-1m", False)])
def test_a_made_world_is_called_one(dataset: str, told: bool, tmp_path: Path, no_pictures: None) -> None:
    page = write(findings("table4", dataset, tmp_path))[1].read_text()
    assert ("**A made world: its times stand in" in page) == told


def test_the_panels_of_table_3_share_their_lines(tmp_path: Path) -> None:
    """WMF has no line of rank 128 on Yelp2018: that of the others is left empty, and nothing moves into it."""
    from matplotlib.container import ErrorbarContainer
    from matplotlib.figure import Figure

    found = findings("table3", "yelp2018", tmp_path)
    figure = Figure()
    draw = find_study("table3").draw
    assert draw is not None
    draw(found, figure)
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    for axes, model in zip(figure.axes, paper.MODELS, strict=True):
        points = [one.lines[0] for one in axes.containers if isinstance(one, ErrorbarContainer)]
        marks = {names[round(float(np.asarray(point.get_ydata())[0]))]: point for point in points}
        assert ("Spectral, rank 128" in marks) == (model != "wmf")
        assert set(names) - set(marks) <= {"Spectral, rank 128"}
        for name, row in (("SISA", "sisa"), ("RecEraser", "receraser"), ("Gram", "gram")):
            assert marks[name].get_color() == colour(row)


def test_the_papers_minutes(tmp_path: Path) -> None:
    page = write(findings("table4", "ml-10m", tmp_path, ("lightgcn",)))[1].read_text()
    assert "| paper: RecEraser |  |  | 610 min | 330 min | 940 min | 0.037 |  |  |" in page
    assert "14 and 4 minutes are printed with a total of 16" in page
    ours = next(line for line in page.splitlines() if line.startswith("| RecEraser |"))
    assert ours == "| RecEraser | 0.5 s | 1 s | 0.5 s | 0.5 s | 0.5 s | 0.125 | 0.5 s | 0.125 |"


def test_the_settings_of_a_method_are_not_those_of_its_one_shard(tmp_path: Path, no_pictures: None) -> None:
    page = write(findings("figure4", "ml-1m", tmp_path))[1].read_text()
    assert "- wmf, receraser (from receraser-wmf-ml-1m): submodels: " in page
    assert "- wmf, retrain (from wmf-ml-1m): model: " in page


def test_a_curve_has_a_gap_where_a_time_is_missing(tmp_path: Path) -> None:
    """A line across it would tell of times that nobody took."""
    found = findings("figure4", "yelp2018", tmp_path, ("wmf",))
    kept = [
        (entry, one)
        for entry, one in found.found
        if (entry.row, entry.what, entry.x) != ("receraser", "interactions", 20)
    ]
    assert len(kept) == len(found.found) - 1
    figure = Figure()
    draw = find_study("figure4").draw
    assert draw is not None
    draw(dataclasses.replace(found, found=kept), figure)
    below = figure.axes[1]
    gaps = {
        str(line.get_color()): int(np.isnan(np.asarray(line.get_ydata(), dtype=float)).sum()) for line in below.lines
    }
    assert gaps[colour("receraser")] == 1
    assert gaps[colour("spectral")] == 0


def test_what_the_text_names_of_a_figure(tmp_path: Path) -> None:
    page = write(findings("figure3", "yelp2018", tmp_path, ("wmf",)))[1].read_text()
    assert page.count("(paper 0.0") == 3


def test_times_of_two_machines_are_not_passed_over(tmp_path: Path, no_pictures: None) -> None:
    def page(study: str, elsewhere: Callable[[Entry], str | None]) -> str:
        found = findings(study, "ml-1m", tmp_path, ("wmf",))
        moved = [
            (entry, dataclasses.replace(one, about={**one.about, "hardware": elsewhere(entry) or "a GPU; a machine"}))
            for entry, one in found.found
        ]
        return write(dataclasses.replace(found, found=moved))[1].read_text()

    text = page("table4", lambda entry: "a laptop" if entry.row == "retrain" else None)
    assert "**WMF: times from two machines**, not to be compared across them: a laptop: Retrain; and a GPU; a" in text
    ours = next(line for line in text.splitlines() if line.startswith("| RecEraser |"))
    assert ours == "| RecEraser | 0.5 s | 1 s | 0.5 s | 0.5 s | 0.5 s |  | 0.5 s |  |", "and not divided by each other"
    text = page("table4", lambda entry: "a machine" if entry.row == "gram" else None)
    assert "times from" not in text, "beside the GPU, on the same machine"
    assert "Computed on a GPU; a machine (what needs no shards on its cores), version 1.2." in text
    text = page("pareto", lambda entry: "a laptop" if entry.what == "fit" and entry.row != "retrain" else None)
    assert "times from" not in text, "fits of shards stand there for their quality"
    assert "times from two machines" in page("figure4", lambda entry: None if entry.what == "fit" else "a laptop")
    assert "times from" not in page("table3", lambda entry: entry.row)


def test_what_lies_far_below_is_told_in_words_and_not_drawn(tmp_path: Path) -> None:
    """Neither as a curve nor in the front, which would press all the others together."""
    order = Order(
        "pareto", dataset="ml-1m", models=("wmf",), methods=("retrain", "sisa", "spectral"), seeds=1, out=tmp_path
    )
    quality = {"retrain": 0.36, "sisa": 0.1, "spectral": 0.35}
    found = []
    for entry in find_study("pareto").entries(order):
        one = made_up(entry)
        seconds = {"retrain": 2.0, "sisa": 0.1, "spectral": 0.5}[entry.row]
        series = {**one.series, "total": [seconds]}
        metrics = dict.fromkeys(METRICS, quality[entry.row])
        found.append((entry, dataclasses.replace(one, metrics=metrics, series=series)))
    figure = Figure()
    pareto.draw(Findings(order, found), figure)
    (axes,) = figure.axes
    assert "not drawn: SISA: 0.10" in [text.get_text() for text in axes.texts]
    drawn = [value for line in axes.lines for value in np.asarray(line.get_ydata(), dtype=float)]
    assert min(drawn) == pytest.approx(0.35)
    assert pareto.front(pareto.points(Findings(order, found), "wmf"))[0][0] == "sisa", "the page has it"


RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "reproduce"


def test_every_page_there_is_says_what_its_document_does() -> None:
    documents = sorted(RESULTS.glob("*.json"))
    assert len(documents) > 40
    for path in documents:
        document, page = read_document(path), path.with_suffix(".md")
        assert page.read_text() == page_of(document, drawn=path.with_suffix(".svg").exists()), (
            f"{page.name} is not made of {path.name}; make it again: {document['command']} --report"
        )
        assert document["code"], path.name
        found = findings_of(document, RESULTS)
        assert (found.order.name, found.order.command) == (path.stem, document["command"])
        before = len(found.shares), len(found.p_values)
        find_study(document["study"]).page(found)
        assert (len(found.shares), len(found.p_values)) == before, f"{path.name} lacks a comparison"


@pytest.mark.parametrize("study", ["table3", "table4", "figure4", "batch", "gradual", "pareto"])
def test_a_page_is_made_again_of_its_document_alone(study: str, tmp_path: Path, no_pictures: None) -> None:
    """Also the comparisons, which need every single user: they are in the document, and nobody's numbers are."""
    found = findings(study, "ml-1m", tmp_path, ("wmf", "bpr"))
    path, page = write(found)
    text = page.read_text()
    page.unlink()
    assert rewrite(path) == [path, page]
    assert page.read_text() == text
    assert re.search(r"\d %? ?\[\d", text) or study == "pareto"
    document = read_document(path)
    again = findings_of(document, tmp_path)
    assert again.models == ["bpr", "wmf"], "as the paper has them"
    assert not any(one.per_user for _, one in again.found)
    assert again.shares.keys() == found.shares.keys()
    for pair, share in found.shares.items():
        other = again.shares[pair]
        assert (share is None) == (other is None)
        if share is not None and other is not None:
            assert (other.mean, other.low, other.high) == pytest.approx((share.mean, share.low, share.high), abs=1e-6)
    assert again.p_values == found.p_values
    for (entry, one), (ours, theirs) in zip(again.found, found.found, strict=True):
        assert (entry.row, entry.what, entry.x) == (ours.row, ours.what, ours.x)
        if (study, entry.x) != ("figure4", 1):  # one shard is a retrain; the line has settings of its own
            assert entry.origin == ours.origin
            assert entry.cell.config == ours.cell.placed("cuda")
        assert one.about["hardware"] == theirs.about["hardware"]


def test_the_machine_of_every_line_is_in_the_document_where_there_are_several(
    tmp_path: Path, no_pictures: None
) -> None:
    found = findings("figure4", "ml-1m", tmp_path, ("bpr",))
    moved = [
        (entry, dataclasses.replace(one, about={**one.about, "hardware": "a laptop"}) if entry.row == "gram" else one)
        for entry, one in found.found
    ]
    path, page = write(dataclasses.replace(found, found=moved))
    assert "times from two machines**, not to be compared across them" in page.read_text()
    text = page.read_text()
    rewrite(path)
    assert page.read_text() == text
    drawn = Figure()
    draw = find_study("figure4").draw
    assert draw is not None
    draw(findings_of(read_document(path), tmp_path), drawn)
    below = drawn.axes[1]
    assert colour("gram") not in [line.get_color() for line in below.lines], "beside times of another machine"


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "the results cannot be read"), ('{"study": "batch"}', "have the format None; expected 2")],
)
def test_a_document_that_is_none(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "batch-ml-1m.json").write_text(text)
    with pytest.raises(DataError, match=message):
        rewrite(tmp_path / "batch-ml-1m.json")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    told = teller(lambda _: None)
    cell = Cell("rows", "ml-1m")
    for number in (1, 2):
        told.begins(cell, number, 2, None if number == 1 else 70.0)
        told.ends(cell, 3.0, "done")
    told.close()
    assert screen.getvalue().count("rows: ml-1m: done, 3 s") == 2
    assert "about 1:10 min left" in screen.getvalue()


def test_lines_on_a_terminal_without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setitem(__import__("sys").modules, "rich.progress", None)
    lines: list[str] = []
    told = teller(lines.append)
    told.begins(Cell("rows", "ml-1m"), 1, 2, 5.0)
    told.ends(Cell("rows", "ml-1m"), 3.0, "done")
    told.close()
    assert lines == ["[1/2] about 5 s left, rows: ml-1m: done, 3 s"]
