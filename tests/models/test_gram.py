from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from receraser.data.interactions import Histories, Interactions
from receraser.errors import UsageError
from receraser.models.gram import Gram
from receraser.protocols import Model
from receraser.training.least_squares import polished
from tests.contracts.model_contract import AdditiveModelContract
from tests.contracts.worlds import bits, random_rows

ROWS = random_rows(60, 16, 0.3, seed=1)
PATHS = {"from sums": 1e9, "from rows": 0.0}  # pairs_per_row


class TestGramFromSums(AdditiveModelContract):
    model: ClassVar[Callable[..., Model]] = Gram
    quick: ClassVar[dict[str, object]] = {"rank": 5, "pairs_per_row": 1e9}
    able: ClassVar[dict[str, object]] = {"rank": 4}


class TestGramFromRows(AdditiveModelContract):
    model: ClassVar[Callable[..., Model]] = Gram
    quick: ClassVar[dict[str, object]] = {"rank": 5, "pairs_per_row": 0.0}
    able: ClassVar[dict[str, object]] = {"rank": 4, "pairs_per_row": 0.0}


class TestGramPolished(AdditiveModelContract):
    model: ClassVar[Callable[..., Model]] = Gram
    quick: ClassVar[dict[str, object]] = {"rank": 5, "polish": 1}
    able: ClassVar[dict[str, object]] = {"rank": 4, "polish": 1}


def plain(rows: Interactions, model: Gram) -> NDArray[np.float64]:
    """The items' vectors times themselves, as the docstring has it, by one eigen-decomposition of the dense matrix."""
    x = rows.matrix().toarray().astype(np.float64)
    weights = np.rint(2**20 * x.sum(axis=1) ** -model.user_power) if model.user_power else np.ones(len(x))
    scale = x.sum(axis=0) ** -model.item_power
    values, vectors = np.linalg.eigh(scale[:, None] * (x.T @ (weights[:, None] * x)) * scale)
    q = vectors[:, ::-1][:, : model.rank] * np.sqrt(np.maximum(values[::-1][: model.rank], 0.0))
    q /= np.sqrt((q**2).sum() / len(q))
    return np.asarray(q @ q.T)


@pytest.mark.parametrize("pairs_per_row", PATHS.values(), ids=PATHS)
@pytest.mark.parametrize(("rank", "powers"), [(1, (0.5, 0.25)), (4, (0.0, 0.0)), (7, (1.0, 0.5)), (40, (0.75, 0.35))])
def test_against_a_dense_eigen_decomposition(rank: int, powers: tuple[float, float], pairs_per_row: float) -> None:
    """Ranks up to beyond the number of items; vectors are determined up to signs, so their products are compared."""
    model = Gram(rank=rank, user_power=powers[0], item_power=powers[1], pairs_per_row=pairs_per_row).fit(ROWS, seed=3)
    q = model.state()["item_vectors"].astype(np.float64)
    assert q.shape == (len(ROWS.items), rank)
    np.testing.assert_allclose(q @ q.T, plain(ROWS, model), atol=2e-5)
    assert not q[:, len(ROWS.items) :].any(), "directions that do not exist"


def test_scores_are_those_of_the_ridge_in_that_space() -> None:
    model = Gram(rank=4, missing_weight=0.3, regularization=0.02).fit(ROWS, seed=3)
    x = ROWS.matrix().toarray().astype(np.float64)
    q = model.state()["item_vectors"].astype(np.float64)
    scores = model.scores(Histories.of(ROWS.users.ids, ROWS, ROWS.items)).numpy()
    for user in (0, 17, 59):
        penalty = 0.02 * (x[user].sum() + 0.3 * len(q))
        a = q.T @ np.diag(x[user] + 0.3) @ q + penalty * np.eye(4)
        np.testing.assert_allclose(scores[user], q @ np.linalg.solve(a, q.T @ x[user]), atol=1e-5)


@pytest.mark.parametrize("polish", [0, 1])
def test_what_is_missing_weighs_less_the_sparser_the_rows_are(polish: int) -> None:
    """By default the root of the share of all pairs that are rows: of these rows, not of those of an earlier fit."""
    share = len(ROWS) / (len(ROWS.users) * len(ROWS.items))
    own, given = Gram(rank=4, polish=polish), Gram(rank=4, polish=polish, missing_weight=share**0.5)
    own.fit(ROWS.take(ROWS.user_index < 20), seed=3)
    people = Histories.of(ROWS.users.ids[:9], ROWS, ROWS.items)
    found = [model.fit(ROWS, seed=3).scores(people) for model in (own, given)]
    assert torch.equal(*found)
    assert not torch.equal(found[0], Gram(rank=4, polish=polish, missing_weight=0.9).fit(ROWS, seed=3).scores(people))


def test_whether_sums_are_kept_is_a_function_of_the_rows() -> None:
    """16 items have 136 pairs."""
    rows = len(ROWS)
    assert Gram(pairs_per_row=136 / rows).sums(ROWS) is not None
    assert Gram(pairs_per_row=135 / rows).sums(ROWS) is None
    assert Gram(pairs_per_row=1e9, polish=1).sums(ROWS) is None
    fewer = ROWS.take(np.arange(rows) > 0)
    kept = Gram(pairs_per_row=136 / rows)
    sums = kept.sums(ROWS)
    assert sums is not None
    assert len(fewer.items) == 16
    assert kept.resummed(sums, ROWS, fewer) is None, "as a fresh fit decides"


def test_polish_is_sweeps_from_there() -> None:
    start = Gram(rank=4, pairs_per_row=0.0).fit(ROWS, seed=3).state()["item_vectors"].astype(np.float32)
    swept = polished(start, ROWS, 2, missing_weight=0.2, regularization=0.01)
    made = Gram(rank=4, polish=2, missing_weight=0.2, regularization=0.01).fit(ROWS, seed=3)
    assert np.array_equal(made.state()["item_vectors"], swept)
    assert not np.allclose(start, swept)


def test_torchs_threads_change_nothing() -> None:
    rows = random_rows(1000, 100, 0.03, seed=5)
    kept = torch.get_num_threads()
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        try:
            found.append(bits(Gram(rank=64, polish=1).fit(rows, seed=1)))
            assert torch.get_num_threads() == threads, "the caller's setting is restored"
        finally:
            torch.set_num_threads(kept)
    assert found[0] == found[1]


def test_rank_is_at_least_one() -> None:
    with pytest.raises(UsageError, match="rank"):
        Gram(rank=0)


def test_the_weights_of_the_fold_in_follow_the_rows() -> None:
    """By default: the square root of the share of pairs that are rows, and 0.09 times that."""
    rows = Interactions.from_pairs([(u, i) for u in range(4) for i in range(4) if (u + i) % 4 == 0])
    given = Gram(missing_weight=0.5, regularization=0.045)
    histories = Histories.of(rows.users.ids, rows, rows.items)
    mine, same = (model.fit(rows).scores(histories) for model in (Gram(), given))
    assert torch.equal(mine, same)
