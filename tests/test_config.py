from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from receraser.config import MODEL_NAMES, EngineConfig, data_folder, load_config, preset_names, resolve
from receraser.errors import UsageError
from receraser.models.registry import MODELS
from receraser.models.wmf import WMF


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def test_the_names_of_the_models_are_those_of_the_registry() -> None:
    assert sorted(MODEL_NAMES) == sorted(MODELS)


def test_a_file_is_read(file: Path) -> None:
    file.write_text(
        'method = "retrain"\nmodel = "bpr"\nseed = 7\ndevice = "cpu"\n[hyperparameters]\ndim = 8\nlearning_rate = 0.5\n'
    )
    assert load_config(str(file)) == EngineConfig("retrain", "bpr", 7, "cpu", {"dim": 8, "learning_rate": 0.5})


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
        (b"dim = 8", "unknown key 'dim': known: device, hyperparameters, method, model, seed"),
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
    config = resolve(load_config(name))
    assert name.startswith(config.model)
    assert set(load_config(name).hyperparameters) <= set(config.hyperparameters)


def test_there_are_presets_for_every_model() -> None:
    assert {load_config(name).model for name in preset_names()} == set(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_resolving_fills_in_the_models_own_defaults(name: str) -> None:
    complete = resolve(EngineConfig(model=name, device="cpu"))
    model = MODELS[name]()
    assert complete.hyperparameters == {k: v for k, v in model.hyperparameters().items() if k != "device"}
    assert complete.device == "cpu"
    assert resolve(complete) == complete


def test_resolving_settles_the_device() -> None:
    assert resolve(EngineConfig(device="auto")).device in ("cpu", "cuda")


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
        ("dimm", "3", "wmf has no hyperparameter 'dimm': did you mean 'dim'?"),
        ("seed", "3", "wmf has no hyperparameter 'seed'"),
        ("device", "cpu", "wmf has no hyperparameter 'device'"),
        ("dim_", "3", "wmf has no hyperparameter"),
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
    with pytest.raises(UsageError, match=r"wmf: dim is .*; expected a value of type int"):
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
        "method": "retrain",
        "model": "wmf",
        "seed": 3,
        "device": "cpu",
        "hyperparameters": {"dim": 8},
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


def test_the_data_folder_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RECERASER_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    monkeypatch.setenv("RECERASER_DATA", "")
    assert data_folder() is None
    monkeypatch.delenv("RECERASER_DATA")
    assert data_folder() is None


def test_defaults_stand_in_one_place() -> None:
    assert EngineConfig().model == WMF.name
