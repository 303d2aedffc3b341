from __future__ import annotations

import pytest

from receraser.aggregation.alone import Alone
from receraser.protocols import Aggregator
from tests.contracts.aggregator_contract import AggregatorContract


class TestAlone(AggregatorContract):
    def make(self) -> Aggregator:
        return Alone()

    def test_the_submodel_is_the_scorer(self) -> None:
        submodels = self.submodels()
        assert self.aggregate(submodels) is submodels[0]

    @pytest.mark.parametrize("n", [0, 2])
    def test_there_must_be_one(self, n: int) -> None:
        with pytest.raises(ValueError, match="values to unpack"):
            self.aggregate([*self.submodels()] * n)
