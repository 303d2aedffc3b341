"""One TOML file <-> one frozen `EngineConfig`. An unknown key is an error that names the nearest one.

    method = "receraser"        # fills in partition, aggregation and shards, unless they are named too
    model = "bpr"
    shards = 10
    seed = 7
    device = "cpu"

    [hyperparameters]           # of the model
    dim = 64
    learning_rate = 0.1

    [partition_settings]
    slack = 1.2

    [aggregation_settings]
    attention_dim = 32

A name instead of a file is one of the presets that come with the package (`presets/*.toml`). Settings that are not
named have their default, a constant; the configuration that is stored and digested is always complete. `--set
KEY=VALUE` changes a hyperparameter of the model, `--set partition.KEY=VALUE` and `--set aggregation.KEY=VALUE` the
others. A model such as "package.module:Object" is somebody else's: its hyperparameters are whatever it takes, and the
SHA-256 of its source, which knows the defaults, is noted among them (docs/own-models.md). The environment variables
that the package reads are read here and nowhere else.
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from receraser import settings
from receraser.errors import UsageError, nearest
from receraser.methods import CUSTOM, METHODS, find_method, method_of
from receraser.models.foreign import SOURCE, parsed
from receraser.models.source import find, is_foreign

__all__ = [
    "ADDITIVE_NAMES",
    "MERGED_NAME",
    "MODEL_NAMES",
    "TUNED",
    "EngineConfig",
    "check_parts",
    "data_folder",
    "is_tuned",
    "load_config",
    "part_settings",
    "preset_names",
    "renewed",
    "resolve",
]

ADDITIVE_NAMES = ("ease", "gram", "graphfilter")  # models that need no shards, and take none, but for:
MERGED_NAME = "gram"  # the one that can be the submodel of spectral
MODEL_NAMES = ("bpr", "lightgcn", "wmf", *ADDITIVE_NAMES)  # without importing torch; a test holds it to the registry
TUNED = "# Tuned by receraser tune"  # how a file that a search has written begins
_MOST_SHARDS = 10_000  # more are a mistake: every shard has a model of its own

_EXPECTED: Mapping[str, tuple[type, str]] = {
    **dict.fromkeys(("method", "model", "partition", "aggregation", "device"), (str, "text")),
    **dict.fromkeys(("shards", "seed"), (int, "a whole number")),
    **{
        key: (dict, f"a table, as in [{key}]")
        for key in ("hyperparameters", "partition_settings", "aggregation_settings")
    },
}


@dataclass(frozen=True)
class EngineConfig:
    """What a fit depends on besides the rows. Empty or zero: by the method (`resolve`)."""

    method: str = ""
    model: str = ""
    partition: str = ""
    aggregation: str = ""
    shards: int = 0
    seed: int = 0
    device: str = "auto"
    hyperparameters: Mapping[str, object] = field(default_factory=dict)
    partition_settings: Mapping[str, object] = field(default_factory=dict)
    aggregation_settings: Mapping[str, object] = field(default_factory=dict)

    def as_dict(self) -> dict[str, object]:
        """Return plain values, as stored and digested."""
        return {
            spec.name: dict(value) if isinstance(value := getattr(self, spec.name), Mapping) else value
            for spec in dataclasses.fields(self)
        }


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


def is_tuned(source: str) -> bool:
    """Say whether a configuration came out of a search: it is a preset, or a file that `receraser tune` wrote."""
    return source in preset_names() or _text(source).startswith(TUNED)


def load_config(source: str) -> EngineConfig:
    """Read a TOML file, or a preset by its name."""
    try:
        values = tomllib.loads(_text(source))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source}: not valid TOML: {error}") from None
    for key, value in values.items():
        if key not in _EXPECTED:
            raise UsageError(f"{source}: unknown key {key!r}: {nearest(key, _EXPECTED)}")
        kind, expected = _EXPECTED[key]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise UsageError(f"{source}: {key} is {value!r}; expected {expected}")
    return EngineConfig(**values)


def resolve(config: EngineConfig, texts: Mapping[str, str] | None = None) -> EngineConfig:
    """Check the names, apply `--set KEY=VALUE` texts, fill in every default and settle the device.

    Examples
    --------
    >>> done = resolve(EngineConfig(method="sisa", model="wmf", device="cpu"), {"dim": "8"})
    >>> done.partition, done.aggregation, done.shards, done.hyperparameters["dim"]
    ('random', 'mean', 10, 8)
    """
    from receraser.models.factors import torch_device

    config = combined(config)
    config = dataclasses.replace(config, device=torch_device(_device(config)).type)
    given = _by_part(texts or {})
    chosen = {key: _chosen(config, key, given[what]) for key, (what, _) in _PARTS.items()}
    config = dataclasses.replace(config, **chosen)  # type: ignore[arg-type]
    if config.model == MERGED_NAME and config.aggregation == "spectral":
        config = _merged(config)
    complete = {key: _values(_part(config, what)) for key, (what, _) in _PARTS.items()}
    plain = {key: {k: v for k, v in one.items() if k not in _OWNED} for key, one in complete.items()}
    named = dataclasses.replace(config, method=method_of(config.partition, config.aggregation))
    return dataclasses.replace(named, **plain)  # type: ignore[arg-type]


def _device(config: EngineConfig) -> str:
    """Return where the parts compute: additive models on the CPU alone, somebody's model there unless it is said."""
    if is_foreign(config.model):
        return "cpu" if config.device == "auto" else config.device
    if config.model not in ADDITIVE_NAMES:
        return config.device
    if config.device == "cuda":
        raise UsageError(f"the model {config.model} computes on the CPU; leave --device out, or say --device cpu")
    return "cpu" if config.device == "auto" else config.device


def check_parts(config: EngineConfig) -> None:
    """Raise unless this version knows the parts of a complete configuration, and they take these settings."""
    for what, _ in _PARTS.values():
        _part(config, what)


def _part(config: EngineConfig, what: str) -> settings.Part:
    from receraser.models.custom import Custom

    name, own = part_settings(config, what)
    return Custom(name, own) if _find(what, name) is Custom else settings.make(_registry(what), what, name, own)


def _values(part: settings.Part) -> dict[str, object]:
    from receraser.models.custom import Custom

    return part.hyperparameters() if isinstance(part, Custom) else settings.values(part)


def renewed(config: EngineConfig) -> EngineConfig:
    """Return a configuration for a fit from nothing: somebody's model is taken as its source is by then."""
    own = {key: value for key, value in config.hyperparameters.items() if key != SOURCE}
    return dataclasses.replace(config, hyperparameters=own) if is_foreign(config.model) else config


def combined(config: EngineConfig) -> EngineConfig:
    """Fill in partition, aggregation and number of shards by the method, or by each other, and the model by these.

    Without anything said it is gram, which needs no shards; in shards it is wmf (docs/decisions/0007-defaults.md).
    """
    partition, aggregation = config.partition, config.aggregation
    if config.method and config.method != CUSTOM:
        method = find_method(config.method)
    else:  # the method that shares what was named
        alike = [one for one in METHODS.values() if aggregation and one.aggregation == aggregation]
        alike += [one for one in METHODS.values() if partition and one.partition == partition]
        method = alike[0] if alike else METHODS["receraser" if partition or aggregation else "retrain"]
    partition, aggregation = partition or method.partition, aggregation or method.aggregation
    shards = config.shards or (1 if partition == "whole" else max(method.shards, METHODS["receraser"].shards))
    if not 1 <= shards <= _MOST_SHARDS:
        raise UsageError(f"shards is {shards}; expected 1 to {_MOST_SHARDS:,}")
    if partition == "whole" and shards != 1:
        if config.model in ADDITIVE_NAMES and config.model != MERGED_NAME:
            advice = f"{config.model} takes no more"
        else:
            another = "spectral" if config.model == MERGED_NAME else "receraser"
            advice = f"choose another method, as in --method {another}"
        raise UsageError(f"{shards} shards were asked for, but the method retrain is one shard; {advice}")
    model = config.model or ("gram" if (partition, aggregation) == ("whole", "alone") else "wmf")
    merged = model == MERGED_NAME and aggregation == "spectral"
    if model in ADDITIVE_NAMES and not merged and (partition, aggregation) != ("whole", "alone"):
        raise UsageError(
            f"the model {model} is a function of sums over users and forgets exactly without shards; it goes "
            f"with --method retrain{' or spectral' if model == MERGED_NAME else ''}, not with {partition} shards and "
            f"{aggregation}; models for shards are wmf, bpr and lightgcn"
        )
    if aggregation == "alone" and shards != 1:
        raise UsageError(
            f"the aggregation alone takes a single submodel, and the partition {partition} makes {shards}; choose "
            "mean, static, attention or spectral"
        )
    if aggregation == "spectral" and partition in ("ibp", "random"):
        raise UsageError(
            f"the aggregation spectral merges what shards of users know about items, and the partition {partition} "
            "keeps no user together; choose hash or ubp, or another aggregation"
        )
    if merged and partition not in ("hash", "ubp"):
        raise UsageError(
            f"gram is merged from shards of users, and was to be from {partition} shards; choose hash or ubp"
        )
    return dataclasses.replace(config, model=model, partition=partition, aggregation=aggregation, shards=shards)


def _merged(config: EngineConfig) -> EngineConfig:
    """Return the configuration of a gram in shards: with as many merged directions as it has itself, if not said."""
    from receraser.aggregation.spectral import NO_PRODUCT

    own = _values(_part(config, "model"))
    if own["polish"]:
        raise UsageError(
            "gram: polish is a sweep over everybody, and in shards there is nobody else; take aggregation.polish"
        )
    if config.aggregation_settings.get("merge") == "product":
        raise UsageError(NO_PRODUCT)
    return dataclasses.replace(config, aggregation_settings={"rank": own["rank"], **config.aggregation_settings})


# Where a configuration keeps the settings of its parts: the part, and what it is called in `--set PART.KEY=VALUE`.
_PARTS: Mapping[str, tuple[str, str]] = {
    "hyperparameters": ("model", ""),
    "partition_settings": ("partition", "partition."),
    "aggregation_settings": ("aggregation", "aggregation."),
}
_OWNED = ("device", "n_shards")  # settings of parts that the configuration itself decides


def part_settings(config: EngineConfig, what: str) -> tuple[str, dict[str, object]]:
    """Return the name of a configuration's part and its settings, with those that the configuration decides."""
    key = next(key for key, (part, _) in _PARTS.items() if part == what)
    name: str = getattr(config, what)
    known = settings.kinds(_find(what, name))
    owned = {"device": config.device, "n_shards": config.shards}
    return name, {**getattr(config, key), **{k: v for k, v in owned.items() if k in known}}


def _chosen(config: EngineConfig, key: str, texts: Mapping[str, str]) -> dict[str, object]:
    """Return the settings of a part: those of the configuration, changed by texts."""
    what, _ = _PARTS[key]
    part = _find(what, getattr(config, what))
    if what == "model" and is_foreign(config.model):
        return _of_somebody(config, texts)
    known = [one for one in settings.kinds(part) if one not in _OWNED]
    for name in (*getattr(config, key), *texts):
        if name not in known:
            raise settings.unknown(what, part.name, name, known)
    return {**getattr(config, key), **settings.parse(part, what, texts)}


def _of_somebody(config: EngineConfig, texts: Mapping[str, str]) -> dict[str, object]:
    """Return the hyperparameters of somebody's model; if none is noted, with the source that it has now."""
    given = {**config.hyperparameters, **parsed(texts)}
    for name in _OWNED:
        if name in given:
            raise UsageError(
                f"{name} is no hyperparameter of {config.model}; the configuration has a {name} of its own"
            )
    return {**given, SOURCE: given.get(SOURCE) or find(config.model).sha256}


def _by_part(texts: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Sort `KEY=VALUE` texts by the part that they are for."""
    sorted_out: dict[str, dict[str, str]] = {what: {} for what, _ in _PARTS.values()}
    for key, text in texts.items():
        what = next((what for what, prefix in _PARTS.values() if prefix and key.startswith(prefix)), "model")
        sorted_out[what][key.removeprefix(f"{what}.")] = text
    return sorted_out


def _registry(what: str) -> Mapping[str, type[settings.Part]]:
    from receraser.aggregation.registry import AGGREGATIONS
    from receraser.models.registry import MODELS
    from receraser.partition.registry import PARTITIONS

    registries: Mapping[str, Mapping[str, type[settings.Part]]] = {
        "model": MODELS,
        "partition": PARTITIONS,
        "aggregation": AGGREGATIONS,
    }
    return registries[what]


def _find(what: str, name: str) -> type[settings.Part]:
    from receraser.models.custom import Custom

    if what == "model" and is_foreign(name):
        return Custom
    known = _registry(what)
    if name not in known:
        raise UsageError(f"unknown {what} {name!r}: {nearest(name, known)}")
    return known[name]


def data_folder() -> Path | None:
    """Return the folder of real data named by RECERASER_DATA, for tests and benchmarks; None where there is none."""
    named = os.environ.get("RECERASER_DATA")
    return Path(named) if named else None
