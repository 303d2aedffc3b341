"""The models by name. A model is looked up here and nowhere else.

Those of vectors (`FACTOR_MODELS`) can be the submodels of any method; the additive ones need no shards, and go with the
method retrain; gram can be the submodel of spectral too, which asks for item vectors and no more. A name such as
"package.module:Object" is somebody else's model (`custom`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from receraser import settings
from receraser.models.additive import AdditiveModel
from receraser.models.bpr import BPR
from receraser.models.custom import Custom
from receraser.models.ease import EASE
from receraser.models.factors import FactorModel
from receraser.models.gram import Gram
from receraser.models.graphfilter import GraphFilter
from receraser.models.lightgcn import LightGCN
from receraser.models.source import is_foreign
from receraser.models.wmf import WMF

__all__ = ["FACTOR_MODELS", "MODELS", "make_factor_model", "make_model", "make_submodel"]

FACTOR_MODELS: dict[str, type[FactorModel]] = {model.name: model for model in (BPR, WMF, LightGCN)}
MODELS: dict[str, type[FactorModel | AdditiveModel]] = {
    **FACTOR_MODELS,
    **{model.name: model for model in (Gram, EASE, GraphFilter)},
}


def make_model(name: str, hyperparameters: Mapping[str, object]) -> FactorModel | AdditiveModel:
    """Return an unfitted model.

    Examples
    --------
    >>> make_model("gram", {"rank": 8}).name
    'gram'
    """
    if is_foreign(name):
        return Custom(name, hyperparameters)
    return settings.make(MODELS, "model", name, hyperparameters)


def make_submodel(name: str, hyperparameters: Mapping[str, object]) -> FactorModel:
    """Return an unfitted model that can be aggregated: one of vectors or, for spectral alone, gram.

    Examples
    --------
    >>> make_submodel("gram", {"rank": 8}).dim
    8
    """
    if name == Gram.name:
        made = settings.make({Gram.name: Gram}, "model", name, hyperparameters)
        return cast(
            "FactorModel", made
        )  # it has what spectral asks of one, and `config` lets no other aggregation have it
    return make_factor_model(name, hyperparameters)


def make_factor_model(name: str, hyperparameters: Mapping[str, object]) -> FactorModel:
    """Return an unfitted model of vectors.

    Examples
    --------
    >>> make_factor_model("wmf", {"dim": 8}).dim
    8
    """
    if is_foreign(name):
        return Custom(name, hyperparameters)
    return settings.make(FACTOR_MODELS, "model", name, hyperparameters)
