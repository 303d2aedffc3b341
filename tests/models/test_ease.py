from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest

from receraser.data.interactions import Histories, Interactions
from receraser.errors import UsageError
from receraser.models.ease import EASE
from receraser.protocols import Model
from tests.contracts.model_contract import AdditiveModelContract
from tests.contracts.worlds import random_rows


class TestEASE(AdditiveModelContract):
    model: ClassVar[Callable[..., Model]] = EASE
    quick: ClassVar[dict[str, object]] = {"regularization": 3.0}
    able: ClassVar[dict[str, object]] = {"regularization": 10.0}
    knows_one_item: ClassVar[bool] = False  # an item does not explain itself


@pytest.mark.parametrize("strength", [0.5, 500.0])
@pytest.mark.parametrize("n_items", [2, 30, 65])
def test_against_the_formula(n_items: int, strength: float) -> None:
    """B = I - P diag(P)^-1 with P = (X^T X + lambda I)^-1: Steck 2019, Eq. 8."""
    rows = random_rows(50, n_items, 0.3, seed=n_items)
    x = rows.matrix().toarray().astype(np.float64)
    p = np.linalg.inv(x.T @ x + strength * np.eye(n_items))
    b = np.eye(n_items) - p / np.diag(p)
    model = EASE(regularization=strength).fit(rows)
    weights = model.state()["weights"].astype(np.float64)
    np.testing.assert_allclose(weights, b, atol=1e-6)
    assert not weights.diagonal().any(), "exactly zero"
    scores = model.scores(Histories.of(rows.users.ids, rows, rows.items))
    np.testing.assert_allclose(scores.numpy(), x @ b, atol=1e-5)


def test_each_item_is_explained_by_the_others_as_well_as_can_be() -> None:
    """Column by column it is a ridge regression: its gradient is zero."""
    rows = random_rows(40, 12, 0.4, seed=3)
    x = rows.matrix().toarray().astype(np.float64)
    b = EASE(regularization=2.0).fit(rows).state()["weights"].astype(np.float64)
    gradient = x.T @ (x @ b - x) + 2.0 * b
    np.fill_diagonal(gradient, 0.0)
    assert np.abs(gradient).max() < 1e-4


def test_too_many_items_are_refused_with_what_to_take_instead() -> None:
    rows = random_rows(10, 12, 0.5, seed=1)
    message = r"12 items need a matrix of 12 x 12 .*at most 11 are taken \(setting max_items\)\. --model graphfilter"
    with pytest.raises(UsageError, match=message) as caught:
        EASE(max_items=11).fit(rows)
    assert caught.value.exit_code == 2
    few = rows.take(rows.item_index < 11)
    small = EASE(max_items=11)
    sums = small.sums(few)
    with pytest.raises(UsageError, match="12 items need"):
        small.resummed(sums, few, rows)
    EASE(max_items=12).fit(rows)


def test_weights_that_are_not_determined_are_refused() -> None:
    with pytest.raises(UsageError, match="regularization is 0; expected more"):
        EASE(regularization=0.0)
    with pytest.raises(UsageError, match="max_items"):
        EASE(max_items=0)


def test_the_seed_does_not_matter() -> None:
    rows = Interactions.from_pairs([("u", "a"), ("u", "b"), ("v", "b")])
    one, other = (EASE().fit(rows, seed=seed).state()["weights"] for seed in (1, 2))
    assert np.array_equal(one, other)
