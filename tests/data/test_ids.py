from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from receraser.data.ids import MAX_ID_BYTES, IdMap, id_problem, id_text, key_check, pseudonyms
from receraser.errors import DataError

KEY = b"k" * 32


@pytest.mark.parametrize(
    "good", ["a", "09", "9.0", "u 17", "été", "日本", "x" * MAX_ID_BYTES, '"quoted"', "nano", "-1"]
)
def test_ordinary_ids_are_good(good: str) -> None:
    assert id_problem(good) is None
    assert id_text(good) == good


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("", "missing"),
        ("NaN", "missing value"),
        ("null", "missing value"),
        ("None", "missing value"),
        ("<NA>", "missing value"),
        ("a,b", "comma"),
        ("a\tb", "control"),
        ("a\nb", "control"),
        ("a\x00b", "control"),
        ("a\x7fb", "control"),
        ("a\x85b", "control"),
        ("a\u2028b", "control"),
        ("\ufeffa", "control"),
        (" a", "white space"),
        ("a\u00a0", "white space"),
        ("\ud800", "surrogate"),
        ("x" * (MAX_ID_BYTES + 1), "257 bytes"),
        ("é" * 129, "258 bytes"),
    ],
)
def test_a_bad_id_is_refused_with_its_reason(bad: str, why: str) -> None:
    problem = id_problem(bad)
    assert problem is not None
    assert why in problem
    with pytest.raises(DataError, match=why):
        id_text(bad)


def test_integers_become_their_digits() -> None:
    assert [id_text(value) for value in (7, -3, np.int64(2**60), np.uint8(9))] == ["7", "-3", str(2**60), "9"]


@pytest.mark.parametrize("value", [1.0, True, None, b"a", np.float32(1), np.bool_(True)])
def test_nothing_else_is_an_id(value: object) -> None:
    with pytest.raises(DataError, match="text or an integer"):
        id_text(value)  # type: ignore[arg-type]


@given(st.lists(st.text(max_size=6).filter(lambda text: id_problem(text) is None)))
def test_an_id_map_is_ordered_by_utf8_bytes_whatever_the_input_order(names: list[str]) -> None:
    made = IdMap(names)
    assert made == IdMap(reversed(names))
    assert hash(made) == hash(IdMap(reversed(names)))
    assert list(made) == sorted(set(names), key=lambda name: name.encode())
    assert made.take(made.indices(names)) == names
    assert all(name in made for name in names)


NAMES = st.lists(st.text(max_size=2).filter(lambda text: id_problem(text) is None))


@given(NAMES, NAMES)
def test_few_ids_and_many_are_looked_up_alike(some: list[str], others: list[str]) -> None:
    """A few by bisection, many by a dictionary; an id that is not there is -1 both ways."""
    asked = [*some, *others]
    one_by_one, at_once = IdMap(some), IdMap(some)
    few = [one_by_one.index_of(name) for name in asked]
    many = at_once.indices(asked * 65)[: len(asked)] if asked else at_once.indices(iter(asked))
    assert few == many.tolist() == [one_by_one.ids.index(name) if name in some else -1 for name in asked]
    assert [name in one_by_one for name in asked] == [name in some for name in asked]


SHORT = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=1, max_size=8)
ANY = st.one_of(SHORT, st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=30))


@given(st.lists(st.lists(ANY, max_size=12), max_size=5))
def test_a_union_is_that_of_the_strings_however_long_they_are(lists: list[list[str]]) -> None:
    maps = [IdMap(names) for names in lists]
    union = IdMap.union(maps)
    assert union.ids == IdMap(name for names in lists for name in names).ids
    assert len(union) == len(union.ids)
    assert union.text.decode() == "\n".join(union.ids)
    for one in maps:
        assert union.places(one).tolist() == [union.ids.index(name) for name in one]
        assert union.some(union.places(one)) == one
        assert union.some(union.places(one)).ids == one.ids


@given(st.sets(ANY, max_size=12))
def test_ids_that_travelled_as_text_are_the_same(names: set[str]) -> None:
    made, sent = IdMap(names), IdMap.from_text(IdMap(names).text)
    assert len(sent) == len(made)
    assert sent == made
    assert made == sent
    assert sent.ids == made.ids
    starts, stops = sent.bounds
    assert [made.text[a:b].decode() for a, b in zip(starts, stops, strict=True)] == list(made)


@given(st.sets(SHORT, min_size=1, max_size=12))
def test_ids_as_numbers_are_in_the_order_of_the_ids(names: set[str]) -> None:
    made = IdMap(names)
    if made.numbers is None:
        assert max(len(name.encode()) for name in names) > 8
    else:
        assert max(len(name.encode()) for name in names) <= 8
        assert (np.diff(made.numbers.astype(object)) > 0).all()


@pytest.mark.parametrize("ids", [["a", "b\n"], ["\n"], [""], ["", "a"], ["a\nb", "c"]])
def test_ids_that_are_no_lines_have_no_text(ids: list[str]) -> None:
    with pytest.raises(ValueError, match="an id is empty or holds a line break"):
        _ = IdMap(ids).text


def test_ids_with_a_zero_byte_are_no_numbers() -> None:
    """Filled up with zeros, "a" and "a" with a zero behind it would be one."""
    assert IdMap(["a", "a\0"]).numbers is None
    assert IdMap.union([IdMap(["a"]), IdMap(["a\0"])]).ids == ("a", "a\0")


def test_a_text_out_of_order_and_a_missing_id_are_noticed() -> None:
    with pytest.raises(ValueError, match="not in order"):
        _ = IdMap.from_text(b"b\na").numbers
    for ids in (["a", "b"], ["long enough to be no number", "b"]):
        with pytest.raises(AssertionError, match="missing"):
            IdMap(["a", "c", "long enough to be no number"][: len(ids[0]) + 1]).places(IdMap(ids))


def test_ids_of_nine_bytes_are_no_numbers() -> None:
    assert IdMap(["12345678", "1"]).numbers is not None
    assert IdMap(["123456789", "1"]).numbers is None
    assert IdMap([]).numbers is not None
    assert IdMap.union([]) == IdMap([]) == IdMap.union([IdMap([])])


def test_ids_are_text_and_not_numbers() -> None:
    assert IdMap(["9", "10", "09", "9.0"]).ids == ("09", "10", "9", "9.0")


def test_unknown_ids_have_index_minus_one() -> None:
    made = IdMap(["a"])
    assert made.indices(["b", "a"]).tolist() == [-1, 0]
    assert made.index_of("b") == -1
    assert "b" not in made
    assert made != ("a",)
    assert repr(made) == "IdMap(1 ids)"


def test_pseudonyms_are_keyed_distinct_and_fixed() -> None:
    names = [str(i) for i in range(1000)]
    hidden = pseudonyms(names, KEY)
    assert len(set(hidden)) == 1000
    assert all(len(name) == 32 and id_problem(name) is None for name in hidden)
    assert hidden == pseudonyms(names, KEY)
    assert not set(hidden) & set(pseudonyms(names, b"q" * 32))
    assert pseudonyms(["9"], KEY) != pseudonyms(["09"], KEY)


def test_the_key_check_tells_keys_apart_and_is_no_pseudonym() -> None:
    assert key_check(KEY) == key_check(KEY) != key_check(b"q" * 32)
    assert key_check(KEY) not in pseudonyms(["check"], KEY)[0]
