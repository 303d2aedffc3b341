from __future__ import annotations

import pytest

from receraser.aggregation.registry import AGGREGATIONS
from receraser.config import EngineConfig, part_settings, resolve
from receraser.execution.task import run_task
from receraser.execution.toys import toy_aggregation, toy_partition, toy_submodel, toy_sums
from receraser.models.registry import FACTOR_MODELS, MODELS
from receraser.partition.registry import PARTITIONS
from tests.contracts.executor_contract import digest


def test_a_toy_has_the_settings_of_the_real_thing_but_for_the_passes() -> None:
    toy = toy_submodel("wmf", {"dim": 64, "n_sweeps": 8, "n_epochs": 200, "solver": "als"})
    assert toy.settings["hyperparameters"] == {"dim": 64, "n_sweeps": 2, "n_epochs": 2, "solver": "als"}
    assert toy_submodel("bpr", {"n_epochs": 1}).settings["hyperparameters"] == {"n_epochs": 1}
    assert len(toy.tables["train"]) < 10
    assert "valid" in toy.tables, "validation is compiled too"


@pytest.mark.parametrize("name", MODELS)
def test_submodels_in_miniature(name: str) -> None:
    config = resolve(EngineConfig(model=name, device="cpu"))
    result = run_task(toy_submodel(*part_settings(config, "model")))
    if name in FACTOR_MODELS:
        assert result.arrays["user_vectors"].shape[1] == config.hyperparameters["dim"]
    else:
        assert [len(array) for array in result.arrays.values()] == [3], "of its three items"
    assert result.seconds < 5


@pytest.mark.parametrize("name", MODELS)
def test_sums_in_miniature(name: str) -> None:
    """Of models that keep sums: solving for them is a task of its own, with the result of the fit."""
    settings = part_settings(resolve(EngineConfig(model=name, device="cpu")), "model")
    toy = toy_sums(*settings)
    assert (toy is not None) == (name in ("gram", "ease"))
    if toy is not None:
        assert toy.kind == "sums"
        assert digest(run_task(toy)) == digest(run_task(toy_submodel(*settings)))


def test_a_toy_is_within_whatever_bounds_the_real_thing_has() -> None:
    toy = toy_sums("ease", {"max_items": 1})
    assert toy is not None
    run_task(toy)


@pytest.mark.parametrize("name", [name for name, one in PARTITIONS.items() if one.remembers_data])
def test_partitions_in_miniature(name: str) -> None:
    config = resolve(EngineConfig(partition=name, device="cpu"))
    result = run_task(toy_partition(*part_settings(config, "partition")))
    assert len(result.arrays["train"]) == 4


@pytest.mark.parametrize(
    ("name", "model"),
    [(name, model) for name, one in AGGREGATIONS.items() if one.learns for model in FACTOR_MODELS]
    + [("spectral", "gram")],
)
def test_aggregations_in_miniature(name: str, model: str) -> None:
    config = resolve(EngineConfig(aggregation=name, model=model, device="cpu"))
    result = run_task(toy_aggregation(*part_settings(config, "aggregation"), *part_settings(config, "model")))
    assert result.arrays
    assert result.facts.get("epochs", 2) == 2
