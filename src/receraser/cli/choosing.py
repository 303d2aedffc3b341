"""From the options of a command to the configuration of a fit: what `fit` and `tune` share."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from receraser.cli import options
from receraser.errors import UsageError

if TYPE_CHECKING:
    from receraser.config import EngineConfig

__all__ = ["based_on", "overriding", "placed"]


def based_on(
    source: str | None, *, method: str | None, model: str | None, partition: str | None, aggregation: str | None
) -> EngineConfig:
    """Return the configuration: that of the file or preset, changed by what was given beside it.

    Settings of a part that was replaced are of no use to the new one.
    """
    from receraser.config import EngineConfig, combined, load_config

    base = EngineConfig() if source is None else load_config(source)
    if method is not None and method != base.method:
        base = dataclasses.replace(
            base, method=method, partition="", aggregation="", shards=0, partition_settings={}, aggregation_settings={}
        )
    parts = combined(dataclasses.replace(base, shards=0, model=model or base.model))
    if model is not None:
        other = base.model not in ("", model)  # settings of the aggregation were chosen for the other model too
        base = dataclasses.replace(base, model=model)
        if other:
            base = dataclasses.replace(base, hyperparameters={}, aggregation_settings={})
    if partition is not None:  # named, even if the method's: what else is named may change which method that is
        kept = base.partition_settings if partition == parts.partition else {}
        base = dataclasses.replace(base, partition=partition, partition_settings=kept)
    if aggregation is not None:
        kept = base.aggregation_settings if aggregation == parts.aggregation else {}
        base = dataclasses.replace(base, aggregation=aggregation, aggregation_settings=kept)
    return base


def overriding(
    base: EngineConfig,
    settings: list[str],
    *,
    dim: int | None,
    rank: int | None,
    polish: int | None,
    embeddings: Path | None,
) -> dict[str, str]:
    """Return the settings that were given, by --set or by an option of their own, by their keys."""
    from receraser.config import ADDITIVE_NAMES, combined

    given = {"dim": dim, "aggregation.rank": rank, "aggregation.polish": polish}
    made = combined(base)
    if made.model in ADDITIVE_NAMES and made.aggregation == "alone":  # nothing to put together: all is the model's
        given = {"rank": dim if rank is None else rank, "polish": polish}
    elif made.model in ADDITIVE_NAMES:
        given = {"rank": dim, "aggregation.rank": rank, "aggregation.polish": polish}
    found = options.pairs(settings) | {key: str(value) for key, value in given.items() if value is not None}
    return found if embeddings is None else found | {"partition.embeddings": "file"}


def placed(base: EngineConfig, *, shards: int | None, seed: int | None, device: str | None) -> EngineConfig:
    """Return the configuration with what was given of shards, seed and device."""
    if shards == 0:  # to a configuration it means: by the method
        raise UsageError("--shards 0: expected at least 1")
    return dataclasses.replace(
        base,
        shards=base.shards if shards is None else shards,
        seed=base.seed if seed is None else seed,
        device=base.device if device is None else device,
    )
