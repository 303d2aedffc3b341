"""Which configuration stands for what, and what it was taken from."""

from __future__ import annotations

import pytest

from receraser.config import EngineConfig, load_config, preset_names
from receraser.reproduce import settings
from receraser.reproduce.settings import Chosen, additive, chosen, on_device


@pytest.mark.parametrize("method", ["receraser", "spectral"])
@pytest.mark.parametrize("model", ["bpr", "lightgcn"])
def test_a_preset_of_the_data_set_is_taken(model: str, method: str) -> None:
    found = chosen("ml-1m", model, method)
    assert found.origin == f"{method}-{model}-ml-1m"
    for key, value in load_config(found.origin).hyperparameters.items():
        assert found.config.hyperparameters[key] == value


def test_fallbacks_say_what_they_are() -> None:
    assert chosen("ml-10m", "bpr", "retrain").origin == "bpr-ml-1m"
    assert chosen("ml-10m", "bpr", "spectral").origin == "spectral-bpr-ml-1m"
    assert chosen("ml-10m", "wmf", "receraser").origin == "receraser-wmf-ml-1m"
    sisa = chosen("yelp2018", "bpr", "sisa")
    assert sisa.origin == "submodels of receraser-bpr-yelp2018, random and mean at their defaults"
    assert sisa.config.hyperparameters == chosen("yelp2018", "bpr", "receraser").config.hyperparameters


def test_epochs_are_chosen_only_where_a_final_fit_has_nothing_to_stop_by() -> None:
    assert not chosen("yelp2018", "wmf", "receraser").chooses_epochs, "its preset names them"
    assert chosen("yelp2018", "wmf", "grapheraser").chooses_epochs
    assert not chosen("yelp2018", "wmf", "sisa").chooses_epochs, "mean learns nothing"
    assert not chosen("yelp2018", "wmf", "spectral").chooses_epochs
    assert not chosen("ml-100k", "wmf", "receraser").chooses_epochs


@pytest.mark.parametrize(("named", "chooses"), [({"n_epochs": 40}, False), ({"dropout": 0.1}, True)])
def test_a_preset_that_names_no_epochs_leaves_them_to_validation_rows(
    named: dict[str, object], chooses: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a search writes it whose best trial was stopped by them: the default is a bound, and no choice."""
    tuned = EngineConfig(method="receraser", model="wmf", shards=10, aggregation_settings=named)
    real = load_config
    monkeypatch.setattr(settings, "_known", lambda: frozenset([*preset_names(), "receraser-wmf-yelp2018"]))
    monkeypatch.setattr(settings, "_preset", lambda name: tuned if name == "receraser-wmf-yelp2018" else real(name))
    found = chosen("yelp2018", "wmf", "receraser")
    assert (found.origin, found.chooses_epochs) == ("receraser-wmf-yelp2018", chooses)
    assert chosen("yelp2018", "wmf", "spectral").under(found).chooses_epochs == chooses
    assert not chosen("ml-1m", "wmf", "receraser").chooses_epochs


def test_one_shard_is_a_retrain() -> None:
    assert chosen("ml-1m", "wmf", "spectral", shards=1) == chosen("ml-1m", "wmf", "retrain")


def test_vectors_are_of_one_length_unless_asked_otherwise() -> None:
    assert chosen("yelp2018", "bpr", "spectral").config.aggregation_settings["rank"] == 64
    assert chosen("yelp2018", "bpr", "spectral", own_rank=True).config.aggregation_settings["rank"] == 128
    assert additive("ml-1m", "gram").config.hyperparameters["rank"] == 64
    assert additive("ml-1m", "gram", own_rank=True).config.hyperparameters["rank"] == 128


def test_the_same_submodels_put_together_otherwise() -> None:
    ours, theirs = chosen("ml-1m", "bpr", "spectral"), chosen("ml-1m", "bpr", "receraser")
    same = ours.under(theirs)
    assert same.config.partition == "hash"
    assert same.config.hyperparameters == ours.config.hyperparameters
    assert same.config.aggregation_settings == theirs.config.aggregation_settings
    assert same.origin == "spectral-bpr-ml-1m, attention of receraser-bpr-ml-1m"
    assert theirs.cut_by("inbp") is theirs
    assert theirs.cut_by("ubp").config.partition == "ubp"
    assert ours.polished(2).config.aggregation_settings["polish"] == 2


def test_the_device_need_not_be_here() -> None:
    config = chosen("ml-1m", "wmf", "retrain").config
    assert on_device(config, "cuda").device == "cuda"
    assert on_device(additive("ml-1m", "ease").config, "cuda").device == "cpu"


def test_every_preset_is_the_answer_to_something() -> None:
    """A preset that nobody takes is one that was forgotten here; but for those of vectors of 128, a user's to take."""
    longer = {name for name in preset_names() if name.endswith("-128")}
    for name in longer:
        own, shorter = load_config(name), load_config(name.removesuffix("-128"))
        assert own.hyperparameters == {**shorter.hyperparameters, "dim": 128}
        assert own.aggregation_settings["rank"] == 128
        assert (own.method, own.model, own.shards) == (shorter.method, shorter.model, shorter.shards)
    found: set[str] = set()
    for dataset in ("ml-1m", "ml-100k", "yelp2018"):
        taken: list[Chosen] = [additive(dataset, model) for model in ("gram", "ease", "graphfilter")]
        taken += [
            chosen(dataset, m, way) for m in ("bpr", "wmf", "lightgcn") for way in ("retrain", "receraser", "spectral")
        ]
        found |= {name for one in taken for name in preset_names() if name in one.origin}
    assert longer
    assert found == set(preset_names()) - longer
