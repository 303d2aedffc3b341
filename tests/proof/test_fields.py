from __future__ import annotations

import pytest

from receraser.errors import ProofError
from receraser.proof.fields import (
    Check,
    count,
    decoded,
    hexadecimal,
    integer,
    keys,
    many,
    one_of,
    or_empty,
    or_null,
    table,
    text,
    time,
)


@pytest.mark.parametrize(
    ("check", "fits", "does_not"),
    [
        (text, ["a", "é\n"], ["", None, 1, b"a", "\ud800"]),
        (integer, [0, -3, 10**30], [True, 1.0, "1", None]),
        (count, [0, 10**30], [-1, True, 1.0, "1", None]),
        (time, ["2026-11-15T17:00:00Z"], ["2026-11-15 17:00:00Z", "2026-11-15T17:00:00z", "2026-11-15T25:00:00Z", 0]),
        (hexadecimal(4), ["00af"], ["00AF", "00a", "00aff", "00ag", "00af\n", "٠٠٠٠", 0, None]),
        (one_of(["a", "b"]), ["a"], ["c", "", None, 1]),
        (or_null(count), [None, 1], [-1, "x"]),
        (or_empty(time), ["", "2026-11-15T17:00:00Z"], [None, " ", 0, False]),
        (many(count), [[], [1, 2]], [(1,), None, [1, -1]]),
        (many(count, at_least=1), [[1]], [[]]),
        (keys({"a": count}), [{"a": 1}], [{}, {"a": -1}, {"a": 1, "b": 1}, [], None]),
        (
            table,
            [{}, {"a": [1, 1.5, True, None, "", {"b": []}]}],
            [[], None, {"": 1}, {1: 1}, {"a": (1,)}, {"a": float("inf")}, {"a": "\ud800"}, {"a": {"\ud800": 1}}],
        ),
    ],
)
def test_what_fits_and_what_does_not(check: Check, fits: list[object], does_not: list[object]) -> None:
    for value in fits:
        check("the receipt", value)
    for value in does_not:
        with pytest.raises(ProofError, match=r"the receipt.* (is|has)"):
            check("the receipt", value)


def test_nesting_has_an_end() -> None:
    deep: object = 1
    for _ in range(19):
        deep = {"a": deep}
    table("the receipt", deep)
    with pytest.raises(ProofError, match="expected settings nested 20 deep at most"):
        table("the receipt", {"a": deep})


def test_places_are_named_from_the_document_inwards() -> None:
    check = keys({"a": keys({"b": many(keys({"c": count}))})})
    with pytest.raises(ProofError, match=r"the receipt's field a.b\[1\].c is 'x'; expected a whole number"):
        check("the receipt", {"a": {"b": [{"c": 1}, {"c": "x"}]}})


def test_what_is_found_cannot_move_the_cursor() -> None:
    with pytest.raises(ProofError) as caught:
        keys({"a": count})("the receipt", {"\x1b[2J": 1})
    assert "\x1b" not in str(caught.value)
    with pytest.raises(ProofError) as caught:
        count("the receipt's field a", "\x1b[2J\u202e")
    assert str(caught.value).isprintable()


def test_reading_is_exact() -> None:
    assert decoded("it", b'{"a":[1,"\xc3\xa9"]}') == {"a": [1, "é"]}
    for data in (b'{"a":1,"a":1}', b'{"b":1,"a":1}', b"1.50", b' "a"', b'"\\u00e9"'):
        with pytest.raises(ProofError, match="it is not canonical JSON"):
            decoded("it", data)
    for data in (b"", b"{", b"NaN", b"\xff", b"9" * 5000, b"[" * 10_000 + b"]" * 10_000):
        with pytest.raises(ProofError, match="it cannot be read"):
            decoded("it", data)
