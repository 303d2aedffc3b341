"""`Cell`: one unit of work, named by the digest of all its inputs; `Result`: what came out of it.

Studies share cells: the same inputs are the same cell, whichever table or figure asks for it, and are computed once.
What a cell depends on: its kind, the rows of the data set, the complete configuration (with seed and kind of device),
what else its kind takes (with the digest of the forget sets' files, where it takes those), the version of the package,
whose arithmetic it is, and the number of the format, which is raised when the meaning of a kind changes.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from receraser import fingerprint
from receraser.config import EngineConfig
from receraser.reproduce.settings import DIM, on_device

__all__ = ["FORMAT", "KINDS", "METRICS", "SETS", "Cell", "Extras", "Rest", "Result", "code_version"]

FORMAT = 1
SETS = "sets"  # among the extras: the digest of the files that say who is in a forget set
_PROJECT = Path(__file__).parents[3] / "pyproject.toml"
Extras = Mapping[str, str | int | float]
METRICS = tuple(f"{name}@{cut}" for name in ("recall", "ndcg") for cut in (10, 20, 50))
KINDS: Mapping[str, str] = {
    "rows": "the data set is counted",
    "fit": "fitted and measured on the test rows",
    "first": "fitted from nothing, alone: seconds of each stage",
    "sweeps": "random vectors and the sweeps of `polish`: the control of spectral",
    "forgets": "requests one after another: time of each, quality at the end",
    "batch": "many users at once: shards touched, time, quality",
    "gradual": "users leave in steps: quality and balance along the way",
    "store": "published: bytes on disk",
}


@dataclass(frozen=True)
class Cell:
    """One unit of work.

    Attributes
    ----------
    kind
        One of `KINDS`.
    dataset
        The name of the data set; its rows come in with their digest.
    config
        Complete, for the CPU; None where nothing is fitted. The device is put in when the cell is named or computed.
    extras
        What else its kind takes: how many are forgotten, who, how.
    """

    kind: str
    dataset: str
    config: EngineConfig | None = None
    extras: Extras = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.kind in KINDS, self.kind

    def inputs(self, rows: str, device: str) -> dict[str, object]:
        """Return everything that the result depends on; `rows` is the digest of the data set's."""
        placed = self.placed(device)
        config = None if placed is None else placed.as_dict()
        return {
            "format": FORMAT,
            "code": code_version(),
            "kind": self.kind,
            "dataset": self.dataset,
            "rows": rows,
            "config": config,
            "extras": dict(self.extras),
        }

    @property
    def takes_sets(self) -> bool:
        """Whether who is forgotten is listed in files."""
        return str(self.extras.get("who", "random")) != "random"

    def of_sets(self, digest: str) -> Cell:
        """Return the cell with the digest of the forget sets' files among its inputs, where it takes them."""
        return dataclasses.replace(self, extras={**self.extras, SETS: digest}) if self.takes_sets else self

    def digest(self, rows: str, device: str) -> str:
        """Return the name of the cell."""
        return fingerprint.of_settings(self.inputs(rows, device))

    def device(self, device: str) -> str:
        """Return where it is computed, given where most are: models without shards and sweeps stay on the CPU."""
        placed = self.placed(device)
        return device if placed is None else placed.device

    def placed(self, device: str) -> EngineConfig | None:
        """Return the configuration with the device that it is computed on, given where most are."""
        if self.config is None:
            return None
        return on_device(self.config, "cpu" if self.kind == "sweeps" else device)

    @property
    def seed(self) -> int:
        """Of the fit, and of who is drawn to be forgotten."""
        return 0 if self.config is None else self.config.seed

    @property
    def label(self) -> str:
        """The cell in words, for whoever waits.

        Examples
        --------
        >>> config = EngineConfig(method="sisa", model="bpr", shards=10)
        >>> Cell("batch", "ml-1m", config, {"share": 0.05}).label
        'batch: bpr, sisa, K=10, seed 0, share=0.05'
        """
        if self.config is None:
            return f"{self.kind}: {self.dataset}"
        one = self.config
        method = one.method if one.method != "custom" else f"{one.partition} + {one.aggregation}"
        shards = [f"K={one.shards}"] if one.shards > 1 else []
        polish = one.aggregation_settings.get("polish", 0)
        rank = one.aggregation_settings.get("rank", one.hyperparameters.get("rank", DIM))
        more = ([f"rank={rank}"] if rank != DIM else []) + ([f"polish={polish}"] if polish else [])
        more += [f"{key}={value}" for key, value in self.extras.items() if key != SETS]
        return f"{self.kind}: " + ", ".join([one.model, method, *shards, f"seed {one.seed}", *more])


@dataclass(frozen=True, eq=False)
class Result:
    """What a cell found; no row and no id is in it.

    Attributes
    ----------
    metrics
        Means over users, by name ("recall@20"); empty where nothing was ranked.
    seconds
        Of the stages of the fit.
    numbers
        Counts and sizes: users, balance, bytes, shards touched.
    series
        One value for each request, or for each step.
    notes
        Digest, level, path: in words.
    per_user
        The metrics of each user, for paired tests; in an order that `notes["users"]`, a digest, stands for.
    about
        Hardware, day, versions, and how long the cell took.
    """

    metrics: Mapping[str, float] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)
    series: Mapping[str, list[float]] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    per_user: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    about: Mapping[str, str | float] = field(default_factory=dict)


Rest = Callable[[], Result]  # what is left of a cell when all that is timed has been done


@cache
def code_version() -> str:
    """Return the version of this package; where it is not installed, what the source tree says of itself.

    So cells that were computed in a bare tree are the same cells where the package is installed.
    """
    try:
        return metadata.version("receraser")
    except metadata.PackageNotFoundError:
        try:
            return str(tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]["version"])
        except (OSError, ValueError, KeyError):
            return "not installed"
