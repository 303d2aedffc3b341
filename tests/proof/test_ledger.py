from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receraser.errors import ProofError, UsageError
from receraser.proof import merkle
from receraser.proof.ledger import (
    Entry,
    check_checkpoint,
    checkpoint_body,
    frontier_of,
    is_time,
    key_check,
    later,
    read_entries,
    subject_hash,
)

TIME = "2026-11-15T17:00:00Z"
KEY = bytes(range(32))
MANIFEST = "5a" * 32
STORE = "ab" * 16


def entries(count: int) -> list[Entry]:
    subjects = tuple(sorted(subject_hash(KEY, "user", name) for name in ("ann", "bob")))
    return [
        Entry(n, f"2026-11-15T17:00:{n // 2:02}Z", "forget", subjects[: n % 3], key_check(KEY), f"{n:064x}")
        for n in range(count)
    ]


def data(lines: list[Entry]) -> bytes:
    return b"".join(one.line() for one in lines)


# ---------------------------------------------------------------------- one entry


def test_a_line_is_canonical() -> None:
    entry = Entry(3, TIME, "forget", ("0" * 32, "f" * 32), "a" * 32, "b" * 64)
    assert entry.line() == (
        b'{"action":"forget","certificate":"' + b"b" * 64 + b'","index":3,"key":"' + b"a" * 32 + b'",'
        b'"subjects":["' + b"0" * 32 + b'","' + b"f" * 32 + b'"],"time":"2026-11-15T17:00:00Z"}\n'
    )
    assert entry.leaf() == merkle.leaf_hash(entry.line())


HASHES = st.binary(min_size=16, max_size=16).map(bytes.hex)


@given(
    st.integers(0, 2**70),
    st.datetimes(timezones=st.just(UTC)),
    st.sampled_from(["fit", "forget", "hand-over"]),
    st.sets(HASHES, max_size=4),
    st.just("") | HASHES,
    st.none() | st.binary(min_size=32, max_size=32).map(bytes.hex),
)
def test_what_is_written_is_read(
    index: int, time: datetime, action: str, subjects: set[str], key: str, certificate: str | None
) -> None:
    entry = Entry(index, later(time, None), action, tuple(sorted(subjects)), key, certificate)
    assert Entry.parse(entry.line()) == entry


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"index": -1}, "has the index -1"),
        ({"index": True}, "has the index True"),
        ({"index": 1.0}, "has the index 1.0"),
        ({"index": "1"}, "has the index '1'"),
        ({"time": "2026-11-15T17:00:00"}, "entry 1 of the ledger: the time is '2026-11-15T17:00:00'"),
        ({"time": "2026-11-31T17:00:00Z"}, "the time is"),
        ({"time": 7}, "the time is 7"),
        ({"action": ""}, "the action is ''"),
        ({"action": "Forget"}, "the action is 'Forget'"),
        ({"action": "for get"}, "the action is"),
        ({"action": None}, "the action is None"),
        ({"subjects": ["0" * 31]}, "a subject is '0{31}'"),
        ({"subjects": ["ann"]}, "a subject is 'ann'"),
        ({"subjects": ["0" * 32 + "\n"]}, "a subject is"),
        ({"subjects": [1]}, "a subject is 1"),
        ({"subjects": ["1" * 32, "0" * 32]}, "out of order or repeated"),
        ({"subjects": ["0" * 32, "0" * 32]}, "out of order or repeated"),
        ({"subjects": "0" * 32}, "subjects that are no list"),
        ({"subjects": None}, "subjects that are no list"),
        ({"key": "zz"}, "the key's check value is 'zz'"),
        ({"key": None}, "the key's check value is None"),
        ({"certificate": ""}, "the certificate is ''"),
        ({"certificate": "AB" * 32}, "the certificate is"),
        ({"certificate": 5}, "the certificate is 5"),
        ({"more": 1}, "expected action, certificate, index, key, subjects, time"),
    ],
)
def test_a_wrong_value_is_refused(changed: dict[str, object], reason: str) -> None:
    values = json.loads(Entry(1, TIME, "forget").line()) | changed
    line = json.dumps(values, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    with pytest.raises(ProofError, match=reason):
        Entry.parse(line)


LINE = Entry(1, TIME, "forget").line()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "cut off"),
        (LINE[:-1], "cut off"),
        (b"\n", "no JSON"),
        (LINE[:-2] + b"\n", "no JSON"),
        (b"\xff" + LINE, "no JSON"),
        (LINE.decode().encode("utf-16"), "cut off"),
        (b"[" * 100_000 + b"\n", "no JSON"),
        (LINE.replace(b'"index":1', b'"index":' + b"9" * 5000), "no JSON"),
        (b"[]\n", "not the keys"),
        (b"{}\n", "not the keys"),
        (b"null\n", "not the keys"),
        (b" " + LINE, "entry 1 of the ledger is not written as it should be"),
        (LINE + b"\n", "not written as it should be"),
        (LINE[:-1] + b"\r\n", "not written as it should be"),
        (LINE.replace(b":", b": ", 1), "not written as it should be"),
        (LINE.replace(b"forget", rb"\u0066orget"), "not written as it should be"),
        (LINE.replace(b'"index":1,', b'"index":1,"index":1,'), "not written as it should be"),
        (LINE.replace(b'"index":1', b'"index":1e0'), "has the index 1.0"),
        (LINE.replace(b'"key":""', b'"key":NaN'), "the key's check value is nan"),
        (LINE.replace(b'"key":""', rb'"key":"\ud800"'), "the key's check value is"),
        (b'{"time"' + LINE.split(b',"time"')[1][:-2] + b"," + LINE.split(b',"time"')[0][1:] + b"}\n", "not written as"),
    ],
)
def test_a_line_that_is_not_canonical_is_refused(line: bytes, reason: str) -> None:
    with pytest.raises(ProofError, match=reason):
        Entry.parse(line)


@given(st.integers(0, len(LINE) - 1), st.integers(1, 255))
def test_a_changed_byte_is_refused_or_another_entry(place: int, change: int) -> None:
    """No byte of a line is without meaning."""
    line = LINE[:place] + bytes([LINE[place] ^ change]) + LINE[place + 1 :]
    try:
        entry = Entry.parse(line)
    except ProofError:
        return
    assert entry != Entry.parse(LINE)
    assert entry.line() == line


# ---------------------------------------------------------------------- the whole ledger


def test_a_ledger_is_read() -> None:
    assert read_entries(b"") == []
    assert read_entries(data(entries(7))) == entries(7)


@pytest.mark.parametrize("index", range(6))
def test_a_missing_entry_is_named(index: int) -> None:
    lines = entries(7)
    del lines[index]
    with pytest.raises(ProofError, match=f"damaged at entry {index}: its index is {index + 1}; entries were moved"):
        read_entries(data(lines))


@pytest.mark.parametrize("index", range(7))
def test_a_repeated_entry_is_named(index: int) -> None:
    lines = entries(7)
    lines.insert(index, lines[index])
    with pytest.raises(ProofError, match=f"damaged at entry {index + 1}: its index is {index}; entries were moved"):
        read_entries(data(lines))


@pytest.mark.parametrize("index", range(6))
def test_a_reordered_entry_is_named(index: int) -> None:
    lines = entries(7)
    lines[index], lines[index + 1] = lines[index + 1], lines[index]
    with pytest.raises(ProofError, match=f"damaged at entry {index}: its index is {index + 1}; entries were moved"):
        read_entries(data(lines))


@pytest.mark.parametrize("index", range(7))
def test_an_entry_that_is_not_canonical_is_named(index: int) -> None:
    lines = [one.line() for one in entries(7)]
    lines[index] = lines[index].replace(b",", b", ", 1)
    with pytest.raises(ProofError, match=f"damaged at entry {index}: .* not written as it should be"):
        read_entries(b"".join(lines))


@pytest.mark.parametrize("line", [b"\n", b"{}\n", b"\r\n", b"\x00\n"])
@pytest.mark.parametrize("index", [0, 3, 7])
def test_what_stands_between_the_entries_is_named(line: bytes, index: int) -> None:
    lines = [one.line() for one in entries(7)]
    lines.insert(index, line)
    with pytest.raises(ProofError, match=f"damaged at entry {index}: "):
        read_entries(b"".join(lines))


def test_a_ledger_that_was_cut_off_is_refused_anywhere_but_between_entries() -> None:
    whole = data(entries(3))
    ends = {len(data(entries(n))) for n in range(4)}
    for length in range(len(whole)):
        if length in ends:
            assert read_entries(whole[:length]) == entries(3)[: sorted(ends).index(length)]
        else:
            with pytest.raises(ProofError, match=r"damaged at entry [012]: .* cut off"):
                read_entries(whole[:length])


def test_time_does_not_go_backwards() -> None:
    lines = [Entry(0, "2026-11-15T17:00:01Z", "fit"), Entry(1, "2026-11-15T17:00:00Z", "add")]
    with pytest.raises(ProofError, match=r"damaged at entry 1: its time is .*T17:00:00Z, before .*T17:00:01Z"):
        read_entries(data(lines))


def test_the_frontier_is_over_the_lines() -> None:
    lines = data(entries(7)).splitlines(keepends=True)
    assert frontier_of(entries(7)).root() == merkle.root([hashlib.sha256(b"\x00" + one).digest() for one in lines])
    assert frontier_of([]) == merkle.Frontier()


# ---------------------------------------------------------------------- subjects


def test_a_subject_is_a_keyed_hash_of_its_kind_and_names() -> None:
    parts = [b"receraser ledger subject", b"interaction", b"ann", b"tea"]
    message = b"".join(len(one).to_bytes(8, "little") + one for one in parts)
    expected = hmac.new(KEY, message, hashlib.sha256).hexdigest()[:32]
    assert subject_hash(KEY, "interaction", "ann", "tea") == expected


def test_subjects_do_not_run_into_each_other() -> None:
    found = [
        subject_hash(KEY, "user", "ann"),
        subject_hash(KEY, "item", "ann"),
        subject_hash(bytes(32), "user", "ann"),
        subject_hash(KEY, "interaction", "ann", "tea"),
        subject_hash(KEY, "interaction", "annt", "ea"),
        subject_hash(KEY, "interaction", "tea", "ann"),
        subject_hash(KEY, "user", ""),
        key_check(KEY),
        key_check(bytes(32)),
    ]
    assert len(set(found)) == len(found)
    assert {len(one) for one in found} == {32}


@pytest.mark.parametrize(
    ("kind", "names"),
    [("user", ()), ("user", ("a", "b")), ("item", ("a", "b")), ("interaction", ("a",)), ("check", ("a",))],
)
def test_only_subjects_are_hashed(kind: str, names: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=f"a {kind} of {len(names)} names; expected"):
        subject_hash(KEY, kind, *names)


# ---------------------------------------------------------------------- times


@pytest.mark.parametrize("text", [TIME, "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2028-02-29T00:00:00Z"])
def test_a_time(text: str) -> None:
    assert is_time(text)
    assert later(datetime.fromisoformat(text), None) == text


@pytest.mark.parametrize(
    "text",
    [
        None,
        0,
        "",
        "now",
        "2026-11-15T17:00:00",
        "2026-11-15T17:00:00z",
        "2026-11-15 17:00:00Z",
        "2026-11-15T17:00:00+00:00",
        "2026-11-15T17:00:00.0Z",
        "2026-11-15T17:00:00Z\n",
        "2026-11-15T24:00:00Z",
        "2026-11-15T23:59:60Z",
        "2026-02-29T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "２０２６-11-15T17:00:00Z",
    ],
)
def test_what_is_no_time(text: object) -> None:
    assert not is_time(text)


def test_time_goes_on_and_never_back() -> None:
    now = datetime(2026, 11, 15, 18, 0, 59, 999_999, tzinfo=timezone(timedelta(hours=1)))
    assert later(now, None) == "2026-11-15T17:00:59Z"
    assert later(now, "2026-11-15T17:00:58Z") == "2026-11-15T17:00:59Z"
    assert later(now, "2026-11-15T17:00:59Z") == "2026-11-15T17:00:59Z"
    assert later(now, "2030-01-01T00:00:00Z") == "2030-01-01T00:00:00Z"


def test_a_time_of_no_zone_or_no_form_is_refused() -> None:
    with pytest.raises(UsageError, match="of no time zone"):
        later(datetime(2026, 11, 15), None)
    with pytest.raises(ProofError, match="the time of the last entry is 'yesterday'"):
        later(datetime(2026, 11, 15, tzinfo=UTC), "yesterday")


# ---------------------------------------------------------------------- checkpoints


def test_a_checkpoint_is_of_its_ledger() -> None:
    frontier = frontier_of(entries(5))
    body = checkpoint_body(STORE, frontier, TIME, MANIFEST)
    assert body == {"store": STORE, "size": 5, "root": frontier.root().hex(), "time": TIME, "manifest": MANIFEST}
    check_checkpoint(json.loads(json.dumps(body)), store=STORE, frontier=frontier)
    check_checkpoint(checkpoint_body(STORE, frontier_of([]), TIME, MANIFEST), store=STORE, frontier=merkle.Frontier())


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"more": 1}, "expected store, size, root, time and manifest"),
        ({"store": "cd" * 16}, "of another store: 'cdcd"),
        ({"store": None}, "of another store: None"),
        ({"time": "later"}, "time is 'later'"),
        ({"size": 4}, "of 4 entries; the ledger has 5"),
        ({"size": 6}, "of 6 entries; the ledger has 5"),
        ({"size": 5.0}, "of 5.0 entries; the ledger has 5"),
        ({"root": "00" * 32}, "not the one the checkpoint was made of: .* expected '0000"),
        ({"root": None}, "not the one the checkpoint was made of"),
        ({"manifest": "x"}, "manifest is 'x'"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(changed: dict[str, object], reason: str) -> None:
    frontier = frontier_of(entries(5))
    with pytest.raises(ProofError, match=reason):
        check_checkpoint(checkpoint_body(STORE, frontier, TIME, MANIFEST) | changed, store=STORE, frontier=frontier)


@pytest.mark.parametrize("body", [None, [], "body", {}])
def test_what_is_no_checkpoint_is_refused(body: object) -> None:
    with pytest.raises(ProofError, match="the checkpoint is damaged"):
        check_checkpoint(body, store=STORE, frontier=merkle.Frontier())


def test_a_rewritten_ledger_does_not_fit_its_checkpoint() -> None:
    body = checkpoint_body(STORE, frontier_of(entries(5)), TIME, MANIFEST)
    rewritten = [Entry(0, TIME, "fit"), *entries(5)[1:]]
    with pytest.raises(ProofError, match="not the one the checkpoint was made of"):
        check_checkpoint(body, store=STORE, frontier=frontier_of(rewritten))
