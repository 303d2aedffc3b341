"""What every `Aggregator` must do. Subclass it, call the class Test..., and say how to make one."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import pytest
import torch

from receraser import fingerprint, settings
from receraser.aggregation.registry import make_aggregator
from receraser.data.interactions import Histories, Interactions
from receraser.errors import UsageError
from receraser.evaluation import evaluate
from receraser.fingerprint import Tensors
from receraser.models.bpr import BPR
from receraser.models.factors import FactorModel
from receraser.partition.hashed import Random
from receraser.partition.whole import Whole
from receraser.protocols import Aggregator, Partitioner, Scorer
from receraser.store.encoding import decode_tensors, encode_tensors
from tests.contracts.scorer_contract import ScorerContract
from tests.contracts.worlds import batch, bits, checkerboard, edges, history, submodels_of


class AggregatorContract(ScorerContract):
    """An aggregate of submodels of the checkerboard.

    Attributes
    ----------
    partitioner
        How the checkerboard is cut into shards.
    base
        The model that is fitted on each of them.
    draws
        Whether what is learned depends on the seed.
    knows_one_item
        Whether an item that is alone in the world has a score.
    """

    partitioner: ClassVar[Partitioner] = Random(n_shards=3)
    draws: ClassVar[bool] = True
    knows_one_item: ClassVar[bool] = True
    base: ClassVar[FactorModel] = BPR(dim=4, n_epochs=40, batch_size=64, learning_rate=0.05, n_negatives=1)

    def make(self, **changes: object) -> Aggregator:
        """Return one that learns in milliseconds, and enough of the checkerboard."""
        raise NotImplementedError

    def submodels(self, rows: Interactions | None = None) -> list[FactorModel]:
        """Return submodels fitted on shards: of the checkerboard, or of other rows."""
        rows = checkerboard().train if rows is None else rows
        return submodels_of(self.base, rows, self.partitioner.assign(rows, valid=None, seed=1))

    def fit(self, submodels: Sequence[FactorModel], **changes: object) -> tuple[Tensors, Mapping[str, object]]:
        world = checkerboard()
        return self.make(**changes).fit(submodels, world.train, valid=world.held_out, seed=1)

    def scorer(self) -> Scorer:
        submodels = self.submodels()
        state, _ = self.fit(submodels)
        return self.make().scorer(submodels, state)

    # ------------------------------------------------------------------ it knows

    def test_knows_what_the_submodels_know(self) -> None:
        world = checkerboard()
        assert evaluate(self.scorer(), world.train, world.held_out, at=(2,)).metrics["recall@2"] > 0.9

    def test_a_stranger_is_recommended_what_those_like_them_have(self) -> None:
        scorer = self.scorer()
        for parity in (0, 1):
            own = [name for name in scorer.items_ if int(name[1:]) % 2 == parity]
            scores = scorer.scores(history(own[:6], scorer.items_))[0]
            index = torch.from_numpy(scorer.items_.indices(own[6:]))
            others = [name for name in scorer.items_ if name not in own]
            assert scores[index].mean() > scores[torch.from_numpy(scorer.items_.indices(others))].mean()

    def test_an_unknown_user_without_items_has_no_preference(self) -> None:
        scorer = self.scorer()
        people = batch([history([], scorer.items_, name="nobody"), history([], scorer.items_)])
        assert not scorer.scores(people).any()

    # ------------------------------------------------------------------ a pure function of submodels, rows and seed

    def test_leaves_the_submodels_and_the_rows_as_they_are(self) -> None:
        submodels, world = self.submodels(), checkerboard()
        before = [bits(one) for one in submodels]
        aggregator = self.make()
        state, _ = aggregator.fit(submodels, world.train, valid=world.held_out, seed=1)
        scorer = aggregator.scorer(submodels, state)
        scorer.scores(batch(self.people(scorer)))
        assert [bits(one) for one in submodels] == before
        assert world == checkerboard()

    def test_what_is_learned_is_all_there_is_to_it(self) -> None:
        """A scorer made again from the submodels and the stored state, by another aggregator, has the same scores."""
        submodels = self.submodels()
        state, _ = self.fit(submodels)
        stored = decode_tensors(encode_tensors(state)) if state else {}
        first, again = self.make().scorer(submodels, state), self.make().scorer(self.submodels(), stored)
        people = batch(self.people(first))
        assert torch.equal(first.scores(people), again.scores(people))

    def test_repeated_fits_have_the_same_bits(self) -> None:
        found = {fingerprint.of_tensors(self.fit(self.submodels())[0]) for _ in range(3)}
        assert len(found) == 1

    def test_another_seed_gives_another_aggregate_where_anything_is_learned(self) -> None:
        submodels, rows = self.submodels(), checkerboard().train
        aggregator = self.make()
        found = {fingerprint.of_tensors(aggregator.fit(submodels, rows, valid=None, seed=seed)[0]) for seed in range(3)}
        assert len(found) == (3 if aggregator.learns and self.draws else 1)

    def test_whether_anything_is_learned_is_told_beforehand(self) -> None:
        state, facts = self.fit(self.submodels())
        assert bool(state) == bool(facts) == self.make().learns
        assert all(array.flags.c_contiguous and np.isfinite(array).all() for array in state.values())
        json.dumps(dict(facts), allow_nan=False)

    def test_an_earlier_fit_leaves_no_trace(self) -> None:
        world, submodels = checkerboard(), self.submodels()
        used = self.make()
        used.fit(self.submodels(world.held_out), world.held_out, valid=world.train, seed=9)
        found, _ = used.fit(submodels, world.train, valid=world.held_out, seed=1)
        assert fingerprint.of_tensors(found) == fingerprint.of_tensors(self.fit(submodels)[0])

    def test_global_generators_are_neither_used_nor_moved(self) -> None:
        submodels, results = self.submodels(), []
        for seed in (1, 2):
            np.random.seed(seed)  # noqa: NPY002
            torch.manual_seed(seed)
            random.seed(seed)
            before = repr(np.random.get_state()), torch.get_rng_state(), random.getstate()  # noqa: NPY002
            results.append(fingerprint.of_tensors(self.fit(submodels)[0]))
            after = repr(np.random.get_state()), torch.get_rng_state(), random.getstate()  # noqa: NPY002
            assert before[0] == after[0]
            assert torch.equal(before[1], after[1])
            assert before[2] == after[2]
        assert results[0] == results[1]

    def test_torchs_threads_change_nothing(self) -> None:
        kept, found = torch.get_num_threads(), []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            try:
                found.append(fingerprint.of_tensors(self.fit(self.submodels())[0]))
                assert torch.get_num_threads() == threads, "the caller's setting is restored"
            finally:
                torch.set_num_threads(kept)
        assert found[0] == found[1]

    def test_progress_is_told_where_anything_is_learned(self) -> None:
        told: list[tuple[str, int, int]] = []
        aggregator, rows = self.make(), checkerboard().train
        aggregator.fit(self.submodels(), rows, valid=None, seed=1, progress=lambda *one: told.append(one))
        what, total = self.steps(aggregator)
        assert told == [(what, step, total) for step in range(1, total + 1)]

    def steps(self, aggregator: Aggregator) -> tuple[str, int]:
        """Return what progress is told in, and how many there are of it."""
        return "epochs", int(str(settings.values(aggregator).get("n_epochs", 0)))

    # ------------------------------------------------------------------ validation rows

    def test_validation_rows_nobody_can_be_ranked_for_change_nothing(self) -> None:
        submodels, rows, aggregator = self.submodels(), checkerboard().train, self.make()
        plain = fingerprint.of_tensors(aggregator.fit(submodels, rows, valid=None, seed=4)[0])
        for valid in (Interactions.empty(), Interactions.from_pairs([("nobody", "i00"), ("nobody", "nothing")])):
            assert fingerprint.of_tensors(aggregator.fit(submodels, rows, valid=valid, seed=4)[0]) == plain

    # ------------------------------------------------------------------ edges

    @pytest.mark.parametrize("name", edges())
    def test_tables_at_the_edge(self, name: str) -> None:
        """Most shards have no rows at all."""
        rows = edges()[name]
        submodels, aggregator = self.submodels(rows), self.make()
        for valid in (None, rows):
            state, _ = aggregator.fit(submodels, rows, valid=valid, seed=1)
            scorer = aggregator.scorer(submodels, state)
            assert scorer.items_ == rows.items
            people = [Histories.of(["u", "nobody"], rows, rows.items), history(rows.items.ids[:2], rows.items)]
            scores = scorer.scores(batch(people))
            assert scores.shape == (3, len(rows.items))
            assert torch.isfinite(scores).all()
            assert not scores[1].any()
            if len(rows) and (self.knows_one_item or len(rows.items) > 1):
                assert scores[0].any(), "a user with rows is not treated as nobody"

    def test_a_single_submodel(self) -> None:
        world = checkerboard()
        whole = Whole().assign(world.train, valid=None, seed=1)
        submodels, aggregator = submodels_of(self.base, world.train, whole), self.make()
        state, _ = aggregator.fit(submodels, world.train, valid=world.held_out, seed=1)
        scorer = aggregator.scorer(submodels, state)
        assert evaluate(scorer, world.train, world.held_out, at=(2,)).metrics["recall@2"] > 0.9

    # ------------------------------------------------------------------ settings

    def test_the_constructor_only_stores(self) -> None:
        aggregator = self.make()
        assert vars(aggregator) == settings.values(aggregator)
        assert make_aggregator(aggregator.name, settings.values(aggregator)) == aggregator

    def test_impossible_numbers_are_refused(self) -> None:
        for name, value in settings.values(self.make()).items():
            wrong: list[object] = [None, [value]]
            if isinstance(value, str):
                wrong += [3]
            elif isinstance(value, bool):
                wrong += [3, "3", 1.0]
            else:
                wrong += [-1, "3", True, float("nan"), float("inf"), -float("inf")]
            if type(value) is int:
                wrong += [2.5]
            for bad in wrong:
                with pytest.raises(UsageError, match=f": {name} is .*; expected"):
                    self.make(**{name: bad})
