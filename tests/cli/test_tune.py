from __future__ import annotations

import os
from pathlib import Path

import pytest

from receraser.data.readers import write_csv
from receraser.engine import Engine
from receraser.execution.local import LocalExecutor
from receraser.keys import load_key
from tests.cli.conftest import Cli, KeptWorkers
from tests.tuning.worlds import tastes

SMALL = ("--model", "wmf", "--method", "retrain", "--dim", "4", "--device", "cpu", "--metric", "ndcg@5")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Train, validation and test rows; whoever opens the last ones finds nothing that can be read."""
    rows = tastes()
    place = tmp_path / "data"
    place.mkdir()
    write_csv(place / "train.csv", rows.train)
    write_csv(place / "valid.csv", rows.valid)
    (place / "test.csv").write_text("not for your eyes")
    return place


def test_the_document_and_the_files(cli: Cli, folder: Path, tmp_path: Path) -> None:
    out, records = tmp_path / "best.toml", tmp_path / "records"
    command = ("tune", "--data", folder, *SMALL, "--trials", 3, "--out", out, "--record", records, "--seeds", 2)
    done = cli(*command, "--json")
    assert done.code == 0, done.err
    found = done.json
    assert list(found) == [
        *("metric", "value", "start", "best", "settings", "config", "trials", "failed", "interrupted", "spread"),
        *("preset", "seconds"),
    ]
    assert (found["metric"], found["trials"], found["failed"], found["preset"]) == ("ndcg@5", 3, 0, str(out))
    assert "test.csv stays closed" in done.err
    assert "trial 0: ndcg@5 " in done.err
    assert f"written to {out}" in done.err
    assert sorted(one.name for one in records.iterdir()) == ["tune-best.json", "tune-best.md"]
    shown = "receraser tune --data data --method retrain --model wmf --dim 4 --device cpu --metric ndcg@5 --trials 3"
    assert f"# Command: {shown} --seeds 2 --out best.toml" in out.read_text()
    assert str(tmp_path) not in out.read_text() + (records / "tune-best.json").read_text()

    store = tmp_path / "store"
    fitted = cli("fit", folder / "train.csv", "--valid", folder / "valid.csv", "--config", out, "--store", store)
    assert fitted.code == 0, fitted.err
    evaluated = cli("evaluate", "--store", store, "--test", folder / "valid.csv", "--at", "5", "--json")
    assert evaluated.json["ndcg@5"] == found["value"], "to the bit"
    assert Engine.load(store).origin == "tuned: a file"

    again = cli(*command, "--json")
    assert {**again.json, "seconds": 0} == {**found, "seconds": 0}, "the same command, the same trials"


def test_the_test_rows_are_never_opened(cli: Cli, folder: Path) -> None:
    """Whatever is in their file, or if it cannot be opened at all, the search is the same."""
    command = ("tune", "--data", folder, *SMALL, "--trials", 2)
    done = cli(*command)
    (folder / "test.csv").unlink()
    os.mkfifo(folder / "test.csv")  # whoever opens it waits for ever
    assert cli(*command).out == done.out
    refused = cli("tune", "--data", folder / "train.csv", "--valid", folder / "test.csv", *SMALL)
    assert refused.code == 2
    assert "has the name of test rows" in refused.message
    assert cli("tune", "--data", folder, "--test", folder / "test.csv").code == 2, "there is no such option"


def test_without_validation_rows_some_are_held_out(cli: Cli, folder: Path, tmp_path: Path) -> None:
    (folder / "valid.csv").unlink()
    done = cli("tune", "--data", folder / "train.csv", *SMALL, "--trials", 2, "--seed", 3)
    assert done.code == 0, done.err
    assert "146 rows to fit on, 16 rows to judge by, held out by lot, seed 3" in done.err
    assert "[hyperparameters]" in done.out, "without --out the best goes to standard output"
    parts = tmp_path / "parts"
    split = ("--test", 0, "--valid", 0.1, "--seed", 3)
    assert cli("data", "split", folder / "train.csv", "--out", parts, *split).code == 0
    same = cli("tune", "--data", parts, *SMALL, "--trials", 2, "--seed", 3)
    digests = [next(one for one in run.out.splitlines() if one.startswith("# Data")) for run in (done, same)]
    assert digests[0] == digests[1], "what `data split` holds out"
    assert cli("tune", "--data", folder, *SMALL, "--valid-share", "1.5").code == 2


def test_a_dry_run_shows_the_space(cli: Cli, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "best.toml"
    done = cli("tune", "--data", folder, *SMALL, "--minutes", 2, "--trials", 5, "--out", out, "--dry-run", "--json")
    assert done.code == 0
    assert "at most 5 trials or 2 minutes" in done.err
    assert done.json["space"] == {
        "missing_weight": {"low": 0.005, "high": 1.0, "log": True},
        "regularization": {"low": 0.0005, "high": 0.1, "log": True},
        "n_sweeps": {"low": 4, "high": 16},
    }
    assert not out.exists()


def test_what_is_given_is_not_searched(cli: Cli, folder: Path, tmp_path: Path) -> None:
    done = cli("tune", "--data", folder, *SMALL, "--set", "n_sweeps=3", "--trials", 2, "--json")
    assert list(done.json["settings"]) == ["missing_weight", "regularization"]  # type: ignore[call-overload]
    space = tmp_path / "space.toml"
    space.write_text("[hyperparameters]\nn_sweeps = [1, 2]\n")
    done = cli("tune", "--data", folder, *SMALL, "--space", space, "--trials", 2, "--json")
    assert list(done.json["settings"]) == ["n_sweeps"]  # type: ignore[call-overload]
    done = cli("tune", "--data", folder, *SMALL, "--space", space, "--set", "n_sweeps=3")
    assert (done.code, f"{space}: n_sweeps is to be searched" in done.message) == (2, True)
    done = cli("tune", "--data", folder, *SMALL, "--space", space, "--search", "model")
    assert "leave --search out" in done.message
    space.write_text("[hyperparameters]\nn_sweep = [1, 2]\n")
    assert "did you mean 'n_sweeps'" in cli("tune", "--data", folder, *SMALL, "--space", space).message


def test_an_interrupt_keeps_what_is_done(
    cli: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worker: LocalExecutor
) -> None:
    study, out = tmp_path / "wmf.study", tmp_path / "best.toml"
    command = ("tune", "--data", folder, *SMALL, "--trials", 4, "--study", study, "--out", out)

    def stopping(after: int) -> object:
        left = iter(range(after))

        class Stopping(KeptWorkers):
            def __init__(self) -> None:
                super().__init__(worker)
                done = self.run

                def run(*more: object, **other: object) -> object:
                    if next(left, None) is None:
                        raise KeyboardInterrupt
                    return done(*more, **other)  # type: ignore[arg-type]

                self.run = run  # type: ignore[assignment]

        return lambda *_: Stopping()

    with monkeypatch.context() as patch:
        patch.setattr("receraser.fitting.LocalExecutor", stopping(0))
        done = cli(*command)
        assert (done.code, done.out, out.exists()) == (130, "", False)
        patch.setattr("receraser.fitting.LocalExecutor", stopping(2))
        done = cli(*command)
    assert done.code == 130
    assert "2 trials kept" in done.err
    assert done.err.splitlines()[-1] == "interrupted"
    assert "trial" in out.read_text().splitlines()[0], "the best so far"
    done = cli(*command, "--json")
    assert (done.code, done.json["trials"]) == (0, 4)


def test_files_that_are_in_the_way(cli: Cli, folder: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('model = "wmf"\n')
    done = cli("tune", "--data", folder, *SMALL, "--out", mine)
    assert (done.code, "was not written by a search" in done.message) == (2, True)
    assert mine.read_text() == 'model = "wmf"\n'
    write_csv(folder / "train.tsv", tastes().train)
    assert "more than one file of train rows: train.csv, train.tsv" in cli("tune", "--data", folder, *SMALL).message
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "has no file of train rows" in cli("tune", "--data", empty, *SMALL).message


def test_trials_that_fail_are_told(cli: Cli, folder: Path, tmp_path: Path) -> None:
    done = cli(
        *(
            "tune",
            "--data",
            folder,
            "--model",
            "ease",
            "--set",
            "max_items=3",
            "--trials",
            2,
            "--record",
            tmp_path / "r",
        )
    )
    assert done.code == 1
    assert "trial 0 failed: ease: 24 items need a matrix" in done.err
    assert "all of 2 trials failed" in done.message
    assert (tmp_path / "r" / "tune-retrain-ease.md").exists()


def test_a_secret_key_is_used(cli: Cli, folder: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    load_key(keys, create=True)
    texts = [cli("tune", "--data", folder, *SMALL, "--trials", 1, *more).out for more in ((), ("--keys", keys))]
    digests = [next(one for one in text.splitlines() if one.startswith("# Data")) for text in texts]
    assert digests[0] != digests[1]


def test_a_folder_that_cannot_be_made_is_told_before_the_search(cli: Cli, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = cli("tune", "--data", folder, *SMALL, "--trials", 2, "--record", tmp_path / "file" / "records")
    assert done.code == 1
    assert done.err == f"error: {tmp_path / 'file' / 'records'}: Not a directory\n", "nothing was read or tried"
