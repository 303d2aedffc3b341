"""Which configuration stands for a method on a data set, and which preset it was taken from.

Presets hold what was chosen on validation rows. Where a data set has one of its own, it is taken; where it has none,
the nearest one is, and `origin` says which, so that nobody takes a fallback for a choice:

============  =========================================================================================
retrain       MODEL-DATASET; else MODEL-ml-1m
spectral      spectral-MODEL-DATASET; else the submodels of MODEL-DATASET; else spectral-MODEL-ml-1m
receraser     receraser-MODEL-DATASET; else receraser-MODEL-ml-1m, for as many epochs as validation rows want
sisa          the submodels of receraser, with a partition and an aggregation at their defaults
grapheraser   likewise
gram, ease,   MODEL-DATASET; else MODEL-ml-1m
graphfilter
============  =========================================================================================

Vectors have one length for all methods compared: the rank of `spectral` and `gram` is set to the `dim` of the models in
shards. `own_rank` leaves them the one that validation chose, for a row of its own that says so.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache

from receraser.config import ADDITIVE_NAMES, EngineConfig, load_config, preset_names, resolve
from receraser.methods import METHODS
from receraser.reproduce.datasets import REFITTED

__all__ = ["DIM", "SHARDS", "Chosen", "additive", "chosen", "on_device"]

DIM = 64  # length of the vectors, in the paper and here
SHARDS = 10  # the paper's
_FALLBACK = "ml-1m"


@dataclass(frozen=True)
class Chosen:
    """A complete configuration, the preset its values come from, and whether its epochs are still to be chosen.

    `chooses_epochs`: the final fit has no validation rows to stop by (`REFITTED`), and no preset of this data set names
    the epochs that its aggregation takes; a fit on the rows for choices says it first.
    """

    config: EngineConfig
    origin: str
    chooses_epochs: bool = False

    def under(self, other: Chosen) -> Chosen:
        """Return the same submodels on the same shards, put together as another configuration does it."""
        config = dataclasses.replace(
            self.config,
            method="",
            aggregation=other.config.aggregation,
            aggregation_settings=other.config.aggregation_settings,
        )
        source = other.origin.split(" of ")[-1]
        how = "at its defaults" if source.endswith("defaults") else f"of {source}"
        origin = f"{self.origin.split(',')[0]}, {other.config.aggregation} {how}"
        return Chosen(_complete(config), origin, other.chooses_epochs)

    def cut_by(self, partition: str) -> Chosen:
        """Return the same submodels and the same aggregation on other shards."""
        if partition == self.config.partition:
            return self
        config = dataclasses.replace(self.config, method="", partition=partition, partition_settings={})
        return dataclasses.replace(self, config=_complete(config))

    def polished(self, n: int) -> Chosen:
        """Return `spectral` with so many sweeps over all rows afterwards."""
        settings = {**self.config.aggregation_settings, "polish": n}
        return dataclasses.replace(
            self, config=_complete(dataclasses.replace(self.config, aggregation_settings=settings))
        )


def chosen(
    dataset: str, model: str, method: str, *, shards: int = SHARDS, seed: int = 0, own_rank: bool = False
) -> Chosen:
    """Return what stands for a method of the engine with a model in shards.

    Examples
    --------
    >>> found = chosen("ml-1m", "wmf", "receraser")
    >>> found.origin, found.config.partition, found.config.shards
    ('receraser-wmf-ml-1m', 'inbp', 10)
    >>> chosen("ml-10m", "wmf", "receraser").origin
    'receraser-wmf-ml-1m'
    """
    if method == "retrain" or shards == 1:
        name = _first(f"{model}-{dataset}", f"{model}-{_FALLBACK}")
        return Chosen(_complete(dataclasses.replace(_preset(name), method="retrain", shards=1, seed=seed)), name)
    found = _spectral(dataset, model) if method == "spectral" else _attended(dataset, model)
    config = dataclasses.replace(found.config, shards=shards, seed=seed)
    origin = found.origin
    if method not in ("spectral", "receraser"):
        parts = METHODS[method]
        config = dataclasses.replace(
            config,
            method=method,
            partition=parts.partition,
            aggregation=parts.aggregation,
            partition_settings={},
            aggregation_settings={},
        )
        origin = f"submodels of {origin}, {parts.partition} and {parts.aggregation} at their defaults"
    config = _complete(config)
    if method == "spectral" and not own_rank:
        rank = {**config.aggregation_settings, "rank": config.hyperparameters.get("dim", DIM)}
        config = _complete(dataclasses.replace(config, aggregation_settings=rank))
    learned = "n_epochs" in config.aggregation_settings
    unchosen = found.chooses_epochs or method not in ("spectral", "receraser")  # defaults know no data set
    return Chosen(config, origin, dataset in REFITTED and unchosen and learned)


def additive(dataset: str, model: str, *, seed: int = 0, own_rank: bool = False) -> Chosen:
    """Return what stands for a model without shards."""
    name = _first(f"{model}-{dataset}", f"{model}-{_FALLBACK}")
    config = dataclasses.replace(_preset(name), seed=seed)
    if model == "gram" and not own_rank:
        config = dataclasses.replace(config, hyperparameters={**config.hyperparameters, "rank": DIM})
    return Chosen(_complete(config), name)


def on_device(config: EngineConfig, device: str) -> EngineConfig:
    """Return the configuration for a device, which need not be here; models without shards stay on the CPU."""
    return config if config.model in ADDITIVE_NAMES else dataclasses.replace(config, device=device)


def _spectral(dataset: str, model: str) -> Chosen:
    name = _first(
        f"spectral-{model}-{dataset}", f"{model}-{dataset}", f"spectral-{model}-{_FALLBACK}", f"{model}-{_FALLBACK}"
    )
    return Chosen(dataclasses.replace(_preset(name), method="spectral"), name)


def _attended(dataset: str, model: str) -> Chosen:
    """Return the paper's method: submodels for shards of this data set, attention over them."""
    own, other = f"receraser-{model}-{dataset}", f"receraser-{model}-{_FALLBACK}"
    if own in _known():
        return Chosen(_preset(own), own, chooses_epochs="n_epochs" not in _preset(own).aggregation_settings)
    return Chosen(_preset(other), other, chooses_epochs=True)


@cache
def _known() -> frozenset[str]:
    return frozenset(preset_names())


@cache
def _preset(name: str) -> EngineConfig:
    """Return a preset, read once."""
    return load_config(name)


def _first(*names: str) -> str:
    """Return the first of these presets that there is; the last one always is."""
    known = _known()
    return next((name for name in names if name in known), names[-1])


def _complete(config: EngineConfig) -> EngineConfig:
    """Fill in every default, for no device in particular: the machine that reports need not have the one that ran."""
    return resolve(dataclasses.replace(config, device="cpu"))
