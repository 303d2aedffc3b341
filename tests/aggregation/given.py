"""Submodels with vectors that are given, and what a base model's loss is of the scores they make: slow and plain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from receraser.data.interactions import Interactions
from receraser.models.factors import FactorModel
from receraser.models.wmf import WMF

Matrix = NDArray[np.float64]


def given(rows: Sequence[tuple[str, str]], users: Mapping[str, list[float]], items: Mapping[str, list[float]]) -> WMF:
    """A submodel of these rows with these vectors."""
    table = Interactions.from_pairs(rows)
    state = {
        "user_vectors": np.array([users[name] for name in table.users], dtype=np.float32),
        "item_vectors": np.array([items[name] for name in table.items], dtype=np.float32),
    }
    return WMF(dim=state["user_vectors"].shape[1]).load_state(table.users, table.items, state)


def noise(model: FactorModel, seed: int = 1) -> FactorModel:
    """The same model with vectors of about the same length that mean nothing."""
    rng = np.random.default_rng(seed)
    state = {
        name: (rng.normal(size=vectors.shape) * float(vectors.std())).astype(np.float32)
        for name, vectors in (("user_vectors", model.user_vectors_), ("item_vectors", model.item_vectors_))
    }
    fresh = type(model)(**model.hyperparameters())  # type: ignore[arg-type]
    return fresh.load_state(model.users_, model.items_, state)


def scores_of(model: FactorModel, rows: Interactions) -> Matrix:
    """A submodel's scores of everybody and everything in the rows; 0 where it does not hold both."""
    scores = np.zeros((len(rows.users), len(rows.items)))
    users, items = rows.users.indices(model.users_), rows.items.indices(model.items_)
    p, q = model.user_vectors_.astype(np.float64), model.item_vectors_.astype(np.float64)
    scores[np.ix_(users, items)] = p @ q.T
    return scores


def pairwise_loss(scores: Matrix, rows: Interactions) -> float:
    """-log sigmoid(positive - negative) averaged over all pairs of a row and what its user does not have."""
    has = rows.matrix().toarray() > 0
    losses = [
        np.logaddexp(0, own[~mask][None, :] - own[mask][:, None]).mean()
        for own, mask in zip(scores, has, strict=True)
        if mask.any() and not mask.all()
    ]
    return float(np.mean(losses))


def squared_loss(scores: Matrix, rows: Interactions, missing_weight: float) -> float:
    """The weighted squared loss over all pairs."""
    has = rows.matrix().toarray().astype(np.float64)
    return float((has * (1 - scores) ** 2 + missing_weight * (1 - has) * scores**2).sum())


def loss(model: FactorModel, scores: Matrix, rows: Interactions) -> float:
    """What a base model is trained by, of these scores."""
    if isinstance(model, WMF):
        return squared_loss(scores, rows, model.missing_weight)
    return pairwise_loss(scores, rows)
