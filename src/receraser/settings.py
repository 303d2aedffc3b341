"""Settings of a part (a model, a partition, an aggregation): the fields of its dataclass, checked when it is made.

A setting's default is a constant of one of the types bool, int, float and str, and says which type it takes. `check`
is called by the part's constructor, `values` gives the settings out, `make` makes a part from values by name, and
`parse` reads them from text such as `--set KEY=VALUE`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import ClassVar, Protocol, TypeVar

from receraser.errors import UsageError, nearest

__all__ = ["check", "kinds", "make", "parse", "unknown", "values"]


class Part(Protocol):
    """A dataclass with a name; its fields are its settings."""

    name: ClassVar[str]


P = TypeVar("P", bound=Part)

_EXPECTED: Mapping[type, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


def check(
    part: Part,
    *,
    at_least_one: Collection[str] = (),
    less_than_one: Collection[str] = (),
    choices: Mapping[str, Collection[str]] | None = None,
) -> None:
    """Raise unless every setting is of its type and in its range; whole numbers given for floats become floats."""
    for spec in _specs(type(part)):
        value: object = getattr(part, spec.name)
        kind = type(spec.default)
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise UsageError(f"{part.name}: {spec.name} is {value!r}; expected {_EXPECTED[kind]}")
        if kind is float:
            object.__setattr__(part, spec.name, float(value))  # type: ignore[arg-type]  # 1 and 1.0: one setting
        least = 1 if spec.name in at_least_one else 0
        if isinstance(value, (int, float)) and not least <= value < float("inf"):
            raise UsageError(f"{part.name}: {spec.name} is {value}; expected a number of at least {least}")
        if spec.name in less_than_one and isinstance(value, (int, float)) and value >= 1:
            raise UsageError(f"{part.name}: {spec.name} is {value}; expected less than 1: something must be left")
        allowed = (choices or {}).get(spec.name)
        if allowed is not None and value not in allowed:
            raise UsageError(f"{part.name}: unknown {spec.name} {value!r}: {nearest(str(value), allowed)}")


def values(part: Part) -> dict[str, object]:
    """Return the settings of a part: plain values that JSON and TOML can hold."""
    return {spec.name: getattr(part, spec.name) for spec in _specs(type(part))}


def kinds(part: type[Part]) -> dict[str, type]:
    """Return the type of every setting of a part."""
    return {spec.name: type(spec.default) for spec in _specs(part)}


def make(parts: Mapping[str, type[P]], what: str, name: str, settings: Mapping[str, object]) -> P:
    """Make the part of that name from its settings; unknown names are answered with the nearest known ones."""
    if name not in parts:
        raise UsageError(f"unknown {what} {name!r}: {nearest(name, parts)}")
    known = kinds(parts[name])
    for key in settings:
        if key not in known:
            raise unknown(what, name, key, known)
    return parts[name](**settings)


def parse(part: type[Part], what: str, texts: Mapping[str, str]) -> dict[str, object]:
    """Read settings from texts.

    Examples
    --------
    >>> from receraser.models.wmf import WMF
    >>> parse(WMF, "model", {"dim": "8", "dropout": "0.5", "solver": "als"})
    {'dim': 8, 'dropout': 0.5, 'solver': 'als'}
    """
    known = kinds(part)
    found: dict[str, object] = {}
    for key, text in texts.items():
        if key not in known:
            raise unknown(what, part.name, key, known)
        try:
            found[key] = _truth(text) if known[key] is bool else known[key](text)
        except ValueError:
            raise UsageError(f"{key}={text}: expected {_EXPECTED[known[key]]}") from None
    return found


def unknown(what: str, name: str, key: str, known: Collection[str]) -> UsageError:
    """Return the error about a setting that a part does not have, with the nearest one it has."""
    offer = nearest(key, known) if known else "it has no settings"
    return UsageError(f"the {what} {name} has no setting {key!r}: {offer}")


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _specs(part: type[Part]) -> list[dataclasses.Field[object]]:
    fields: tuple[dataclasses.Field[object], ...] = dataclasses.fields(part)  # type: ignore[arg-type]
    return [spec for spec in fields if spec.init]
