from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import nnls

from receraser.aggregation.static import Static
from receraser.data.interactions import Histories, Interactions
from receraser.fingerprint import of_tensors
from receraser.models.bpr import BPR
from receraser.models.factors import FactorModel
from receraser.models.lightgcn import LightGCN
from receraser.models.wmf import WMF
from receraser.partition.hashed import Hashed, Random
from receraser.protocols import Aggregator, Partitioner
from tests.aggregation.given import loss, noise, scores_of
from tests.contracts.aggregator_contract import AggregatorContract
from tests.contracts.worlds import checkerboard, submodels_of

QUICK: dict[str, object] = {
    "n_epochs": 6,
    "batch_size": 64,
    "user_batch_size": 8,
    "n_negatives": 1,
    "optimizer": "adagrad",
    "learning_rate": 0.05,
    "dropout": 0.0,
    "weight_decay": 0.001,
}


def static(**changes: object) -> Static:
    return Static(**(QUICK | changes))  # type: ignore[arg-type]


class TestStatic(AggregatorContract):
    def make(self, **changes: object) -> Aggregator:
        return static(**changes)


class TestStaticOfUsersInOneShard(AggregatorContract):
    partitioner: ClassVar[Partitioner] = Hashed(n_shards=2)
    base: ClassVar[FactorModel] = WMF(dim=2)

    def make(self, **changes: object) -> Aggregator:
        return static(**changes)


ROWS = checkerboard().train
GOOD: dict[str, FactorModel] = {
    "bpr": BPR(dim=4, n_epochs=40, batch_size=64, learning_rate=0.05, n_negatives=1),
    "wmf": WMF(dim=2),
    "lightgcn": LightGCN(dim=4, n_epochs=40, batch_size=64, learning_rate=0.03, n_negatives=1),
}


def shards_of(model: FactorModel, n_shards: int = 3) -> list[FactorModel]:
    """Submodels of shards over which the rows of a user are spread."""
    return submodels_of(model, ROWS, Random(n_shards=n_shards).assign(ROWS, valid=None, seed=1))


def weights_of(
    submodels: list[FactorModel], valid: Interactions | None = None, **changes: object
) -> NDArray[np.float32]:
    state, _ = static(**changes).fit(submodels, ROWS, valid=valid, seed=1)
    return np.asarray(state["weights"], dtype=np.float32)


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("n_shards", [1, 2, 7])
@pytest.mark.parametrize("optimizer", ["adagrad", "adam"])
def test_weights_are_shares(name: str, n_shards: int, optimizer: str) -> None:
    state, facts = static(optimizer=optimizer).fit(shards_of(GOOD[name], n_shards), ROWS, valid=None, seed=1)
    weights = np.asarray(state["weights"], dtype=np.float32)
    assert set(state) == {"weights"}
    assert weights.shape == (n_shards,)
    assert state["weights"].dtype == np.float32
    assert (weights >= 0).all()
    assert float(weights.sum()) == pytest.approx(1, abs=1e-6)
    assert facts["weights"] == [round(float(one), 4) for one in weights.astype(np.float64)]
    if n_shards == 1:
        assert weights.tolist() == [1.0]


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_submodel_of_noise_has_less_to_say(name: str, place: int) -> None:
    """Everybody is in several shards: the weights are learned by whose scores fit the rows."""
    submodels = shards_of(GOOD[name])
    submodels[place] = noise(submodels[place])
    weights = weights_of(submodels, n_epochs=60)
    assert weights[place] < 0.7 * np.delete(weights, place).min()


def test_before_learning_every_submodel_has_the_same_say() -> None:
    assert weights_of(shards_of(GOOD["bpr"], 4), n_epochs=0).tolist() == [0.25] * 4


@pytest.mark.parametrize("name", ["bpr", "wmf"])
def test_learning_lowers_the_loss(name: str) -> None:
    submodels = shards_of(GOOD[name])
    submodels[0] = noise(submodels[0])
    scores = np.stack([scores_of(one, ROWS) for one in submodels])  # (n_shards, n_users, n_items)

    def best(weights: NDArray[np.float32]) -> float:
        """The least loss these shares can have: they say how submodels stand to each other, not how loud they are."""
        together = np.tensordot(weights.astype(np.float64), scores, axes=1)
        return min(loss(submodels[0], scale * together, ROWS) for scale in np.geomspace(0.1, 100, 61))

    assert best(weights_of(submodels, n_epochs=60)) < 0.95 * best(weights_of(submodels, n_epochs=0))


def test_weights_are_those_of_least_squares() -> None:
    """For WMF the loss is a square: the best weights that are not negative are known in closed form."""
    model = WMF(dim=2, missing_weight=0.3)
    submodels = shards_of(model)
    submodels[1] = noise(submodels[1])
    has = ROWS.matrix().toarray().astype(np.float64).ravel()
    weight = np.sqrt(np.where(has > 0, 1.0, 0.3))
    columns = np.stack([scores_of(one, ROWS).ravel() for one in submodels], axis=1)
    best, _ = nnls(columns * weight[:, None], has * weight)
    found = weights_of(submodels, n_epochs=300, user_batch_size=100, learning_rate=0.1, weight_decay=0.0)
    np.testing.assert_allclose(found, best / best.sum(), atol=0.01)


def test_validation_chooses_the_epoch() -> None:
    submodels, world = shards_of(GOOD["bpr"]), checkerboard()
    submodels[0] = noise(submodels[0])
    state, facts = static(n_epochs=20, validate_every=2, patience=2).fit(submodels, ROWS, valid=world.held_out, seed=1)
    curve = facts["validation"]
    assert isinstance(curve, list)
    best = max(value for _, value in curve)
    assert facts["best_epoch"] == next(epoch for epoch, value in curve if value == best)
    assert of_tensors(state) == of_tensors({"weights": weights_of(submodels, n_epochs=facts["best_epoch"])})


def test_dropout_is_another_lesson() -> None:
    submodels = shards_of(GOOD["bpr"])
    still, dropped = weights_of(submodels), weights_of(submodels, dropout=0.5)
    assert still.tolist() != dropped.tolist()
    assert weights_of(submodels, dropout=0.5).tolist() == dropped.tolist()


def test_a_penalty_keeps_weights_small_while_they_are_learned() -> None:
    """Shares hide it; so it is seen in a submodel that is only noise: with a penalty it is worth nothing sooner."""
    submodels = shards_of(GOOD["wmf"])
    submodels[2] = noise(submodels[2])
    free, held = (weights_of(submodels, n_epochs=40, weight_decay=decay) for decay in (0.0, 1.0))
    assert free.tolist() != held.tolist()
    assert held.sum() == pytest.approx(1, abs=1e-6)


def test_the_scorer_is_the_weighted_sum() -> None:
    submodels = shards_of(GOOD["wmf"])
    weights = np.array([0.5, 0.2, 0.3], dtype=np.float32)
    scorer = static().scorer(submodels, {"weights": weights})
    expected = np.tensordot(weights, np.stack([scores_of(one, ROWS) for one in submodels]), axes=1)
    found = scorer.scores(Histories.of(ROWS.users.ids, ROWS, scorer.items_))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_submodel_that_lacks_somebody_says_nothing_about_them() -> None:
    """Its weight is learned from those it holds."""
    submodels = submodels_of(GOOD["wmf"], ROWS, Hashed(n_shards=2).assign(ROWS, valid=None, seed=1))
    louder = replace(GOOD["wmf"]).load_state(  # twice as loud, though as right
        submodels[0].users_,
        submodels[0].items_,
        {"user_vectors": 2 * submodels[0].user_vectors_, "item_vectors": submodels[0].item_vectors_},
    )
    plain, scaled = (
        weights_of([one, submodels[1]], n_epochs=300, user_batch_size=100, learning_rate=0.1, weight_decay=0.0)
        for one in (submodels[0], louder)
    )
    ratios = [float(one[0] / one[1]) for one in (plain, scaled)]
    assert ratios[1] == pytest.approx(ratios[0] / 2, rel=0.02)


def test_no_weight_at_all_becomes_equal_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    def silence(*arguments: object, **_: object) -> dict[str, object]:
        parameters = arguments[3]
        assert isinstance(parameters, dict)
        parameters["weights"].zero_()
        return {}

    monkeypatch.setattr("receraser.aggregation.static.learn", silence)
    assert weights_of(shards_of(GOOD["wmf"], 4)).tolist() == [0.25] * 4
    assert torch.get_num_threads() >= 1
