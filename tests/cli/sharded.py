"""A small world in shards, fitted for the commands that change a store."""

from __future__ import annotations

import json
from pathlib import Path

from receraser.config import EngineConfig
from receraser.data.interactions import Interactions
from receraser.engine import Engine
from receraser.execution.local import LocalExecutor
from receraser.store.directory import DirectoryStore
from tests.cli.conftest import TITLES
from tests.contracts.worlds import checkerboard

WORLD = checkerboard()
SHARDS = 4

# The options by which `fit` makes the same stores.
INDEPENDENT = (
    "--method",
    "sisa",
    "--shards",
    SHARDS,
    "--dim",
    4,
    "--set",
    "n_sweeps=2",
    "--seed",
    7,
    "--device",
    "cpu",
)
DRIVEN = (
    *("--partition", "ubp", "--aggregation", "attention", "--shards", SHARDS, "--dim", 4, "--set", "n_sweeps=2"),
    *("--set", "partition.dim=3", "--set", "aggregation.n_epochs=2", "--set", "aggregation.attention_dim=3"),
    *("--seed", 7, "--device", "cpu"),
)


def config(kind: str) -> EngineConfig:
    """`random` + `mean`, which looks at no data, or `ubp` + `attention`, which does."""
    small = {"dim": 4, "n_sweeps": 2}
    if kind == "independent":
        return EngineConfig(method="sisa", model="wmf", shards=SHARDS, seed=7, device="cpu", hyperparameters=small)
    return EngineConfig(
        model="wmf",
        partition="ubp",
        aggregation="attention",
        shards=SHARDS,
        seed=7,
        device="cpu",
        hyperparameters=small,
        partition_settings={"dim": 3},
        aggregation_settings={"n_epochs": 2, "attention_dim": 3},
    )


def fitted(kind: str, worker: LocalExecutor, rows: Interactions = WORLD.train) -> Engine:
    engine = Engine.from_config(config(kind), executor=worker).fit(rows, valid=WORLD.held_out)
    engine.titles = TITLES
    return engine


def make_stores(folder: Path, worker: LocalExecutor) -> Path:
    """Publish both kinds in a folder."""
    for kind in ("independent", "driven"):
        fitted(kind, worker).save(folder / kind)
    return folder


def said_to_be_computed_elsewhere(store: Path) -> None:
    """Write another environment into the manifest."""
    place = DirectoryStore(store)
    whole = place.manifest()
    environment = whole["environment"]
    assert isinstance(environment, dict)
    with place.writing():
        place.commit({**whole, "environment": environment | {"version.torch": "1.0"}})


def content(store: Path) -> dict[str, bytes]:
    """Every file of a store."""
    return {str(path.relative_to(store)): path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file()}


def state(store: Path) -> dict[str, bytes]:
    """What a store holds, without the account of what happened to it: requests, ledger, certificates."""
    beside = ("certificates", "ledger", "manifest.json", "pending")
    files = {name: data for name, data in content(store).items() if not name.startswith(beside)}
    manifest = json.loads((store / "manifest.json").read_text())
    return files | {"manifest": json.dumps({**manifest, "record": None, "checksum": None}).encode()}
