from __future__ import annotations

from pathlib import Path

import pytest

from receraser.data.interactions import Interactions
from receraser.data.readers import write_lines
from receraser.data.splits import random_split
from receraser.errors import DataError, UsageError
from receraser.reproduce.datasets import Dataset, check_name, load
from receraser.reproduce.drawn import batch_of, has_forget_sets, sets_digest
from tests.contracts.worlds import checkerboard
from tests.reproduce.conftest import WORLD

ROWS = checkerboard().train


def folder_with(folder: Path, *parts: str) -> Path:
    folder.mkdir()
    split = random_split(ROWS, test=0.2, valid=0.1, seed=1)
    for part in parts:
        write_lines(folder / f"{part}.txt", getattr(split, part))
    return folder


def test_a_whole_split(tmp_path: Path) -> None:
    folder_with(tmp_path / "ml-1m", "train", "valid", "test")
    for place in (tmp_path, tmp_path / "ml-1m"):
        data = load(place, "ml-1m")
        assert (data.folder, data.refits, data.held) == (tmp_path / "ml-1m", False, data.valid)
        assert len(data.train) + len(data.valid) + len(data.test) == len(ROWS)


def test_the_authors_split_lies_beside_the_ratings(tmp_path: Path) -> None:
    """They ship no validation rows: these are whatever else there is, users and items counted as they do."""
    home, split = tmp_path / "ml-1m", random_split(ROWS, test=0.2, valid=0.1, seed=1)
    home.mkdir()
    numbers = {item: number for number, item in enumerate(sorted(ROWS.items, key=lambda one: int(one[1:])))}

    def counted(rows: Interactions) -> Interactions:
        return Interactions.from_pairs((int(user[1:]), numbers[item]) for user, item in rows.pairs())

    for part in ("train", "test"):
        write_lines(home / f"{part}.txt", counted(getattr(split, part)))
    lines = [f"{int(user[1:]) + 1}::{3 * numbers[item] + 7}::4::0" for user, item in ROWS.pairs()]
    (home / "ratings.dat").write_text("\n".join(lines) + "\n")
    data = load(tmp_path, "ml-1m")
    assert [data.train, data.valid, data.test] == [counted(one) for one in (split.train, split.valid, split.test)]
    assert (data.origin, data.at_random) == ("the files train, valid and test", False)
    (home / "ratings.dat").write_text("\n".join(lines[5:]) + "\n")
    with pytest.raises(DataError, match=r"rows of the files train and test are not in it: they are of another"):
        load(tmp_path, "ml-1m")
    (home / "ratings.dat").write_text("anna::5::4::0\n")
    with pytest.raises(DataError, match="an id is no number"):
        load(tmp_path, "ml-1m")


def test_without_validation_rows_a_tenth_is_carved_off_and_final_fits_take_all(tmp_path: Path) -> None:
    folder_with(tmp_path / "yelp2018", "train", "test")
    data = load(tmp_path, "yelp2018")
    assert data.refits
    assert data.held is None
    assert len(data.valid) == len(data.full) // 10
    assert len(data.train) + len(data.valid) == len(data.full)


@pytest.mark.parametrize(("name", "file", "between"), [("ml-100k", "u.data", "\t"), ("ml-10m", "ratings.dat", "::")])
def test_ratings_are_split_as_in_the_paper(tmp_path: Path, name: str, file: str, between: str) -> None:
    (tmp_path / name).mkdir()
    lines = [between.join([user, item, "3", "0"]) for user, item in ROWS.pairs()]
    (tmp_path / name / file).write_text("\n".join(lines) + "\n")
    data = load(tmp_path, name)
    assert [len(one) for one in (data.test, data.valid)] == [len(ROWS) // 5, (len(ROWS) - len(ROWS) // 5) // 10]
    assert data.full is data.train
    assert data.origin == f"{file}, split at random in the paper's proportions"
    assert data.at_random


def test_a_made_world_needs_no_folder() -> None:
    data = load(None, WORLD)
    assert len(data.train) + len(data.valid) + len(data.test) == 700
    assert "stand in" in data.origin
    assert load(None, WORLD).digest == data.digest != load(None, "synthetic-60x24x699").digest


def test_pseudonyms_rename_and_change_no_row() -> None:
    data = load(None, WORLD)
    hidden = data.pseudonymous()
    assert set(hidden.full.users).isdisjoint(data.full.users)
    assert [len(one) for one in (hidden.train, hidden.valid, hidden.test)] == [
        len(one) for one in (data.train, data.valid, data.test)
    ]
    assert hidden.full is hidden.train


def test_what_is_missing_is_told_with_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--data is missing: the folder that holds ml-1m; get it with: receraser data"):
        load(None, "ml-1m")
    with pytest.raises(DataError, match=r"there is no such folder; expected one that holds ml-1m.*data fetch ml-1m"):
        load(tmp_path / "nothing", "ml-1m")
    with pytest.raises(DataError, match=r"no folder ml-1m in it and no data of that name; expected train.txt"):
        load(tmp_path, "ml-1m")
    with pytest.raises(DataError, match=r"expected one of u.data"):
        load(folder_with(tmp_path / "ml-1m", "train"), "ml-1m")


@pytest.mark.parametrize(
    ("name", "message"),
    [("ml-1n", "did you mean 'ml-1m'"), ("synthetic-3", "is no made world"), ("films", "known: ml-100k")],
)
def test_unknown_names(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_name(name)


def test_forget_sets_beside_the_data(tmp_path: Path) -> None:
    folder_with(tmp_path / "ml-100k", "train", "valid", "test")
    assert not has_forget_sets(tmp_path)
    assert not has_forget_sets(None)
    sets = tmp_path / "ml-100k-cure4rec"
    sets.mkdir()
    data = load(tmp_path, "ml-100k").pseudonymous()
    (sets / "users_map.csv").write_text("user,ml_100k_user\n0,u00\n1,u01\n7,u07\n9,nobody\n")
    (sets / "unlearn_core_5.txt").write_text("0 1 2\n7 3\n9 1\n")
    import gzip

    (sets / "unlearn_core_5.txt.gz").write_bytes(gzip.compress((sets / "unlearn_core_5.txt").read_bytes()))
    assert has_forget_sets(tmp_path)
    assert has_forget_sets(tmp_path / "ml-100k")
    request = batch_of(data, "core", 0.05, seed=0)
    assert len(request.users) == 2, "somebody who has no rows is not forgotten"
    for text, message in (
        ("user,ml_100k_user\n0,u00\n1\n", r"users_map.csv, line 3: expected two ids with a comma"),
        ("user,ml_100k_user\n0,u00\n", r"users_map.csv: 2 users of the set core are not in it"),
        (None, r"users_map.csv: a file of the forget sets cannot be read: No such file"),
    ):
        (sets / "users_map.csv").unlink()
        if text is not None:
            (sets / "users_map.csv").write_text(text)
        with pytest.raises(DataError, match=message):
            batch_of(data, "core", 0.05, seed=0)
    with pytest.raises(DataError, match="cannot be read"):
        sets_digest(data)
    (sets / "users_map.csv").write_text("user,ml_100k_user\n0,u00\n")
    before = sets_digest(data)
    (sets / "unlearn_edge_5.txt").write_text("1 1\n")
    assert "" != before != sets_digest(data)
    lost = Dataset("ml-100k", data.train, data.valid, data.full, data.test, tmp_path / "elsewhere" / "ml-100k")
    assert sets_digest(lost) == ""
    with pytest.raises(DataError, match="expected the folder ml-100k-cure4rec"):
        batch_of(lost, "core", 0.05, seed=0)


def test_forget_sets_are_looked_for_where_they_are_read(tmp_path: Path) -> None:
    """Beside the data or within its folder; never above the folder that was named."""
    data = tmp_path / "data"
    data.mkdir()
    folder_with(data / "ml-100k", "train", "valid", "test")
    (tmp_path / "ml-100k-cure4rec").mkdir()
    assert not has_forget_sets(data)
    (data / "ml-100k" / "ml-100k-cure4rec").mkdir()
    assert has_forget_sets(data)
    with pytest.raises(DataError, match=r"ml-100k/ml-100k-cure4rec/users_map.csv: a file of the forget sets"):
        batch_of(load(data, "ml-100k").pseudonymous(), "core", 0.05, seed=0)
