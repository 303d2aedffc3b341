from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import FrozenInstanceError

import pytest

from receraser.errors import ProofError
from receraser.fingerprint import canonical_json
from receraser.proof.certificate import PREDICATE_TYPE, Certificate
from receraser.proof.wording import covers, not_covered
from tests.proof.examples import changed, example, sha

Place = tuple[str | int, ...]


def places(value: object, at: Place = ()) -> Iterator[tuple[Place, object]]:
    """Yield every place of a document with what is there, objects and lists themselves included."""
    yield at, value
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in inner:
        yield from places(entry, (*at, key))


def put(document: object, at: Place, value: object) -> object:
    """Return a copy of a document with another value at a place."""
    if not at:
        return value
    again = copy.deepcopy(document)
    inner = again
    for key in at[:-1]:
        inner = inner[key]  # type: ignore[index]
    inner[at[-1]] = value  # type: ignore[index]
    return again


def others(value: object) -> list[object]:
    """Values that are not this one, of its own type and of others."""
    own: list[object]
    if isinstance(value, bool) or value is None:
        own = [not value]
    elif isinstance(value, str):
        own = [value + "x", value[:-1], value.upper(), value.replace("2026", "2025"), "0" * len(value), f"{value}\x00"]
    elif isinstance(value, int):
        own = [value + 1, value - 1, -value - 1, float(value), bool(value)]
    elif isinstance(value, float):
        own = [value + 1, int(value)]
    elif isinstance(value, list):
        own = [value + value, value[1:], value[::-1], {}]
    else:
        own = [[], {"digest": value}]
    everything = [
        *own,
        None,
        "",
        "L2",
        "refit",
        0,
        3,
        1.5,
        True,
        [],
        {},
        ["a"],
        {"a": 1},
        sha("x"),
        "2026-01-01T00:00:00Z",
    ]
    return [other for other in everything if canonical_json(other) != canonical_json(value)]


def refused(payload: bytes) -> bool:
    try:
        Certificate.parse(payload)
    except ProofError:
        return True
    return False


def test_a_round_trip_is_exact() -> None:
    one = example()
    assert Certificate.parse(one.payload()) == one
    assert Certificate.parse(one.payload()).payload() == one.payload()
    assert len({one, Certificate.parse(one.payload()), changed(seed=8)}) == 2
    assert one != one.payload()


def test_a_fit_has_nothing_before_it() -> None:
    one = changed(
        action="fit",
        path="rebuild",
        request={"users": 0, "items": 0, "interactions": 0, "unknown": 0, "subjects_root": None},
        rows_removed=0,
        valid_rows_removed=0,
        removed=None,
        before=None,
        parent=None,
        shards={"count": 1, "retrained": [0], "untouched": 0},
        ledger={"index": 0, "size": 0, "root": sha("")},
        debt={"requests": 0, "rows_removed": 0, "rows_added": 0, "since": ""},
        covers=covers("L3", action="fit"),
        not_covered=not_covered("L3", action="fit"),
    )
    assert Certificate.parse(one.payload()) == one
    assert one.subjects == 0


def test_it_is_an_in_toto_statement_about_the_store() -> None:
    statement = json.loads(example().payload())
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == PREDICATE_TYPE
    assert statement["subject"] == [
        {"name": f"receraser-store:{sha('store')[:32]}", "digest": {"sha256": sha("digest after")}}
    ]
    assert set(statement["predicate"]) == set(vars(example()))


def test_nothing_in_it_is_ignored() -> None:
    """Every value in turn becomes another: it is refused, or a different certificate."""
    one, statement = example(), example().statement()
    tried = taken = 0
    for at, value in places(statement):
        for other in others(value):
            tried += 1
            payload = canonical_json(put(statement, at, other))
            assert payload != one.payload()
            if refused(payload):
                continue
            taken += 1
            read = Certificate.parse(payload)
            assert read != one, (at, other)
            assert read.payload() == payload, (at, other)
    assert tried > 1000
    assert 50 < taken < tried / 2


def test_keys_are_exact_at_every_level() -> None:
    statement = example().statement()
    free = {("predicate", "config"), ("predicate", "environment")}
    for at, value in places(statement):
        if not isinstance(value, dict) or at[:2] in free:
            continue
        assert refused(canonical_json(put(statement, at, value | {"more": 1}))), at
        for key in value:
            assert refused(canonical_json(put(statement, at, {k: v for k, v in value.items() if k != key}))), (at, key)


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (
            ("times", "published"),
            "x",
            "the certificate's field times.published is 'x'; expected a time such as 2026-11-15T17:00:00Z",
        ),
        (("times", "started"), "2026-02-30T00:00:00Z", "times.started is '2026-02-30T00:00:00Z'; expected a time"),
        (("times", "started"), "2026-02-03T00:00:00+00:00", "times.started is .*; expected a time"),
        (("level",), "L4", "field level is 'L4'; expected one of L0, L1, L2, L3"),
        (("action",), "erase", "field action is 'erase'; expected one of fit, forget, add, rebuild"),
        (
            ("path",),
            "shortcut",
            "field path is 'shortcut'; expected one of nothing, downdate, core, shards, refit, rebuild",
        ),
        (("store",), "00", "field store is '00'; expected 32 hexadecimal digits in lower case"),
        (("after", "data"), "A" * 64, "field after.data is 'A+'; expected 64 hexadecimal digits in lower case"),
        (("rows_removed",), True, "field rows_removed is True; expected a whole number, zero or more"),
        (("rows_removed",), 1.0, "field rows_removed is 1.0; expected a whole number, zero or more"),
        (("seed",), "7", "field seed is '7'; expected a whole number"),
        (("shards", "retrained"), [1, 0], r"field shards.retrained is \[1, 0\]; expected shards below 32, ascending"),
        (("shards", "retrained"), [1, 1], "expected shards below 32, ascending, each once"),
        (("shards", "retrained"), [32], "expected shards below 32"),
        (("shards", "retrained", 1), "1", r"field shards.retrained\[1\] is '1'; expected a whole number"),
        (("shards", "untouched"), 26, "field shards.untouched is 26; expected 27, all that were not retrained"),
        (("request", "unknown"), 4, "field request.unknown is 4; expected at most 3, the number of subjects"),
        (("request", "subjects_root"), None, "field request.subjects_root is None; expected a root over the subjects"),
        (("removed",), None, "field removed is None; expected a commitment to the rows removed"),
        (("before",), None, "field before is None; expected the commitments of the certificate before"),
        (("ledger", "index"), 40, "field ledger.index is 40; expected 41, the number of entries before it"),
        (("config",), [], r"field config is \[\]; expected a table"),
        (("code",), {}, "field code has no key 'version'; expected exactly: version"),
        (("debt", "more"), 1, "field debt has the key 'more'; expected exactly: requests, rows_removed"),
        (("not_covered",), [], r"field not_covered is \[\]; expected a list of 1 or more"),
        (("covers", 0), "", r"field covers\[0\] is ''; expected text"),
        (("more",), 1, "the certificate has the key 'more'; expected exactly: store, action"),
    ],
)
def test_a_message_names_the_field(at: Place, value: object, message: str) -> None:
    with pytest.raises(ProofError, match=message):
        Certificate.parse(canonical_json(put(example().statement(), ("predicate", *at), value)))


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        ((), [], r"the certificate is \[\]; expected an object with the keys _type, subject, predicateType, predicate"),
        (("_type",), "https://in-toto.io/Statement/v0.1", "field _type is .*; expected one of https://in-toto.io"),
        (
            ("predicateType",),
            "urn:other",
            "field predicateType is 'urn:other'; expected one of urn:receraser:change:v1",
        ),
        (("predicate",), None, "the certificate is None; expected an object with the keys store, action"),
        (("subject",), [], r"field subject is \[\]; expected what its predicate says"),
        (("subject", 0, "name"), "receraser-store:0", "field subject is .*; expected what its predicate says"),
        (("subject", 0, "digest", "sha256"), sha("x"), "field subject is .*; expected what its predicate says"),
    ],
)
def test_the_statement_around_it_must_fit(at: Place, value: object, message: str) -> None:
    with pytest.raises(ProofError, match=message):
        Certificate.parse(canonical_json(put(example().statement(), at, value)))


def test_only_canonical_bytes_are_read() -> None:
    payload = example().payload()
    spaced = json.dumps(json.loads(payload), sort_keys=True).encode()
    twice = payload.replace(b'"seed":7', b'"seed":7,"seed":7')
    escaped = payload.replace(b'"origin":"t', b'"origin":"\\u0074')
    for other in (spaced, twice, escaped, payload + b"\n", payload[:-1], b"", b"\xff", b"[" * 100_000):
        assert other != payload
        with pytest.raises(ProofError, match=r"the certificate (is not canonical JSON|cannot be read)"):
            Certificate.parse(other)


@pytest.mark.parametrize("value", [b"NaN", b"Infinity", b"1e999", b'"\\ud800"'])
def test_what_json_cannot_say_is_refused(value: bytes) -> None:
    with pytest.raises(ProofError, match="cannot be read: expected canonical JSON"):
        Certificate.parse(example().payload().replace(b'"rate":0.5', b'"rate":' + value))


def test_it_is_checked_when_made() -> None:
    with pytest.raises(ProofError, match="the certificate's field level is 'L9'"):
        changed(level="L9")
    with pytest.raises(ProofError, match=r"field before is .*; expected null, for none was before"):
        changed(action="fit")
    with pytest.raises(ProofError, match=r"field before is .*; expected null, for none was before"):
        changed(parent=None)
    assert changed(parent=None, before=None).before is None, "the first that was signed"
    with pytest.raises(ProofError, match=r"field removed is .*; expected null, for no row was removed"):
        changed(rows_removed=0, valid_rows_removed=0)
    with pytest.raises(
        ProofError, match=r"field request.subjects_root is .*; expected null, for there are no subjects"
    ):
        changed(request={"users": 0, "items": 0, "interactions": 0, "unknown": 0, "subjects_root": sha("x")})
    with pytest.raises(ProofError, match=r"field config.rate is nan; expected a finite number"):
        changed(config={"rate": float("nan")})
    with pytest.raises(ProofError, match=r"field config.rates\[1\] is \(1,\); expected text, a number"):
        changed(config={"rates": [1, (1,)]})
    with pytest.raises(ProofError, match=r"field origin is .*; expected text"):
        changed(origin="\ud800")
    with pytest.raises(FrozenInstanceError):
        example().level = "L0"  # type: ignore[misc]


def test_an_enormous_value_does_not_make_an_enormous_message() -> None:
    with pytest.raises(ProofError) as caught:
        changed(level="x" * 10_000)
    assert len(str(caught.value)) < 200
