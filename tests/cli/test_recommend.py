from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from receraser.cli.console import print_json
from receraser.data.interactions import Interactions
from receraser.engine import Engine
from receraser.execution.local import LocalExecutor
from receraser.models.wmf import WMF
from tests.cli.conftest import TITLES, Cli, Files


def test_the_document(cli: Cli, files: Files) -> None:
    done = cli("recommend", "--store", files.store, "--user", "u00", "--user", "u01", "-k", "3", "--json")
    assert (done.code, done.err) == (0, "")
    assert list(done.json) == ["recommendations"]
    found = done.json["recommendations"]
    assert isinstance(found, dict)
    assert list(found) == ["u00", "u01"]
    expected = Engine.load(files.store).recommend(["u00", "u01"], k=3)
    for user, listing in found.items():
        assert [(one["item"], one["score"]) for one in listing] == [(r.item, r.score) for r in expected[user]]


def test_titles_where_known(cli: Cli, files: Files) -> None:
    done = cli("recommend", "--store", files.store, "--user", "u01", "-k", "100", "--json")
    found = done.json["recommendations"]
    assert isinstance(found, dict)
    with_title = [one for one in found["u01"] if "title" in one]
    assert all(set(one) == {"item", "score", "title"} and one["title"] == TITLES[one["item"]] for one in with_title)
    assert {one["item"] for one in found["u01"]} - {one["item"] for one in with_title} <= {"i19"}
    assert len(with_title) > 5


def test_what_people_see(cli: Cli, files: Files) -> None:
    done = cli("recommend", "--store", files.store, "--user", "u00", "-k", "2")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].strip() == "for u00"
    assert [column.strip() for column in lines[1].split("┃")] == ["", "item", "title", "score"]
    assert len(lines) == 5
    best = Engine.load(files.store).recommend(["u00"], k=1)["u00"][0]
    cells = [cell.strip() for cell in lines[3].split("│")]
    assert cells == ["1", best.item, TITLES[best.item], f"{best.score:.4f}"]


def test_without_titles_there_is_no_column_for_them(cli: Cli, tmp_path: Path, worker: LocalExecutor) -> None:
    rows = Interactions.from_pairs([("9", "10"), ("9", "[red]"), ("10", "9"), ("日本", "ü")])
    Engine(model=WMF(dim=2), executor=worker).fit(rows).save(tmp_path / "s")
    done = cli("recommend", "--store", tmp_path / "s", "--user", "10", "-k", "9")
    assert "title" not in done.out
    assert "[red]" in done.out  # an id is text, never markup
    found = cli("recommend", "--store", tmp_path / "s", "--user", "日本", "--json").json["recommendations"]
    assert isinstance(found, dict)
    assert {one["item"] for one in found["日本"]} == {"9", "10", "[red]"}


def test_an_unknown_user_gets_a_clear_answer(cli: Cli, files: Files) -> None:
    done = cli("recommend", "--store", files.store, "--user", "nobody", "--json")
    assert done.code == 0
    assert done.json == {"recommendations": {"nobody": []}}
    assert done.err == (
        "user nobody is unknown to this store (it holds no training rows of theirs): nothing to recommend\n"
    )
    both = cli("recommend", "--store", files.store, "--user", "nobody", "--user", "u00", "-k", "1")
    assert both.code == 0
    assert "user nobody is unknown" in both.err
    assert "for u00" in both.out


def test_somebody_new_by_their_items(cli: Cli, files: Files) -> None:
    done = cli("recommend", "--store", files.store, "--items", "i00, i02,i04", "-k", "3", "--json")
    found = done.json["recommendations"]
    assert isinstance(found, dict)
    assert [int(one["item"][1:]) % 2 for one in found[""]] == [0, 0, 0]
    assert cli("recommend", "--store", files.store, "--items", "i00,i02").out.startswith("for somebody with i00, i02")


def test_unknown_items(cli: Cli, files: Files) -> None:
    done = cli("recommend", "--store", files.store, "--items", "x,y", "--json")
    assert (done.code, done.json) == (0, {"recommendations": {"": []}})
    assert "nothing to recommend for x, y: no such item is known to this store" in done.err


def test_somebody_who_has_everything(cli: Cli, tmp_path: Path, worker: LocalExecutor) -> None:
    rows = Interactions.from_pairs([("u", "a"), ("u", "b"), ("v", "a")])
    Engine(model=WMF(dim=2), executor=worker).fit(rows).save(tmp_path / "s")
    done = cli("recommend", "--store", tmp_path / "s", "--user", "u")
    assert (done.code, done.out) == (0, "")
    assert done.err == "user u has every item there is: nothing left to recommend\n"


def test_more_than_there_is(cli: Cli, files: Files) -> None:
    done = cli("recommend", "--store", files.store, "--user", "u00", "-k", 10**12, "--json")
    found = done.json["recommendations"]
    assert isinstance(found, dict)
    assert len(found["u00"]) == 12  # of twenty items, eight are theirs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "name at least one user with --user, or a list of items with --items"),
        (["--user", ""], "--user '': the id is missing"),
        (["--user", "a,b"], "--user 'a,b': the id 'a,b' holds a comma"),
        (["--items", ""], "--items '': the id is missing"),
        (["--items", "i00,,i01"], "--items '': the id is missing"),
        (["--user", "u00", "-k", "0"], "-k 0: expected at least 1"),
        (["--user", "u00", "-k", "-5"], "-k -5: expected at least 1"),
        (["--user", "u00", "--keys", "nowhere"], "there is no key in nowhere: expected the file nowhere/pseudonym.key"),
    ],
)
def test_wrong_usage(cli: Cli, files: Files, options: list[str], message: str) -> None:
    done = cli("recommend", "--store", files.store, *options)
    assert (done.code, done.message) == (2, message)


def test_no_store(cli: Cli, tmp_path: Path) -> None:
    done = cli("recommend", "--store", tmp_path / "s", "--user", "u")
    assert done.code == 2
    assert done.message == (
        f"there is no store in {tmp_path / 's'}; make one with: receraser fit DATA --store {tmp_path / 's'}"
    )


def test_a_damaged_store(cli: Cli, files: Files, tmp_path: Path) -> None:
    shutil.copytree(files.store, tmp_path / "s")
    victim = next((tmp_path / "s" / "files").iterdir())
    victim.write_bytes(victim.read_bytes() + b"x")
    done = cli("recommend", "--store", tmp_path / "s", "--user", "u00")
    assert done.code == 1
    assert done.message == f"the store is damaged: the content of {victim} is not what it was written with"


def test_another_key(cli: Cli, files: Files, tmp_path: Path) -> None:
    (tmp_path / "pseudonym.key").write_text("ab" * 32)
    done = cli("recommend", "--store", files.store, "--user", "u00", "--keys", tmp_path)
    assert done.code == 1
    assert "was made with the public key, and a secret one was given; leave --keys out" in done.message


def test_json_is_readable_wherever_it_goes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import json
    import sys

    for encoding in ("utf-8", "ascii", "latin-1"):
        path = tmp_path / encoding
        with path.open("w", encoding=encoding) as stream, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            print_json({"日本": "é\U0001f600"})
        assert json.loads(path.read_bytes().decode(encoding)) == {"日本": "é\U0001f600"}
    assert "日本" in (tmp_path / "utf-8").read_text(encoding="utf-8")


def test_unknown_items_are_named(cli: Cli, files: Files) -> None:
    known = Engine.load(files.store).items.ids[0]
    done = cli("recommend", "--store", files.store, "--items", f"{known},zzz", "--json")
    assert done.code == 0
    assert "left out as unknown to this store: zzz" in done.err
    assert done.json["recommendations"]
