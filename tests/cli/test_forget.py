from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from receraser.data.ids import pseudonyms
from receraser.data.interactions import Interactions
from receraser.data.readers import write_csv
from receraser.engine import Engine
from receraser.execution.local import LocalExecutor
from receraser.fingerprint import of_bytes
from receraser.keys import PUBLIC_KEY
from receraser.proof.receipt import Receipt
from receraser.store.directory import DirectoryStore
from receraser.store.history import History
from tests.cli.conftest import Cli, Files
from tests.cli.sharded import (
    DRIVEN,
    INDEPENDENT,
    SHARDS,
    WORLD,
    content,
    fitted,
    make_stores,
    said_to_be_computed_elsewhere,
    state,
)

ROWS = list(WORLD.train.pairs())
THE_KEYS = [
    "digest", "level", "rows_removed", "valid_rows_removed", "shards_retrained", "path", "certificate", "seconds"
]  # fmt: skip


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory, worker: LocalExecutor) -> Path:
    return make_stores(tmp_path_factory.mktemp("stores"), worker)


@pytest.fixture
def store(stores: Path, tmp_path: Path) -> Path:
    shutil.copytree(stores / "independent", tmp_path / "s")
    return tmp_path / "s"


@pytest.fixture
def driven(stores: Path, tmp_path: Path) -> Path:
    shutil.copytree(stores / "driven", tmp_path / "d")
    return tmp_path / "d"


def survivors(
    *, users: tuple[str, ...] = (), items: tuple[str, ...] = (), pairs: tuple[tuple[str, str], ...] = ()
) -> Interactions:
    return Interactions.from_pairs(
        (user, item) for user, item in ROWS if user not in users and item not in items and (user, item) not in pairs
    )


def shards_of(user: str, engine: Engine) -> list[int]:
    """The shards that hold a user's rows, of either kind."""
    state = engine._state()
    assert state.valid is not None
    assert state.partition.valid is not None
    tables = [(state.train, state.partition.train), (state.valid, state.partition.valid)]
    (name,) = pseudonyms([user], PUBLIC_KEY)
    return sorted({
        shard
        for rows, shards in tables
        for (owner, _), shard in zip(rows.pairs(), shards.tolist(), strict=True)
        if owner == name
    })  # fmt: skip


# ---------------------------------------------------------------------- what it does


def test_the_document(cli: Cli, store: Path, worker: LocalExecutor) -> None:
    user, item = ROWS[0]
    done = cli("forget", "--store", store, "--interaction", f"{user},{item}", "--json")
    assert (done.code, done.err) == (0, "")
    found = done.json
    more = ["estimated_seconds", "users_left_empty", "items_left_empty", "unknown"]
    assert list(found) == [*THE_KEYS, *more]
    engine = Engine.load(store)
    assert (found["digest"], found["level"]) == (engine.digest, "L3")
    assert (found["rows_removed"], found["valid_rows_removed"], found["valid_rows_removed"]) == (1, 0, 0)
    certificate = Path(str(found["certificate"]))
    assert certificate.parent == store / "certificates"
    assert certificate.stem == of_bytes(certificate.read_bytes())
    shards = found["shards_retrained"]
    assert isinstance(shards, list)
    assert len(shards) == 1
    assert shards[0] in range(SHARDS)
    assert found["path"] == "shards"
    seconds = found["seconds"]
    assert isinstance(seconds, dict)
    assert list(seconds) == ["read", "partition", "submodels", "aggregate", "certificate", "publish", "total"]
    assert seconds["total"] == pytest.approx(sum(seconds.values()) - seconds["total"], abs=1e-3)
    assert found["unknown"] == {"users": [], "items": [], "interactions": []}
    fresh = fitted("independent", worker, survivors(pairs=((user, item),)))
    assert engine.digest == fresh.digest


def test_users_items_and_interactions_in_one_batch(cli: Cli, store: Path, worker: LocalExecutor) -> None:
    """All options are repeatable, and go together with a file."""
    requests = store.parent / "requests.csv"
    requests.write_text("request_id,user,item\n1,u09,\n2,,i07\n3,u10,i10\n")
    done = cli(
        "forget", "--store", store, "--user", "u03", "--user", "u05", "--item", "i04", "--item", "i06",
        "--interaction", "u00,i00", "--interaction", "u02, i02", "--requests", requests, "--json",
    )  # fmt: skip
    assert done.code == 0
    left = survivors(
        users=("u03", "u05", "u09"),
        items=("i04", "i06", "i07"),
        pairs=(("u00", "i00"), ("u02", "i02"), ("u10", "i10")),
    )
    assert done.json["rows_removed"] == len(ROWS) - len(left)
    held = Interactions.from_pairs(
        (user, item)
        for user, item in WORLD.held_out.pairs()
        if user not in ("u03", "u05", "u09") and item not in ("i04", "i06", "i07")
        and (user, item) not in (("u00", "i00"), ("u02", "i02"), ("u10", "i10"))
    )  # fmt: skip
    assert done.json["valid_rows_removed"] == len(WORLD.held_out) - len(held)
    fresh = fitted("independent", worker)
    fresh.fit(left, valid=held)
    assert done.json["digest"] == fresh.digest == Engine.load(store).digest


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requests.csv", "user,item\nu03,\n,i04\nu00,i00\n"),
        ("requests.jsonl", '{"user": "u03"}\n{"item": "i04"}\n{"user": "u00", "item": "i00"}\n'),
    ],
)
def test_requests_from_a_file(cli: Cli, store: Path, tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    from_file = cli("forget", "--store", store, "--requests", tmp_path / name, "--dry-run", "--json").json
    named = ("--user", "u03", "--item", "i04", "--interaction", "u00,i00")
    named_ones = cli("forget", "--store", store, *named, "--dry-run", "--json").json
    del from_file["seconds"], named_ones["seconds"]
    assert from_file == named_ones
    done = cli("forget", "--store", store, "--requests", tmp_path / name)
    assert done.code == 0
    assert not Engine.load(store).knows("u03")
    assert "i04" not in Engine.load(store).items


def test_what_people_see(cli: Cli, store: Path) -> None:
    done = cli("forget", "--store", store, "--user", "u03", "--item", "i04")
    assert (done.code, done.out) == (0, "")
    lines = done.err.splitlines()
    stages = ["read", "partition", "submodels", "aggregate", "certificate", "publish", "total"]
    assert [line.split()[0] for line in lines[:7]] == stages
    engine = Engine.load(store)
    rows = len(ROWS) - len(survivors(users=("u03",), items=("i04",)))
    valid = len([pair for pair in WORLD.held_out.pairs() if pair[0] == "u03" or pair[1] == "i04"])
    assert lines[7] == (
        f"forgot {rows} rows and {valid} validation rows, by refitting 4 of 4 shards (0, 1, 2, 3): most of them are "
        "touched, which costs about what a new fit costs"
    )
    assert lines[8] == "of 1 user and 1 item nothing is left"
    assert lines[9].startswith(f"certificate: {store / 'certificates'}")
    assert lines[10] == f"published in {store}, level L3"
    assert engine.digest[:8] not in done.err, "messages are logged"


def test_a_partition_that_looks_at_data(cli: Cli, driven: Path) -> None:
    """Level L1, and only the shard of the user is retrained; the others' files stay."""
    before = {path.name for path in (driven / "files").iterdir()}
    shards = shards_of("u03", Engine.load(driven))
    assert len(shards) == 1
    done = cli("forget", "--store", driven, "--user", "u03", "--json")
    assert done.json["level"] == Engine.load(driven).level == "L1"
    assert done.json["shards_retrained"] == shards
    after = {path.name for path in (driven / "files").iterdir()}
    assert len(before & after) >= 3 * (SHARDS - 1)


def test_everything_and_then_more(cli: Cli, store: Path, files: Files) -> None:
    done = cli("forget", "--store", store, *(part for user in WORLD.train.users for part in ("--user", user)), "--json")
    assert done.code == 0
    assert (done.json["users_left_empty"], done.json["items_left_empty"]) == (24, 20)
    asked = cli("recommend", "--store", store, "--user", "u00", "--json")
    assert (asked.code, asked.json["recommendations"]) == (0, {"u00": []})
    assert cli("inspect", "--store", store).code == 0
    added = cli("add", files.train, "--store", store, "--json")
    assert (added.code, added.json["rows_added"]) == (0, len(ROWS))


def test_a_model_of_sums(cli: Cli, files: Files, tmp_path: Path) -> None:
    """A store holds no sums, so the model is fitted again; the digest is that of a fresh fit of the survivors."""
    fit = ("--model", "gram", "--rank", 3, "--json")
    fitted = cli("fit", files.train, "--store", tmp_path / "s", *fit)
    assert (fitted.code, fitted.json["method"], fitted.json["model"]) == (0, "retrain", "gram")
    done = cli("forget", "--store", tmp_path / "s", "--user", "u03")
    assert done.code == 0
    assert "forgot 8 rows and 0 validation rows, by fitting the model again" in done.err.splitlines()
    left = cli("forget", "--store", tmp_path / "s", "--interaction", "u00,i00", "--json").json
    assert (left["rows_removed"], left["path"], left["level"]) == (1, "refit", "L3")
    write_csv(tmp_path / "left.csv", survivors(users=("u03",), pairs=(("u00", "i00"),)))
    assert cli("fit", tmp_path / "left.csv", "--store", tmp_path / "t", *fit).json["digest"] == left["digest"]


# ---------------------------------------------------------------------- nothing to do


def test_unknown_subjects_are_told_and_no_fault(cli: Cli, store: Path) -> None:
    before = state(store)
    done = cli("forget", "--store", store, "--user", "nobody")
    assert (done.code, done.out) == (0, "")
    said = done.err.splitlines()
    assert said[:2] == [
        "nothing held for 1 of 1 subject: user nobody",
        f"nothing to forget: the store in {store} is as it was",
    ]
    assert said[2].startswith(f"certificate: {store / 'certificates'}"), "one that says so"
    done = cli(
        "forget", "--store", store, "--item", "x", "--interaction", "u00,i01", "--interaction", "y,i00", "--json"
    )
    assert done.code == 0
    assert done.err == "nothing held for 3 of 3 subjects: item x; interaction u00,i01; interaction y,i00\n"
    assert (done.json["rows_removed"], done.json["shards_retrained"]) == (0, [])
    assert done.json["unknown"] == {"users": [], "items": ["x"], "interactions": [["u00", "i01"], ["y", "i00"]]}
    assert state(store) == before


def test_only_some_of_the_unknown_are_named(cli: Cli, store: Path, tmp_path: Path) -> None:
    (tmp_path / "requests.csv").write_text("user\nu03\n" + "".join(f"x{n:04}\n" for n in range(1000)))
    done = cli("forget", "--store", store, "--requests", tmp_path / "requests.csv", "--json")
    named = "; ".join(f"user x{n:04}" for n in range(5))
    assert done.err == f"nothing held for 1,000 of 1,001 subjects: {named} and 995 more\n"
    assert done.json["rows_removed"] == 8


def test_strict(cli: Cli, store: Path) -> None:
    before = content(store)
    for more in ((), ("--json",), ("--dry-run",)):
        done = cli("forget", "--store", store, "--user", "u03", "--user", "nobody", "--strict", *more)
        assert done.code == 1
        if more == ("--json",):
            assert (done.json["dry_run"], done.json["rows_removed"]) == (True, 8)
            assert done.json["digest"] == Engine.load(store).digest
        else:
            assert done.out == ""
        assert done.err.splitlines() == [
            "nothing held for 1 of 2 subjects: user nobody",
            "nothing was changed (--strict)",
        ]
        assert content(store) == before
    assert cli("forget", "--store", store, "--user", "u03", "--strict").code == 0
    assert not Engine.load(store).knows("u03")
    assert cli("forget", "--store", store, "--user", "u03", "--strict").code == 1


def test_named_twice_and_asked_again(cli: Cli, store: Path) -> None:
    twice = ("forget", "--store", store, "--user", "u03", "--user", "u03", "--json")
    done = cli(*twice)
    assert (done.code, done.err) == (0, "note: 1 subject named more than once\n")
    assert done.json["rows_removed"] == 8
    again = cli(*twice)
    assert (again.code, again.json["rows_removed"], again.json["digest"]) == (0, 0, done.json["digest"])


def test_an_empty_batch(cli: Cli, store: Path, tmp_path: Path) -> None:
    before = content(store)
    (tmp_path / "requests.csv").write_text("user,item\n")
    done = cli("forget", "--store", store, "--requests", tmp_path / "requests.csv")
    assert done.code == 0
    assert done.err.splitlines()[0] == "the batch is empty: there is nothing to forget"
    assert content(store) == before


def test_dry_run(cli: Cli, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, shards and time; nothing is changed, and no worker is started."""

    def never(*_: object, **__: object) -> None:
        raise AssertionError("a worker was asked for")

    monkeypatch.setattr("receraser.fitting.Fitting.__enter__", never)
    before = content(store)
    done = cli("forget", "--store", store, "--user", "u03", "--dry-run")
    assert (done.code, done.out) == (0, "")
    (line,) = done.err.splitlines()
    assert line.startswith("would forget 8 rows and 2 validation rows, by refitting 4 of 4 shards (0, 1, 2, 3): most")
    assert line.endswith(" s by the last fit")
    found = cli("forget", "--store", store, "--user", "u03", "--user", "nobody", "--dry-run", "--json").json
    assert list(found)[:9] == ["dry_run", *THE_KEYS]
    assert found["path"] == "refit"
    assert (found["dry_run"], found["rows_removed"], found["valid_rows_removed"]) == (True, 8, 2)
    assert found["digest"] == Engine.load(store).digest
    assert found["shards_retrained"] == shards_of("u03", Engine.load(store))
    assert isinstance(found["estimated_seconds"], float)
    assert found["estimated_seconds"] > 0
    assert content(store) == before


def test_a_dry_run_foretells_what_happens(cli: Cli, store: Path) -> None:
    ask = ("forget", "--store", store, "--user", "u03", "--item", "i04", "--json")
    would, did = cli(*ask, "--dry-run").json, cli(*ask).json
    for key in (*THE_KEYS[2:6], "users_left_empty", "items_left_empty"):
        assert would[key] == did[key]


# ---------------------------------------------------------------------- what is kept and what is refused


def test_keep_old(cli: Cli, store: Path) -> None:
    before = {path.name for path in (store / "files").iterdir()}
    done = cli("forget", "--store", store, "--user", "u03", "--keep-old", "--json")
    assert done.json["level"] == Engine.load(store).level == "L2"
    assert before <= {path.name for path in (store / "files").iterdir()}
    assert "L2 (files of another state are still there); the state before" in cli("inspect", "--store", store).out
    done = cli("forget", "--store", store, "--user", "u05", "--json")
    assert done.json["level"] == Engine.load(store).level == "L3"
    named = DirectoryStore(store).manifest()["files"]
    assert isinstance(named, dict)
    assert {path.name for path in (store / "files").iterdir()} == set(named)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "name what is to be forgotten: --user, --item, --interaction or --requests"),
        (["--interaction", "u00"], "--interaction 'u00': expected a user and an item, as in --interaction U,I"),
        (["--interaction", "u00,i00,i01"], "--interaction 'u00,i00,i01': expected a user and an item"),
        (["--interaction", "u00,"], "--interaction 'u00,': expected a user and an item, as in --interaction U,I"),
        (["--user", ""], "--user '': the id is missing"),
        (["--user", "a,b"], "--user 'a,b': the id 'a,b' holds a comma"),
        (["--item", "nan"], "--item 'nan': the id 'nan' is a missing value written as text"),
        (["--requests", "nothing.csv"], "nothing.csv: there is no such file"),
        (["--requests", "{tmp}/bad.csv"], "bad.csv, line 3: "),
        (["--requests", "{tmp}/bad.jsonl"], "bad.jsonl, line 1: "),
        (["--user", "u03", "--requests", "{tmp}/bad.csv"], "bad.csv, line 3: "),
        (["--requests", "{tmp}/requests.pdf"], "name the file so"),
    ],
)
def test_wrong_usage(cli: Cli, store: Path, tmp_path: Path, options: list[str], message: str) -> None:
    (tmp_path / "bad.csv").write_text("user,item\nu03,\n,\n")
    (tmp_path / "bad.jsonl").write_text('{"usr": "u03"}\n')
    (tmp_path / "requests.pdf").write_text("user\nu03\n")
    before = content(store)
    done = cli("forget", "--store", store, *(one.replace("{tmp}", str(tmp_path)) for one in options))
    assert done.code == 2
    assert message in done.message
    assert content(store) == before


def test_no_store(cli: Cli, tmp_path: Path) -> None:
    done = cli("forget", "--store", tmp_path / "s", "--user", "u03")
    assert done.code == 2
    assert "there is no store" in done.message
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_being_written(cli: Cli, store: Path) -> None:
    before = content(store)
    with DirectoryStore(store).writing():
        done = cli("forget", "--store", store, "--user", "u03")
        assert done.code == 1
        assert done.message == f"the store in {store} is being written by another process; try again later"
        assert cli("forget", "--store", store, "--user", "u03", "--dry-run").code == 0
    assert content(store) == before


def test_another_environment(cli: Cli, store: Path) -> None:
    said_to_be_computed_elsewhere(store)
    before = state(store)
    done = cli("forget", "--store", store, "--user", "u03")
    assert done.code == 1
    assert "this store was computed in another environment: version.torch was '1.0'" in done.message
    assert done.message.endswith("or refit everything here with: receraser rebuild")
    assert state(store) == before
    assert "1 request written down and not done yet" in done.err
    assert cli("forget", "--store", store, "--user", "nobody").code == 1, "first things first"
    assert cli("rebuild", "--store", store).code == 0, "which does them on the way"
    assert not Engine.load(store).knows("u03")
    assert cli("forget", "--store", store, "--user", "u04").code == 0


def test_secret_keys(cli: Cli, files: Files, tmp_path: Path) -> None:
    store, keys = tmp_path / "s", tmp_path / "keys"
    assert cli("fit", files.train, "--store", store, "--keys", keys, *INDEPENDENT).code == 0
    before = content(store)
    done = cli("forget", "--store", store, "--user", "u03")
    assert done.code == 1
    assert "made with a secret key, and none was given; name the right folder with --keys" in done.message
    assert content(store) == before
    done = cli("forget", "--store", store, "--user", "u03", "--keys", keys, "--json")
    assert (done.code, done.json["rows_removed"]) == (0, 8)
    assert "u03" not in done.out
    for left in (done.err, (store / "manifest.json").read_text()):
        assert "u03" not in left


# ---------------------------------------------------------------------- what people trip over


def test_a_receipt_for_everybody_who_asked(cli: Cli, store: Path, tmp_path: Path) -> None:
    folder = tmp_path / "receipts"
    done = cli("forget", "--store", store, "--user", "u03", "--user", "nobody", "--receipts", folder)
    assert done.code == 0, done.err
    assert f"2 receipts in {folder}: hand each to whoever asked, and keep no copy" in done.err
    receipts = [Receipt.parse(path.read_bytes().removesuffix(b"\n")) for path in sorted(folder.iterdir())]
    assert sorted(one.names for one in receipts) == [["nobody"], ["u03"]]
    assert all(re.fullmatch(r"receipt-\d{5}\.json", path.name) for path in folder.iterdir()), "names name nobody"
    history = History.of(DirectoryStore(store))
    newest = history.issued(DirectoryStore(store), history.certified()).certificate
    assert all(one.matches(newest) for one in receipts)
    assert cli("verify", "--store", store, "--receipt", folder / "receipt-00001.json").code == 0
    assert not any(
        b"u03" in data for name, data in content(store).items() if name.startswith(("cert", "ledger", "pen"))
    )
    done = cli("forget", "--store", store, "--user", "u04", "--receipts", folder)
    assert done.code == 2
    assert "expected a new or empty folder" in done.message


def test_receipts_that_cannot_be_written(cli: Cli, store: Path, tmp_path: Path) -> None:
    """Nothing is asked for then: whoever asked would never get them."""
    before = content(store)
    (tmp_path / "file").touch()
    done = cli("forget", "--store", store, "--user", "u03", "--receipts", tmp_path / "file" / "receipts")
    assert done.code == 2
    assert "cannot be written (Not a directory); nothing was changed" in done.message
    assert content(store) == before


def test_receipts_are_of_no_use_where_nothing_is_signed(
    cli: Cli, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RECERASER_KEYS", str(tmp_path / "file"))
    done = cli("forget", "--store", store, "--user", "u03", "--receipts", tmp_path / "receipts")
    assert done.code == 2
    assert "without keys nothing is certified, and receipts open certificates" in done.message
    assert not (tmp_path / "receipts").exists()


def test_a_wish_to_hide(cli: Cli, store: Path, tmp_path: Path) -> None:
    user, item = ROWS[0]

    def listed() -> list[str]:
        found = cli("recommend", "--store", store, "--user", user, "-k", "100", "--json").json["recommendations"]
        assert isinstance(found, dict)
        return [one["item"] for one in found[user]]

    pair = f"{user},{item}"
    before = Engine.load(store).digest
    assert cli("forget", "--store", store, "--interaction", pair).code == 0
    plain = Engine.load(store).digest
    assert item in listed(), "what was forgotten may be recommended"
    write_csv(tmp_path / "again.csv", Interactions.from_pairs([ROWS[0]]))
    assert cli("add", tmp_path / "again.csv", "--store", store).code == 0
    assert Engine.load(store).digest == before
    assert cli("forget", "--store", store, "--interaction", pair, "--hide").code == 0
    assert item not in listed()
    assert Engine.load(store).digest == plain, "a wish is no part of the state"
    assert cli("verify", "--store", store, "--residue").code == 0
    assert cli("add", tmp_path / "again.csv", "--store", store).code == 0
    assert len(Engine.load(store).wishes) == 0, "whoever has it again does not mind it"
    assert cli("forget", "--store", store, "--interaction", pair, "--hide").code == 0
    assert cli("forget", "--store", store, "--user", user).code == 0
    assert len(Engine.load(store).wishes) == 0, "and a wish goes with its user"
    done = cli("forget", "--store", store, "--user", "u05", "--hide")
    assert (done.code, "--hide is for interactions" in done.message) == (2, True)


def test_whoever_holds_an_export_is_named(cli: Cli, store: Path, tmp_path: Path) -> None:
    assert cli("export", "--store", store, "--out", tmp_path / "x", "--to", "the auditors").code == 0
    assert "export to the auditors (" in cli("inspect", "--store", store).out
    done = cli("forget", "--store", store, "--user", "u03")
    assert "exports were handed over before, and are not changed by this; tell: the auditors (" in done.err


def test_the_partition_is_made_anew_when_it_is_due(cli: Cli, files: Files, tmp_path: Path) -> None:
    store = tmp_path / "s"
    policy = ("--rebuild-every", "2")
    assert cli("fit", files.train, "--store", store, *DRIVEN, *policy).code == 0
    first = cli("forget", "--store", store, "--user", "u01", "--json").json
    assert (first["level"], first["path"]) == ("L1", "shards")
    assert "debt        1 request (" in cli("inspect", "--store", store).out
    assert cli("forget", "--store", store, "--user", "u02", "--dry-run", "--json").json["path"] == "rebuild"
    second = cli("forget", "--store", store, "--user", "u02", "--json").json
    assert (second["level"], second["path"], second["shards_retrained"]) == ("L3", "rebuild", list(range(SHARDS)))
    assert "debt        0 requests (0 rows removed, 0 rows added) since " in cli("inspect", "--store", store).out
    assert "rebuilt every 2 requests" in cli("inspect", "--store", store).out
    export, fresh = tmp_path / "x", tmp_path / "t"
    assert cli("export", "--store", store, "--out", export).code == 0
    assert cli("fit", "--from-export", export, "--store", fresh, "--json").json["digest"] == second["digest"]
    assert cli("verify", "--store", store).code == 0
