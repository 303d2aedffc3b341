"""One TOML file <-> one frozen `EngineConfig`. An unknown key is an error that names the nearest one.

    method = "retrain"
    model = "bpr"
    seed = 7
    device = "cpu"

    [hyperparameters]
    dim = 64
    learning_rate = 0.1

A name instead of a file is one of the presets that come with the package (`presets/*.toml`). Hyperparameters that are
not named have the model's default, a constant; the configuration that is stored and digested is always complete. The
environment variables that the package reads are read here and nowhere else.
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from receraser.errors import UsageError, nearest

__all__ = ["MODEL_NAMES", "EngineConfig", "data_folder", "load_config", "preset_names", "resolve"]

MODEL_NAMES = ("bpr", "lightgcn", "wmf")  # known without importing torch; a test holds it to the registry

_EXPECTED: Mapping[type, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    dict: "a table, as in [hyperparameters]",
}


@dataclass(frozen=True)
class EngineConfig:
    """What a fit depends on besides the rows."""

    method: str = "retrain"
    model: str = "wmf"
    seed: int = 0
    device: str = "auto"
    hyperparameters: Mapping[str, object] = field(default_factory=dict)

    def as_dict(self) -> dict[str, object]:
        """Return plain values, as stored and digested."""
        return dataclasses.asdict(self) | {"hyperparameters": dict(self.hyperparameters)}


def preset_names() -> list[str]:
    """Return the presets that come with the package."""
    folder = resources.files("receraser") / "presets"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def _text(source: str) -> str:
    """Return the text of a preset, or of a file."""
    if source in preset_names():
        return (resources.files("receraser") / "presets" / f"{source}.toml").read_text(encoding="utf-8")
    try:
        return Path(source).read_text(encoding="utf-8")
    except FileNotFoundError:
        known = nearest(source, preset_names())
        raise UsageError(f"no configuration file {source!r}, and no preset of that name: {known}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{source}: not valid TOML: not UTF-8 text") from None
    except OSError as error:
        raise UsageError(f"the configuration file {source!r} cannot be read: {error.strerror}") from None


def load_config(source: str) -> EngineConfig:
    """Read a TOML file, or a preset by its name."""
    try:
        values = tomllib.loads(_text(source))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source}: not valid TOML: {error}") from None
    known = [spec.name for spec in dataclasses.fields(EngineConfig)]
    for key in values:
        if key not in known:
            raise UsageError(f"{source}: unknown key {key!r}: {nearest(key, known)}")
    for key, kind in (("method", str), ("model", str), ("seed", int), ("device", str), ("hyperparameters", dict)):
        if key in values and (not isinstance(values[key], kind) or isinstance(values[key], bool)):
            raise UsageError(f"{source}: {key} is {values[key]!r}; expected {_EXPECTED[kind]}")
    return EngineConfig(**values)


def resolve(config: EngineConfig, settings: Mapping[str, str] | None = None) -> EngineConfig:
    """Check the names, apply `--set KEY=VALUE` texts, fill in every default and settle the device.

    Examples
    --------
    >>> resolve(EngineConfig(model="wmf", device="cpu"), {"dim": "8"}).hyperparameters["dim"]
    8
    """
    from receraser.methods import find_method
    from receraser.models.factors import torch_device
    from receraser.models.registry import MODELS, make_model

    find_method(config.method)
    if config.model not in MODELS:
        raise UsageError(f"unknown model {config.model!r}: {nearest(config.model, MODELS)}")
    device = torch_device(config.device).type
    kinds = _kinds(MODELS[config.model])
    chosen = dict(config.hyperparameters) | {k: _parse(k, v, kinds) for k, v in (settings or {}).items()}
    for key in chosen:
        if key not in kinds:
            raise UsageError(f"{config.model} has no hyperparameter {key!r}: {nearest(key, kinds)}")
    model = make_model(config.model, chosen | {"device": device})
    complete = {k: v for k, v in model.hyperparameters().items() if k != "device"}
    return dataclasses.replace(config, device=device, hyperparameters=complete)


def _kinds(model: type) -> dict[str, type]:
    """Return the type of every hyperparameter of a model; the device is the engine's."""
    hints = typing.get_type_hints(model)
    return {s.name: hints[s.name] for s in dataclasses.fields(model) if s.init and s.name != "device"}


def _parse(key: str, text: str, kinds: Mapping[str, type]) -> object:
    kind = kinds.get(key, str)
    try:
        return kind(text)
    except ValueError:
        raise UsageError(f"{key}={text}: expected {_EXPECTED[kind]}") from None


def data_folder() -> Path | None:
    """Return the folder of real data named by RECERASER_DATA, for tests and benchmarks; None where there is none."""
    named = os.environ.get("RECERASER_DATA")
    return Path(named) if named else None
