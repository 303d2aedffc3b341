"""The paper's numbers are those that are printed in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from receraser.reproduce import paper
from receraser.reproduce.order import STUDIES
from tests.tools import tool

SOURCE = Path(__file__).parents[2].parent / "shared" / "recommendation-unlearning.tex"
NAMES = {"Yelp2018": "yelp2018", "Movielens-1m": "ml-1m", "Movielens-10m": "ml-10m"}

printed = pytest.mark.skipif(not SOURCE.exists(), reason="the paper's source is not at hand (../shared)")


def table(number: int) -> str:
    """The source of one table, from its label to its end."""
    text = SOURCE.read_text()
    start = text.index(rf"\label{{table{number}}}")
    return text[start : text.index(r"\end{tabular}", start)]


def numbers(line: str) -> list[float]:
    return [float(one.replace(",", "")) for one in re.findall(r"\d[\d,]*\.?\d*", line)]


@printed
def test_table_2() -> None:
    for line in table(2).splitlines():
        for name, own in NAMES.items():
            if line.lstrip().startswith(rf"\textbf{{{name}}}"):
                found = numbers(line.split("&", 1)[1])
                counts = paper.TABLE2[own]
                assert found == [counts.users, counts.items, counts.interactions, counts.density]
                break


@printed
def test_table_3() -> None:
    seen, own = 0, ""
    for line in table(3).splitlines():
        if named := re.search(r"multirow\{2\}\{\*\}\{\\textbf\{([\w-]+)\}\}", line):
            own = NAMES[named[1]]
        if metric := re.match(r"(Recall|NDCG)@(\d+)", line):
            name = f"{metric[1].lower()}@{metric[2]}"
            expected = [paper.TABLE3[own][model, method][name] for model in paper.MODELS for method in paper.METHODS]
            assert numbers(line.split("&", 1)[1]) == expected, (own, name)
            seen += 1
    assert seen == 3 * len(paper.METRICS)


@printed
def test_table_4() -> None:
    lines = [line for line in table(4).splitlines() if re.search(r"\d m?|\dm", line) and "m" in line and "&" in line]
    found = {
        key: [float(one) for one in re.findall(r"([\d.]+)m", next(line for line in lines if mark in line))]
        for key, mark in {
            "retrain": r"textbf{Retrain}",
            "shard": "Shard Training",
            "aggregation": "Aggregation Training",
            "total": r"textbf{Total}",
        }.items()
    }
    for key, minutes in found.items():
        assert minutes == [getattr(paper.TABLE4[name][model], key) for name in NAMES.values() for model in paper.MODELS]


@printed
def test_what_the_text_says_of_the_figures() -> None:
    text = SOURCE.read_text()
    assert "Recsall@20 for InBP is 0.0568, while the result is 0.0472 for Random" in text
    assert "0.0572 of Recall@20 score, while the corresponding result is 0.0475 for MeanAgg and 0.0482" in text
    assert paper.FIGURE2["yelp2018", "lightgcn"] == {"inbp": 0.0568, "random": 0.0472}
    assert paper.FIGURE3["yelp2018", "wmf"] == {"attention": 0.0572, "mean": 0.0475, "static": 0.0482}


def test_every_cell_is_there() -> None:
    columns = {(model, method) for model in paper.MODELS for method in paper.METHODS}
    for name, cells in paper.TABLE3.items():
        assert set(cells) == columns
        assert all(set(cell) == set(paper.METRICS) for cell in cells.values())
        assert set(paper.TABLE4[name]) == set(paper.MODELS)
        assert name in paper.TABLE2


def test_the_docs_have_the_numbers_of_the_results() -> None:
    docs = tool("paper_docs")
    assert docs.PAGE.read_text(encoding="utf-8") == docs.page(), (
        "docs/reproduction.md does not have the numbers of benchmarks/results/reproduce; write them in with: "
        ".venv/bin/python tools/paper_docs.py"
    )
    assert "| BPR | RecEraser | 0." in docs.tables()
    assert re.search(r"\| BPR, two cores \| one user \| [\d.]+ s \| 0\.", docs.past())
    assert re.search(r"\| WMF \| 30 % of the users, in steps \| \d\d → \d\d \|", docs.past())
    assert all(f"[ml-1m: {study}]" in docs.standing() for study in STUDIES)
    assert re.search(r"\| ml-1m \| WMF \| \+\d\d %, \+\d\d % \| \+\d+ %", docs.leads())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (101.3, "101"),
        (9.97, "10"),
        (9.94, "9.9"),
        (1.08, "1.1"),
        (0.104, "0.10"),
        (0.0996, "0.10"),
        (0.00194, "0.0019"),
    ],
)
def test_numbers_have_two_digits_that_count(value: float, text: str) -> None:
    assert tool("paper_docs")._short(value) == text
