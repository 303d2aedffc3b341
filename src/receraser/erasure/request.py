"""`ForgetRequest`: the users, the items and the single interactions that are to be forgotten together.

A value like any other: checked when made, in canonical order, without repeats. It knows which rows of a table it
covers; it forgets nothing itself. It shows how many it names, never whom: what is logged or raised holds no ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from receraser.data.ids import IdMap, id_text
from receraser.data.interactions import Index, Interactions
from receraser.errors import DataError, UsageError

__all__ = ["ForgetRequest", "checked_id"]


def checked_id(role: str, value: str | int) -> str:
    """Return an id as text, or refuse it with its role.

    Examples
    --------
    >>> checked_id("user", 17)
    '17'
    """
    try:
        return id_text(value)
    except DataError as error:
        raise DataError(f"{role}: {error.reason}") from error


@dataclass(frozen=True, repr=False)
class ForgetRequest:
    """A batch of what is to be forgotten. Make one with `of`; an empty one is false.

    What is named twice over is kept as it was asked for: a user, and also one of that user's interactions.

    Attributes
    ----------
    users
        Users all of whose rows go.
    items
        Items all of whose rows go.
    interactions
        (user, item) pairs: single rows.
    repeated
        How many subjects stood in the batch already when they were named; takes no part in equality.

    Examples
    --------
    >>> request = ForgetRequest.of(users=["u7", 8, "u7"], interactions=[("u1", "a")])
    >>> request, len(request), request.repeated
    (ForgetRequest(2 users, 0 items, 1 interactions), 3, 1)
    >>> rows = Interactions.from_pairs([("u1", "a"), ("u1", "b"), ("u7", "b")])
    >>> request.cells(rows).tolist()
    [True, False, True]
    """

    users: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    interactions: tuple[tuple[str, str], ...] = ()
    repeated: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        found = list(self.users), list(self.items), list(self.interactions)
        if found != (sorted(set(self.users)), sorted(set(self.items)), sorted(set(self.interactions))):
            raise ValueError("the subjects are not in order, or one stands twice; use ForgetRequest.of")

    @classmethod
    def of(
        cls,
        users: Iterable[str | int] = (),
        items: Iterable[str | int] = (),
        interactions: Iterable[tuple[str | int, str | int]] = (),
    ) -> ForgetRequest:
        """Make a request from ids (text or integers) in any order; what is named again is counted and dropped."""
        _require_many(users=users, items=items, interactions=interactions)
        all_users = [checked_id("user", one) for one in users]
        all_items = [checked_id("item", one) for one in items]
        all_pairs = [_pair(one) for one in interactions]
        made = cls(tuple(sorted(set(all_users))), tuple(sorted(set(all_items))), tuple(sorted(set(all_pairs))))
        return replace(made, repeated=len(all_users) + len(all_items) + len(all_pairs) - len(made))

    # ------------------------------------------------------------------ looking

    def __len__(self) -> int:
        """Return the number of subjects, each counted once; a request of none is false."""
        return len(self.users) + len(self.items) + len(self.interactions)

    def __repr__(self) -> str:
        counts = f"{len(self.users)} users, {len(self.items)} items, {len(self.interactions)} interactions"
        return f"ForgetRequest({counts})"

    @property
    def named_users(self) -> tuple[str, ...]:
        """Every user who is named, alone or in an interaction; in order."""
        return tuple(sorted({*self.users, *(user for user, _ in self.interactions)}))

    @property
    def subjects(self) -> list[tuple[str, ...]]:
        """Every subject: its kind, then its names.

        Examples
        --------
        >>> ForgetRequest.of(users=["u7"], interactions=[("u1", "a")]).subjects
        [('user', 'u7'), ('interaction', 'u1', 'a')]
        """
        return [
            *(("user", user) for user in self.users),
            *(("item", item) for item in self.items),
            *(("interaction", *pair) for pair in self.interactions),
        ]

    def cells(self, rows: Interactions) -> NDArray[np.bool_]:
        """Return, per row of a table, whether this request covers it."""
        covered = rows.holds(Interactions.from_pairs(self.interactions))
        for user in rows.users.indices(self.users):
            if user >= 0:  # somebody's rows lie together
                covered[rows.indptr[user] : rows.indptr[user + 1]] = True
        if self.items:
            covered |= _named(self.items, rows.items, rows.item_index)
        return covered

    def unknown(self, train: Interactions, valid: Interactions | None) -> ForgetRequest:
        """Return the part of this request that touches no row of either table."""
        tables = [train] if valid is None else [train, valid]
        pairs = Interactions.from_pairs(self.interactions)  # its order is the order of self.interactions
        held = np.any([table.positions(pairs) >= 0 for table in tables], axis=0)
        return ForgetRequest(
            tuple(user for user in self.users if not any(user in table.users for table in tables)),
            tuple(item for item in self.items if not any(item in table.items for table in tables)),
            tuple(pair for pair, known in zip(self.interactions, held.tolist(), strict=True) if not known),
        )

    # ------------------------------------------------------------------ new requests

    @classmethod
    def union(cls, requests: Iterable[ForgetRequest]) -> ForgetRequest:
        """Return the request of everything that one of these names.

        Examples
        --------
        >>> ForgetRequest.union([ForgetRequest.of(users=["u7"]), ForgetRequest.of(users=["u1"], items=["a"])])
        ForgetRequest(2 users, 1 items, 0 interactions)
        """
        several = list(requests)
        made = cls.of(
            [user for one in several for user in one.users],
            [item for one in several for item in one.items],
            [pair for one in several for pair in one.interactions],
        )
        return replace(made, repeated=made.repeated + sum(one.repeated for one in several))

    def __or__(self, other: ForgetRequest) -> ForgetRequest:
        """Return the request of everything that either names."""
        return ForgetRequest.union([self, other])

    def renamed(self, names: Mapping[str, str]) -> ForgetRequest:
        """Return the same request with every user replaced by names[user]: how pseudonyms come in, or go out again.

        Examples
        --------
        >>> request = ForgetRequest.of(users=["ann"], interactions=[("bob", "a")])
        >>> request.renamed({"ann": "p2", "bob": "p1"}).interactions
        (('p1', 'a'),)
        """
        known = self.named_users
        if len({names[user] for user in known if user in names}) < len(known):
            raise ValueError("the new names must be distinct, one for every user of the request")
        new = ForgetRequest.of(
            [names[user] for user in self.users], self.items, [(names[user], item) for user, item in self.interactions]
        )
        return replace(new, repeated=self.repeated)


def _require_many(**given: object) -> None:
    """Refuse a single id where several are expected: text would be taken apart into its letters."""
    for what, values in given.items():
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise UsageError(f"{what} is a single {type(values).__name__}; expected a list, even for one: {what}=[...]")


def _pair(value: Sequence[str | int]) -> tuple[str, str]:
    """Return the ids of a pair. Only of what has an order: a set of two does not say which one is the user."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence) or len(value) != 2:
        raise DataError(f"an interaction is a pair (user, item); found a {type(value).__name__} that is none")
    return checked_id("user", value[0]), checked_id("item", value[1])


def _named(names: Sequence[str], ids: IdMap, index: Index) -> NDArray[np.bool_]:
    """Return, per row, whether its id is among the names."""
    named = np.zeros(len(ids), dtype=bool)
    found = ids.indices(names)
    named[found[found >= 0]] = True
    return named[index]
