"""The base models by name. A model is looked up here and nowhere else."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from receraser.errors import UsageError, nearest
from receraser.models.bpr import BPR
from receraser.models.factors import FactorModel
from receraser.models.lightgcn import LightGCN
from receraser.models.wmf import WMF

__all__ = ["MODELS", "make_model"]

MODELS: dict[str, type[FactorModel]] = {model.name: model for model in (BPR, WMF, LightGCN)}


def make_model(name: str, hyperparameters: Mapping[str, object]) -> FactorModel:
    """Return an unfitted model.

    Examples
    --------
    >>> make_model("wmf", {"dim": 8}).dim
    8
    """
    if name not in MODELS:
        raise UsageError(f"unknown model {name!r}: {nearest(name, MODELS)}")
    known = [spec.name for spec in dataclasses.fields(MODELS[name]) if spec.init]
    for key in hyperparameters:
        if key not in known:
            raise UsageError(f"{name} has no hyperparameter {key!r}: {nearest(key, known)}")
    return MODELS[name](**hyperparameters)  # type: ignore[arg-type]
