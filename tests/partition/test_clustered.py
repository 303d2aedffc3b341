from __future__ import annotations

import numpy as np
import pytest

from receraser.models.registry import make_factor_model
from receraser.partition.balanced import UBP
from receraser.partition.clustered import _smallest, capacity
from receraser.partition.partition import Embeddings
from receraser.seeds import derive
from tests.contracts.worlds import checkerboard


@pytest.mark.parametrize(
    ("slack", "total", "n_shards", "expected"),
    [(1.2, 100, 10, 12), (1.1, 100, 10, 11), (1.0, 101, 10, 11), (1.2, 0, 4, 0)],
)
def test_capacity_is_rounded_up_from_the_decimal_that_was_written(
    slack: float, total: int, n_shards: int, expected: int
) -> None:
    assert capacity(slack, total, n_shards) == expected


@pytest.mark.parametrize("n", [0, 1, 5, 8, 20])
def test_the_smallest_draws(n: int) -> None:
    draws = np.array([9, 3, 7, 3, 1, 8, 3, 2], dtype=np.uint64)
    assert _smallest(draws, n).tolist() == [4, 7, 1, 3, 6, 2, 5, 0][:n]


def test_the_first_anchors_do_not_depend_on_who_else_is_there() -> None:
    """Whoever is drawn among all is drawn among fewer, if still there: lots are by id."""
    draws = np.random.default_rng(1).integers(0, 2**63, 100).astype(np.uint64)
    among_all = draws[_smallest(draws, 5)]
    some = np.append(among_all, draws[::7])
    assert np.array_equal(some[_smallest(some, 5)], among_all)


@pytest.mark.parametrize("name", ["wmf", "bpr", "lightgcn"])
def test_pre_training_is_a_fit_of_the_model_to_all_rows(name: str) -> None:
    world = checkerboard()
    chosen = UBP(n_shards=3, dim=4, embeddings=name)
    model = make_factor_model(name, {"dim": 4}).fit(world.train, valid=world.held_out, seed=derive(5, "pretrain"))
    given = Embeddings(model.users_, model.user_vectors_, model.items_, model.item_vectors_)
    trained = chosen.assign(world.train, valid=world.held_out, seed=5)
    handed = UBP(n_shards=3, embeddings="file").assign(world.train, valid=world.held_out, seed=5, embeddings=given)
    assert np.array_equal(trained.train, handed.train)
    assert trained.landmarks is not None
    assert np.array_equal(trained.landmarks.vectors, model.item_vectors_)
