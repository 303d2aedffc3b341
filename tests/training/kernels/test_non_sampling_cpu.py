from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from receraser.training import kernels
from receraser.training.kernels import non_sampling_cpu

WEIGHT = 0.3


@dataclass(frozen=True)
class Batch:
    """A batch of users, in another order than their rows; some of them have none."""

    users: NDArray[np.int64]
    indptr: NDArray[np.int64]
    items: NDArray[np.int64]
    p: NDArray[np.float32]
    q: NDArray[np.float32]

    def gradients(self, n_owners: int = 2) -> list[NDArray[np.float64]]:
        """Of the users, of all items; and what each user loses."""
        made = np.full_like(self.p, np.nan), np.full_like(self.q, np.nan), np.full(len(self.p), np.nan)
        non_sampling_cpu.gradients(self.users, self.indptr, self.items, self.p, self.q, WEIGHT, n_owners, *made)
        return [one.astype(np.float64) for one in made]

    def expected(self) -> list[NDArray[np.float64]]:
        """The same from a table of all pairs, in double precision."""
        p, q = self.p.astype(np.float64), self.q.astype(np.float64)
        held = np.zeros((len(p), len(q)))
        for at, user in enumerate(self.users):
            held[at, self.items[self.indptr[user] : self.indptr[user + 1]]] = 1.0
        scores = p @ q.T
        lost = held * ((1.0 - WEIGHT) * scores**2 - 2.0 * scores) + WEIGHT * scores**2
        slopes = held * (2.0 * (1.0 - WEIGHT) * scores - 2.0) + 2.0 * WEIGHT * scores
        return [slopes @ q, slopes.T @ p, lost.sum(axis=1)]


def batch(n_batch: int, n_items: int, dim: int) -> Batch:
    rng = np.random.default_rng([n_batch, n_items, dim])
    n_users = n_batch + 3
    held = rng.random((n_users, n_items)) < 0.3
    held[::4] = False
    return Batch(
        rng.permutation(n_users)[:n_batch],
        np.concatenate([[0], np.cumsum(held.sum(axis=1))]),
        np.nonzero(held)[1],
        rng.normal(size=(n_batch, dim)).astype(np.float32),
        rng.normal(size=(n_items, dim)).astype(np.float32),
    )


SIZES = [(1, 1, 1), (1, 300, 5), (7, 9, 64), (33, 257, 16), (200, 40, 33), (9, 5, 2100)]


@pytest.mark.parametrize(("n_batch", "n_items", "dim"), SIZES)
def test_loss_and_gradient_are_those_of_all_pairs(n_batch: int, n_items: int, dim: int) -> None:
    """Fewer users, or items, than there are stretches; more than a block of either; sums too large for stretches."""
    given = batch(n_batch, n_items, dim)
    for found, expected in zip(given.gradients(), given.expected(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * float(np.abs(expected).max()))


def test_the_bits_depend_neither_on_the_threads_nor_on_who_owns_an_item() -> None:
    given, before, found = batch(300, 900, 48), kernels.threads(), set()
    try:
        for n_threads, n_owners in ((1, 1), (2, 2), (2, 8), (1, 4)):
            kernels.use_threads(n_threads)
            found.add(b"".join(one.tobytes() for one in given.gradients(n_owners)))
    finally:
        kernels.use_threads(before)
    assert len(found) == 1


def test_vectors_that_are_no_numbers_show() -> None:
    """What has diverged is noticed by the loss."""
    given = batch(7, 9, 16)
    given.q[3, 2] = math.nan
    assert math.isnan(given.gradients()[2].sum())
