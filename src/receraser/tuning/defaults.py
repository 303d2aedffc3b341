"""The spaces that are searched where nobody says otherwise: for every model, partition and aggregation, in one place.

Ranges go about a decade beyond the values that were best on ML-100K, ML-1M and Yelp2018 (`presets/`). What is left out
on purpose: `dim` and `rank`, since methods are compared at equal size; `polish`, a pass over all rows; epochs and
patience, since validation rows stop a fit; and whatever changes the cost of a forget rather than quality alone. So the
partition is searched only if asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from receraser.config import MERGED_NAME, EngineConfig
from receraser.errors import UsageError, nearest
from receraser.models.registry import FACTOR_MODELS
from receraser.tuning.space import Axis, Choice, Range

__all__ = ["AGGREGATION_SPACES", "MODEL_SPACES", "PARTITION_SPACES", "PARTS", "default_space"]

PARTS = ("model", "partition", "aggregation")

_MISSING = Range(0.005, 1.0, log=True)  # the weight of a pair that is no row: sparse data wants a small one
_NEGATIVES = Choice((1, 2, 4, 8, 16))
_BATCHES = Choice((1024, 2048, 4096, 8192))
_CLUSTERED: Mapping[str, Axis] = {"slack": Range(1.05, 2.0), "embeddings": Choice(("wmf", "bpr"))}

MODEL_SPACES: Mapping[str, Mapping[str, Axis]] = {
    "wmf": {"missing_weight": _MISSING, "regularization": Range(0.0005, 0.1, log=True), "n_sweeps": Range(4, 16)},
    "bpr": {
        "learning_rate": Range(0.01, 0.5, log=True),
        "weight_decay": Range(0.001, 0.2, log=True),
        "n_negatives": _NEGATIVES,
        "batch_size": _BATCHES,
    },
    "lightgcn": {
        "learning_rate": Range(0.0005, 0.05, log=True),
        "weight_decay": Range(0.0001, 0.03, log=True),
        "n_negatives": _NEGATIVES,
        "batch_size": _BATCHES,
        "n_layers": Choice((1, 2, 3, 4)),
    },
    "gram": {
        "user_power": Range(0.0, 1.0),
        "item_power": Range(0.0, 0.7),
        "missing_weight": _MISSING,
        "regularization": Range(0.0005, 0.2, log=True),
    },
    "ease": {"regularization": Range(10.0, 10_000.0, log=True)},
    "graphfilter": {"low_pass_weight": Range(0.0, 1.0), "rank": Choice((64, 128, 256, 512))},
}
_WMF_BY_ADAGRAD: Mapping[str, Axis] = {
    "missing_weight": _MISSING,
    "learning_rate": Range(0.01, 0.5, log=True),
    "dropout": Range(0.0, 0.7),
    "batch_size": Choice((128, 256, 512, 1024)),
}

PARTITION_SPACES: Mapping[str, Mapping[str, Axis]] = {
    **{name: {} for name in ("whole", "hash", "random")},
    **dict.fromkeys(("ubp", "ibp", "inbp", "bekm"), _CLUSTERED),
    "blpa": {"slack": Range(1.05, 2.0)},
}

_LEARNED: Mapping[str, Axis] = {"learning_rate": Range(0.001, 0.1, log=True), "dropout": Range(0.0, 0.6)}
AGGREGATION_SPACES: Mapping[str, Mapping[str, Axis]] = {
    "alone": {},
    "mean": {},
    "static": {**_LEARNED, "weight_decay": Range(1e-5, 0.1, log=True)},
    "attention": {
        **_LEARNED,
        "weight_decay": Range(1e-6, 1e-3, log=True),
        "attention_dim": Choice((16, 32, 64)),
        "optimizer": Choice(("adam", "adagrad")),
    },
    "spectral": {
        "merge": Choice(("concat", "product", "consensus")),
        "width": Choice((96, 128, 192, 256)),
        "missing_weight": _MISSING,
        "regularization": Range(0.0005, 0.1, log=True),
    },
}
_USERS_PER_STEP: Mapping[str, Axis] = {"user_batch_size": Choice((64, 128, 256, 512))}  # for the loss of WMF
_ROWS_PER_STEP: Mapping[str, Axis] = {  # for pairwise losses
    "batch_size": Choice((2048, 8192, 32_768)),
    "n_negatives": _NEGATIVES,
}


def default_space(config: EngineConfig, parts: Collection[str] = ("model", "aggregation")) -> dict[str, Axis]:
    """Return what is searched of the parts of a complete configuration, by the names of `--set`.

    Examples
    --------
    >>> from receraser.config import EngineConfig, resolve
    >>> list(default_space(resolve(EngineConfig(method="retrain", model="wmf", device="cpu"))))
    ['missing_weight', 'regularization', 'n_sweeps']
    """
    for part in parts:
        if part not in PARTS:
            raise UsageError(f"unknown part {part!r} to search: {nearest(part, PARTS)}")
    found: dict[str, Axis] = {}
    if "model" in parts:
        found |= _of_model(config)
    if "partition" in parts:
        found |= {f"partition.{key}": axis for key, axis in PARTITION_SPACES[config.partition].items()}
    if "aggregation" in parts:
        found |= {f"aggregation.{key}": axis for key, axis in _of_aggregation(config).items()}
    return found


def _of_model(config: EngineConfig) -> Mapping[str, Axis]:
    if config.model == "wmf" and config.hyperparameters["solver"] == "adagrad":
        return _WMF_BY_ADAGRAD
    return MODEL_SPACES.get(config.model, {})  # of somebody else's model nothing is known


def _of_aggregation(config: EngineConfig) -> Mapping[str, Axis]:
    own = AGGREGATION_SPACES[config.aggregation]
    if config.aggregation == "spectral" and config.model == MERGED_NAME:  # its merge is settled, its weights its own
        return {"width": own["width"]}
    if config.aggregation not in ("static", "attention"):
        return own
    base = FACTOR_MODELS.get(config.model)
    return {**own, **(_ROWS_PER_STEP if base is None or base.pairwise else _USERS_PER_STEP)}
