from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

import numpy as np
import pytest
import torch

from receraser.aggregation.spectral import Spectral
from receraser.data.ids import IdMap
from receraser.data.interactions import Histories, Interactions
from receraser.errors import UsageError
from receraser.evaluation import evaluate
from receraser.execution.messages import pack_task, unpack_task
from receraser.execution.task import aggregation_task, run_task
from receraser.models.bpr import BPR
from receraser.models.factors import FactorModel
from receraser.models.gram import Gram
from receraser.models.wmf import WMF
from receraser.partition.hashed import Hashed
from receraser.protocols import Aggregator, Partitioner
from receraser.training.least_squares import fold_in
from tests.contracts.aggregator_contract import AggregatorContract
from tests.contracts.worlds import blocks, history, submodels_of

ROWS = blocks(40, 24, 3).train


class TestSpectral(AggregatorContract):
    partitioner: ClassVar[Partitioner] = Hashed(n_shards=3)
    base: ClassVar[FactorModel] = WMF(dim=4)
    draws: ClassVar[bool] = False

    def make(self, **changes: object) -> Aggregator:
        return Spectral(**{"rank": 4, "width": 6, **changes})  # type: ignore[arg-type]

    def steps(self, aggregator: Aggregator) -> tuple[str, int]:
        return "merges", self.partitioner.n_shards - 1


class TestSpectralOfPairs(TestSpectral):
    partitioner: ClassVar[Partitioner] = Hashed(n_shards=2)
    knows_one_item: ClassVar[bool] = False  # a pairwise loss says nothing about what all items have in common
    base: ClassVar[FactorModel] = BPR(dim=4, n_epochs=40, batch_size=64, learning_rate=0.05, n_negatives=1)

    def make(self, **changes: object) -> Aggregator:
        return Spectral(**{"rank": 4, "merge": "concat", **changes})  # type: ignore[arg-type]


def submodels(n_shards: int, base: FactorModel | None = None) -> list[FactorModel]:
    partition = Hashed(n_shards=n_shards).assign(ROWS, valid=None, seed=1)
    return submodels_of(base or WMF(dim=4), ROWS, partition)


def items_of(parts: Sequence[FactorModel], **changes: object) -> np.ndarray:
    made = Spectral(**{"rank": 3, "width": 64, "merge": "product", **changes})  # type: ignore[arg-type]
    return np.asarray(made.fit(parts, ROWS, valid=None, seed=1)[0]["item_vectors"])


@pytest.mark.parametrize("n_shards", [1, 2, 3, 5, 8])
def test_the_items_are_the_leading_directions_of_all_shards_predictions(n_shards: int) -> None:
    """As a plain SVD of all shards' score matrices on top of each other finds them."""
    parts = submodels(n_shards)
    scores = np.zeros((0, len(ROWS.items)))
    for model in parts:
        own = np.zeros((len(model.users_), len(ROWS.items)))
        own[:, ROWS.items.indices(model.items_)] = model.user_vectors_.astype(float) @ model.item_vectors_.T.astype(
            float
        )
        scores = np.vstack([scores, own])
    _, values, directions = np.linalg.svd(scores, full_matrices=False)
    expected = (directions[:3].T * values[:3]) @ directions[:3]  # U S^(1/2) (U S^(1/2))^T
    found = items_of(parts).astype(float)
    np.testing.assert_allclose(found @ found.T, expected, atol=1e-5 * values[0])


def test_the_basis_that_a_submodel_chose_does_not_matter() -> None:
    parts = submodels(3)
    before = items_of(parts)
    turned = []
    for number, model in enumerate(parts):
        rotation, _ = np.linalg.qr(np.random.default_rng(number).normal(size=(4, 4)))
        stretched = rotation @ np.diag([1.0, 2.0, 0.5, 3.0])
        state = {
            "user_vectors": (model.user_vectors_ @ np.linalg.inv(stretched).T).astype(np.float32),
            "item_vectors": (model.item_vectors_ @ stretched).astype(np.float32),
        }
        turned.append(WMF(dim=4).load_state(model.users_, model.items_, state))
    after = items_of(turned)
    np.testing.assert_allclose(after @ after.T, before @ before.T, atol=1e-4)


def test_in_a_consensus_every_shard_votes_for_its_directions_with_equal_weight() -> None:
    """Louder or turned, a shard has the same vote; where all say the same, it is what one of them says."""
    parts = submodels(3)
    before = items_of(parts, merge="consensus")
    assert (before.astype(float) ** 2).sum() / len(before) == pytest.approx(1.0, rel=1e-5)
    rotation, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))
    state = {"user_vectors": parts[1].user_vectors_, "item_vectors": (30 * parts[1].item_vectors_ @ rotation)}
    louder = WMF(dim=4).load_state(parts[1].users_, parts[1].items_, state, item_counts=parts[1].item_counts_)
    after = items_of([parts[0], louder, parts[2]], merge="consensus")
    np.testing.assert_allclose(after @ after.T, before @ before.T, atol=1e-4)
    alike, once = (items_of(chosen, merge="consensus", rank=4) for chosen in ([parts[0]] * 3, parts[:1]))
    np.testing.assert_allclose(alike @ alike.T, once @ once.T, atol=1e-5)


@pytest.mark.parametrize("n_shards", [1, 2, 3, 5])
def test_merged_grams_are_the_leading_directions_of_the_sum_of_their_matrices(n_shards: int) -> None:
    parts = submodels(n_shards, cast("FactorModel", Gram(rank=24)))
    total = np.zeros((len(ROWS.items), len(ROWS.items)))
    for model in parts:
        at = ROWS.items.indices(model.items_)
        own = model.item_vectors_.astype(float) * cast("Gram", model).weight()
        total[np.ix_(at, at)] += own @ own.T
    values, directions = np.linalg.eigh(total)
    expected = (directions[:, -3:] * values[-3:]) @ directions[:, -3:].T
    found = items_of(parts, merge="auto", width=64).astype(float)
    assert (found**2).sum() == pytest.approx(len(ROWS.items), rel=1e-5), "a mean squared length of 1, as gram's own"
    np.testing.assert_allclose(found @ found.T * np.trace(expected) / len(found), expected, atol=1e-5 * values[-1])


def test_one_shard_of_gram_is_gram() -> None:
    """The same lists, up to rounding, with its own weights of the fold-in, which are a function of all rows."""
    alone, parts = Gram(rank=3).fit(ROWS, seed=1), submodels(3, cast("FactorModel", Gram(rank=3)))
    one = submodels(1, cast("FactorModel", Gram(rank=3)))
    merge = Spectral(rank=3)
    share = len(ROWS) / (len(ROWS.users) * len(ROWS.items))
    assert merge.fold_in_settings(one[0], share) == alone.fold_in_settings(share)
    whole = Histories.of(ROWS.users.ids, ROWS, ROWS.items)
    for made, bound in ((one, 1e-5), (parts, 0.3)):
        scores = merge.scorer(made, merge.fit(made, ROWS, valid=None, seed=1)[0]).scores(whole)
        assert float((scores - alone.scores(whole)).abs().max()) < bound


def test_a_small_shard_of_gram_does_not_weigh_as_much_as_a_large_one() -> None:
    """Beside each other they are as large as their matrices: those are known but for the users' weights."""
    parts = [ROWS.take(ROWS.user_index < 2), ROWS.take(ROWS.user_index >= 2)]
    few, many = (Gram(rank=24, user_power=0.0, item_power=0.35).fit(rows, seed=1) for rows in parts)
    for model, rows in ((few, parts[0]), (many, parts[1])):
        scaled = rows.matrix().toarray() * rows.item_counts.astype(float) ** -0.35
        found = model.item_vectors_.astype(float) * model.weight()
        np.testing.assert_allclose(found @ found.T, scaled.T @ scaled, atol=1e-4)
    assert few.weight() < many.weight()


@pytest.mark.parametrize("merge", ["auto", "sum", "concat", "consensus"])
def test_in_a_worker_gram_is_merged_as_here(merge: str) -> None:
    parts = submodels(3, cast("FactorModel", Gram(rank=3)))
    task = aggregation_task("spectral", {"rank": 3, "merge": merge}, parts, 1, Interactions.empty())
    there = run_task(unpack_task(*pack_task(task))).arrays["item_vectors"]
    assert there.tobytes() == items_of(parts, merge=merge, width=0).tobytes()


def test_gram_has_no_users_to_multiply_with() -> None:
    with pytest.raises(UsageError, match="gram has none; choose auto"):
        items_of(submodels(2, cast("FactorModel", Gram(rank=3))), merge="product")


def test_what_a_merge_is_by_default_depends_on_the_loss() -> None:
    for base, expected in ((WMF(dim=4), "concat"), (BPR(dim=4, n_epochs=2), "consensus")):
        parts = submodels(2, base)
        assert np.array_equal(items_of(parts, merge="auto"), items_of(parts, merge=expected))
        assert not np.allclose(items_of(parts, merge="auto"), items_of(parts, merge="product"))


def test_a_consensus_needs_to_know_how_rare_items_are() -> None:
    (model,) = submodels(1)
    bare = WMF(dim=4).load_state(model.users_, model.items_, model.state())
    with pytest.raises(ValueError, match="restore the submodel with its rows"):
        items_of([bare], merge="consensus")
    restored = WMF(dim=4).restore(ROWS, model.state())
    assert np.array_equal(items_of([restored], merge="consensus"), items_of([model], merge="consensus"))


@pytest.mark.parametrize(("n_shards", "columns"), [(3, 96), (16, 96), (17, 104), (64, 104), (65, 128)])
def test_nodes_are_wider_where_there_are_many_shards(n_shards: int, columns: int) -> None:
    """Their tree is deeper, and every level cuts."""
    rng = np.random.default_rng(1)
    state = {"user_vectors": np.zeros((0, 90), dtype=np.float32)}
    state["item_vectors"] = rng.normal(size=(len(ROWS.items), 90)).astype(np.float32)
    parts = [WMF(dim=90).load_state(IdMap([]), ROWS.items, state)] * n_shards
    nodes = {
        width: Spectral(rank=3, width=width).fit(parts, ROWS, valid=None, seed=1)[0]["node.1.0"] for width in (0, 5)
    }
    assert {width: node.shape[1] for width, node in nodes.items()} == {0: columns, 5: 5}


def test_a_narrow_tree_keeps_the_most_important() -> None:
    parts = submodels(8)
    wide, narrow = (items_of(parts, width=width).astype(float) for width in (64, 4))
    assert np.linalg.norm(narrow @ narrow.T - wide @ wide.T) < 0.1 * np.linalg.norm(wide @ wide.T)


def test_a_user_is_their_surviving_history() -> None:
    """Nothing of a user is stored: known or not, the same items give the same scores."""
    parts = submodels(3)
    made = Spectral(rank=3)
    state, _ = made.fit(parts, ROWS, valid=None, seed=1)
    assert set(state) == {"item_vectors"}
    scorer = made.scorer(parts, state)
    chosen = list(ROWS.items)[:4]
    known, stranger = (history(chosen, scorer.items_, name=name) for name in (ROWS.users.ids[0], ""))
    assert torch.equal(scorer.scores(known), scorer.scores(stranger))
    settings = WMF().fold_in_settings()
    vectors = np.asarray(state["item_vectors"], dtype=np.float32)
    weights = dict(zip(("missing_weight", "regularization"), settings, strict=True))
    expected = fold_in(known.indptr, known.item_index, vectors, **weights) @ vectors.T
    np.testing.assert_allclose(scorer.scores(known).numpy(), expected, atol=1e-6)


def test_polish_is_a_sweep_over_all_rows_and_helps_what_the_merge_lost() -> None:
    world = blocks(40, 24, 3)
    parts = submodels(8)
    found = []
    for polish in (0, 1, 2):
        made = Spectral(rank=3, polish=polish)
        state, _ = made.fit(parts, ROWS, valid=None, seed=1)
        again, _ = made.fit(parts, ROWS, valid=None, seed=1)
        assert np.array_equal(state["item_vectors"], again["item_vectors"])
        found.append(evaluate(made.scorer(parts, state), ROWS, world.held_out, at=(2,)).metrics["recall@2"])
    assert found[0] > 0.8
    assert found[1] >= found[0] - 0.02


def test_more_rank_than_there_is() -> None:
    vectors = items_of(submodels(2), rank=30)
    assert vectors.shape == (len(ROWS.items), 30)
    assert not vectors[:, 8:].any(), "two shards of four dimensions each have no more than eight directions"
    assert np.isfinite(vectors).all()


def test_how_clear_the_cut_was_is_told() -> None:
    parts = submodels(2)
    assert Spectral(rank=3).fit(parts, ROWS, valid=None, seed=1)[1]["gap"] >= 1.0  # type: ignore[operator]
    assert Spectral(rank=8).fit(parts, ROWS, valid=None, seed=1)[1] == {"gap": None}


def test_a_fold_in_that_is_not_determined_is_refused() -> None:
    with pytest.raises(UsageError, match="regularization is 0"):
        Spectral(missing_weight=0.1)


def test_shards_without_rows_and_no_rows_at_all() -> None:
    empty = WMF(dim=4).fit(Interactions.empty(), seed=1)
    parts = submodels(2)
    found = items_of([parts[0], empty, parts[1], empty])
    np.testing.assert_allclose(found @ found.T, items_of(parts) @ items_of(parts).T, atol=1e-6)
    state, _ = Spectral(rank=3).fit([empty, empty], Interactions.empty(), valid=None, seed=1)
    scorer = Spectral(rank=3).scorer([empty, empty], state)
    assert scorer.items_ == IdMap([])
    assert scorer.scores(history([], scorer.items_)).shape == (1, 0)
