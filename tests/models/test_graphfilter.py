from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from receraser.data.interactions import Histories, Interactions
from receraser.errors import UsageError
from receraser.models.graphfilter import GraphFilter, merged_low_pass, normalised
from receraser.protocols import Model
from tests.contracts.model_contract import AdditiveModelContract
from tests.contracts.worlds import blocks, random_rows

ROWS = random_rows(60, 25, 0.3, seed=1)


class TestGraphFilter(AdditiveModelContract):
    model: ClassVar[Callable[..., Model]] = GraphFilter
    quick: ClassVar[dict[str, object]] = {"rank": 5, "n_steps": 3}
    able: ClassVar[dict[str, object]] = {"rank": 8}


class TestGraphFilterLinear(AdditiveModelContract):
    """Without the low pass there is nothing to learn."""

    model: ClassVar[Callable[..., Model]] = GraphFilter
    quick: ClassVar[dict[str, object]] = {"low_pass_weight": 0.0}
    able: ClassVar[dict[str, object]] = {"low_pass_weight": 0.0}


def tilde(rows: Interactions) -> NDArray[np.float64]:
    """R~ of the paper: D_U^(-1/2) R D_I^(-1/2)."""
    r = rows.matrix().toarray().astype(np.float64)
    return np.asarray(np.diag(r.sum(axis=1) ** -0.5) @ r @ np.diag(r.sum(axis=0) ** -0.5))


def low_pass(rows: Interactions, rank: int) -> NDArray[np.float64]:
    """V V^T of the leading eigenvectors."""
    r = tilde(rows)
    _, vectors = np.linalg.eigh(r.T @ r)
    v = vectors[:, ::-1][:, :rank]
    return np.asarray(v @ v.T)


def test_rows_are_normalised_by_both_sides() -> None:
    np.testing.assert_allclose(normalised(ROWS).toarray(), tilde(ROWS), rtol=1e-12)


@pytest.mark.parametrize(("rank", "weight"), [(1, 0.3), (6, 0.3), (6, 0.0), (25, 2.0), (40, 0.3)])
def test_against_the_dense_formula(rank: int, weight: float) -> None:
    """Shen et al. 2021: r (R~^T R~ + alpha D_I^(-1/2) V V^T D_I^(1/2)); ranks up to beyond the number of items."""
    r = ROWS.matrix().toarray().astype(np.float64)
    root = np.diag(np.sqrt(r.sum(axis=0)))
    linear = tilde(ROWS).T @ tilde(ROWS)
    expected = r @ (linear + weight * np.linalg.inv(root) @ low_pass(ROWS, rank) @ root)
    model = GraphFilter(rank=rank, low_pass_weight=weight, n_steps=25).fit(ROWS, seed=1)
    scores = model.scores(Histories.of(ROWS.users.ids, ROWS, ROWS.items)).numpy()
    np.testing.assert_allclose(scores, expected, atol=1e-5)


def test_parts_of_the_graph_that_share_nothing_have_a_direction_each() -> None:
    """A part has an eigenvalue of 1, and these are the leading ones."""
    for n_parts in (2, 5):
        rows = blocks(30, 30, n_parts).train
        v = GraphFilter(rank=n_parts).fit(rows, seed=1).state()["low_pass"].astype(np.float64)
        np.testing.assert_allclose(v @ v.T, low_pass(rows, n_parts), atol=1e-5)


@pytest.mark.parametrize(("name", "value"), [("rank", 0), ("n_steps", 0)])
def test_at_least_one_of_each(name: str, value: int) -> None:
    with pytest.raises(UsageError, match=name):
        GraphFilter(**{name: value})


# ---------------------------------------------------------------------- low-pass vectors from shards


@pytest.mark.parametrize("n_shards", [1, 2, 3, 5])
def test_merged_from_shards_the_space_is_that_of_all_rows(n_shards: int) -> None:
    """Where nothing has to be cut off; items that some shards do not hold are among them."""
    rows = Interactions.union([ROWS, Interactions.from_pairs([("u000", "only here"), ("9", "i000"), ("10", "i001")])])
    shards = [rows.take(rows.user_index % n_shards == k) for k in range(n_shards)]
    items, vectors = merged_low_pass(shards, len(rows.items))
    assert items == rows.items
    lengths = (vectors.astype(np.float64) ** 2).sum(axis=0)
    np.testing.assert_allclose(lengths, 1.0, atol=1e-5)
    v = vectors[:, :4].astype(np.float64)
    np.testing.assert_allclose(v @ v.T, low_pass(rows, 4), atol=1e-5)


def test_merged_from_shards_some_of_them_empty() -> None:
    none = Interactions.empty()
    items, vectors = merged_low_pass([none, ROWS, none], 3)
    assert items == ROWS.items
    alone = merged_low_pass([ROWS], 3)[1]
    np.testing.assert_allclose(vectors @ vectors.T, alone @ alone.T, atol=1e-5)
    assert merged_low_pass([none, none], 3)[1].shape == (0, 3)
