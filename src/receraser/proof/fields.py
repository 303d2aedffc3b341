"""Checks of decoded JSON, put together like the document they check: exact keys, exact types, or a `ProofError`.

What is signed must mean one thing only, so nothing is converted, filled in or passed over: a whole number is an `int`
and no `bool`, text can be written as UTF-8, hexadecimal is lower case and of one length. A message names the place,
what was found there and what was expected. Nothing here knows what a certificate is.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn

from receraser.errors import ProofError
from receraser.fingerprint import canonical_json
from receraser.proof.ledger import is_time

__all__ = [
    "Check",
    "count",
    "decoded",
    "hexadecimal",
    "integer",
    "keys",
    "many",
    "one_of",
    "or_empty",
    "or_null",
    "refuse",
    "table",
    "text",
    "time",
]

Check = Callable[[str, object], None]

_MOST_SHOWN = 80
_DEEPEST = 20


def refuse(where: str, value: object, expected: str) -> NoReturn:
    """Raise the error of this module.

    Examples
    --------
    >>> refuse("the certificate's field level", "L9", "one of L0, L1, L2, L3")
    Traceback (most recent call last):
    receraser.errors.ProofError: the certificate's field level is 'L9'; expected one of L0, L1, L2, L3
    """
    shown = ascii(value)
    raise ProofError(
        f"{where} is {shown if len(shown) <= _MOST_SHOWN else shown[:_MOST_SHOWN] + '…'}; expected {expected}"
    )


def decoded(what: str, data: bytes) -> object:
    """Return what canonical JSON says; other bytes are refused, also when they say the same.

    Examples
    --------
    >>> decoded("the receipt", b'{"a":1}')
    {'a': 1}
    >>> decoded("the receipt", b'{"a": 1}')
    Traceback (most recent call last):
    receraser.errors.ProofError: the receipt is not canonical JSON (sorted keys, no spaces, each key once)
    """
    try:
        value: object = json.loads(data.decode(), parse_constant=_no_number)
        canonical = canonical_json(value)
    except (ValueError, RecursionError):  # not UTF-8, no JSON, half a surrogate, nested without end
        raise ProofError(f"{what} cannot be read: expected canonical JSON in UTF-8") from None
    if canonical != data:
        raise ProofError(f"{what} is not canonical JSON (sorted keys, no spaces, each key once)")
    return value


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


# ---------------------------------------------------------------------- single values


def text(where: str, value: object) -> None:
    """Take text that is not empty and can be written as UTF-8."""
    if type(value) is not str or not value or not _encodable(value):
        refuse(where, value, "text")


def _encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def integer(where: str, value: object) -> None:
    """Take a whole number."""
    if type(value) is not int:
        refuse(where, value, "a whole number")


def count(where: str, value: object) -> None:
    """Take a whole number, zero or more."""
    if type(value) is not int or value < 0:
        refuse(where, value, "a whole number, zero or more")


def time(where: str, value: object) -> None:
    """Take a time in UTC to the second, as RFC 3339 writes it."""
    if not is_time(value):
        refuse(where, value, "a time such as 2026-11-15T17:00:00Z")


def hexadecimal(digits: int) -> Check:
    """Return the check for so many hexadecimal digits, in lower case."""
    pattern = re.compile(f"[0-9a-f]{{{digits}}}")

    def check(where: str, value: object) -> None:
        if type(value) is not str or not pattern.fullmatch(value):
            refuse(where, value, f"{digits} hexadecimal digits in lower case")

    return check


def one_of(known: Iterable[str]) -> Check:
    """Return the check for one of these words."""
    words = list(known)

    def check(where: str, value: object) -> None:
        if type(value) is not str or value not in words:
            refuse(where, value, f"one of {', '.join(words)}")

    return check


# ---------------------------------------------------------------------- values made of others


def or_null(inner: Check) -> Check:
    """Return the check for null, or for what another check takes."""

    def check(where: str, value: object) -> None:
        if value is not None:
            inner(where, value)

    return check


def or_empty(inner: Check) -> Check:
    """Return the check for empty text, or for what another check takes."""

    def check(where: str, value: object) -> None:
        if value != "":
            inner(where, value)

    return check


def many(inner: Check, *, at_least: int = 0) -> Check:
    """Return the check for a list, each entry by another check."""

    def check(where: str, value: object) -> None:
        if type(value) is not list or len(value) < at_least:
            refuse(where, value, f"a list of {at_least} or more" if at_least else "a list")
        for position, entry in enumerate(value):
            inner(f"{where}[{position}]", entry)

    return check


def keys(inner: Mapping[str, Check]) -> Check:
    """Return the check for an object of exactly these keys; a whole document is named by what it is.

    Examples
    --------
    >>> keys({"ledger": keys({"size": count})})("the certificate", {"ledger": {"size": 3, "sizes": 3}})
    Traceback (most recent call last):
    receraser.errors.ProofError: the certificate's field ledger has the key 'sizes'; expected exactly: size
    """

    def check(where: str, value: object) -> None:
        exactly = ", ".join(inner)
        if type(value) is not dict:
            refuse(where, value, f"an object with the keys {exactly}")
        for name in value:
            if name not in inner:
                raise ProofError(f"{where} has the key {name!a}; expected exactly: {exactly}")
        for name, one in inner.items():
            if name not in value:
                raise ProofError(f"{where} has no key {name!r}; expected exactly: {exactly}")
            one(_within(where, name), value[name])

    return check


def _within(where: str, name: str) -> str:
    """Return the place of a key: "the certificate's field times.published"."""
    return f"{where}.{name}" if "'s field " in where else f"{where}'s field {name}"


def table(where: str, value: object) -> None:
    """Take an object with keys of any name and any JSON in it; numbers are finite, nesting has an end."""
    if type(value) is not dict:
        refuse(where, value, "a table")
    _any_json(where, value, _DEEPEST)


def _any_json(where: str, value: object, deeper: int) -> None:
    if deeper == 0:
        refuse(where, value, f"settings nested {_DEEPEST} deep at most")
    if type(value) is dict:
        for name, entry in value.items():
            text(f"a key of {where}", name)
            _any_json(_within(where, ascii(name)[1:-1]), entry, deeper - 1)
    elif type(value) is list:
        for position, entry in enumerate(value):
            _any_json(f"{where}[{position}]", entry, deeper - 1)
    elif type(value) is float:
        if not math.isfinite(value):
            refuse(where, value, "a finite number")
    elif type(value) is str:
        if not _encodable(value):
            refuse(where, value, "text")
    elif value is not None and type(value) not in (bool, int):
        refuse(where, value, "text, a number, true, false, null, a list or a table")
