from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from receraser import settings
from receraser.aggregation.registry import AGGREGATIONS
from receraser.config import (
    ADDITIVE_NAMES,
    MODEL_NAMES,
    EngineConfig,
    check_parts,
    data_folder,
    load_config,
    part_settings,
    preset_names,
    resolve,
)
from receraser.engine import Engine
from receraser.errors import UsageError
from receraser.methods import METHODS
from receraser.models.gram import Gram
from receraser.models.registry import FACTOR_MODELS, MODELS, make_model
from receraser.partition.registry import PARTITIONS


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def test_the_names_of_the_models_are_those_of_the_registry() -> None:
    assert sorted(MODEL_NAMES) == sorted(MODELS)
    assert set(ADDITIVE_NAMES) == set(MODELS) - set(FACTOR_MODELS)


def test_a_file_is_read(file: Path) -> None:
    file.write_text(
        'method = "receraser"\nmodel = "bpr"\npartition = "ubp"\naggregation = "static"\nshards = 4\nseed = 7\n'
        'device = "cpu"\n[hyperparameters]\ndim = 8\nlearning_rate = 0.5\n'
        "[partition_settings]\nslack = 1.5\n[aggregation_settings]\nn_epochs = 3\n"
    )
    assert load_config(str(file)) == EngineConfig(
        method="receraser",
        model="bpr",
        partition="ubp",
        aggregation="static",
        shards=4,
        seed=7,
        device="cpu",
        hyperparameters={"dim": 8, "learning_rate": 0.5},
        partition_settings={"slack": 1.5},
        aggregation_settings={"n_epochs": 3},
    )


def test_every_key_of_a_configuration_may_stand_in_a_file(file: Path) -> None:
    complete = resolve(EngineConfig(method="receraser", model="bpr", device="cpu"))
    lines, tables = [], []
    for key, value in complete.as_dict().items():
        if isinstance(value, dict):
            tables += [f"[{key}]", *(f"{name} = {_toml(one)}" for name, one in value.items())]
        else:
            lines.append(f"{key} = {_toml(value)}")
    file.write_text("\n".join(lines + tables))
    assert load_config(str(file)) == complete
    assert resolve(load_config(str(file))) == complete


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def test_what_a_file_does_not_name_has_its_default(file: Path) -> None:
    file.write_text("")
    assert load_config(str(file)) == EngineConfig()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"model = [", "not valid TOML"),
        (b"model = 'bpr'\nmodel = 'wmf'", "not valid TOML: Cannot overwrite a value"),
        (b"\xff\xfe", "not valid TOML: not UTF-8 text"),
        (b"modle = 'bpr'", "unknown key 'modle': did you mean 'model'?"),
        (
            b"dim = 8",
            (
                "unknown key 'dim': known: aggregation, aggregation_settings, device, hyperparameters, method, model, "
                "partition, partition_settings, seed, shards"
            ),
        ),
        (b"shards = '3'", "shards is '3'; expected a whole number"),
        (b"shards = true", "shards is True; expected a whole number"),
        (b"partition = 3", "partition is 3; expected text"),
        (b"aggregation = []", r"aggregation is \[\]; expected text"),
        (b"partition_settings = 'x'", r"expected a table, as in \[partition_settings\]"),
        (b"aggregation_settings = 1", r"expected a table, as in \[aggregation_settings\]"),
        (b"model = 3", "model is 3; expected text"),
        (b"seed = 1.5", "seed is 1.5; expected a whole number"),
        (b"seed = true", "seed is True; expected a whole number"),
        (b"hyperparameters = 3", r"hyperparameters is 3; expected a table, as in \[hyperparameters\]"),
    ],
)
def test_a_bad_file_is_refused_by_name(file: Path, text: bytes, message: str) -> None:
    file.write_bytes(text)
    with pytest.raises(UsageError, match=message) as caught:
        load_config(str(file))
    assert str(file) in str(caught.value)
    assert caught.value.exit_code == 2


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no configuration file 'wmf-ml-2m'.*did you mean 'wmf-ml-1m'\?"):
        load_config("wmf-ml-2m")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        load_config(str(tmp_path))
    with pytest.raises(UsageError, match="cannot be read: File name too long"):
        load_config("a" * 5000)


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_is_complete_and_right(name: str) -> None:
    given, config = load_config(name), resolve(dataclasses.replace(load_config(name), device="cpu"))
    assert config.model in name.split("-")
    assert config.method == given.method
    for key in ("hyperparameters", "partition_settings", "aggregation_settings"):
        assert getattr(given, key).items() <= getattr(config, key).items()
    check_parts(config)


def test_there_are_presets_for_every_model() -> None:
    presets = [load_config(name) for name in preset_names()]
    for method in ("retrain", "receraser"):
        assert {one.model for one in presets if one.method == method} >= set(FACTOR_MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_resolving_fills_in_the_models_own_defaults(name: str) -> None:
    complete = resolve(EngineConfig(model=name, device="cpu"))
    model = MODELS[name]()
    assert complete.hyperparameters == {k: v for k, v in model.hyperparameters().items() if k != "device"}
    assert complete.device == "cpu"
    assert resolve(complete) == complete


def test_resolving_settles_the_device() -> None:
    assert resolve(EngineConfig(device="auto")).device in ("cpu", "cuda")


@pytest.mark.parametrize("name", ADDITIVE_NAMES)
def test_a_model_of_sums_computes_on_the_cpu_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where there is a GPU."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert resolve(EngineConfig(model="wmf", device="auto")).device == "cuda"
    assert resolve(EngineConfig(model=name, device="auto")).device == "cpu"
    assert resolve(EngineConfig(model=name, device="cpu")).device == "cpu"
    with pytest.raises(UsageError, match=f"the model {name} computes on the CPU; leave --device out"):
        resolve(EngineConfig(model=name, device="cuda"))
    with pytest.raises(UsageError, match="unknown device 'gpu'"):
        resolve(EngineConfig(model=name, device="gpu"))


# ---------------------------------------------------------------------- method, partition, aggregation, shards


@pytest.mark.parametrize(
    ("given", "method", "partition", "aggregation", "shards"),
    [
        # nothing, or a method alone
        ({}, "retrain", "whole", "alone", 1),
        ({"method": "retrain"}, "retrain", "whole", "alone", 1),
        ({"method": "sisa"}, "sisa", "random", "mean", 10),
        ({"method": "grapheraser"}, "grapheraser", "bekm", "static", 10),
        ({"method": "receraser"}, "receraser", "inbp", "attention", 10),
        # a number of shards
        ({"method": "sisa", "shards": 3}, "sisa", "random", "mean", 3),
        ({"method": "receraser", "shards": 1}, "receraser", "inbp", "attention", 1),
        ({"method": "receraser", "shards": 10_000}, "receraser", "inbp", "attention", 10_000),
        ({"method": "retrain", "shards": 1}, "retrain", "whole", "alone", 1),
        ({"shards": 1}, "retrain", "whole", "alone", 1),
        # a partition alone: the method that has it, or RecEraser's aggregation
        ({"partition": "whole"}, "retrain", "whole", "alone", 1),
        ({"partition": "random"}, "sisa", "random", "mean", 10),
        ({"partition": "bekm"}, "grapheraser", "bekm", "static", 10),
        ({"partition": "inbp"}, "receraser", "inbp", "attention", 10),
        ({"partition": "ubp"}, "custom", "ubp", "attention", 10),
        ({"partition": "ibp"}, "custom", "ibp", "attention", 10),
        ({"partition": "blpa"}, "custom", "blpa", "attention", 10),
        ({"partition": "hash", "shards": 4}, "spectral", "hash", "spectral", 4),
        ({"partition": "ubp", "aggregation": "spectral"}, "custom", "ubp", "spectral", 32),
        # an aggregation alone: the method that has it
        ({"aggregation": "alone"}, "retrain", "whole", "alone", 1),
        ({"aggregation": "mean"}, "sisa", "random", "mean", 10),
        ({"aggregation": "static"}, "grapheraser", "bekm", "static", 10),
        ({"aggregation": "attention"}, "receraser", "inbp", "attention", 10),
        # both, or one of them instead of the method's own
        ({"partition": "random", "aggregation": "mean"}, "sisa", "random", "mean", 10),
        ({"partition": "hash", "aggregation": "mean"}, "custom", "hash", "mean", 10),
        ({"method": "receraser", "partition": "ubp"}, "custom", "ubp", "attention", 10),
        ({"method": "receraser", "aggregation": "static"}, "custom", "inbp", "static", 10),
        ({"method": "sisa", "partition": "inbp", "aggregation": "attention"}, "receraser", "inbp", "attention", 10),
        ({"method": "retrain", "partition": "hash", "aggregation": "mean"}, "custom", "hash", "mean", 10),
        ({"method": "sisa", "partition": "whole"}, "custom", "whole", "mean", 1),
        ({"method": "retrain", "partition": "hash", "shards": 1}, "custom", "hash", "alone", 1),
        # the name of what has no name
        ({"method": "custom"}, "retrain", "whole", "alone", 1),
        ({"method": "custom", "partition": "ubp"}, "custom", "ubp", "attention", 10),
        ({"method": "custom", "partition": "random", "aggregation": "mean"}, "sisa", "random", "mean", 10),
    ],
)
def test_what_is_not_named_follows_from_what_is(
    given: dict[str, Any], method: str, partition: str, aggregation: str, shards: int
) -> None:
    found = resolve(EngineConfig(device="cpu", **given))
    assert (found.method, found.partition, found.aggregation, found.shards) == (method, partition, aggregation, shards)
    assert resolve(found) == found, "what is complete stays as it is"
    check_parts(found)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"method": "retrain", "shards": 4},
            (
                "4 shards were asked for, but the method retrain is one shard; choose another method, as in "
                "--method receraser"
            ),
        ),
        ({"shards": 2}, "2 shards were asked for, but the method retrain is one shard"),
        ({"partition": "whole", "aggregation": "mean", "shards": 2}, "the method retrain is one shard"),
        (
            {"method": "retrain", "partition": "hash"},
            (
                "the aggregation alone takes a single submodel, and the partition hash makes 10; choose mean, static, "
                "attention or spectral"
            ),
        ),
        ({"partition": "ubp", "aggregation": "alone", "shards": 2}, "the partition ubp makes 2"),
        ({"method": "spectral", "partition": "random"}, "the partition random keeps no user together; choose hash"),
        ({"partition": "ibp", "aggregation": "spectral"}, "the partition ibp keeps no user together"),
        ({"method": "sisa", "shards": -1}, "shards is -1; expected 1 to 10,000"),
        ({"method": "sisa", "shards": 10_001}, "shards is 10001; expected 1 to 10,000"),
        ({"partition": "thirds"}, "unknown partition 'thirds': known: bekm"),
        ({"partition": "randm"}, "unknown partition 'randm': did you mean 'random'?"),
        ({"aggregation": "atention"}, "unknown aggregation 'atention': did you mean 'attention'?"),
    ],
)
def test_what_does_not_go_together_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        resolve(EngineConfig(device="cpu", **given))
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("model", ADDITIVE_NAMES)
def test_a_model_of_sums_takes_no_shards(model: str) -> None:
    """It goes with retrain and, but for gram with spectral, with nothing else, whatever the combination is called."""
    found = resolve(EngineConfig(model=model))
    assert (found.method, found.partition, found.aggregation, found.shards) == ("retrain", "whole", "alone", 1)
    assert resolve(EngineConfig(model=model, partition="whole", aggregation="alone", shards=1)) == found
    combinations = {(partition, aggregation) for partition in ("", *PARTITIONS) for aggregation in ("", *AGGREGATIONS)}
    if model == "gram":  # hash shards alone stand for spectral
        combinations = {one for one in combinations if one[1] != "spectral" and one != ("hash", "")}
    refused: list[dict[str, Any]] = [
        {"method": name} for name in METHODS if name not in ("retrain", "spectral" if model == "gram" else "")
    ]
    refused += [
        {"partition": partition, "aggregation": aggregation}
        for partition, aggregation in combinations
        if partition not in ("", "whole") or aggregation not in ("", "alone")
    ]
    for given in refused:
        with pytest.raises(UsageError, match=f"the model {model} is .* it goes with --method retrain") as caught:
            resolve(EngineConfig(model=model, **given))
        assert caught.value.exit_code == 2
    with pytest.raises(UsageError, match="3 shards were asked for"):
        resolve(EngineConfig(model=model, shards=3))


def test_gram_may_be_merged_from_shards_of_users() -> None:
    """With as many directions as it has by itself, unless somebody says how many."""
    found = resolve(EngineConfig(model="gram", method="spectral"))
    assert (found.partition, found.aggregation, found.shards, found.device) == ("hash", "spectral", 32, "cpu")
    assert found.aggregation_settings["rank"] == found.hyperparameters["rank"] == Gram().rank
    nine = resolve(EngineConfig(model="gram", method="spectral", hyperparameters={"rank": 9}))
    also = resolve(EngineConfig(model="gram", method="spectral"), {"rank": "9"})
    assert nine.aggregation_settings["rank"] == also.aggregation_settings["rank"] == 9
    texts = {"rank": "7", "aggregation.rank": "5"}
    said = resolve(EngineConfig(model="gram", method="spectral"), texts)
    assert (said.hyperparameters["rank"], said.aggregation_settings["rank"]) == (7, 5)
    assert resolve(said) == said
    with pytest.raises(UsageError, match="keeps no user together"):
        resolve(EngineConfig(model="gram", partition="random", aggregation="spectral"))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"partition": "inbp", "aggregation": "spectral"}, "choose hash or ubp"),
        ({"method": "spectral", "hyperparameters": {"polish": 1}}, "take aggregation.polish"),
        ({"method": "spectral", "aggregation_settings": {"merge": "product"}}, "gram has none; choose auto"),
        ({"shards": 3}, "--method spectral"),
    ],
)
def test_what_gram_cannot_be_in_shards(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        resolve(EngineConfig(model="gram", **given))


def test_a_model_that_takes_no_shards_is_not_sent_to_another_method() -> None:
    with pytest.raises(UsageError, match="ease takes no more"):
        resolve(EngineConfig(model="ease", shards=3))


@pytest.mark.parametrize("name", METHODS)
def test_resolving_fills_in_the_settings_of_every_part(name: str) -> None:
    found = resolve(EngineConfig(method=name, device="cpu"))
    for registry, part, given in (
        (PARTITIONS, found.partition, found.partition_settings),
        (AGGREGATIONS, found.aggregation, found.aggregation_settings),
    ):
        own = settings.values(registry[part]())
        assert given == {key: value for key, value in own.items() if key not in ("device", "n_shards")}


def test_settings_are_sorted_by_the_part_they_are_for() -> None:
    config = EngineConfig(
        method="receraser",
        model="bpr",
        shards=4,
        device="cpu",
        partition_settings={"slack": 2, "dim": 16},
        aggregation_settings={"dropout": 0.5},
    )
    texts = {
        "dim": "8",
        "partition.dim": "4",
        "partition.embeddings": "bpr",
        "aggregation.attention_dim": "3",
        "aggregation.optimizer": "adam",
        "aggregation.n_epochs": "7",
    }
    found = resolve(config, texts)
    assert found.hyperparameters["dim"] == 8
    assert found.hyperparameters["n_epochs"] == MODELS["bpr"]().hyperparameters()["n_epochs"]
    assert (found.partition_settings["dim"], found.partition_settings["embeddings"]) == (4, "bpr")
    assert found.partition_settings["slack"] == 2.0
    assert type(found.partition_settings["slack"]) is float
    chosen = ("attention_dim", "optimizer", "n_epochs", "dropout")
    assert [found.aggregation_settings[key] for key in chosen] == [3, "adam", 7, 0.5]


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("partition.slak", "2", "the partition inbp has no setting 'slak': did you mean 'slack'?"),
        ("partition.slack", "wide", "slack=wide: expected a number"),
        ("partition.slack", "0.5", "inbp: slack is 0.5; expected a number of at least 1"),
        ("partition.embeddings", "svd", "inbp: unknown embeddings 'svd'"),
        ("partition.n_shards", "3", "the partition inbp has no setting 'n_shards': known: dim, embeddings"),
        ("partition.device", "cuda", "the partition inbp has no setting 'device'"),
        ("aggregation.device", "cuda", "the aggregation attention has no setting 'device'"),
        ("aggregation.attention", "3", "no setting 'attention': did you mean 'attention_dim'?"),
        ("aggregation.attention_dim", "0", "attention: attention_dim is 0; expected a number of at least 1"),
        ("aggregation.optimizer", "sgd", "attention: unknown optimizer 'sgd': known: adagrad, adam"),
        ("aggregation.dropout", "1", "attention: dropout is 1.0; expected less than 1"),
        ("device", "cpu", "the model wmf has no setting 'device'"),
        ("n_shards", "3", "the model wmf has no setting 'n_shards'"),
        ("shards.dim", "3", "the model wmf has no setting 'shards.dim'"),
    ],
)
def test_a_bad_setting_of_any_part_is_refused(key: str, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        resolve(EngineConfig(method="receraser", device="cpu"), {key: text})


@pytest.mark.parametrize("name", ["device", "n_shards"])
@pytest.mark.parametrize("key", ["hyperparameters", "partition_settings", "aggregation_settings"])
def test_what_the_configuration_decides_is_no_setting_of_a_part(key: str, name: str) -> None:
    owned: dict[str, object] = {"device": "cpu", "n_shards": 10}
    with pytest.raises(UsageError, match=f"has no setting '{name}'"):
        resolve(EngineConfig(method="receraser", device="cpu", **{key: {name: owned[name]}}))  # type: ignore[arg-type]


def test_parts_without_settings_say_so() -> None:
    with pytest.raises(UsageError, match="the aggregation mean has no setting 'x': it has no settings"):
        resolve(EngineConfig(method="sisa", device="cpu"), {"aggregation.x": "3"})
    with pytest.raises(UsageError, match="the partition random has no setting 'n_shards': it has no settings"):
        resolve(EngineConfig(method="sisa", device="cpu"), {"partition.n_shards": "3"})


def test_part_settings_hold_what_the_configuration_decides() -> None:
    config = resolve(EngineConfig(method="receraser", shards=4, device="cpu"))
    name, own = part_settings(config, "partition")
    assert (name, own["n_shards"], own["device"]) == ("inbp", 4, "cpu")
    assert own.items() >= config.partition_settings.items()
    name, own = part_settings(config, "model")
    assert make_model(name, own).hyperparameters() == own
    assert part_settings(config, "aggregation")[1]["device"] == "cpu"
    assert part_settings(resolve(EngineConfig(method="sisa", device="cpu")), "aggregation") == ("mean", {})


@pytest.mark.parametrize(
    "change",
    [
        {"model": "oracle"},
        {"partition": "thirds"},
        {"aggregation": "vote"},
        {"hyperparameters": {"dim": 0}},
        {"partition_settings": {"temperature": 1}},
        {"aggregation_settings": {"dropout": "none"}},
    ],
)
def test_a_configuration_of_another_version_is_recognised(change: dict[str, Any]) -> None:
    config = resolve(EngineConfig(method="receraser", device="cpu"))
    check_parts(config)
    with pytest.raises(UsageError):
        check_parts(dataclasses.replace(config, **change))


# ---------------------------------------------------------------------- hyperparameters


def test_settings_are_read_by_the_type_of_the_default() -> None:
    config = EngineConfig(model="wmf", device="cpu", hyperparameters={"dim": 16, "dropout": 0.5})
    found = resolve(config, {"dim": "8", "regularization": "1e-3", "solver": "adagrad"}).hyperparameters
    assert (found["dim"], found["regularization"], found["solver"], found["dropout"]) == (8, 0.001, "adagrad", 0.5)


def test_a_whole_number_where_any_may_stand_becomes_a_float() -> None:
    config = EngineConfig(model="wmf", device="cpu", hyperparameters={"regularization": 1})
    found = resolve(config).hyperparameters["regularization"]
    assert type(found) is float
    assert resolve(config) == resolve(EngineConfig(model="wmf", device="cpu"), {"regularization": "1"})


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("dim", "-1", "dim is -1; expected a number of at least 1"),
        ("dim", "0", "dim is 0; expected a number of at least 1"),
        ("dim", "abc", "dim=abc: expected a whole number"),
        ("dim", "", "dim=: expected a whole number"),
        ("n_epochs", "1e3", "n_epochs=1e3: expected a whole number"),
        ("dimm", "3", "the model wmf has no setting 'dimm': did you mean 'dim'?"),
        ("seed", "3", "the model wmf has no setting 'seed'"),
        ("device", "cpu", "the model wmf has no setting 'device'"),
        ("dim_", "3", "the model wmf has no setting"),
        ("learning_rate", "fast", "learning_rate=fast: expected a number"),
        ("learning_rate", "nan", "learning_rate is nan"),
        ("learning_rate", "inf", "learning_rate is inf"),
        ("dropout", "1", "dropout is 1.0; expected less than 1"),
        ("solver", "magic", "unknown solver 'magic'"),
    ],
)
def test_a_bad_setting_is_refused(key: str, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        resolve(EngineConfig(model="wmf", device="cpu"), {key: text})


@pytest.mark.parametrize("value", ["8", 8.0, True, None, [8]])
def test_a_value_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(UsageError, match=r"wmf: dim is .*; expected a whole number"):
        resolve(EngineConfig(model="wmf", device="cpu", hyperparameters={"dim": value}))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UsageError, match=r"unknown model 'wmff': did you mean 'wmf'\?"):
        resolve(EngineConfig(model="wmff"))
    with pytest.raises(UsageError, match=r"unknown method 'retrian': did you mean 'retrain'\?"):
        resolve(EngineConfig(method="retrian"))
    with pytest.raises(UsageError, match="unknown device 'gpu'"):
        resolve(EngineConfig(device="gpu"))


def test_as_dict_is_plain() -> None:
    config = EngineConfig(model="wmf", seed=3, device="cpu", hyperparameters={"dim": 8})
    assert config.as_dict() == {
        "method": "",
        "model": "wmf",
        "partition": "",
        "aggregation": "",
        "shards": 0,
        "seed": 3,
        "device": "cpu",
        "hyperparameters": {"dim": 8},
        "partition_settings": {},
        "aggregation_settings": {},
    }


@pytest.mark.parametrize("name", MODELS)
def test_every_hyperparameter_is_documented(name: str) -> None:
    described = "".join(base.__doc__ or "" for base in MODELS[name].__mro__ if dataclasses.is_dataclass(base))
    page = (Path(__file__).parent.parent / "docs" / "cli.md").read_text()
    for spec in dataclasses.fields(MODELS[name]):
        if spec.init:
            assert spec.name in described, f"{name}: {spec.name} is missing from the docstrings"
        if spec.init and spec.name != "device":
            assert f"`{spec.name}`" in page, f"{name}: {spec.name} is missing from docs/cli.md"


@pytest.mark.parametrize("part", [*PARTITIONS.values(), *AGGREGATIONS.values()], ids=lambda part: str(part.name))
def test_every_setting_of_a_part_is_documented(part: type[settings.Part]) -> None:
    described = "".join(base.__doc__ or "" for base in part.__mro__ if dataclasses.is_dataclass(base))
    for name in settings.kinds(part):
        if name not in ("device", "n_shards"):
            assert name in described, f"{part.name}: {name} is missing from the docstrings"


def test_the_data_folder_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RECERASER_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    monkeypatch.setenv("RECERASER_DATA", "")
    assert data_folder() is None
    monkeypatch.delenv("RECERASER_DATA")
    assert data_folder() is None


def test_defaults_stand_in_one_place() -> None:
    """Without shards gram, with shards wmf; of a configuration and of an engine alike."""
    for method in METHODS:
        model = "gram" if method == "retrain" else "wmf"
        engine = Engine(method=method)
        assert resolve(EngineConfig(method=method)) == resolve(dataclasses.replace(engine.config, device="auto"))
        assert resolve(engine.config).model == model
        assert resolve(engine.config).hyperparameters == resolve(EngineConfig(model=model)).hyperparameters
