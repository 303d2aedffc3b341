from __future__ import annotations

import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

from receraser.data.ids import pseudonyms
from receraser.engine import Engine
from receraser.keys import PUBLIC_KEY
from receraser.methods import METHODS
from receraser.models.gram import Gram
from receraser.store.directory import DirectoryStore
from tests.cli.conftest import TITLES, Cli, Files
from tests.contracts.worlds import checkerboard

BAD = Path(__file__).parent.parent / "data" / "bad"
EXPECTED: dict[str, dict[str, str | int]] = tomllib.loads((BAD / "expected.toml").read_text())
SMALL = ("--model", "wmf", "--dim", "4", "--set", "n_sweeps=3", "--set", "cg_steps=4", "--seed", "7", "--device", "cpu")


def test_the_document(cli: Cli, files: Files, tmp_path: Path) -> None:
    done = cli("fit", files.train, "--store", tmp_path / "s", *SMALL, "--json")
    assert done.code == 0
    found = done.json
    assert list(found) == ["digest", "level", "method", "model", "shards", "balance", "seconds", "data"]
    assert (found["level"], found["method"], found["model"]) == ("L3", "retrain", "wmf")
    engine = Engine.load(tmp_path / "s")
    assert found["digest"] == engine.digest == Engine.load(files.store).digest
    rows = len(checkerboard().train)
    (digest,) = [shard.digest for shard in engine.shards]
    assert found["shards"] == [{"id": 0, "rows": rows, "users": 24, "items": 20, "digest": digest}]
    seconds = found["seconds"]
    assert isinstance(seconds, dict)
    assert list(seconds) == ["read", "partition", "submodels", "aggregate", "certificate", "publish", "total"]
    assert all(value >= 0 for value in seconds.values())
    assert seconds["total"] == pytest.approx(sum(seconds.values()) - seconds["total"], abs=1e-3)
    data = found["data"]
    assert isinstance(data, dict)
    assert data["rows_read"] == rows


def test_what_people_see(cli: Cli, files: Files, tmp_path: Path) -> None:
    store = tmp_path / ("a long name " * 12).strip()
    done = cli("fit", files.train, "--store", store, *SMALL)
    assert done.code == 0
    assert done.out == ""
    assert "192 interactions of 24 users with 20 items" in done.err
    assert f"published in {store}, level L3" in done.err
    assert "public key; for personal data, give a folder with --keys" in done.err
    assert done.err.splitlines()[-1] == f"next: receraser recommend --store '{store}' --user u00"


def test_valid_and_titles(cli: Cli, files: Files, tmp_path: Path) -> None:
    done = cli(
        "fit", files.train, "--store", tmp_path / "s", "--valid", files.valid, "--items", files.items, *SMALL, "--json"
    )
    assert done.code == 0
    engine = Engine.load(tmp_path / "s")
    assert engine.titles == TITLES
    assert done.json["digest"] != Engine.load(files.store).digest


def test_every_model_can_be_named(cli: Cli, files: Files, tmp_path: Path) -> None:
    short = {"bpr": ("--set", "n_epochs=2"), "lightgcn": ("--set", "n_epochs=2"), "ease": (), "graphfilter": ()}
    for model, options in short.items():
        done = cli("fit", files.train, "--store", tmp_path / model, "--model", model, *options, "--json")
        assert done.json["model"] == model


def test_without_anything_said_it_is_gram_and_in_shards_wmf(cli: Cli, files: Files, tmp_path: Path) -> None:
    def chosen(*options: object) -> tuple[object, object]:
        found = cli("fit", files.train, "--store", tmp_path / "s", *options, "--dry-run", "--json").json["config"]
        assert isinstance(found, dict)
        return found["model"], found["hyperparameters"].get("rank")

    assert chosen() == chosen("--method", "retrain") == chosen("--model", "gram") == ("gram", Gram().rank)
    assert chosen("--rank", 5) == chosen("--dim", 5) == chosen("--dim", 6, "--rank", 5) == ("gram", 5)
    for sharded in (("--method", "sisa"), ("--aggregation", "spectral"), ("--shards", 2, "--partition", "hash")):
        assert chosen(*sharded) == ("wmf", None)


# ---------------------------------------------------------------------- shards


@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_be_named(cli: Cli, files: Files, tmp_path: Path, method: str) -> None:
    shards = 1 if method == "retrain" else 3
    quick = ("--set", "partition.dim=3") if method in ("grapheraser", "receraser") else ()
    done = cli(
        "fit", files.train, "--store", tmp_path / "s", "--valid", files.valid, "--method", method, "--shards", shards,
        *SMALL, *quick, "--json",
    )  # fmt: skip
    assert done.code == 0
    found = done.json
    assert list(found) == ["digest", "level", "method", "model", "shards", "balance", "seconds", "data"]
    assert (found["level"], found["method"]) == ("L3", method)
    reports = found["shards"]
    assert isinstance(reports, list)
    assert [list(one) for one in reports] == [["id", "rows", "users", "items", "digest"]] * shards
    assert [one["id"] for one in reports] == list(range(shards))
    assert sum(one["rows"] for one in reports) == len(checkerboard().train)
    engine = Engine.load(tmp_path / "s")
    assert reports == [vars(one) for one in engine.shards]
    chosen = METHODS[method]
    assert (engine.config.partition, engine.config.aggregation) == (chosen.partition, chosen.aggregation)


def test_parts_of_ones_own_choice(cli: Cli, files: Files, tmp_path: Path) -> None:
    done = cli(
        "fit", files.train, "--store", tmp_path / "s", "--partition", "ubp", "--aggregation", "attention",
        "--shards", 3, *SMALL, "--set", "partition.dim=3", "--set", "partition.slack=2",
        "--set", "aggregation.n_epochs=1",
    )  # fmt: skip
    assert (done.code, done.out) == (0, "")
    engine = Engine.load(tmp_path / "s")
    assert engine.config.method == "custom"
    assert engine.config.partition_settings["slack"] == 2.0
    assert engine.config.aggregation_settings["n_epochs"] == 1
    assert engine.config.hyperparameters["dim"] == 4
    assert f"3 shards, the largest {engine.balance:.2f} x the mean" in done.err


def test_a_part_instead_of_the_methods(cli: Cli, files: Files, tmp_path: Path) -> None:
    """What was not named is the method's, or that of the method which shares what was."""

    def chosen(*options: object) -> tuple[object, ...]:
        found = cli("fit", files.train, "--store", tmp_path / "s", *options, "--dry-run", "--json").json["config"]
        assert isinstance(found, dict)
        return tuple(found[key] for key in ("method", "partition", "aggregation", "shards"))

    assert chosen() == ("retrain", "whole", "alone", 1)
    assert chosen("--method", "receraser") == ("receraser", "inbp", "attention", 10)
    assert chosen("--method", "receraser", "--partition", "hash") == ("custom", "hash", "attention", 10)
    assert chosen("--method", "receraser", "--aggregation", "mean", "--shards", 4) == ("custom", "inbp", "mean", 4)
    assert chosen("--partition", "random", "--aggregation", "mean") == ("sisa", "random", "mean", 10)
    assert chosen("--aggregation", "mean") == ("sisa", "random", "mean", 10)
    assert chosen("--partition", "bekm") == ("grapheraser", "bekm", "static", 10)
    assert chosen("--partition", "whole", "--aggregation", "mean") == ("custom", "whole", "mean", 1)
    assert chosen("--partition", "whole") == ("retrain", "whole", "alone", 1)
    config = tmp_path / "mine.toml"
    config.write_text('method = "receraser"\nshards = 4\n[partition_settings]\nslack = 2.0\n')
    kept = chosen("--config", config, "--partition", "inbp", "--set", "partition.dim=5")
    assert kept == ("receraser", "inbp", "attention", 4)
    assert chosen("--config", config, "--partition", "hash") == ("custom", "hash", "attention", 4)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--partition", "hash", "--aggregation", "mean"), True),
        (("--partition", "ubp", "--aggregation", "static"), True),
        (("--partition", "blpa", "--aggregation", "static"), True),
        (("--method", "grapheraser"), True),
        (("--method", "grapheraser", "--set", "partition.rows=nearer"), False),
        (("--method", "grapheraser", "--shards", 1), False),
        (("--method", "sisa"), False),
        (("--partition", "ibp", "--aggregation", "mean"), False),
        (("--partition", "hash", "--aggregation", "attention"), False),
        ((), False),
    ],
)
def test_what_a_combination_cannot_do_is_told(
    cli: Cli, files: Files, tmp_path: Path, options: tuple[str, ...], told: bool
) -> None:
    """Where all rows of a user are in one shard, weights of shards change nobody's list."""
    done = cli("fit", files.train, "--store", tmp_path / "s", *options, "--dry-run")
    assert done.code == 0
    notes = [line for line in done.err.splitlines() if line.startswith("note: ")]
    assert [("all rows of a user are in one shard" in note) for note in notes] == [True] * told


def test_neither_data_nor_an_export(cli: Cli, tmp_path: Path) -> None:
    done = cli("fit", "--store", tmp_path / "s")
    assert (done.code, done.message) == (2, "name a file of interactions, or an export with --from-export")


def test_vectors_from_a_file(cli: Cli, files: Files, tmp_path: Path) -> None:
    """A partition that divides the rows by vectors made elsewhere; users go by their own names in the file."""
    world = checkerboard().train
    side = {user: float(user[1:]) for user in world.users}
    np.savez(
        tmp_path / "vectors.npz",
        users=np.array(list(side)),
        user_vectors=np.array([[value % 2, 0.0] for value in side.values()]),
        items=np.array(list(world.items)),
        item_vectors=np.zeros((len(world.items), 2)),
    )
    fit = (
        "fit",
        files.train,
        "--store",
        tmp_path / "s",
        *SMALL,
        "--shards",
        2,
        "--embeddings",
        tmp_path / "vectors.npz",
    )
    done = cli(*fit, "--partition", "ubp", "--json")
    assert done.code == 0
    engine = Engine.load(tmp_path / "s")
    assert engine.config.partition_settings["embeddings"] == "file"
    even, odd = (set(pseudonyms([u for u in side if side[u] % 2 == rest], PUBLIC_KEY)) for rest in (0, 1))
    shards = [set(one.shard.train.users) for one in engine._state().shards]
    assert sorted(shards, key=len) in ([even, odd], [odd, even])


def test_a_configuration_and_what_is_changed_beside_it(cli: Cli, files: Files, tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    config.write_text('model = "bpr"\nseed = 3\n[hyperparameters]\ndim = 9\nlearning_rate = 0.5\n')
    fit = ("fit", files.train, "--store", tmp_path / "s", "--config", config, "--dry-run", "--json")

    def chosen(*more: str) -> dict[str, object]:
        found = cli(*fit, *more).json["config"]
        assert isinstance(found, dict)
        settings = found["hyperparameters"]
        return {**found, **settings}

    as_given = chosen()
    assert (as_given["model"], as_given["seed"], as_given["dim"], as_given["learning_rate"]) == ("bpr", 3, 9, 0.5)
    changed = chosen("--seed", "4", "--set", "dim=5", "--set", "learning_rate=0.25")
    assert (changed["model"], changed["seed"], changed["dim"], changed["learning_rate"]) == ("bpr", 4, 5, 0.25)
    other = chosen("--model", "wmf", "--dim", "6")
    assert (other["model"], other["seed"], other["dim"]) == ("wmf", 3, 6)
    assert other["learning_rate"] != 0.5  # another model's hyperparameters are of no use
    assert not (tmp_path / "s").exists()


def test_dry_run_changes_nothing(cli: Cli, files: Files, tmp_path: Path) -> None:
    done = cli("fit", files.train, "--store", tmp_path / "s", "--keys", tmp_path / "k", "--dry-run")
    assert (done.code, done.out) == (0, "")
    expected = f"would fit gram (retrain: whole + alone, 1 shard) on cpu and publish it in {tmp_path / 's'}"
    assert done.err.splitlines()[-1] == expected
    found = cli("fit", files.train, "--store", tmp_path / "s", "--dry-run", "--json").json
    assert list(found) == ["dry_run", "config", "rows", "data"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--model", "wmff"],
            "unknown model 'wmff': did you mean 'wmf'? (known: bpr, ease, gram, gr",
        ),
        (["--method", "retrian"], "unknown method 'retrian': did you mean 'retrain'?"),
        (["--partition", "upb"], "unknown partition 'upb': did you mean 'ubp'?"),
        (["--aggregation", "meen"], "unknown aggregation 'meen': did you mean 'mean'?"),
        (["--shards", "2"], "2 shards were asked for, but the method retrain is one shard; choose another method"),
        (["--method", "sisa", "--shards", "0"], "--shards 0: expected at least 1"),
        (["--method", "sisa", "--shards", "-1"], "shards is -1; expected 1 to 10,000"),
        (["--method", "sisa", "--shards", "10001"], "shards is 10001; expected 1 to 10,000"),
        (["--partition", "hash", "--aggregation", "alone"], "the aggregation alone takes a single submodel"),
        (
            ["--method", "receraser", "--set", "partition.slak=2"],
            "the partition inbp has no setting 'slak': did you mean",
        ),
        (
            ["--method", "receraser", "--set", "partition.slack=0.5"],
            "inbp: slack is 0.5; expected a number of at least 1",
        ),
        (["--method", "sisa", "--set", "partition.n_shards=3"], "the partition random has no setting 'n_shards'"),
        (["--method", "sisa", "--set", "aggregation.n_epochs=3"], "the aggregation mean has no setting 'n_epochs'"),
        (["--embeddings", "vectors.npz"], "the partition whole has no setting 'embeddings'"),
        (["--method", "receraser", "--embeddings", "vectors.npz"], "vectors.npz: the file cannot be read"),
        (["--device", "gpu"], "unknown device 'gpu': expected cpu, cuda or auto"),
        (["--model", "wmf", "--dim", "-1"], "wmf: dim is -1; expected a number of at least 1"),
        (["--model", "wmf", "--set", "dim=-1"], "wmf: dim is -1; expected a number of at least 1"),
        (["--model", "wmf", "--set", "dim=abc"], "dim=abc: expected a whole number"),
        (["--model", "wmf", "--set", "dimm=3"], "the model wmf has no setting 'dimm': did you mean 'dim'?"),
        (["--model", "wmf", "--set", "n_epochs=1e3"], "n_epochs=1e3: expected a whole number"),
        (["--dim", "-1"], "gram: rank is -1; expected a number of at least 1"),
        (["--set", "dim"], "--set 'dim': expected KEY=VALUE, as in --set dim=32"),
        (["--set", "=3"], "--set '=3': expected KEY=VALUE, as in --set dim=32"),
        (["--config", "nothing.toml"], "no configuration file 'nothing.toml', and no preset of that name"),
        (["--model", "gram", "--method", "sisa"], "the model gram is a function of sums over users"),
        (
            ["--model", "ease", "--partition", "hash"],
            "goes with --method retrain, not with hash shards and spectral",
        ),
        (["--model", "graphfilter", "--aggregation", "mean"], "not with random shards and mean"),
        (["--model", "gram", "--device", "cuda"], "the model gram computes on the CPU; leave --device out"),
        (["--model", "gram", "--set", "dim=4"], "the model gram has no setting 'dim'"),
        (["--model", "ease", "--rank", "4"], "the model ease has no setting 'rank'"),
        (["--valid", "nothing.csv"], "nothing.csv: there is no such file"),
        (["--items", "nothing.csv"], "nothing.csv: there is no such file"),
        (["--columns", "user"], "--columns: 'user' is not ROLE=NAME"),
        (["--min-rating", "3"], "a minimum rating is asked for, but there is no rating column"),
    ],
)
def test_wrong_usage(cli: Cli, files: Files, tmp_path: Path, options: list[str], message: str) -> None:
    done = cli("fit", files.train, "--store", tmp_path / "s", *options)
    assert done.code == 2
    assert message in done.message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", EXPECTED)
def test_bad_data_is_refused_with_file_and_line_and_nothing_is_stored(cli: Cli, tmp_path: Path, name: str) -> None:
    done = cli("fit", BAD / name, "--store", tmp_path / "s", "--keys", tmp_path / "k")
    assert done.code == 2
    expected = EXPECTED[name]
    where = f"{BAD / name}, line {expected['line']}: " if "line" in expected else f"{BAD / name}: "
    assert done.message.startswith(where)
    assert str(expected["reason"]) in done.message
    assert len(done.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--valid", "--items"])
def test_a_bad_second_file_is_refused_too(cli: Cli, files: Files, tmp_path: Path, option: str) -> None:
    done = cli("fit", files.train, option, BAD / "too-few-fields.csv", "--store", tmp_path / "s")
    assert done.code == 2
    assert done.message.startswith(f"{BAD / 'too-few-fields.csv'}, line ")
    assert list(tmp_path.iterdir()) == []


def test_bad_rows_can_be_skipped(cli: Cli, tmp_path: Path) -> None:
    data = tmp_path / "rows.csv"
    data.write_text("user,item\nu,a\nu,\nv,b\nv,b\n,a\nw,a\n")
    done = cli("fit", data, "--store", tmp_path / "s", "--skip-bad-rows", *SMALL, "--json")
    assert done.code == 0
    assert f"note: {data}: 2 bad rows left out\n  line 3: item: the id is missing\n  line 6: user:" in done.err
    assert f"note: {data}: 1 duplicate merged" in done.err
    report = done.json["data"]
    assert isinstance(report, dict)
    assert (report["bad_rows"], report["duplicates_merged"]) == (2, 1)
    assert report["bad_examples"][0] == {"line": 3, "reason": "item: the id is missing"}


def test_only_some_bad_rows_are_listed(cli: Cli, tmp_path: Path) -> None:
    data = tmp_path / "rows.csv"
    data.write_text("user,item\nu,a\n" + ",a\n" * 100)
    done = cli("fit", data, "--store", tmp_path / "s", "--skip-bad-rows", "--dry-run")
    listed = done.err.count("  line ")
    assert 0 < listed < 100
    assert f"  and {100 - listed} more\n" in done.err


def test_an_existing_store_is_refused_without_replace(cli: Cli, files: Files, tmp_path: Path) -> None:
    store = tmp_path / "s"
    fit = ("fit", files.train, "--store", store, *SMALL)
    cli(*fit)
    before = (store / "manifest.json").read_bytes()
    done = cli(*fit, "--seed", "8")
    assert done.code == 1
    assert done.message == f"there is a store in {store} already; use --replace to destroy it, or another folder"
    assert (store / "manifest.json").read_bytes() == before
    done = cli(*fit, "--seed", "8", "--replace")
    assert done.code == 0
    assert (store / "manifest.json").read_bytes() != before


@pytest.mark.parametrize("damage", ["flip", "delete", "manifest", "no manifest"])
def test_a_damaged_store_can_be_replaced(cli: Cli, files: Files, tmp_path: Path, damage: str) -> None:
    store = tmp_path / "s"
    fit = ("fit", files.train, "--store", store, *SMALL)
    cli(*fit)
    victim = max((store / "files").iterdir(), key=lambda path: path.stat().st_size)
    if damage == "flip":
        victim.write_bytes(victim.read_bytes()[:-1] + b"\0")
    elif damage == "delete":
        victim.unlink()
    elif damage == "manifest":
        (store / "manifest.json").write_text("{")
    else:
        (store / "manifest.json").unlink()
    assert cli("inspect", "--store", store).code == 1
    assert cli(*fit, "--replace").code == 0
    assert cli("inspect", "--store", store).code == 0


def test_a_place_where_no_store_can_be_is_refused_before_anything_is_read(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = cli("fit", "nothing.csv", "--store", tmp_path / "file" / "s")
    assert done.code == 1
    assert done.message == f"{tmp_path / 'file' / 's'} cannot hold a store: {tmp_path / 'file'} is a file"


def test_a_second_writer_is_refused(cli: Cli, files: Files, tmp_path: Path) -> None:
    store = tmp_path / "s"
    with DirectoryStore(store).writing():
        done = cli("fit", files.train, "--store", store, *SMALL)
    assert done.code == 1
    assert done.message == f"the store in {store} is being written by another process; try again later"


def test_secret_keys(cli: Cli, files: Files, tmp_path: Path) -> None:
    store, keys = tmp_path / "s", tmp_path / "keys"
    done = cli("fit", files.train, "--store", store, "--keys", keys, *SMALL)
    assert done.code == 0
    assert f"note: a new secret key was made in {keys}" in done.err
    assert done.err.splitlines()[-1] == f"next: receraser recommend --store {store} --keys {keys} --user U"
    again = cli("fit", files.train, "--store", tmp_path / "t", "--keys", keys, *SMALL)
    assert "new secret key" not in again.err
    assert Engine.load(store, key=bytes.fromhex((keys / "pseudonym.key").read_text())).knows("u00")
    done = cli("fit", files.train, "--store", tmp_path / "v", "--keys", files.train, *SMALL)
    assert (done.code, (tmp_path / "v").exists()) == (2, False)
    assert "cannot be used" in done.message


def _hear_interrupts() -> None:
    """Undo what a process inherits when the tests themselves run in the background: interrupts ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_an_interrupt_leaves_the_old_store_and_no_worker(files: Files, tmp_path: Path) -> None:
    """Ctrl-C in a real process, once its worker has been started."""
    store = tmp_path / "s"
    engine = Engine.load(files.store)
    engine.save(store)
    # More epochs than anybody waits for.
    command = [sys.executable, "-m", "receraser", "fit", str(files.train), "--store", str(store), "--replace"]
    settings = ["--model", "bpr", "--set", "n_epochs=100000000"]
    process = subprocess.Popen(
        [*command, *settings], stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=_hear_interrupts
    )
    assert process.stderr is not None
    try:
        assert process.stderr.readline().startswith("192 interactions")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        deadline = time.monotonic() + 60
        while not children.read_text() and time.monotonic() < deadline:
            time.sleep(0.05)
        (child,) = children.read_text().split()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
        assert process.stderr.read().splitlines() == ["interrupted"]
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{child}").exists()
    assert Engine.load(store).digest == engine.digest
