"""The base models by name. A model is looked up here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping

from receraser import settings
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
    return settings.make(MODELS, "model", name, hyperparameters)
