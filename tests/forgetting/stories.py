"""Stories for hypothesis: rows, and what happens to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st

from receraser.erasure.request import ForgetRequest
from tests.forgetting.engines import Pair

# Ids that look like numbers, that sort otherwise than they are written, that look alike, and that are not Latin.
USERS = ["9", "10", "09", "u 1", "Zoë", "Zoe\u0308", "Ω", "李", "u'1\""]
ITEMS = ["9", "10", "09", "9.0", "ı", "I", "ß", "film 3", "😀", "İ"]
NOBODY, NOTHING = "nobody", "nothing at all"


@dataclass(frozen=True)
class Story:
    """The rows at first, and requests (to forget) and rows (to add) in the order they come in."""

    train: frozenset[Pair]
    valid: frozenset[Pair] | None
    steps: tuple[ForgetRequest | frozenset[Pair], ...]


def pairs(users: list[str] = USERS, items: list[str] = ITEMS) -> st.SearchStrategy[Pair]:
    return st.tuples(st.sampled_from(users), st.sampled_from(items))


def rows(least: int = 0, most: int = 40) -> st.SearchStrategy[frozenset[Pair]]:
    return st.frozensets(pairs(), min_size=least, max_size=most)


def requests() -> st.SearchStrategy[ForgetRequest]:
    """A batch: some of it named twice, some of it of nobody and of nothing."""
    users, items = [*USERS, NOBODY], [*ITEMS, NOTHING]
    return st.builds(
        ForgetRequest.of,
        users=st.lists(st.sampled_from(users), max_size=2),
        items=st.lists(st.sampled_from(items), max_size=1),
        interactions=st.lists(pairs(users, items), max_size=4),
    )


@st.composite
def stories(draw: Callable[[st.SearchStrategy[object]], object], *, adds: bool = True) -> Story:
    train = draw(rows(least=12))
    assert isinstance(train, frozenset)
    valid = draw(st.none() | rows(most=15))
    assert valid is None or isinstance(valid, frozenset)
    held = sorted(train | (valid or frozenset()))
    single = st.lists(st.sampled_from(held), min_size=1, max_size=5).map(lambda own: ForgetRequest.of(interactions=own))
    one: st.SearchStrategy[object] = requests() | single
    steps = draw(st.lists(one | rows(most=6) if adds else one, min_size=1, max_size=4))
    assert isinstance(steps, list)
    return Story(train, valid, tuple(steps))
