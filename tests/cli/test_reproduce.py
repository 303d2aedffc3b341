from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Cli

SMALL = ("--dataset", "synthetic-60x24x700", "--models", "wmf", "--seeds", 1, "--device", "cpu")


def test_the_document_and_the_files(cli: Cli, tmp_path: Path) -> None:
    done = cli("reproduce", "figure2", *SMALL, "--methods", "random,hash", "--out", tmp_path, "--json")
    assert done.code == 0
    names = [f"figure2-synthetic-60x24x700-wmf.{kind}" for kind in ("json", "md", "png", "svg")]
    assert done.json == {"computed": 3, "failed": [], "files": [str(tmp_path / name) for name in names]}
    assert "3 of 3 cells to compute" in done.err
    again = cli("reproduce", "figure2", *SMALL, "--methods", "random", "--methods", "hash", "--out", tmp_path)
    assert (again.code, again.out) == (0, "")
    assert "cells to compute" not in again.err
    assert again.err.splitlines()[-1].startswith(f"written: {tmp_path / names[0]}, ")


def test_a_dry_run(cli: Cli, tmp_path: Path) -> None:
    done = cli("reproduce", "figure2", *SMALL, "--out", tmp_path / "out", "--dry-run", "--json")
    assert (done.code, done.json["cells"]) == (0, 6)
    told = cli("reproduce", "figure2", *SMALL, "--out", tmp_path / "out", "--dry-run").err
    assert told.startswith("6 cells, those that are kept already among them:\nfit: wmf, retrain, seed 0\n")
    assert not (tmp_path / "out").exists()


def test_several_names(cli: Cli, tmp_path: Path) -> None:
    names = ("batch", "levels", "--methods", "spectral,spectral-32")
    told = cli("reproduce", *names, *SMALL, "--out", tmp_path / "out", "--dry-run").err
    assert "batch: wmf, spectral, K=32, seed 0, who=random, size=0.2" in told
    assert "forgets: wmf, spectral, K=10, seed 0, level=items, n=10" in told


def test_wrong_names(cli: Cli) -> None:
    done = cli("reproduce", "figure9")
    assert done.code == 2
    assert done.message.startswith("unknown table or figure 'figure9'")
    assert cli("reproduce", "table2").message.startswith("--data is missing: the folder that holds ml-1m")
