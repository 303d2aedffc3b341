from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from receraser.engine import Engine
from receraser.execution.local import LocalExecutor
from tests.cli.conftest import Cli, Files
from tests.cli.sharded import INDEPENDENT, WORLD, content, make_stores, state


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory, worker: LocalExecutor) -> Path:
    folder = make_stores(tmp_path_factory.mktemp("stores"), worker)
    for kind in ("independent", "driven"):
        with Engine.changing(folder / kind, executor=worker) as engine:
            engine.forget(users=["u03"], items=["i04"])
            engine.export(folder / f"{kind}-export")
    return folder


@pytest.fixture(params=["independent", "driven"])
def kind(request: pytest.FixtureRequest) -> str:
    assert isinstance(request.param, str)
    return request.param


@pytest.fixture
def store(stores: Path, tmp_path: Path, kind: str) -> Path:
    shutil.copytree(stores / kind, tmp_path / "s")
    return tmp_path / "s"


@pytest.fixture
def exported(stores: Path, tmp_path: Path, kind: str) -> Path:
    shutil.copytree(stores / f"{kind}-export", tmp_path / "x")
    return tmp_path / "x"


# ---------------------------------------------------------------------- export


def test_the_document(cli: Cli, store: Path, kind: str, tmp_path: Path) -> None:
    before = state(store)
    out = tmp_path / "deep" / "x"
    done = cli("export", "--store", store, "--out", out, "--json")
    assert (done.code, done.err) == (0, "")
    engine = Engine.load(store)
    rows = sum(shard.rows for shard in engine.shards)
    assert done.json == {"out": str(out), "rows": rows, "digest": engine.digest, "level": engine.level}
    names = {"export.json", "train.parquet", "valid.parquet", "titles.parquet"}
    assert {path.name for path in out.iterdir()} == names | ({"landmarks.safetensors"} if kind == "driven" else set())
    assert state(store) == before
    recipients = json.loads((store / "manifest.json").read_text())["record"]["recipients"]
    assert [(one["what"], one["to"]) for one in recipients] == [("export", "somebody who was not named")]
    assert json.loads((out / "export.json").read_text())["users"] == "pseudonyms"


def test_what_people_see(cli: Cli, store: Path, tmp_path: Path) -> None:
    done = cli("export", "--store", store, "--out", tmp_path / "x")
    rows = sum(shard.rows for shard in Engine.load(store).shards)
    assert (done.code, done.out) == (0, "")
    assert done.err.splitlines() == [
        f"exported {rows} rows to {tmp_path / 'x'}",
        f"a fresh fit of it: receraser fit --from-export {tmp_path / 'x'} --store NEW",
    ]


def test_dry_run(cli: Cli, store: Path, tmp_path: Path) -> None:
    done = cli("export", "--store", store, "--out", tmp_path / "x", "--dry-run")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("would export ")
    found = cli("export", "--store", store, "--out", tmp_path / "x", "--dry-run", "--json").json
    assert list(found) == ["dry_run", "out", "rows", "digest", "level"]
    assert not (tmp_path / "x").exists()


def test_wrong_usage(cli: Cli, store: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("")
    done = cli("export", "--store", store, "--out", tmp_path / "full")
    assert (done.code, done.message) == (
        2, f"{tmp_path / 'full'} is not empty; choose another folder for the export"
    )  # fmt: skip
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine"]
    done = cli("export", "--store", store, "--out", tmp_path / "full" / "mine")
    assert done.code == 2
    assert "cannot be written" in done.message
    assert cli("export", "--store", tmp_path / "none", "--out", tmp_path / "x").code == 2
    assert cli("export", "--store", store).code == 2
    assert not (tmp_path / "x").exists()


# ---------------------------------------------------------------------- fit --from-export


def test_a_fresh_fit_has_the_same_digest(cli: Cli, store: Path, exported: Path, kind: str, tmp_path: Path) -> None:
    done = cli("fit", "--from-export", exported, "--store", tmp_path / "new", "--json")
    assert done.code == 0
    held, engine = Engine.load(store), Engine.load(tmp_path / "new")
    assert done.json["digest"] == engine.digest == held.digest
    assert done.json["level"] == engine.level == ("L3" if kind == "independent" else "L1")
    assert list(done.json) == ["digest", "level", "method", "model", "shards", "balance", "seconds"]
    assert done.json["shards"] == [vars(shard) for shard in held.shards]
    assert engine.titles == held.titles
    assert engine.recommend(["u00", "u03"]) == held.recommend(["u00", "u03"])
    assert "by pseudonyms" in done.err


def test_it_can_be_changed_and_exported_in_its_turn(cli: Cli, exported: Path, tmp_path: Path) -> None:
    new, newer, out = tmp_path / "new", tmp_path / "newer", tmp_path / "out"
    cli("fit", "--from-export", exported, "--store", new)
    digest = cli("forget", "--store", new, "--user", "u05", "--json").json["digest"]
    cli("export", "--store", new, "--out", out)
    assert cli("fit", "--from-export", out, "--store", newer, "--json").json["digest"] == digest


def test_a_secret_key_is_not_needed_to_fit(cli: Cli, files: Files, tmp_path: Path) -> None:
    store, keys, out = tmp_path / "s", tmp_path / "keys", tmp_path / "x"
    digest = cli("fit", files.train, "--store", store, "--keys", keys, *INDEPENDENT, "--json").json["digest"]
    assert cli("export", "--store", store, "--keys", keys, "--out", out).code == 0
    assert b"u00" not in b"".join(path.read_bytes() for path in out.iterdir())
    done = cli("fit", "--from-export", out, "--store", tmp_path / "new", "--json")
    assert (done.code, done.json["digest"]) == (0, digest)
    assert cli("recommend", "--store", tmp_path / "new", "--user", "u00", "--keys", keys).code == 0
    assert cli("recommend", "--store", tmp_path / "new", "--user", "u00").code == 1
    (tmp_path / "other").mkdir()
    cli("fit", files.train, "--store", tmp_path / "t", "--keys", tmp_path / "other", *INDEPENDENT)
    done = cli("fit", "--from-export", out, "--store", tmp_path / "u", "--keys", tmp_path / "other")
    assert done.code == 1
    assert "made with a secret key, and another one was given" in done.message


@pytest.mark.parametrize(
    "more",
    [
        ["train.csv"],
        ["--valid", "v.csv"],
        ["--items", "i.csv"],
        ["--method", "sisa"],
        ["--model", "bpr"],
        ["--partition", "hash"],
        ["--aggregation", "mean"],
        ["--shards", "2"],
        ["--dim", "8"],
        ["--seed", "0"],
        ["--device", "cpu"],
        ["--config", "bpr-ml-1m"],
        ["--set", "dim=8"],
        ["--embeddings", "e.npz"],
        ["--columns", "user=1,item=2"],
        ["--min-rating", "0"],
        ["--skip-bad-rows"],
    ],
)
def test_an_export_brings_its_own_data_and_settings(cli: Cli, stores: Path, tmp_path: Path, more: list[str]) -> None:
    done = cli("fit", "--from-export", stores / "independent-export", "--store", tmp_path / "new", *more)
    name = more[0] if more[0].startswith("--") else "DATA"
    assert done.code == 2
    assert done.message == f"--from-export brings its own data and configuration; leave {name} out"
    assert not (tmp_path / "new").exists()


def test_a_dry_run_of_a_fit(cli: Cli, exported: Path, kind: str, tmp_path: Path) -> None:
    done = cli("fit", "--from-export", exported, "--store", tmp_path / "new", "--dry-run")
    assert done.code == 0
    method = "sisa" if kind == "independent" else "custom"
    assert done.err.splitlines()[-1] == f"would fit wmf ({method}) and publish it in {tmp_path / 'new'}"
    found = cli("fit", "--from-export", exported, "--store", tmp_path / "new", "--dry-run", "--json").json
    assert list(found) == ["dry_run", "config", "rows"]
    assert not (tmp_path / "new").exists()


def test_an_existing_store_is_replaced_only_if_asked(cli: Cli, store: Path, exported: Path, files: Files) -> None:
    fit = ("fit", "--from-export", exported, "--store", store)
    before = content(store)
    assert cli(*fit).code == 1
    assert content(store) == before
    assert cli(*fit, "--replace").code == 0


@pytest.mark.parametrize("damage", ["flip", "missing", "no json", "another format", "unknown model", "not there"])
def test_a_damaged_export_is_refused(cli: Cli, exported: Path, tmp_path: Path, damage: str) -> None:
    about = exported / "export.json"
    if damage == "flip":
        rows = exported / "train.parquet"
        rows.write_bytes(rows.read_bytes()[:-1] + b"\0")
    elif damage == "missing":
        (exported / "valid.parquet").unlink()
    elif damage == "no json":
        about.write_text("{")
    elif damage == "another format":
        about.write_text(json.dumps(json.loads(about.read_text()) | {"format": 99}))
    elif damage == "unknown model":
        whole = json.loads(about.read_text())
        about.write_text(json.dumps(whole | {"config": whole["config"] | {"model": "oracle"}}))
    else:
        shutil.rmtree(exported)
    done = cli("fit", "--from-export", exported, "--store", tmp_path / "new")
    assert done.code == 2
    assert str(exported) in done.message
    assert not (tmp_path / "new").exists()


def test_rows_of_a_forgotten_user_are_in_no_export(cli: Cli, stores: Path, exported: Path, tmp_path: Path) -> None:
    """Whoever fits it does not know them, nor their validation rows."""
    cli("fit", "--from-export", exported, "--store", tmp_path / "new")
    engine = Engine.load(tmp_path / "new")
    assert not engine.knows("u03")
    assert "i04" not in engine.items
    assert sum(shard.rows for shard in engine.shards) == len(
        [pair for pair in WORLD.train.pairs() if pair[0] != "u03" and pair[1] != "i04"]
    )
    assert engine.forget(users=["u03"], items=["i04"], dry_run=True).valid_rows_removed == 0
