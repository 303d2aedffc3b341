from __future__ import annotations

import inspect
import re

import pytest

from receraser import errors
from receraser.errors import DataError, ReceraserError, nearest

KINDS: list[type[ReceraserError]] = ReceraserError.__subclasses__()


def test_the_tree_is_drawn_in_the_docstring() -> None:
    drawn = re.findall(r"[├└]── (\w+) +exit (\d)", errors.__doc__ or "")
    assert sorted(drawn) == sorted((kind.__name__, str(kind.exit_code)) for kind in KINDS)


def test_every_error_is_public() -> None:
    assert {kind.__name__ for kind in KINDS} | {"ReceraserError", "nearest"} == set(errors.__all__)


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_descends_from_the_root_and_has_an_exit_code(kind: type[ReceraserError]) -> None:
    assert issubclass(kind, ReceraserError)
    assert kind.exit_code in (1, 2)
    assert inspect.getdoc(kind)


@pytest.mark.parametrize(
    ("path", "line", "text"),
    [
        (None, None, "the item is missing"),
        (None, 7, "the item is missing"),
        ("r.csv", None, "r.csv: the item is missing"),
        ("r.csv", 7, "r.csv, line 7: the item is missing"),
    ],
)
def test_a_data_error_names_file_line_and_reason(path: str | None, line: int | None, text: str) -> None:
    error = DataError("the item is missing", path=path, line=line)
    assert str(error) == text
    assert (error.reason, error.path, error.line) == ("the item is missing", path, line)


def test_the_nearest_name_is_offered() -> None:
    assert nearest("wfm", ["wmf", "bpr"]) == "did you mean 'wmf'? (known: bpr, wmf)"
    assert nearest("zzz", ["wmf", "bpr"]) == "known: bpr, wmf"
