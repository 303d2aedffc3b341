from __future__ import annotations

import pytest

from receraser import config
from receraser.errors import UsageError
from receraser.models.bpr import BPR
from receraser.models.ease import EASE
from receraser.models.factors import FactorModel
from receraser.models.gram import Gram
from receraser.models.graphfilter import GraphFilter
from receraser.models.lightgcn import LightGCN
from receraser.models.registry import FACTOR_MODELS, MODELS, make_factor_model, make_model
from receraser.models.wmf import WMF


def test_every_model_is_known_by_its_name() -> None:
    assert {"bpr": BPR, "wmf": WMF, "lightgcn": LightGCN} == FACTOR_MODELS
    assert {**FACTOR_MODELS, "gram": Gram, "ease": EASE, "graphfilter": GraphFilter} == MODELS


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_made_with_its_hyperparameters(name: str) -> None:
    own = "dim" if name in FACTOR_MODELS else "max_items" if name == "ease" else "rank"
    model = make_model(name, {own: 7})
    assert type(model) is MODELS[name]
    assert model.name == name
    assert model.hyperparameters()[own] == 7
    assert model == make_model(name, {own: 7}) != make_model(name, {own: 8})


def test_only_models_of_vectors_are_made_where_vectors_are_needed() -> None:
    assert make_factor_model("bpr", {"dim": 7}) == BPR(dim=7)
    with pytest.raises(UsageError, match="unknown model 'gram'"):
        make_factor_model("gram", {})


def test_hyperparameters_take_the_types_a_configuration_knows() -> None:
    for model in MODELS.values():
        assert {type(value) for value in model().hyperparameters().values()} <= {int, float, str}


def test_an_unknown_model_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match=r"unknown model 'lightgnc': did you mean 'lightgcn'\?"):
        make_model("lightgnc", {})


def test_the_configuration_knows_the_same_names() -> None:
    assert sorted(config.MODEL_NAMES) == sorted(MODELS)


def test_the_base_of_the_models_cannot_be_fitted() -> None:
    class Bare(FactorModel):
        name = "bare"

    with pytest.raises(NotImplementedError):
        Bare().fit(None)  # type: ignore[arg-type]
