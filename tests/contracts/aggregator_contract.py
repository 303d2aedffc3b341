"""What every `Aggregator` must do. Subclass it, call the class Test..., and say how to make one."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from receraser.evaluation import evaluate
from receraser.models.wmf import WMF
from receraser.protocols import Aggregator, Model, Scorer
from tests.contracts.scorer_contract import ScorerContract
from tests.contracts.worlds import batch, bits, checkerboard


class AggregatorContract(ScorerContract):
    """An aggregate of submodels of the checkerboard."""

    def make(self) -> Aggregator:
        raise NotImplementedError

    def submodels(self) -> Sequence[Model]:
        """Return submodels fitted on shards of the checkerboard; by default a single one, on all of it."""
        return [WMF(dim=4).fit(checkerboard().train, seed=1)]

    def aggregate(self, submodels: Sequence[Model]) -> Scorer:
        world = checkerboard()
        aggregator = self.make()
        return aggregator.scorer(submodels, aggregator.fit(submodels, world.train, valid=world.held_out, seed=1))

    def scorer(self) -> Scorer:
        return self.aggregate(self.submodels())

    def test_knows_what_the_submodels_know(self) -> None:
        world = checkerboard()
        assert evaluate(self.scorer(), world.train, world.held_out, at=(2,)).metrics["recall@2"] > 0.9

    def test_leaves_the_submodels_as_they_are(self) -> None:
        submodels = self.submodels()
        before = [bits(one) for one in submodels]
        self.aggregate(submodels)
        assert [bits(one) for one in submodels] == before

    def test_what_is_learned_is_all_there_is_to_it(self) -> None:
        """A scorer made again from the submodels and the stored state, by another aggregator, has the same scores."""
        world, submodels = checkerboard(), self.submodels()
        state = self.make().fit(submodels, world.train, valid=world.held_out, seed=1)
        copied = {name: array.copy() for name, array in state.items()}
        first, again = self.make().scorer(submodels, state), self.make().scorer(self.submodels(), copied)
        people = batch(self.people(first))
        assert torch.equal(first.scores(people), again.scores(people))

    def test_a_pure_function_of_the_submodels(self) -> None:
        first, again = self.scorer(), self.scorer()
        people = batch(self.people(first))
        assert torch.equal(first.scores(people), again.scores(people))
