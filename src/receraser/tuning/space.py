"""What a search tries: for each setting a range or a list of choices.

A file has them by table, as a configuration has the settings themselves::

    [hyperparameters]
    regularization = { low = 0.001, high = 0.1, log = true }    # log: each decade is as likely as any other
    n_sweeps = { low = 4, high = 16 }                           # whole numbers stay whole
    dim = [32, 64, 128]                                         # one of these

    [aggregation_settings]
    merge = ["concat", "product"]

In a `Space` a setting goes by the name that `--set` knows it by (`regularization`, `aggregation.merge`). What a part's
settings are called, of which type they are and which values they take is known to the part: `checked` asks it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

from receraser.config import EngineConfig, resolve
from receraser.errors import UsageError, nearest
from receraser.models.foreign import SOURCE
from receraser.models.source import is_foreign

__all__ = ["Axis", "Choice", "Range", "Space", "as_tables", "checked", "read_space", "settings_of", "with_settings"]

TABLES: Mapping[str, str] = {
    "hyperparameters": "",
    "partition_settings": "partition.",
    "aggregation_settings": "aggregation.",
}
_SHAPE = "expected a list of choices, or a range such as { low = 0.001, high = 0.1, log = true }"

Value = bool | int | float | str


@dataclass(frozen=True)
class Range:
    """Every number from `low` to `high`; with `log` small and large ones are equally likely by their decade."""

    low: float
    high: float
    log: bool = False

    def value(self, drawn: float) -> Value:
        """Return a drawn number as it is used: to three digits, as a person would write it; whole numbers as they are.

        Examples
        --------
        >>> Range(0.001, 0.1).value(0.0123456)
        0.0123
        """
        if isinstance(self.low, int):
            return int(drawn)
        return min(max(float(f"{drawn:.3g}"), self.low), self.high)

    def ends(self) -> tuple[Value, ...]:
        """Return the values that a part is asked about: if it takes both ends, it takes what is between."""
        return self.low, self.high

    def holds(self, value: object) -> bool:
        """Say whether a value is in the range."""
        return isinstance(value, (int, float)) and self.low <= value <= self.high

    def as_dict(self) -> dict[str, object]:
        """Return plain values, as a file has them."""
        ends: dict[str, object] = {"low": self.low, "high": self.high}
        return ends | ({"log": True} if self.log else {})


@dataclass(frozen=True)
class Choice:
    """One of these."""

    values: tuple[Value, ...]

    def value(self, drawn: Value) -> Value:
        """Return the choice itself."""
        return drawn

    def ends(self) -> tuple[Value, ...]:
        """Return the values that a part is asked about: all of them."""
        return self.values

    def holds(self, value: object) -> bool:
        """Say whether a value is one of these."""
        return value in self.values

    def as_dict(self) -> list[Value]:
        """Return plain values, as a file has them."""
        return list(self.values)


Axis = Range | Choice
Space = Mapping[str, Axis]


def settings_of(config: EngineConfig) -> dict[str, object]:
    """Return every setting of a complete configuration by the name that `--set` knows it by.

    Examples
    --------
    >>> found = settings_of(resolve(EngineConfig(method="spectral", model="wmf", device="cpu")))
    >>> found["dim"], found["aggregation.merge"]
    (64, 'auto')
    """
    found = {
        f"{prefix}{key}": value for table, prefix in TABLES.items() for key, value in getattr(config, table).items()
    }
    return {name: value for name, value in found.items() if name != SOURCE}


def with_settings(config: EngineConfig, settings: Mapping[str, object]) -> EngineConfig:
    """Return a complete configuration with some settings changed; raise where a part does not take them."""
    return resolve(config, {name: str(value) for name, value in settings.items()})


def as_tables(values: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """Sort what goes by the names of `--set` into the tables of a file; tables without entries are left out.

    Examples
    --------
    >>> as_tables({"dim": 8, "aggregation.rank": 4})
    {'hyperparameters': {'dim': 8}, 'aggregation_settings': {'rank': 4}}
    """
    tables: dict[str, dict[str, object]] = {table: {} for table in TABLES}
    for name, value in values.items():
        table = next((one for one, prefix in TABLES.items() if prefix and name.startswith(prefix)), "hyperparameters")
        tables[table][name.removeprefix(TABLES[table])] = value
    return {table: own for table, own in tables.items() if own}


# ---------------------------------------------------------------------- files


def read_space(path: Path) -> dict[str, Axis]:
    """Read a space from a TOML file; `checked` says whether it is one for a given configuration."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"the search space {path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not valid TOML: {error}") from None
    found: dict[str, Axis] = {}
    for table, entries in tables.items():
        if table not in TABLES:
            raise UsageError(f"{path}: unknown table {table!r}: {nearest(table, TABLES)}")
        if not isinstance(entries, dict):
            raise UsageError(f"{path}: {table} is {entries!r}; expected a table, as in [{table}]")
        for key, entry in entries.items():
            found[f"{TABLES[table]}{key}"] = _axis(entry, f"{path}: {table}.{key}")
    if not found:
        raise UsageError(f"{path}: there is nothing to search; name at least one setting, as in dim = [32, 64]")
    return found


def _axis(entry: object, where: str) -> Axis:
    """Return what an entry of a file declares."""
    if isinstance(entry, list):
        if not entry or not all(isinstance(one, (bool, int, float, str)) for one in entry):
            raise UsageError(f"{where} is {entry!r}; expected at least one number, text, true or false")
        return Choice(tuple(entry))
    if not isinstance(entry, dict):
        raise UsageError(f"{where} is {entry!r}; {_SHAPE}")
    for key in entry:
        if key not in ("low", "high", "log"):
            raise UsageError(f"{where}: unknown key {key!r}: {nearest(key, ('low', 'high', 'log'))}")
    low, high, log = entry.get("low"), entry.get("high"), entry.get("log", False)
    if not (_is_number(low) and _is_number(high) and isinstance(log, bool)):
        raise UsageError(f"{where} is {entry!r}; {_SHAPE}")
    return Range(low, high, log)


def _is_number(value: object) -> TypeGuard[float]:
    return type(value) in (int, float)


# ---------------------------------------------------------------------- is it a space?


def checked(space: Space, base: EngineConfig, where: str = "the search space") -> dict[str, Axis]:
    """Return the space, its numbers of the settings' own types; raise unless the configuration's parts take its values.

    Parameters
    ----------
    base
        A complete configuration: what is not searched is as it is there.
    where
        What errors call the space.
    """
    found = {name: _typed(name, axis, base, where) for name, axis in space.items()}
    corner = {name: axis.ends()[0] for name, axis in found.items()}
    for name, axis in found.items():
        for value in axis.ends():
            try:
                with_settings(base, corner | {name: value})
            except UsageError as error:
                raise UsageError(f"{where}: with {name} = {value!r}: {error}") from None
    return found


def _typed(name: str, axis: Axis, base: EngineConfig, where: str) -> Axis:
    """Return the axis with values of the type that the setting has."""
    known = settings_of(base)
    if name not in known:
        if is_foreign(base.model) and "." not in name:
            return _in_order(name, axis, where)  # its hyperparameters are whatever it takes
        raise UsageError(f"{where}: there is no setting {name!r} to search: {nearest(name, known)}")
    kind = type(known[name])
    if isinstance(axis, Range) and kind not in (int, float):
        raise UsageError(f"{where}: {name} is no number; expected a list of choices, as in {name} = [{known[name]!r}]")
    for value in axis.ends():
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise UsageError(f"{where}: {name} is {value!r} there; expected a value such as {known[name]!r}")
    if isinstance(axis, Choice):
        return Choice(tuple(float(value) for value in axis.values)) if kind is float else axis
    ends = (float(axis.low), float(axis.high)) if kind is float else (axis.low, axis.high)
    return _in_order(name, Range(*ends, log=axis.log), where)


def _in_order(name: str, axis: Axis, where: str) -> Axis:
    """Return the axis; raise if it is a range without anything in it."""
    if isinstance(axis, Range):
        if not axis.low < axis.high < float("inf"):
            raise UsageError(f"{where}: {name} is from {axis.low} to {axis.high}; expected low to be less than high")
        if axis.log and axis.low <= 0:
            raise UsageError(f"{where}: {name} is from {axis.low} by decades; expected low to be more than 0")
    return axis
