"""The auditor's reference agrees with what the package computes, and notices what is not as it should be."""

from __future__ import annotations

import ast
import hashlib
import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load, save

from receraser.aggregation.spectral import Spectral
from receraser.engine import Engine
from receraser.models.ease import EASE
from receraser.models.wmf import WMF
from receraser.partition.hashed import Hashed
from tests.contracts.worlds import blocks
from tests.forgetting.engines import Here

SCRIPT = Path(__file__).parent.parent / "audit" / "reference.py"
WORLD = blocks(70, 40, 4)


def sharded(n_shards: int, dim: int = 7, **settings: object) -> Engine:
    return Engine(
        model=WMF(dim=dim, n_sweeps=4),
        partitioner=Hashed(n_shards=n_shards),
        aggregator=Spectral(**{"rank": 6, "width": 9, **settings}),  # type: ignore[arg-type]
        seed=3,
        executor=Here(),
    )


ENGINES: dict[str, Callable[[], Engine]] = {
    "wmf": lambda: Engine(model=WMF(dim=7, n_sweeps=4), seed=3, executor=Here()),
    "spectral": lambda: sharded(4),
    "product, an odd shard, polish": lambda: sharded(5, merge="product", polish=2),
    "nodes of 96 columns": lambda: sharded(3, 60, width=0),
    "nodes of 128 columns": lambda: sharded(17, 70, width=0),
    "its own fold-in": lambda: sharded(2, missing_weight=0.3, regularization=0.05),
    "ease": lambda: Engine(model=EASE(regularization=5.0), seed=3, executor=Here()),
}


@pytest.fixture
def reference(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Run the script; return its exit status, and what it wrote."""
    main = runpy.run_path(str(SCRIPT))["main"]

    def run(*arguments: object) -> tuple[int, str]:
        capsys.readouterr()
        try:
            code = main([str(one) for one in arguments])
        except SystemExit as end:
            if isinstance(end.code, str):  # which the interpreter prints, and exits with 1
                return 1, end.code
            code = end.code
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run


def fitted(name: str, folder: Path) -> tuple[Path, Path]:
    """Return a store and an export of it."""
    engine = ENGINES[name]().fit(WORLD.train, valid=WORLD.held_out)
    return published(engine, folder)


def published(engine: Engine, folder: Path) -> tuple[Path, Path]:
    engine.save(folder / "store")
    engine.export(folder / "export")
    return folder / "store", folder / "export"


def refused_lines(told: str) -> set[str]:
    """The quantities that do not agree."""
    return {line[:30].partition("(")[0].strip() for line in told.splitlines() if line.endswith("NOT OK")}


# ---------------------------------------------------------------------- it agrees


@pytest.mark.parametrize("name", ENGINES)
def test_it_agrees_after_a_fit_and_after_a_forget(
    name: str, tmp_path: Path, reference: Callable[..., tuple[int, str]]
) -> None:
    engine = ENGINES[name]().fit(WORLD.train, valid=WORLD.held_out)
    store, export = published(engine, tmp_path / "fit")
    code, told = reference(export, "--store", store)
    assert code == 0, told
    engine.forget(["u00", "u11", "u12"], items=["i02"], interactions=[("u01", "i01")])
    after, survivors = published(engine, tmp_path / "forget")
    code, told = reference(survivors, "--store", after)
    assert code == 0, told
    code, told = reference(survivors, "--store", store)
    assert code == 1, "the store before is another one"
    assert {"train rows of one side only", "top-10 lists"} <= refused_lines(told)


@pytest.mark.parametrize("name", ["wmf", "spectral", "ease"])
def test_a_store_of_hardly_any_rows(name: str, tmp_path: Path, reference: Callable[..., tuple[int, str]]) -> None:
    engine = ENGINES[name]().fit(WORLD.train)
    engine.forget(users=[f"u{n:02}" for n in range(2, 70)])
    store, export = published(engine, tmp_path / "two")
    assert reference(export, "--store", store)[0] == 0
    engine.forget(users=["u00", "u01"])
    store, export = published(engine, tmp_path / "nobody")
    assert reference(export, "--store", store)[0] == 0


def test_without_a_store_the_assignment_is_checked(tmp_path: Path, reference: Callable[..., tuple[int, str]]) -> None:
    _, export = fitted("spectral", tmp_path)
    assert reference(export)[0] == 0
    rewritten(export, lambda rows: rows.set_column(2, "shard", pa.array((rows["shard"].to_numpy() + 1) % 4)))
    code, told = reference(export)
    assert code == 1
    assert refused_lines(told) == {"users in another shard"}


# ---------------------------------------------------------------------- it notices


def rewritten(export: Path, change: Callable[[pa.Table], pa.Table], name: str = "train.parquet") -> None:
    """Change the rows of an export, and its SHA-256 with them."""
    pq.write_table(change(pq.read_table(export / name)), export / name)
    about = json.loads((export / "export.json").read_text())
    about["files"][name] = hashlib.sha256((export / name).read_bytes()).hexdigest()
    (export / "export.json").write_text(json.dumps(about))


@pytest.mark.parametrize("name", ["wmf", "spectral", "ease"])
def test_a_row_removed_from_the_export_is_noticed(
    name: str, tmp_path: Path, reference: Callable[..., tuple[int, str]]
) -> None:
    store, export = fitted(name, tmp_path)
    rewritten(export, lambda rows: rows.slice(1))
    code, told = reference(export, "--store", store)
    assert code == 1
    weights = {"wmf": "user_vectors", "spectral": "merged item_vectors", "ease": "weights"}[name]
    assert {"train rows of one side only", weights} <= refused_lines(told), "in the rows, and in what they taught"


def test_a_validation_row_that_the_export_has_not_got_is_noticed(
    tmp_path: Path, reference: Callable[..., tuple[int, str]]
) -> None:
    store, export = fitted("wmf", tmp_path)
    rewritten(export, lambda rows: rows.slice(1), "valid.parquet")
    code, told = reference(export, "--store", store)
    assert code == 1
    assert refused_lines(told) == {"valid rows of one side only"}


@pytest.mark.parametrize(
    ("name", "of", "array", "noticed"),
    [
        ("wmf", 0, "user_vectors", "user_vectors"),
        ("wmf", 0, "item_vectors", "item_vectors"),
        ("spectral", 3, "item_vectors", "item_vectors"),
        ("spectral", "item_vectors", "item_vectors", "merged item_vectors"),
        ("spectral", "node.1.1", "node.1.1", "merged node"),
        ("ease", 0, "weights", "weights"),
    ],
)
def test_a_weight_changed_by_a_hundredth_is_noticed(
    name: str, of: int | str, array: str, noticed: str, tmp_path: Path, reference: Callable[..., tuple[int, str]]
) -> None:
    store, export = fitted(name, tmp_path)
    manifest = json.loads((store / "manifest.json").read_text())
    files, key = (manifest["shards"][of]["files"], "weights") if isinstance(of, int) else (
        manifest["aggregate"]["files"], of
    )  # fmt: skip
    weights = {one: numbers.copy() for one, numbers in load((store / "files" / files[key]).read_bytes()).items()}
    vector = weights[array][len(weights[array]) // 2]
    vector[np.abs(vector).argmax()] *= np.float32(1.01)
    data = save(weights)
    files[key] = hashlib.sha256(data).hexdigest()
    (store / "files" / files[key]).write_bytes(data)
    (store / "manifest.json").write_text(json.dumps(manifest))
    code, told = reference(export, "--store", store)
    assert code == 1
    assert refused_lines(told) - {"top-10 lists"} == {noticed}


@pytest.mark.parametrize("which", ["export", "store"])
def test_a_damaged_file_is_noticed(which: str, tmp_path: Path, reference: Callable[..., tuple[int, str]]) -> None:
    store, export = fitted("wmf", tmp_path)
    manifest = json.loads((store / "manifest.json").read_text())
    weights = store / "files" / manifest["shards"][0]["files"]["weights"]
    path = export / "train.parquet" if which == "export" else weights
    path.write_bytes(path.read_bytes() + b" ")
    code, told = reference(export, "--store", store)
    assert code == 1
    assert f"{path} was changed" in told


# ---------------------------------------------------------------------- what it refuses, and what it is


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [
        ("", "model", "lightgcn"),
        ("", "model", "gram"),
        ("", "partition", "inbp"),
        ("", "aggregation", "attention"),
        ("", "device", "cuda"),
        ("hyperparameters", "solver", "adagrad"),
        ("aggregation_settings", "merge", "consensus"),
    ],
)
def test_what_it_does_not_compute_is_refused_by_name(
    table: str, key: str, value: str, tmp_path: Path, reference: Callable[..., tuple[int, str]]
) -> None:
    config = {"model": "wmf", "partition": "hash", "aggregation": "spectral", "device": "cpu"}
    about = {"config": config | {"hyperparameters": {"solver": "als"}, "aggregation_settings": {"merge": "auto"}}}
    (about["config"][table] if table else about["config"])[key] = value  # type: ignore[index]
    (tmp_path / "export.json").write_text(json.dumps(about))
    code, told = reference(tmp_path)
    assert code == 2
    assert f"the {key} {value} is not recomputed here" in told


def test_where_there_is_nothing(tmp_path: Path, reference: Callable[..., tuple[int, str]]) -> None:
    code, told = reference(tmp_path / "nowhere")
    assert code == 2
    assert f"there is no {tmp_path / 'nowhere' / 'export.json'}" in told
    (tmp_path / "export.json").write_text("{}")
    code, told = reference(tmp_path, "--store", tmp_path)
    assert code == 2
    assert "manifest.json" in told


def test_it_shares_no_code_and_can_be_read_in_one_sitting() -> None:
    text = SCRIPT.read_text()
    tree = ast.parse(text)
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(str(node.module).partition(".")[0])
    assert imported <= {"numpy", "pyarrow", *sys.stdlib_module_names}
    assert "__import__" not in text
    assert "importlib" not in imported
    said = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef) and ast.get_docstring(node):
            said |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = [line.strip() for number, line in enumerate(text.splitlines(), 1) if number not in said]
    assert sum(bool(line) and not line.startswith("#") for line in lines) <= 230
