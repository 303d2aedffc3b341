from __future__ import annotations

import numpy as np
import pytest
import torch

from receraser.aggregation.weighted import WeightedSum
from receraser.data.ids import IdMap
from receraser.data.interactions import Histories
from receraser.models.factors import FactorModel
from tests.aggregation.test_mean import FIRST, ROWS, SECOND
from tests.contracts.worlds import batch, history

WEIGHTS = np.array([0.25, 0.75], dtype=np.float32)
SCORER = WeightedSum([FIRST, SECOND], WEIGHTS)


def folded(model: FactorModel, items: list[str]) -> torch.Tensor:
    """The scores a submodel gives to somebody with these items, in the vocabulary of all."""
    scores = torch.zeros(len(SCORER.items_))
    own = model.scores(history([name for name in items if name in model.items_], model.items_))[0]
    scores[torch.from_numpy(SCORER.items_.indices(model.items_))] = own
    return scores


@pytest.mark.parametrize("items", [["a"], ["b"], ["c"], ["a", "b"], ["a", "c"], ["a", "b", "c"]])
@pytest.mark.parametrize("name", ["", "somebody"])
def test_strangers_are_folded_in_by_every_submodel_that_holds_any_of_their_items(items: list[str], name: str) -> None:
    found = SCORER.scores(history(items, SCORER.items_, name=name))[0]
    expected = 0.25 * folded(FIRST, items) + 0.75 * folded(SECOND, items)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)
    assert found.any()


@pytest.mark.parametrize(("user", "model", "weight"), [("u", FIRST, 0.25), ("w", SECOND, 0.75)])
def test_whom_one_submodel_knows_no_other_folds_in(user: str, model: FactorModel, weight: float) -> None:
    """Though the other shard holds items of theirs, and could."""
    found = SCORER.scores(history(["a", "b", "c"], SCORER.items_, name=user))[0]
    known = model.users_.index_of(user)
    expected = torch.zeros(3)
    own = model.user_vectors_[known] @ model.item_vectors_.T
    expected[torch.from_numpy(SCORER.items_.indices(model.items_))] = torch.from_numpy(weight * own)
    assert torch.equal(found, expected)


def test_known_and_unknown_in_one_batch() -> None:
    people = [
        Histories.of(["u", "v"], ROWS, SCORER.items_),
        history(["b"], SCORER.items_),
        history([], SCORER.items_, name="nobody"),
        history(["c"], SCORER.items_, name="w"),
    ]
    together = SCORER.scores(batch(people))
    assert torch.equal(together, torch.cat([SCORER.scores(one) for one in people]))
    assert not together[3].any()


def test_a_weight_of_nothing_silences() -> None:
    people = Histories.of(["u", "v", "w"], ROWS, SCORER.items_)
    found = WeightedSum([FIRST, SECOND], np.array([0.0, 1.0], dtype=np.float32)).scores(people)
    assert not found[0].any()
    assert found[1].tolist() == [0.0, 2.0, 12.0]


def test_no_submodels() -> None:
    nothing = WeightedSum([], np.empty(0, dtype=np.float32))
    assert nothing.items_ == IdMap([])
    assert nothing.scores(Histories.from_lists(["u"], [np.empty(0, dtype=np.int64)])).shape == (1, 0)
