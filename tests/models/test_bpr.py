from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from receraser.models.bpr import BPR
from receraser.protocols import Model
from tests.contracts.model_contract import FactorModelContract
from tests.contracts.worlds import random_rows


class TestBPR(FactorModelContract):
    model: ClassVar[Callable[..., Model]] = BPR
    quick: ClassVar[dict[str, object]] = {"dim": 5, "n_epochs": 6, "validate_every": 2, "batch_size": 50}
    able: ClassVar[dict[str, object]] = {
        "dim": 4,
        "n_epochs": 40,
        "batch_size": 64,
        "learning_rate": 0.05,
        "weight_decay": 0.05,
        "n_negatives": 1,  # of several, the one that scores highest would be what was held out
    }


def share_in_order(model: BPR) -> float:
    """How many of all (row, missing item) pairs of a fitted world are in the right order."""
    rows = random_rows(30, 25, 0.3, seed=1)
    model.fit(rows, seed=1)
    has = rows.matrix().toarray() > 0
    scores = model.user_vectors_ @ model.item_vectors_.T
    right = [(own[mask][:, None] > own[~mask][None, :]).mean() for own, mask in zip(scores, has, strict=True)]
    return float(np.mean(right))


def test_rows_come_to_stand_above_what_is_missing() -> None:
    """Random rows have nothing to generalise: this is the training objective itself."""
    untrained = share_in_order(BPR(dim=32, n_epochs=0))
    trained = share_in_order(
        BPR(dim=32, n_epochs=60, batch_size=64, learning_rate=0.1, weight_decay=0.0, n_negatives=1)
    )
    assert 0.4 < untrained < 0.6
    assert trained > 0.97


def test_weight_decay_keeps_vectors_short() -> None:
    rows = random_rows(30, 25, 0.3, seed=1)
    models = [
        BPR(dim=8, n_epochs=40, weight_decay=decay, learning_rate=0.05, n_negatives=1).fit(rows, seed=1)
        for decay in (0.0, 0.1, 1.0)
    ]
    lengths = [float(np.square(model.item_vectors_).sum()) for model in models]
    assert lengths[0] > 2 * lengths[1] > 4 * lengths[2]


def test_hard_negatives_lift_the_top_of_the_list() -> None:
    """With nothing to generalise: rows above the best of what is missing, for which sampling evenly takes longer."""
    few, many = (share_on_top(n_negatives) for n_negatives in (1, 10))
    assert many > few + 0.05


def share_on_top(n_negatives: int) -> float:
    """How many rows of a random world stand above everything their user does not have."""
    rows = random_rows(30, 25, 0.3, seed=1)
    model = BPR(dim=16, n_epochs=15, batch_size=64, learning_rate=0.1, weight_decay=0.0, n_negatives=n_negatives)
    model.fit(rows, seed=1)
    has = rows.matrix().toarray() > 0
    scores = model.user_vectors_ @ model.item_vectors_.T
    best_missing = np.where(has, -np.inf, scores).max(axis=1)
    return float((scores > best_missing[:, None])[has].mean())
