"""What every `Model` must do. A new model's test subclasses one of the last two contracts here in a few lines."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pytest
import torch

from receraser import fingerprint
from receraser.data.interactions import Histories, Interactions
from receraser.errors import UsageError
from receraser.evaluation import evaluate
from receraser.fingerprint import Tensors
from receraser.models.additive import AdditiveModel
from receraser.models.factors import FactorModel
from receraser.models.popularity import Popularity
from receraser.protocols import Additive, Model, Scorer
from receraser.ranking import top_k
from tests.contracts.scorer_contract import ScorerContract
from tests.contracts.worlds import batch, bits, checkerboard, edges, history

_VALID: dict[str, Interactions | None] = {
    "no table": None,
    "no row": Interactions.empty(),
    "strangers and unknown items": Interactions.from_pairs([("nobody", "a"), ("u", "nothing"), ("no", "thing")]),
    "known pairs": Interactions.from_pairs([("u", "b"), ("v", "c"), ("w", "a")]),
}


class ModelContract(ScorerContract):
    """How a base model must behave, whatever it is.

    Attributes
    ----------
    model
        The class.
    quick
        Hyperparameters with which a fit takes milliseconds; it need not have learned much.
    able
        Hyperparameters with which it understands the checkerboard.
    passes
        The hyperparameter that counts passes over the rows, where there is one.
    knows_one_item
        Whether it has anything to say where there is but one item.
    """

    model: ClassVar[Callable[..., Model]]
    quick: ClassVar[dict[str, object]] = {}
    able: ClassVar[dict[str, object]] = {}
    passes: ClassVar[str] = "n_epochs"
    knows_one_item: ClassVar[bool] = True

    def make(self, **changes: object) -> Model:
        return type(self).model(**(self.quick | changes))

    def learned(self) -> Model:
        return type(self).model(**self.able).fit(checkerboard().train, seed=3)

    def scorer(self) -> Scorer:
        return self.make().fit(checkerboard().train, seed=3)

    # ------------------------------------------------------------------ it learns

    def test_finds_the_held_out_fields_of_the_checkerboard(self) -> None:
        world = checkerboard()
        found = evaluate(self.learned(), world.train, world.held_out, at=(2,)).metrics["recall@2"]
        popular = evaluate(Popularity().fit(world.train), world.train, world.held_out, at=(2,)).metrics["recall@2"]
        assert found > 0.95
        assert found > popular + 0.4

    def test_a_stranger_is_recommended_what_those_like_them_have(self) -> None:
        model = self.learned()
        for parity in (0, 1):
            own = [name for name in model.items_ if int(name[1:]) % 2 == parity]
            stranger = history(own[:4], model.items_)
            seen = torch.zeros(4, dtype=torch.int64), torch.from_numpy(stranger.item_index)
            best = top_k(model.scores(stranger), 6, exclude=seen)[0]
            assert sorted(model.items_.take(best.numpy())) == own[4:]

    def test_an_unknown_user_without_items_has_no_preference(self) -> None:
        model = self.learned()
        people = batch([history([], model.items_, name="nobody"), history([], model.items_)])
        assert not model.scores(people).any()

    # ------------------------------------------------------------------ a pure function of rows, hyperparameters, seed

    def test_the_constructor_only_stores(self) -> None:
        model = self.make()
        assert vars(model) == model.hyperparameters()

    def test_hyperparameters_make_the_same_model_again(self) -> None:
        model = self.make()
        told = model.hyperparameters()
        assert json.loads(json.dumps(told)) == told
        assert set(self.quick.items()) <= set(told.items())
        again = type(self).model(**told)
        assert again.hyperparameters() == told
        assert again.name == model.name
        rows = checkerboard().train
        assert bits(again.fit(rows, seed=1)) == bits(model.fit(rows, seed=1))

    def test_fit_returns_the_model(self) -> None:
        model = self.make()
        assert model.fit(checkerboard().train) is model
        assert isinstance(model, Model)

    def test_repeated_fits_have_the_same_bits(self) -> None:
        rows = checkerboard().train
        assert len({bits(self.make().fit(rows, seed=5)) for _ in range(3)}) == 1

    def test_the_order_of_the_input_does_not_matter(self) -> None:
        world = checkerboard()
        mixed = [list(table.pairs()) for table in (world.train, world.held_out)]
        for pairs in mixed:
            random.Random(3).shuffle(pairs)
        train, valid = (Interactions.from_pairs(pairs) for pairs in mixed)
        straight = self.make().fit(world.train, valid=world.held_out, seed=5)
        assert bits(self.make().fit(train, valid=valid, seed=5)) == bits(straight)

    def test_an_earlier_fit_leaves_no_trace(self) -> None:
        world = checkerboard()
        fresh = self.make().fit(world.train, seed=2)
        used = self.make().fit(world.held_out, valid=world.train, seed=1).fit(world.train, seed=2)
        assert bits(used) == bits(fresh)
        assert used.users_ == fresh.users_
        assert used.items_ == fresh.items_
        assert used.facts() == fresh.facts()
        assert vars(used).keys() == vars(fresh).keys()

    def test_global_generators_are_neither_used_nor_moved(self) -> None:
        world = checkerboard()
        results = []
        for seed in (1, 2):
            np.random.seed(seed)  # noqa: NPY002
            torch.manual_seed(seed)
            random.seed(seed)
            before = repr(np.random.get_state()), torch.get_rng_state(), random.getstate()  # noqa: NPY002
            model = self.make().fit(world.train, valid=world.held_out, seed=7)
            model.scores(history(["i00"], model.items_))
            after = repr(np.random.get_state()), torch.get_rng_state(), random.getstate()  # noqa: NPY002
            assert before[0] == after[0]
            assert torch.equal(before[1], after[1])
            assert before[2] == after[2]
            results.append(bits(model))
        assert results[0] == results[1]

    def test_the_rows_stay_as_they_are(self) -> None:
        world = checkerboard()
        self.make().fit(world.train, valid=world.held_out, seed=1)
        assert world == checkerboard()

    def test_vocabularies_are_exactly_those_of_the_rows(self) -> None:
        world = checkerboard()
        extra = Interactions.union([world.held_out, Interactions.from_pairs([("u99", "i00"), ("u00", "i99")])])
        model = self.make().fit(world.train, valid=extra, seed=1)
        assert model.users_ == world.train.users
        assert model.items_ == world.train.items

    # ------------------------------------------------------------------ validation rows

    def test_validation_rows_choose_the_epoch_and_nothing_else(self) -> None:
        """Fitted for just as many passes as the validation chose, without it, the model has the same bits."""
        world = checkerboard()
        watched = self.make().fit(world.train, valid=world.held_out, seed=4)
        best = watched.facts().get("best_epoch")
        chosen = {} if best is None else {self.passes: best}
        assert bits(watched) == bits(self.make(**chosen).fit(world.train, seed=4))

    def test_validation_rows_nobody_can_be_ranked_for_change_nothing(self) -> None:
        rows = checkerboard().train
        plain = bits(self.make().fit(rows, seed=4))
        for valid in (Interactions.empty(), Interactions.from_pairs([("nobody", "i00"), ("nobody", "nothing")])):
            assert bits(self.make().fit(rows, valid=valid, seed=4)) == plain

    # ------------------------------------------------------------------ edges

    @pytest.mark.parametrize("valid", _VALID)
    @pytest.mark.parametrize("name", edges())
    def test_tables_at_the_edge(self, name: str, valid: str) -> None:
        rows = edges()[name]
        model = self.make().fit(rows, valid=_VALID[valid], seed=1)
        assert model.users_ == rows.users
        assert model.items_ == rows.items
        people = batch([Histories.of(["u", "nobody"], rows, rows.items), history(rows.items.ids[:2], rows.items)])
        scores = model.scores(people)
        assert scores.shape == (3, len(rows.items))
        assert torch.isfinite(scores).all()
        assert not scores[1].any()
        if len(rows.items) > 1 or (len(rows) and self.knows_one_item):
            assert scores[0].any(), "a user with rows is not treated as nobody"

    def test_a_user_with_everything_does_not_stop_the_others_from_learning(self) -> None:
        world = checkerboard()
        everything = Interactions.from_pairs([("all", item) for item in world.train.items])
        model = type(self).model(**self.able).fit(Interactions.union([world.train, everything]), seed=3)
        assert evaluate(model, world.train, world.held_out, at=(2,)).metrics["recall@2"] > 0.9

    # ------------------------------------------------------------------ state

    def test_state_goes_out_and_comes_back(self) -> None:
        rows = checkerboard().train
        model = self.make().fit(rows, seed=1)
        copied: Tensors = {name: array.copy() for name, array in model.state().items()}
        other = self.make().fit(checkerboard().held_out, seed=9)
        assert other.restore(rows, copied) is other
        assert bits(other) == bits(model)
        assert other.users_ == rows.users
        assert other.items_ == rows.items
        people = batch(self.people(model))
        assert torch.equal(other.scores(people), model.scores(people))

    def test_facts_can_be_written_down(self) -> None:
        world = checkerboard()
        model = self.make().fit(world.train, valid=world.held_out, seed=1)
        facts = model.facts()
        assert facts or isinstance(model, AdditiveModel)
        json.dumps(dict(facts), allow_nan=False)

    # ------------------------------------------------------------------ hyperparameters that cannot be

    def test_impossible_numbers_are_refused(self) -> None:
        """Whatever the model has: no number may be negative, infinite, no number at all, or of another type."""
        for name, value in self.make().hyperparameters().items():
            wrong: list[object] = [None, [value]]
            if isinstance(value, str):
                wrong += [3]
            else:
                wrong += [-1, "3", True, float("nan"), float("inf"), -float("inf")]
            if isinstance(value, int):
                wrong += [2.5]
            for bad in wrong:
                with pytest.raises(UsageError, match=name):
                    self.make(**{name: bad})


class FactorModelContract(ModelContract):
    """What holds besides for a model of one vector per user and item."""

    def factors(self, rows: Interactions, **changes: object) -> FactorModel:
        model = self.make(**changes)
        assert isinstance(model, FactorModel)
        return model.fit(rows, seed=3)

    def test_another_seed_gives_another_model(self) -> None:
        rows = checkerboard().train
        assert len({bits(self.make().fit(rows, seed=seed)) for seed in range(4)}) == 4

    def test_a_failed_fit_leaves_the_next_one_as_it_was(self) -> None:
        rows = checkerboard().train

        def refuse(what: str, done: int, total: int) -> None:
            raise KeyboardInterrupt

        model = self.make()
        with pytest.raises(KeyboardInterrupt):
            model.fit(rows, seed=1, progress=refuse)
        assert bits(model.fit(rows, seed=2)) == bits(self.make().fit(rows, seed=2))

    def test_progress_is_told_to_the_end(self) -> None:
        told: list[tuple[str, int, int]] = []
        self.make().fit(checkerboard().train, seed=1, progress=lambda *one: told.append(one))
        total = self.make().hyperparameters()[self.passes]
        assert [(done, of) for _, done, of in told] == [(done, total) for done in range(1, len(told) + 1)]
        assert len(told) == total

    def test_an_unknown_device_is_refused_when_it_is_needed(self) -> None:
        with pytest.raises(UsageError, match="unknown device 'abacus'"):
            self.make(device="abacus").fit(checkerboard().train)

    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
    def test_a_device_that_is_not_there_is_refused(self) -> None:
        with pytest.raises(UsageError, match="no CUDA device"):
            self.make(device="cuda").fit(checkerboard().train)

    @pytest.mark.parametrize("dim", [1, 5, 16, 17, 33])
    def test_any_length_of_the_vectors(self, dim: int) -> None:
        rows = checkerboard().train
        model = self.factors(rows, dim=dim)
        state = model.state()
        assert {name: array.shape for name, array in state.items()} == {
            "user_vectors": (len(rows.users), dim),
            "item_vectors": (len(rows.items), dim),
        }
        assert {array.dtype for array in state.values()} == {np.dtype(np.float32)}
        scores = model.scores(Histories.of(rows.users.ids, rows, rows.items))
        p, q = (state[name].astype(np.float64) for name in ("user_vectors", "item_vectors"))
        np.testing.assert_allclose(scores.numpy(), p @ q.T, atol=1e-5 * max(1.0, float(np.abs(p @ q.T).max())))

    @pytest.mark.parametrize("value", [0, -3])
    def test_vectors_have_at_least_one_coordinate(self, value: int) -> None:
        with pytest.raises(UsageError, match="dim"):
            self.make(dim=value)

    def test_an_unrelated_id_does_not_move_where_the_others_set_out_from(self) -> None:
        world = checkerboard()
        others = Interactions.from_pairs([("a", "a"), ("u05x", "i05x"), ("z", "z")])
        few = self.factors(world.train, **{self.passes: 0})
        many = self.factors(Interactions.union([world.train, others]), **{self.passes: 0})
        assert len(many.users_) == len(few.users_) + 3
        shared = many.users_.indices(few.users_), many.items_.indices(few.items_)
        assert np.array_equal(many.user_vectors_[shared[0]], few.user_vectors_)
        assert np.array_equal(many.item_vectors_[shared[1]], few.item_vectors_)


class AdditiveModelContract(ModelContract):
    """What holds besides for a model that is a function of sums over users."""

    @staticmethod
    def tables() -> list[Interactions]:
        """An item and a user vanish, others come whose ids sort otherwise than numbers do, nothing is left."""
        world = checkerboard().train
        some = world.take(np.arange(len(world)) % 7 > 0)
        fewer = Interactions.from_pairs((u, i) for u, i in some.pairs() if u != "u03" and i != "i04")
        more = Interactions.union([fewer, Interactions.from_pairs([("9", "i00"), ("10", "i99"), ("u01", "9")])])
        return [world, some, fewer, more, Interactions.empty(), more]

    def additive(self) -> AdditiveModel:
        model = self.make()
        assert isinstance(model, AdditiveModel)
        assert isinstance(model, Additive)
        return model

    def test_somebody_is_what_they_have_at_that_moment(self) -> None:
        """What they delete no longer counts, before any refit; a stranger with the same items has the same scores."""
        rows = checkerboard().train
        model = self.learned()
        own = [rows.items.ids[i] for i in rows.item_index[rows.indptr[5] : rows.indptr[6]]]
        name = rows.users.ids[5]
        fewer = [history(own[1:], rows.items, name=one) for one in (name, "", "nobody")]
        assert len({model.scores(one).numpy().tobytes() for one in fewer}) == 1
        assert not torch.equal(model.scores(fewer[0]), model.scores(history(own, rows.items, name=name)))
        assert not model.scores(history([], rows.items, name=name)).any()

    def test_sums_that_were_carried_along_are_sums_taken_anew(self) -> None:
        tables = self.tables()
        carried = self.additive().sums(tables[0])
        for before, after in pairwise(tables):
            anew = self.additive().sums(after)
            carried = anew if carried is None else self.additive().resummed(carried, before, after)
            assert (carried is None) == (anew is None)
            fitted = self.additive().fit(after, seed=2)
            if carried is None or anew is None:
                continue
            assert fingerprint.of_tensors(carried) == fingerprint.of_tensors(anew)
            state, facts = self.additive().solve(after.items, carried, 2)
            assert fingerprint.of_tensors(state) == bits(fitted)
            assert facts == fitted.facts()

    def test_what_sums_are_taken_from_stays_as_it_is(self) -> None:
        before, after = self.tables()[:2]
        sums = self.additive().sums(before)
        if sums is not None:
            digest = fingerprint.of_tensors(sums)
            self.additive().resummed(sums, before, after)
            self.additive().solve(before.items, sums, 2)
            assert fingerprint.of_tensors(sums) == digest

    def test_what_is_learned_is_of_items_alone(self) -> None:
        rows = checkerboard().train
        (table,) = self.make().fit(rows, seed=1).state().values()
        assert table.dtype == np.float32
        assert len(table) == len(rows.items)
        assert table.flags["C_CONTIGUOUS"]

    def test_it_takes_no_device(self) -> None:
        with pytest.raises(TypeError, match="device"):
            self.make(device="cpu")
