"""Models that somebody else might have written, and that are pure functions of rows, hyperparameters and seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from receraser.models.foreign import Rows

Matrix = NDArray[np.float64]


class ALS:
    """Least squares over all pairs, in turn."""

    def __init__(self, dim: int = 4, sweeps: int = 3, penalty: float = 0.1) -> None:
        self.dim, self.sweeps, self.penalty = dim, sweeps, penalty

    def fit(self, rows: Rows, seed: int) -> tuple[Matrix, Matrix]:
        taken = np.zeros((len(rows.users), len(rows.items)))
        taken[rows.user_index, rows.item_index] = 1
        items = np.random.default_rng(seed).normal(size=(len(rows.items), self.dim))
        users = self.solved(taken, items)
        for _ in range(self.sweeps):
            items = self.solved(taken.T, users)
            users = self.solved(taken, items)
        return users, items

    def solved(self, taken: Matrix, other: Matrix) -> Matrix:
        gram = other.T @ other + self.penalty * np.eye(self.dim)
        return np.asarray(np.linalg.solve(gram, other.T @ taken.T).T)


def counts(rows: Rows, seed: int, power: float = 0.5) -> tuple[Matrix, Matrix]:
    """How often an item was taken, which is the same for everybody. A function will do."""
    popular = np.bincount(rows.item_index, minlength=len(rows.items)).astype(float) ** power
    return np.ones((len(rows.users), 1)), popular[:, None]


made = ALS(dim=2)


class Narrow(ALS):
    """As many numbers as there are items, at most: shards differ in it."""

    def fit(self, rows: Rows, seed: int) -> tuple[Matrix, Matrix]:
        self.dim = min(self.dim, len(rows.items))
        return super().fit(rows, seed)
