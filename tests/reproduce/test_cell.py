"""A cell is named by all that it depends on; what is kept is whole, and what is damaged is missing."""

from __future__ import annotations

import dataclasses
import json
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from receraser.errors import DataError
from receraser.reproduce import cell as cells
from receraser.reproduce.cell import METRICS, Cell, Result, code_version
from receraser.reproduce.datasets import load
from receraser.reproduce.kept import Kept
from receraser.reproduce.runner import run
from receraser.reproduce.settings import additive, chosen
from tests.reproduce.conftest import WORLD

CELL = Cell("forgets", "ml-1m", chosen("ml-1m", "bpr", "receraser").config, {"level": "users", "n": 3})


def changed(**changes: object) -> Cell:
    assert CELL.config is not None
    return dataclasses.replace(CELL, config=dataclasses.replace(CELL.config, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "device"), [("fit", "cuda"), ("forgets", "cuda"), ("sweeps", "cpu")])
def test_sweeps_alone_are_computed_on_the_cpu_wherever_the_others_are(kind: str, device: str) -> None:
    one = dataclasses.replace(CELL, kind=kind)
    placed = one.placed("cuda")
    assert placed is not None
    assert placed.device == one.device("cuda") == device


def test_every_input_changes_the_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    assert CELL.config is not None
    variants = {
        "itself": (CELL, "rows", "cpu"),
        "rows": (CELL, "other", "cpu"),
        "device": (CELL, "rows", "cuda"),
        "kind": (dataclasses.replace(CELL, kind="batch"), "rows", "cpu"),
        "dataset": (dataclasses.replace(CELL, dataset="ml-100k"), "rows", "cpu"),
        "extras": (dataclasses.replace(CELL, extras={"level": "users", "n": 4}), "rows", "cpu"),
        "seed": (changed(seed=1), "rows", "cpu"),
        "shards": (changed(shards=11), "rows", "cpu"),
        "model": (changed(model="lightgcn"), "rows", "cpu"),
        "partition": (changed(partition="ubp"), "rows", "cpu"),
        "aggregation": (changed(aggregation="static"), "rows", "cpu"),
        "hyperparameters": (changed(hyperparameters={**CELL.config.hyperparameters, "dim": 8}), "rows", "cpu"),
        "partition_settings": (changed(partition_settings={"slack": 1.5}), "rows", "cpu"),
        "aggregation_settings": (changed(aggregation_settings={"dropout": 0.1}), "rows", "cpu"),
    }
    digests = {name: one.digest(rows, device) for name, (one, rows, device) in variants.items()}
    monkeypatch.setattr(cells, "FORMAT", cells.FORMAT + 1)
    digests["format"] = CELL.digest("rows", "cpu")
    monkeypatch.setattr(cells, "code_version", lambda: "0.0.1")
    digests["code"] = CELL.digest("rows", "cpu")
    assert len(set(digests.values())) == len(digests)


def test_sweeps_stay_on_the_cpu() -> None:
    """Nothing of theirs is trained: where the others are fitted on a GPU, there need not be one for them."""
    sweeps = dataclasses.replace(CELL, kind="sweeps", extras={})
    assert (sweeps.device("cuda"), CELL.device("cuda")) == ("cpu", "cuda")
    assert sweeps.digest("rows", "cuda") == sweeps.digest("rows", "cpu")


def test_the_same_inputs_are_the_same_cell() -> None:
    again = Cell("forgets", "ml-1m", chosen("ml-1m", "bpr", "receraser").config, {"n": 3, "level": "users"})
    assert again.digest("rows", "cpu") == CELL.digest("rows", "cpu")


def test_a_tree_that_is_not_installed_says_its_own_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or cells from a bare machine would be missing wherever the package is installed."""
    here = code_version()

    def unknown(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", unknown)
    assert code_version.__wrapped__() == here
    monkeypatch.setattr(cells, "_PROJECT", Path("nowhere"))
    assert code_version.__wrapped__() == "not installed"


def test_forget_sets_are_an_input_of_those_that_take_them(tmp_path: Path) -> None:
    listed, drawn = (dataclasses.replace(CELL, extras={"who": who, "size": 0.05}) for who in ("core", "random"))
    assert drawn.of_sets("files") == drawn
    assert listed.of_sets("files").digest("", "cpu") != listed.of_sets("others").digest("", "cpu")
    assert listed.of_sets("files").label == listed.label
    kept = Kept(tmp_path)
    kept.write(drawn, "rows", "cpu", RESULT)
    assert kept.sets_of("ml-1m") == ""
    kept.write(listed.of_sets("files"), "rows", "cpu", RESULT)
    assert kept.sets_of("ml-1m") == "files"
    kept.write(listed.of_sets("others"), "rows", "cpu", RESULT)
    assert kept.sets_of("ml-1m") is None


def test_a_model_without_shards_is_the_same_cell_on_every_device() -> None:
    gram = Cell("fit", "ml-1m", additive("ml-1m", "gram").config)
    assert gram.digest("rows", "cuda") == gram.digest("rows", "cpu")


RESULT = Result(
    metrics={"recall@20": 0.25},
    seconds={"submodels": 1.5},
    numbers={"users": 3},
    series={"total": [0.1, 0.2]},
    notes={"level": "L3"},
    per_user={name: np.arange(3, dtype=np.float32) for name in METRICS},
    about={"hardware": "a machine", "seconds": 2.0},
)


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "cells")
    digest = CELL.digest("rows", "cpu")
    assert not kept.holds(digest)
    assert kept.read(digest) is None
    assert kept.rows_of("ml-1m") is None
    kept.write(CELL, "rows", "cpu", RESULT)
    found = kept.read(digest)
    assert found is not None
    assert kept.holds(digest)
    for field in dataclasses.fields(Result):
        if field.name not in ("per_user", "about"):
            assert getattr(found, field.name) == getattr(RESULT, field.name)
    assert found.about == {**RESULT.about, "code": code_version()}
    assert set(found.per_user) == set(METRICS)
    assert found.per_user["ndcg@50"].tolist() == [0.0, 1.0, 2.0]
    assert sorted(path.name for path in (tmp_path / "cells").iterdir()) == [f"{digest}.json", f"{digest}.npz"]
    assert kept.rows_of("ml-1m") == "rows"
    assert [seconds for _, seconds in kept.took()] == [2.0]


def test_cells_of_two_data_sets_of_one_name_are_told_apart(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.write(CELL, "rows", "cpu", RESULT)
    kept.write(CELL, "others", "cpu", RESULT)
    assert kept.rows_of("ml-1m") is None


@pytest.mark.parametrize("damage", ["{", "[]", '{"format": 1, "metrics": 3}', '{"format": 0}'])
def test_a_damaged_document_is_as_good_as_missing(tmp_path: Path, damage: str) -> None:
    kept = Kept(tmp_path)
    kept.write(CELL, "rows", "cpu", RESULT)
    digest = CELL.digest("rows", "cpu")
    (tmp_path / f"{digest}.json").write_text(damage)
    assert kept.read(digest) is None
    assert not kept.holds(digest), "or nobody would compute it again"


def test_damaged_or_missing_arrays_too(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.write(CELL, "rows", "cpu", RESULT)
    digest = CELL.digest("rows", "cpu")
    arrays = tmp_path / f"{digest}.npz"
    arrays.write_bytes(arrays.read_bytes()[:100])
    assert kept.read(digest) is None
    arrays.unlink()
    assert kept.read(digest) is None
    assert not kept.holds(digest)


def test_a_folder_that_cannot_be_made_is_told_before_anything_is_computed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="the folder cannot be made: Not a directory"):
        run([CELL], load(None, WORLD), Kept(tmp_path / "file" / "cells"), "cpu", lambda _: None)


def test_the_document_says_its_inputs(tmp_path: Path) -> None:
    Kept(tmp_path).write(CELL, "rows", "cuda", RESULT)
    document = json.loads((tmp_path / f"{CELL.digest('rows', 'cuda')}.json").read_text())
    assert document["inputs"] == CELL.inputs("rows", "cuda")
    assert document["inputs"]["config"]["device"] == "cuda"
