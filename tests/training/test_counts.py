from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.training.counts import Pairs, counted, n_pairs, recounted, symmetric, user_weights
from tests.forgetting.stories import rows

POWERS = st.sampled_from([0.0, 0.5, 0.75, 1.0])
Table = frozenset[tuple[str, str]]


def plain(table: Table, power: float) -> Counter[tuple[str, str]]:
    """The weight of all users who have both of two items, by sets and dictionaries."""
    sums: Counter[tuple[str, str]] = Counter()
    for user in {user for user, _ in table}:
        own = sorted(item for name, item in table if name == user)
        weight = round(2**20 * len(own) ** -power) if power else 1
        sums.update({(one, other): weight for one in own for other in own if one <= other})
    return sums


def named(pairs: Pairs, items: IdMap) -> Counter[tuple[str, str]]:
    """The same, of a packed triangle: row after row of the upper half."""
    found = {(items.ids[i], items.ids[j]): 0 for i in range(len(items)) for j in range(i, len(items))}
    assert pairs.dtype == np.int64
    return Counter({pair: n for pair, n in zip(found, pairs.tolist(), strict=True) if n})


@given(rows(), POWERS)
@example(frozenset(), 0.5)
@example(frozenset({("9", "9")}), 0.5)
def test_sums_are_what_dictionaries_say(table: Table, power: float) -> None:
    interactions = Interactions.from_pairs(table)
    pairs = counted(interactions, power)
    assert len(pairs) == n_pairs(len(interactions.items))
    assert named(pairs, interactions.items) == plain(table, power)


@given(rows(), rows(most=12), rows(most=12), POWERS)
@example(frozenset({("9", "9"), ("9", "10")}), frozenset({("9", "9")}), frozenset({("10", "09")}), 0.5)
@example(frozenset({("9", "9")}), frozenset({("9", "9")}), frozenset(), 0.5)
def test_sums_carried_along_are_sums_taken_anew(table: Table, gone: Table, new: Table, power: float) -> None:
    """Whatever goes and comes: rows, users and items, up to everything; and back again."""
    tables = [table, (table - gone) | new, frozenset[tuple[str, str]](), new, table]
    pairs = counted(Interactions.from_pairs(table), power)
    for before, after in pairwise(tables):
        was, then = pairs.copy(), Interactions.from_pairs(after)
        carried = recounted(pairs, Interactions.from_pairs(before), then, power)
        assert np.array_equal(pairs, was), "what was handed in stays as it is"
        assert carried.dtype == np.int64
        assert np.array_equal(carried, counted(then, power))
        pairs = carried


def test_only_users_who_changed_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[int]] = []
    original = user_weights

    def watched(counts: np.ndarray, power: float) -> Pairs:
        seen.append(counts.tolist())
        return original(counts, power)

    before = Interactions.from_pairs([("a", "x"), ("a", "y"), ("b", "x"), ("c", "x"), ("c", "y"), ("c", "z")])
    after = Interactions.from_pairs([("a", "x"), ("a", "y"), ("c", "x"), ("c", "z"), ("d", "z")])
    pairs = counted(before, 0.5)
    monkeypatch.setattr("receraser.training.counts.user_weights", watched)
    recounted(pairs, before, after, 0.5)
    assert seen == [[1, 3], [2, 1]], "b and c go with the weights they had, c and d come with those they have"


def test_a_weight_is_a_whole_number_of_the_number_of_rows_alone() -> None:
    counts = np.arange(1, 5000)
    for power in (0.25, 0.5, 0.75, 1.0):
        weights = user_weights(counts, power)
        assert weights.dtype == np.int64
        assert weights[0] == 2**20
        assert (np.diff(weights) <= 0).all()
        np.testing.assert_allclose(weights / 2**20, counts**-power, atol=2**-21)
        assert [int(user_weights(counts[k : k + 1], power)[0]) for k in (0, 1, 776)] == weights[[0, 1, 776]].tolist()
    assert user_weights(counts, 0.0).tolist() == [1] * len(counts), "plain counts"


def test_the_last_bits_of_a_power_decide_on_no_weight() -> None:
    """Weights are rounded: libraries whose powers differ by rounding come to the same whole numbers."""
    counts = np.arange(1, 200_000)
    for power in (0.25, 0.5, 0.75, 1.0):
        exact = 2**20 * counts.astype(np.float64) ** -power
        for other in (exact * (1 - 1e-13), exact * (1 + 1e-13)):
            assert np.array_equal(np.rint(other), user_weights(counts, power))


def test_the_whole_matrix_of_a_triangle() -> None:
    table = Interactions.from_pairs([("u", "a"), ("u", "b"), ("v", "b"), ("v", "c"), ("w", "b")])
    x = table.matrix().toarray().astype(np.float64)
    scale = np.array([1.0, 0.5, 3.0])
    found = symmetric(counted(table, 0.0), scale)
    assert np.array_equal(found, scale[:, None] * (x.T @ x) * scale)
    assert symmetric(np.zeros(0, dtype=np.int64), np.zeros(0)).shape == (0, 0)
