from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
import torch

from receraser.aggregation.mean import Mean
from receraser.data.ids import IdMap
from receraser.data.interactions import Histories, Interactions
from receraser.models.factors import FactorModel
from receraser.models.wmf import WMF
from receraser.partition.hashed import Hashed
from receraser.protocols import Aggregator, Partitioner
from tests.aggregation.given import given
from tests.contracts.aggregator_contract import AggregatorContract


class TestMean(AggregatorContract):
    def make(self, **changes: object) -> Aggregator:
        return Mean(**changes)

    def test_one_submodel_is_its_own_mean(self) -> None:
        model = self.submodels()[0]
        scorer = self.make().scorer([model], {})
        people = self.people(model)
        for one in people:
            assert torch.equal(scorer.scores(one), model.scores(one))


class TestMeanOfUsersInOneShard(AggregatorContract):
    partitioner: ClassVar[Partitioner] = Hashed(n_shards=2)
    base: ClassVar[FactorModel] = WMF(dim=2)

    def make(self, **changes: object) -> Aggregator:
        return Mean(**changes)


# Two shards: v and b are in both of them, u and a in the first only, w and c in the second only.
FIRST = given([("u", "a"), ("v", "b")], {"u": [1, 2], "v": [3, 0]}, {"a": [1, 1], "b": [0, 4]})
SECOND = given([("v", "b"), ("w", "c")], {"v": [2, 2], "w": [0, 1]}, {"b": [1, 0], "c": [5, 1]})
ROWS = Interactions.from_pairs([("u", "a"), ("v", "b"), ("w", "c")])


def test_by_hand() -> None:
    scorer = Mean().scorer([FIRST, SECOND], {})
    assert list(scorer.items_) == ["a", "b", "c"]
    found = scorer.scores(Histories.of(["w", "u", "v"], ROWS, scorer.items_))
    assert found.tolist() == [
        [0.0, 0.0, 1 / 2],  # w: only the second holds them; it has b at 0 and c at 1
        [3 / 2, 8 / 2, 0.0],  # u: only the first
        [3 / 2, (0 + 2) / 2, 12 / 2],  # v: both, each for what it holds
    ]


@pytest.mark.parametrize("empty", [1, 8])
def test_shards_without_rows_count(empty: int) -> None:
    """The mean is over all shards, whatever is in them."""
    nothing = np.zeros((0, 2), dtype=np.float32)
    nobody = WMF(dim=2).load_state(IdMap([]), IdMap([]), {"user_vectors": nothing, "item_vectors": nothing})
    people = Histories.of(["u", "v", "w"], ROWS, ROWS.items)
    two = Mean().scorer([FIRST, SECOND], {}).scores(people)
    more = Mean().scorer([FIRST, SECOND, *[nobody] * empty], {}).scores(people)
    torch.testing.assert_close(more, two * 2 / (2 + empty))
