from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from receraser import settings
from receraser.errors import UsageError


@dataclass(kw_only=True)
class Oven:
    """A part with a setting of every type, and something that is none."""

    name: ClassVar[str] = "oven"

    shelves: int = 2
    timers: int = 0
    heat: float = 180.0
    ajar: float = 0.5
    fan: bool = True
    mode: str = "roast"

    eaten_: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        settings.check(
            self, at_least_one=["shelves"], less_than_one=["ajar"], choices={"mode": ("roast", "bake", "grill")}
        )


@dataclass(kw_only=True)
class Bowl:
    name: ClassVar[str] = "bowl"


PARTS: dict[str, type[Oven | Bowl]] = {"oven": Oven, "bowl": Bowl}


# ---------------------------------------------------------------------- check


def test_what_is_right_is_left_alone() -> None:
    assert settings.values(Oven(shelves=1, timers=0, heat=0.0, ajar=0.0, fan=False, mode="bake")) == {
        "shelves": 1,
        "timers": 0,
        "heat": 0.0,
        "ajar": 0.0,
        "fan": False,
        "mode": "bake",
    }


def test_one_and_one_point_nought_are_one_setting() -> None:
    oven = Oven(heat=200)
    assert type(oven.heat) is float
    assert oven == Oven(heat=200.0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"shelves": 2.0}, "oven: shelves is 2.0; expected a whole number"),
        ({"shelves": True}, "oven: shelves is True; expected a whole number"),
        ({"shelves": "2"}, "oven: shelves is '2'; expected a whole number"),
        ({"shelves": None}, "oven: shelves is None; expected a whole number"),
        ({"heat": "hot"}, "oven: heat is 'hot'; expected a number"),
        ({"heat": True}, "oven: heat is True; expected a number"),
        ({"fan": 1}, "oven: fan is 1; expected true or false"),
        ({"fan": "true"}, "oven: fan is 'true'; expected true or false"),
        ({"mode": 3}, "oven: mode is 3; expected text"),
        ({"shelves": 0}, "oven: shelves is 0; expected a number of at least 1"),
        ({"timers": -1}, "oven: timers is -1; expected a number of at least 0"),
        ({"heat": -0.5}, "oven: heat is -0.5; expected a number of at least 0"),
        ({"heat": float("nan")}, "oven: heat is nan; expected a number of at least 0"),
        ({"heat": float("inf")}, "oven: heat is inf; expected a number of at least 0"),
        ({"ajar": 1.0}, "oven: ajar is 1.0; expected less than 1: something must be left"),
        ({"ajar": 1}, "oven: ajar is 1; expected less than 1: something must be left"),
        ({"mode": "bakes"}, "oven: unknown mode 'bakes': did you mean 'bake'? (known: bake, grill, roast)"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Oven(**given)  # type: ignore[arg-type]
    assert str(caught.value) == message
    assert caught.value.exit_code == 2


# ---------------------------------------------------------------------- values, kinds, make


def test_only_what_the_constructor_takes_is_a_setting() -> None:
    assert settings.kinds(Oven) == {
        "shelves": int, "timers": int, "heat": float, "ajar": float, "fan": bool, "mode": str,
    }  # fmt: skip
    assert "eaten_" not in settings.values(Oven())
    assert settings.kinds(Bowl) == settings.values(Bowl()) == {}


def test_a_part_is_made_by_its_name() -> None:
    assert settings.make(PARTS, "tool", "oven", {"heat": 90}) == Oven(heat=90.0)
    assert settings.make(PARTS, "tool", "oven", settings.values(Oven(fan=False))) == Oven(fan=False)
    assert settings.make(PARTS, "tool", "bowl", {}) == Bowl()


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("ovn", {}, "unknown tool 'ovn': did you mean 'oven'? (known: bowl, oven)"),
        ("pan", {}, "unknown tool 'pan': known: bowl, oven"),
        ("oven", {"haet": 3}, "the tool oven has no setting 'haet': did you mean 'heat'?"),
        ("oven", {"eaten_": 3}, "the tool oven has no setting 'eaten_': "),
        ("bowl", {"heat": 3}, "the tool bowl has no setting 'heat': it has no settings"),
        ("oven", {"heat": "x"}, "oven: heat is 'x'; expected a number"),
    ],
)
def test_what_cannot_be_made_is_named(name: str, given: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        settings.make(PARTS, "tool", name, given)
    assert str(caught.value).startswith(message)


# ---------------------------------------------------------------------- parse


def test_texts_are_read_by_the_type_of_the_default() -> None:
    texts = {"shelves": "3", "heat": "1e2", "fan": "false", "mode": "3"}
    found = settings.parse(Oven, "tool", texts)
    assert found == {"shelves": 3, "heat": 100.0, "fan": False, "mode": "3"}
    assert [type(value) for value in found.values()] == [int, float, bool, str]
    assert settings.parse(Oven, "tool", {}) == {}


@pytest.mark.parametrize(("text", "value"), [("true", True), ("True", True), ("FALSE", False), ("false", False)])
def test_true_and_false(text: str, value: bool) -> None:
    assert settings.parse(Oven, "tool", {"fan": text}) == {"fan": value}


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        *(("fan", text, f"fan={text}: expected true or false") for text in ("", "1", "0", "yes", "no", "on", "t")),
        *(("shelves", text, f"shelves={text}: expected a whole number") for text in ("", "two", "2.0", "1e3")),
        *(("heat", text, f"heat={text}: expected a number") for text in ("", "hot", "1,5")),
        ("haet", "3", "the tool oven has no setting 'haet': did you mean 'heat'? (known: "),
    ],
)
def test_texts_that_cannot_be_read(key: str, text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        settings.parse(Oven, "tool", {key: text})
    assert str(caught.value).startswith(message)


def test_a_part_without_settings_takes_none() -> None:
    with pytest.raises(UsageError, match="the tool bowl has no setting 'heat': it has no settings"):
        settings.parse(Bowl, "tool", {"heat": "3"})
