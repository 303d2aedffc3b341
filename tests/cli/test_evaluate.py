from __future__ import annotations

from pathlib import Path

import pytest

from receraser.engine import Engine
from receraser.metrics import METRICS
from tests.cli.conftest import Cli, Files
from tests.contracts.worlds import checkerboard


def test_the_document(cli: Cli, files: Files) -> None:
    done = cli("evaluate", "--store", files.store, "--test", files.test, "--at", "1,2", "--json")
    assert (done.code, done.err) == (0, "")
    metrics = [f"{name}@{cut}" for cut in (1, 2) for name in METRICS]
    assert list(done.json) == [*metrics, "users", "users_skipped", "users_without_truth"]
    assert {"recall@1", "ndcg@1", "recall@2", "ndcg@2"} <= set(done.json)
    assert (done.json["users"], done.json["users_skipped"], done.json["users_without_truth"]) == (24, 0, 0)
    expected = Engine.load(files.store).evaluate(checkerboard().held_out, at=[1, 2]).metrics
    assert {name: done.json[name] for name in metrics} == expected
    assert done.json["recall@2"] == 1.0


def test_the_usual_cuts(cli: Cli, files: Files) -> None:
    found = cli("evaluate", "--store", files.store, "--test", files.test, "--json").json
    assert [name for name in found if name.startswith("recall")] == ["recall@10", "recall@20", "recall@50"]


def test_what_people_see(cli: Cli, files: Files) -> None:
    done = cli("evaluate", "--store", files.store, "--test", files.test, "--at", "2,1,2")
    assert done.code == 0
    lines = [[cell.strip() for cell in line.replace("┃", "│").split("│")] for line in done.out.splitlines()]
    assert lines[0] == ["", "@2", "@1"]
    assert ["recall", "1.0000", "0.5000"] in lines
    assert done.err == "ranked for 24 users; 0 more in the test rows have no training rows\n"


def test_strangers_are_counted(cli: Cli, files: Files, tmp_path: Path) -> None:
    test = tmp_path / "test.csv"
    test.write_text(files.test.read_text() + "stranger,i00\nother,i01\n")
    found = cli("evaluate", "--store", files.store, "--test", test, "--json").json
    assert (found["users"], found["users_skipped"]) == (24, 2)


def test_strangers_alone_are_refused(cli: Cli, files: Files, tmp_path: Path) -> None:
    test = tmp_path / "test.csv"
    test.write_text("user,item\nstranger,i00\n")
    done = cli("evaluate", "--store", files.store, "--test", test, "--json")
    assert done.code == 2
    assert "nobody to rank for (do both files name users in the same way?)" in done.message


@pytest.mark.parametrize("at", ["0", "a", "", "1,,2", "10,-1", "1.5", "10001"])
def test_wrong_cuts(cli: Cli, files: Files, at: str) -> None:
    done = cli("evaluate", "--store", files.store, "--test", files.test, "--at", at)
    assert done.code == 2
    assert done.message == f"--at {at!r}: expected whole numbers from 1 to 10,000, as in --at 10,20,50"


def test_no_store_and_no_file(cli: Cli, files: Files, tmp_path: Path) -> None:
    done = cli("evaluate", "--store", tmp_path / "s", "--test", files.test)
    assert done.code == 2
    assert "there is no store" in done.message
    done = cli("evaluate", "--store", files.store, "--test", tmp_path / "t.csv")
    assert (done.code, done.message) == (2, f"{tmp_path / 't.csv'}: there is no such file")


def test_the_options_of_reading(cli: Cli, files: Files, tmp_path: Path) -> None:
    test = tmp_path / "test.csv"
    rows = list(checkerboard().held_out.pairs())
    test.write_text(
        "who,what,stars\n"
        + "".join(f"{user},{item},{n % 2 * 4}\n" for n, (user, item) in enumerate(rows))
        + "bad,row\n"
    )
    done = cli(
        "evaluate", "--store", files.store, "--test", test, "--columns", "user=who,item=what,rating=stars",
        "--min-rating", "3", "--skip-bad-rows", "--at", "1", "--json",
    )  # fmt: skip
    assert done.code == 0
    assert "1 bad row left out" in done.err
    assert done.json["users"] == len({user for n, (user, _) in enumerate(rows) if n % 2})
