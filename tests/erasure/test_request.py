from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from receraser.data.ids import pseudonyms
from receraser.data.interactions import Interactions
from receraser.erasure.request import ForgetRequest, checked_id
from receraser.errors import DataError, UsageError

USERS = st.sampled_from(["u1", "u2", "u3", "9", "10", "é", "日"])
ITEMS = st.sampled_from(["a", "b", "c", "9", "日", "u1"])
PAIRS = st.tuples(USERS, ITEMS)
TABLES = st.lists(PAIRS, max_size=15).map(Interactions.from_pairs)
REQUESTS = st.builds(
    ForgetRequest.of, st.lists(USERS, max_size=3), st.lists(ITEMS, max_size=2), st.lists(PAIRS, max_size=6)
)


def covers(request: ForgetRequest, user: str, item: str) -> bool:
    """What a request means, said slowly."""
    return user in request.users or item in request.items or (user, item) in request.interactions


# ---------------------------------------------------------------------- making


def test_subjects_are_put_in_order_and_repeats_counted() -> None:
    request = ForgetRequest.of([9, "10", "9", np.int64(9)], ["b", "a"], [("u", "b"), ["u", "a"], ("u", "b")])  # type: ignore[list-item]
    assert request.users == ("10", "9"), "ordered as text"
    assert request.items == ("a", "b")
    assert request.interactions == (("u", "a"), ("u", "b"))
    assert (len(request), request.repeated) == (6, 3)


@given(st.lists(USERS), st.lists(ITEMS), st.lists(PAIRS))
def test_order_and_repeats_do_not_count(users: list[str], items: list[str], pairs: list[tuple[str, str]]) -> None:
    once = ForgetRequest.of(set(users), set(items), set(pairs))
    request = ForgetRequest.of(reversed(users), iter(items), pairs + pairs)
    assert request == once
    assert hash(request) == hash(once)
    assert once.repeated == 0
    assert len(request) == len(once) == len(set(users)) + len(set(items)) + len(set(pairs))
    assert request.repeated == len(users) + len(items) + 2 * len(pairs) - len(once)


def test_what_is_named_twice_over_is_kept_as_asked_for() -> None:
    assert len(ForgetRequest.of(["u"], ["a"], [("u", "a")])) == 3


def test_a_request_of_nothing_is_false() -> None:
    assert not ForgetRequest.of()
    assert ForgetRequest.of() == ForgetRequest()
    for request in (
        ForgetRequest.of(["u"]),
        ForgetRequest.of(items=["a"]),
        ForgetRequest.of(interactions=[("u", "a")]),
    ):
        assert request


@pytest.mark.parametrize(
    "make",
    [
        lambda: ForgetRequest(users=("b", "a")),
        lambda: ForgetRequest(items=("a", "a")),
        lambda: ForgetRequest(interactions=(("u", "b"), ("u", "a"))),
    ],
)
def test_a_request_that_is_not_in_order_cannot_be_made(make: Callable[[], ForgetRequest]) -> None:
    with pytest.raises(ValueError, match=r"use ForgetRequest\.of"):
        make()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: ForgetRequest.of(users=[""]), "user: the id is missing"),
        (lambda: ForgetRequest.of(users=["a,b"]), "user: the id 'a,b' holds a comma"),
        (lambda: ForgetRequest.of(items=["nan"]), "item: the id 'nan' is a missing value"),
        (lambda: ForgetRequest.of(items=[1.0]), "item: an id is text or an integer; found 1.0 of type float"),  # type: ignore[list-item]
        (lambda: ForgetRequest.of(users=[True]), "user: an id is text or an integer"),
        (lambda: ForgetRequest.of(users=[None]), "user: an id is text or an integer"),  # type: ignore[list-item]
        (lambda: ForgetRequest.of(interactions=[(" u", "a")]), "user: the id ' u' begins or ends with white space"),
        (lambda: ForgetRequest.of(interactions=[("u", "a\n")]), "item: the id .* holds a control character"),
    ],
)
def test_bad_ids_are_refused_with_their_role(make: Callable[[], ForgetRequest], why: str) -> None:
    with pytest.raises(DataError, match=why):
        make()


@pytest.mark.parametrize("single", ["u7", b"u7", 7])
@pytest.mark.parametrize("what", ["users", "items", "interactions"])
def test_a_single_id_is_not_taken_apart_into_letters(what: str, single: object) -> None:
    with pytest.raises(UsageError, match=rf"{what} is a single {type(single).__name__}; expected a list, .*{what}="):
        ForgetRequest.of(**{what: single})  # type: ignore[arg-type]


@pytest.mark.parametrize("pair", ["ua", b"ua", ("u",), ("u", "a", "b"), {"u", "a"}, 7])
def test_what_is_no_pair_in_order_is_refused(pair: object) -> None:
    with pytest.raises(DataError, match=rf"a pair \(user, item\); found a {type(pair).__name__}"):
        ForgetRequest.of(interactions=[pair])  # type: ignore[list-item]


def test_a_checked_id_is_text() -> None:
    assert (checked_id("user", 7), checked_id("item", "07")) == ("7", "07")


def test_ids_are_not_shown() -> None:
    request = ForgetRequest.of(["secret-user"], ["secret-item"], [("secret-user", "a"), ("other-secret", "a")])
    assert repr(request) == str(request) == f"{request}" == "ForgetRequest(1 users, 1 items, 2 interactions)"


# ---------------------------------------------------------------------- which rows


@given(TABLES, REQUESTS)
def test_the_rows_covered_are_those_of_the_slow_definition(rows: Interactions, request: ForgetRequest) -> None:
    cells = request.cells(rows)
    assert cells.dtype == np.bool_
    assert cells.tolist() == [covers(request, user, item) for user, item in rows.pairs()]


@given(TABLES, REQUESTS, REQUESTS)
def test_a_union_covers_what_either_covers(rows: Interactions, one: ForgetRequest, other: ForgetRequest) -> None:
    assert (one | other).cells(rows).tolist() == (one.cells(rows) | other.cells(rows)).tolist()


@given(TABLES, st.none() | TABLES, REQUESTS)
def test_unknown_is_what_touches_no_row(
    train: Interactions, valid: Interactions | None, request: ForgetRequest
) -> None:
    rows = {*train.pairs(), *(() if valid is None else valid.pairs())}
    unknown = request.unknown(train, valid)
    assert set(unknown.users) == {user for user in request.users if user not in {u for u, _ in rows}}
    assert set(unknown.items) == {item for item in request.items if item not in {i for _, i in rows}}
    assert set(unknown.interactions) == set(request.interactions) - rows
    assert unknown.repeated == 0


def test_a_pair_is_unknown_even_if_its_user_and_its_item_are_known() -> None:
    rows = Interactions.from_pairs([("u", "a"), ("v", "b")])
    request = ForgetRequest.of(["u"], interactions=[("u", "b")])
    assert request.unknown(rows, None) == ForgetRequest.of(interactions=[("u", "b")])


def test_no_rows_and_no_requests() -> None:
    nothing, rows = ForgetRequest.of(), Interactions.from_pairs([("u", "a")])
    everything = ForgetRequest.of(["u"], ["a"], [("u", "a")])
    assert nothing.cells(rows).tolist() == [False]
    assert nothing.unknown(rows, rows) == nothing
    assert everything.cells(Interactions.empty()).tolist() == []
    assert everything.unknown(Interactions.empty(), None) == everything
    assert not everything.unknown(Interactions.empty(), rows)


# ---------------------------------------------------------------------- new requests


@given(REQUESTS, REQUESTS)
def test_a_union_names_what_either_names(one: ForgetRequest, other: ForgetRequest) -> None:
    both = one | other
    assert both == other | one
    assert set(both.users) == {*one.users, *other.users}
    assert set(both.items) == {*one.items, *other.items}
    assert set(both.interactions) == {*one.interactions, *other.interactions}
    assert len(both) + both.repeated == len(one) + one.repeated + len(other) + other.repeated
    assert one | ForgetRequest.of() == one == one | one


def test_everybody_named_alone_or_in_a_pair() -> None:
    assert ForgetRequest.of(["v", "u"], ["x"], [("u", "a"), ("t", "a"), ("t", "b")]).named_users == ("t", "u", "v")
    assert ForgetRequest.of(items=["x"]).named_users == ()


@given(TABLES, REQUESTS)
def test_pseudonyms_come_in_and_go_out_again(rows: Interactions, request: ForgetRequest) -> None:
    key = b"k" * 32
    names = dict(zip(request.named_users, pseudonyms(request.named_users, key), strict=True))
    hidden = request.renamed(names)
    assert hidden.named_users == tuple(sorted(names.values()))
    assert hidden.items == request.items
    assert hidden.repeated == request.repeated
    hidden_rows = rows.rename_users(pseudonyms(rows.users, key))
    assert hidden_rows.take(hidden.cells(hidden_rows)) == rows.take(request.cells(rows)).rename_users(
        pseudonyms(rows.take(request.cells(rows)).users, key)
    )
    back = {new: old for old, new in names.items()}
    assert hidden.renamed(back) == request
    assert hidden.unknown(hidden_rows, None).renamed(back) == request.unknown(rows, None)


@pytest.mark.parametrize("names", [{}, {"secret1": "p"}, {"secret1": "p", "secret2": "p"}])
def test_new_names_are_distinct_and_complete_and_the_message_shows_no_id(names: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="distinct, one for every user") as caught:
        ForgetRequest.of(["secret1"], interactions=[("secret2", "a")]).renamed(names)
    assert "secret" not in str(caught.value)
