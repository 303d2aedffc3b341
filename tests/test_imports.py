"""Imports point one way, importing is cheap, and the numeric core does without what only the edges need."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import receraser

SOURCE = Path(receraser.__file__).parent

# From the ground up. A module may import from the layers below its own, and from its own package.
# The longest name that fits decides: `data.ids` is itself, `data.splits` is `data`.
LAYERS: list[list[str]] = [
    ["errors", "seeds"],
    ["settings", "keys"],
    ["data.ids"],
    ["data.interactions"],
    ["fingerprint"],  # of rows, among others
    ["proof"],
    ["data"],
    ["training.kernels"],  # inner loops: of numbers, not of models
    ["protocols", "metrics", "ranking"],
    ["evaluation", "training"],
    ["models", "methods"],
    ["partition"],
    ["aggregation", "erasure"],
    ["execution", "config", "reports"],
    ["state", "purity"],
    ["changes", "serving", "store"],
    ["fitting", "custody"],
    ["handing", "work"],
    ["acts"],
    ["engine", "verify"],
    ["residue", "tuning", "reproduce"],
    ["cli"],
    ["__main__"],
]

# Arrows that point up and may: for types alone, never followed when the package runs.
TYPES_ONLY = {("protocols", "execution"), ("protocols", "models"), ("protocols", "partition")}

HEAVY = ["torch", "numba", "pyarrow", "scipy"]
EDGES = ["pyarrow", "typer", "rich", "safetensors", "numba"]


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package by its name without the package's, parsed."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text())
    return found


def imported(tree: ast.Module, known: set[str]) -> Iterator[tuple[str, bool]]:
    """Yield what a module imports of ours, wherever in it, and whether for types alone."""
    for_types = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test).endswith("TYPE_CHECKING")
        for statement in block.body
        for node in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [one if one.removeprefix("receraser.") in known else str(node.module) for one in inner]
        else:
            continue
        for name in names:
            if name.startswith("receraser."):
                yield name.removeprefix("receraser."), id(node) in for_types


def layer_of(module: str) -> tuple[int, str]:
    """Return the height of a module and the name in the table it goes by."""
    fits = [(len(name), height, name) for height, layer in enumerate(LAYERS) for name in layer if _within(module, name)]
    assert fits, f"receraser.{module} is in no layer: say where it belongs"
    return max(fits)[1:]


def _within(module: str, name: str) -> bool:
    return module == name or module.startswith(f"{name}.")


@cache
def arrows() -> list[tuple[str, str, bool]]:
    trees = modules()
    known = set(trees)
    return [
        (module, target, for_types)
        for module, tree in trees.items()
        if module  # the package itself is the face of everything
        for target, for_types in imported(tree, known)
    ]


def points_back(module: str, target: str) -> bool:
    (height, own), (other_height, other) = layer_of(module), layer_of(target)
    return own != other and other_height >= height


def test_no_arrow_points_back() -> None:
    wrong = [
        f"receraser.{module} imports receraser.{target}"
        for module, target, for_types in arrows()
        if points_back(module, target) and not (for_types and (layer_of(module)[1], layer_of(target)[1]) in TYPES_ONLY)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_test_sees_what_it_should() -> None:
    """It would be worth nothing if it read no imports, or not those inside functions, or knew no order."""
    seen = {(module, target) for module, target, _ in arrows()}
    assert ("engine", "partition.registry") in seen
    assert ("execution.task", "models.registry") in seen, "inside a function"
    assert ("data.films", "seeds") in seen, "from receraser import seeds"
    assert ("protocols", "partition.partition", True) in arrows()
    assert len(seen) > 100
    assert points_back("training.loop", "models.bpr")
    assert points_back("data.ids", "data.splits")
    assert points_back("models.bpr", "partition.whole"), "neighbours in a layer do not know each other"
    assert not points_back("models.bpr", "models.factors")
    assert not points_back("data.splits", "data.ids")


def test_exceptions_that_are_no_longer_needed_are_taken_out() -> None:
    needed = {
        (layer_of(module)[1], layer_of(target)[1])
        for module, target, for_types in arrows()
        if for_types and points_back(module, target)
    }
    assert needed == TYPES_ONLY


def test_every_layer_has_modules() -> None:
    names = [name for layer in LAYERS for name in layer]
    assert len(names) == len(set(names))
    used = {layer_of(module)[1] for module in modules() if module}
    assert used == set(names)


# ---------------------------------------------------------------------- in fresh interpreters


def python(script: str) -> str:
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=SOURCE.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("module", ["receraser", "receraser.cli.main", "receraser.errors", "receraser.config"])
def test_importing_is_cheap(module: str) -> None:
    """Whoever asks for help or a version does not wait for torch."""
    loaded = python(f"import sys, {module}; print(*[name for name in {HEAVY} if name in sys.modules])")
    assert loaded == ""


CORE = """
import sys
for name in {missing}:
    sys.modules[name] = None
import receraser
import receraser.seeds, receraser.fingerprint, receraser.ranking, receraser.metrics, receraser.evaluation
import receraser.data.readers, receraser.partition.whole, receraser.aggregation.alone, receraser.training.loop
from receraser.models.registry import make_model
from receraser.evaluation import evaluate
train, held_out = [], []
for user in range(20):
    for item in range(user % 2, 16, 2):
        (held_out if (item // 2 + user // 2) % 4 == 0 else train).append((f"u{{user}}", f"i{{item}}"))
train, held_out = (receraser.Interactions.from_pairs(pairs) for pairs in (train, held_out))
for name, own in [
    ("wmf", {{"dim": 4}}),
    ("wmf", {{"dim": 4, "solver": "adagrad", "n_epochs": 60, "batch_size": 8}}),
    ("bpr", {{"dim": 4, "n_epochs": 40, "batch_size": 32, "learning_rate": 0.05, "n_negatives": 1}}),
    ("lightgcn", {{"dim": 4, "n_epochs": 40, "batch_size": 32, "learning_rate": 0.03, "n_negatives": 1}}),
    ("gram", {{"rank": 4}}),
    ("gram", {{"rank": 4, "pairs_per_row": 0.0, "polish": 1}}),
    ("ease", {{}}),
    ("graphfilter", {{"rank": 8}}),
]:
    model = make_model(name, own).fit(train, valid=held_out, seed=1)
    found = evaluate(model, train, held_out, at=(2,))
    assert found.metrics["recall@2"] > 0.9, (name, found.metrics)
from receraser.aggregation.registry import make_aggregator
from receraser.partition.registry import PARTITIONS, make_partitioner
for name, kind in PARTITIONS.items():
    own = {{}} if name == "whole" else {{"n_shards": 2}} | ({{"dim": 4}} if hasattr(kind, "dim") else {{}})
    partition = make_partitioner(name, own).assign(train, valid=held_out, seed=1)
shards = make_partitioner("random", {{"n_shards": 2}}).assign(train, valid=None, seed=1).shards(train, None)
submodels = [make_model("wmf", {{"dim": 2}}).fit(shard.train, seed=1) for shard in shards]
for name in ("mean", "static", "attention"):
    aggregator = make_aggregator(name, {{}})
    state, _ = aggregator.fit(submodels, train, valid=held_out, seed=1)
    found = evaluate(aggregator.scorer(submodels, state), train, held_out, at=(2,))
    assert found.metrics["recall@2"] > 0.9, (name, found.metrics)
print("done")
"""


def test_the_numeric_core_does_without_what_only_the_edges_need() -> None:
    """Where there is torch, numpy and scipy and nothing else, every model and every part fits, and learns."""
    assert python(CORE.format(missing=EDGES)) == "done"


TOOLS = SOURCE.parents[1] / "tools"


@pytest.mark.parametrize("tool", ["check_cuda.py", "cells_on_gpu.py"])
def test_what_is_run_on_a_bare_machine_asks_for_nothing_more(tool: str) -> None:
    """A GPU that is lent has torch, numpy and scipy, and nothing can be installed there."""
    missing = [*EDGES, "cryptography", "matplotlib", "optuna"]
    script = f"import runpy, sys; sys.modules |= dict.fromkeys({missing}); runpy.run_path({str(TOOLS / tool)!r})"
    assert python(f"{script}; print('imported')") == "imported"
