from __future__ import annotations

from typing import ClassVar

import pytest

from receraser.aggregation.alone import Alone
from receraser.partition.whole import Whole
from receraser.protocols import Aggregator, Partitioner
from tests.contracts.aggregator_contract import AggregatorContract


class TestAlone(AggregatorContract):
    partitioner: ClassVar[Partitioner] = Whole()

    def make(self, **changes: object) -> Aggregator:
        return Alone(**changes)

    def test_the_submodel_is_the_scorer(self) -> None:
        submodels = self.submodels()
        assert self.make().scorer(submodels, {}) is submodels[0]

    @pytest.mark.parametrize("n", [0, 2])
    def test_there_must_be_one(self, n: int) -> None:
        with pytest.raises(ValueError, match="values to unpack"):
            self.make().scorer([*self.submodels()] * n, {})
