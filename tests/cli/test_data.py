from __future__ import annotations

from pathlib import Path

import pytest

from receraser.data import fetch
from receraser.data.interactions import Interactions
from receraser.data.readers import read, read_titles, write_csv
from tests.cli.conftest import Cli, Files
from tests.contracts.worlds import checkerboard


def rows_in(folder: Path) -> dict[str, int]:
    return {path.stem: len(read(path).interactions) for path in folder.glob("*.csv") if path.stem != "items"}


def test_list(cli: Cli) -> None:
    done = cli("data", "list", "--json")
    assert done.code == 0
    listing = done.json["data"]
    assert isinstance(listing, list)
    assert [one["name"] for one in listing] == ["films", "large", *fetch.DATASETS]
    assert {one["by"] for one in listing} == {"make", "fetch"}
    table = cli("data", "list").out
    assert all(one["name"] in table and one["contents"] in table for one in listing)


def test_make_films(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "films"
    done = cli("data", "make", "films", "--out", out, "--json")
    assert done.code == 0
    counts = rows_in(out)
    assert done.json == {"world": "films", "out": str(out), "rows": sum(counts.values())}
    assert set(counts) == {"train", "valid", "test"}
    assert counts["train"] > counts["test"] > counts["valid"] > 0
    assert len(read_titles(out / "items.csv")) == 1000


def test_make_large(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "large.parquet"
    sizes = ("--users", "20", "--items", "12", "--interactions", "60")
    done = cli("data", "make", "large", "--out", out, *sizes)
    assert (done.code, done.out, done.err) == (0, "", f"60 interactions in {out}\n")
    assert len(read(out).interactions) == 60
    done = cli("data", "make", "large", "--out", out, "--users", "20", "--items", "12", "--interactions", "6000")
    assert done.code == 2
    assert "expected 20 to 120 rows" in done.message


@pytest.mark.parametrize("world", ["films", "large"])
def test_make_nothing(cli: Cli, tmp_path: Path, world: str) -> None:
    done = cli("data", "make", world, "--out", tmp_path / "x", "--dry-run", "--json")
    assert done.json == {"dry_run": True, "world": world, "out": str(tmp_path / "x")}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("world", ["films", "large"])
def test_make_where_nothing_can_be(cli: Cli, tmp_path: Path, world: str) -> None:
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "x"
    done = cli("data", "make", world, "--out", out, "--users", "20", "--items", "12", "--interactions", "60")
    assert done.code == 2
    assert done.message.startswith(f"{out} cannot be written: ")


def test_fetch_refuses_what_it_does_not_know(cli: Cli) -> None:
    done = cli("data", "fetch", "ml-2m")
    assert done.code == 2
    assert "unknown data set 'ml-2m': did you mean 'ml-" in done.message


def test_fetch_says_terms_and_place(cli: Cli, tmp_path: Path) -> None:
    done = cli("data", "fetch", "ml-1m", "--out", tmp_path / "d", "--dry-run", "--json")
    assert done.code == 0
    assert done.json["from"] == [file.url for file in fetch.DATASETS["ml-1m"].files]
    assert fetch.DATASETS["ml-1m"].terms in done.err
    assert list(tmp_path.iterdir()) == []


def test_fetch(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetched(dataset: fetch.Dataset, out: Path, *, progress: object) -> Path:
        (out / dataset.name).mkdir(parents=True)
        (out / dataset.name / "ratings.dat").write_text("")
        return out / dataset.name

    monkeypatch.setattr(fetch, "fetch", fetched)
    done = cli("data", "fetch", "ml-1m", "--out", tmp_path, "--json")
    assert done.json == {"name": "ml-1m", "folder": str(tmp_path / "ml-1m"), "files": ["ratings.dat"]}


@pytest.mark.parametrize("by", ["random", "user"])
def test_split(cli: Cli, files: Files, tmp_path: Path, by: str) -> None:
    out = tmp_path / "parts"
    done = cli("data", "split", files.train, "--out", out, "--by", by, "--test", "0.25", "--valid", "0.25", "--json")
    counts = rows_in(out)
    assert done.json == {"out": str(out), **counts}
    parts = [read(out / f"{name}.csv").interactions for name in ("train", "valid", "test")]
    assert Interactions.union(parts) == checkerboard().train
    assert sum(counts.values()) == 192
    assert counts["test"] > 0
    assert counts["valid"] > 0


@pytest.mark.parametrize(("by", "test", "expected"), [("leave-last", "1", ["c"]), ("time", "0.34", ["c"])])
def test_split_by_time(cli: Cli, tmp_path: Path, by: str, test: str, expected: list[str]) -> None:
    data = tmp_path / "rows.csv"
    data.write_text("user,item,timestamp\nu,a,1\nu,c,9\nu,b,5\n")
    assert cli("data", "split", data, "--out", tmp_path / "p", "--by", by, "--test", test).code == 0
    assert [item for _, item in read(tmp_path / "p" / "test.csv").interactions.pairs()] == expected


def test_a_part_of_an_earlier_split_does_not_stay(cli: Cli, files: Files, tmp_path: Path) -> None:
    split = ("data", "split", files.train, "--out", tmp_path / "p")
    cli(*split, "--valid", "0.3")
    assert (tmp_path / "p" / "valid.csv").exists()
    done = cli(*split)
    assert "0 valid" in done.err
    assert not (tmp_path / "p" / "valid.csv").exists()  # its rows are in train now


def test_a_file_is_not_overwritten_by_its_own_part(cli: Cli, tmp_path: Path) -> None:
    write_csv(tmp_path / "train.csv", checkerboard().train)
    done = cli("data", "split", tmp_path / "train.csv", "--out", tmp_path)
    assert done.code == 2
    assert "would be overwritten by a part of itself" in done.message
    assert read(tmp_path / "train.csv").interactions == checkerboard().train


def test_split_nothing(cli: Cli, files: Files, tmp_path: Path) -> None:
    done = cli("data", "split", files.train, "--out", tmp_path / "p", "--dry-run", "--json")
    assert set(done.json) == {"dry_run", "train", "valid", "test"}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--test", "1.5"], "test is 1.5; a fraction"),
        (["--by", "time"], "no timestamp column"),
        (["--by", "leave-last", "--test", "1"], "no timestamp column"),
    ],
)
def test_wrong_splits(cli: Cli, files: Files, tmp_path: Path, options: list[str], message: str) -> None:
    done = cli("data", "split", files.train, "--out", tmp_path / "p", *options)
    assert done.code == 2
    assert message in done.message
    assert list(tmp_path.iterdir()) == []


def test_leave_last_counts_rows(cli: Cli, tmp_path: Path) -> None:
    data = tmp_path / "rows.csv"
    data.write_text("user,item,timestamp\nu,a,1\n")
    done = cli("data", "split", data, "--out", tmp_path / "p", "--by", "leave-last", "--test", "0.2")
    assert done.code == 2
    assert "whole numbers of rows per user" in done.message
