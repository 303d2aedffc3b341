from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from receraser.aggregation import attention as attention_module
from receraser.aggregation import learning
from receraser.aggregation.attention import Attention, _glorot, _Network
from receraser.aggregation.learning import LinedUp
from receraser.aggregation.network import Dense, Present, Side
from receraser.data.ids import IdMap
from receraser.data.interactions import Histories, Interactions
from receraser.errors import UsageError
from receraser.fingerprint import Tensors, of_tensors
from receraser.models.bpr import BPR
from receraser.models.factors import FactorModel, Lesson
from receraser.models.lightgcn import LightGCN
from receraser.models.wmf import WMF
from receraser.partition.hashed import Hashed, Random
from receraser.protocols import Aggregator, Partitioner
from receraser.training.optimizers import Adam
from tests.aggregation.given import loss, noise
from tests.contracts.aggregator_contract import AggregatorContract
from tests.contracts.worlds import batch, bits, checkerboard, history, submodels_of

QUICK: dict[str, object] = {
    "n_epochs": 10,
    "batch_size": 64,
    "user_batch_size": 8,
    "attention_dim": 4,
    "n_negatives": 1,
    "optimizer": "adagrad",
    "learning_rate": 0.05,
    "dropout": 0.3,
    "weight_decay": 0.00001,
}
ABLE: dict[str, FactorModel] = {
    "bpr": BPR(dim=4, n_epochs=40, batch_size=64, learning_rate=0.05, n_negatives=1),
    "wmf": WMF(dim=4),
    "lightgcn": LightGCN(dim=4, n_epochs=40, batch_size=64, learning_rate=0.03, n_negatives=1),
}


def attention(**changes: object) -> Attention:
    return Attention(**(QUICK | changes))  # type: ignore[arg-type]


class TestAttentionOverBPR(AggregatorContract):
    def make(self, **changes: object) -> Aggregator:
        return attention(**changes)


class TestAttentionOverWMF(AggregatorContract):
    base: ClassVar[FactorModel] = ABLE["wmf"]

    def make(self, **changes: object) -> Aggregator:
        return attention(**({"optimizer": "adam", "learning_rate": 0.02, "dropout": 0.0} | changes))


class TestAttentionAnnealed(AggregatorContract):
    def make(self, **changes: object) -> Aggregator:
        return attention(**({"optimizer": "adam", "learning_rate": 0.02, "anneal": True} | changes))


class TestAttentionOverLightGCN(AggregatorContract):
    partitioner: ClassVar[Partitioner] = Hashed(n_shards=2)
    base: ClassVar[FactorModel] = ABLE["lightgcn"]

    def make(self, **changes: object) -> Aggregator:
        return attention(**changes)


WORLD = checkerboard()
ROWS = WORLD.train


def shards_of(model: FactorModel, n_shards: int = 3) -> list[FactorModel]:
    return submodels_of(model, ROWS, Random(n_shards=n_shards).assign(ROWS, valid=None, seed=1))


def fit(submodels: list[FactorModel], valid: Interactions | None = None, **changes: object) -> Tensors:
    return attention(**changes).fit(submodels, ROWS, valid=valid, seed=1)[0]


# ---------------------------------------------------------------------- Equations 5 to 7, slow and plain


def weights_of(state: Tensors, side: str, name: str, submodels: list[FactorModel]) -> Mapping[int, float]:
    """The attention that one user (or item) pays to each submodel that holds it."""
    loud = {}
    for k, model in enumerate(submodels):
        moved = transferred(state, side, name, k, model)
        if moved is not None:
            hidden = np.maximum(moved @ wide(state, f"{side}_hidden") + wide(state, f"{side}_hidden_bias"), 0.0)
            loud[k] = float(np.exp(hidden @ wide(state, f"{side}_weights")))  # Eq. 7
    return {k: value / sum(loud.values()) for k, value in loud.items()}


def transferred(state: Tensors, side: str, name: str, k: int, model: FactorModel) -> NDArray[np.float64] | None:
    """A vector of one submodel in the space of all of them: Eq. 5. None where the shard does not hold it."""
    ids, vectors = (model.users_, model.user_vectors_) if side == "user" else (model.items_, model.item_vectors_)
    at = ids.index_of(name)
    if at < 0:
        return None
    moved: NDArray[np.float64] = vectors[at].astype(np.float64) @ wide(state, "transfer")[k] + wide(state, "bias")[k, 0]
    return moved


def wide(state: Tensors, name: str) -> NDArray[np.float64]:
    return state[name].astype(np.float64)


def aggregated(state: Tensors, side: str, names: IdMap, submodels: list[FactorModel]) -> NDArray[np.float64]:
    """Eq. 6 for everybody, one after the other."""
    rows = []
    for name in names:
        total = np.zeros(submodels[0].dim)
        for k, weight in weights_of(state, side, name, submodels).items():
            moved = transferred(state, side, name, k, submodels[k])
            assert moved is not None
            total += weight * moved
        rows.append(total)
    return np.array(rows).reshape(len(names), submodels[0].dim)


@pytest.mark.parametrize("name", ABLE)
@pytest.mark.parametrize("n_epochs", [0, 5])
@pytest.mark.parametrize("partitioner", [Random(n_shards=3), Hashed(n_shards=3), Random(n_shards=1)])
def test_the_vectors_are_those_of_the_equations(name: str, n_epochs: int, partitioner: Hashed) -> None:
    submodels = submodels_of(ABLE[name], ROWS, partitioner.assign(ROWS, valid=None, seed=1))
    state = fit(submodels, n_epochs=n_epochs)
    for side, ids in (("user", ROWS.users), ("item", ROWS.items)):
        expected = aggregated(state, side, ids, submodels)
        found = wide(state, f"{side}_vectors")
        np.testing.assert_allclose(found, expected, atol=1e-5 * float(np.abs(expected).max()))


def test_attention_is_paid_to_those_who_are_there_and_adds_up_to_one() -> None:
    submodels = submodels_of(ABLE["bpr"], ROWS, Random(n_shards=8).assign(ROWS, valid=None, seed=1))
    state = fit(submodels)
    missing = 0
    for side, ids in (("user", ROWS.users), ("item", ROWS.items)):
        for name in ids:
            weights = weights_of(state, side, name, submodels)
            assert sum(weights.values()) == pytest.approx(1)
            missing += len(submodels) - len(weights)
    assert missing > 5, "the world is such that somebody is absent somewhere"


def dense(lined_up: LinedUp, name: str, width: int) -> Side:
    return Dense(lined_up, name)


@pytest.fixture(params=[Present, Dense])
def either_network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The network as it is written out for the CPU, and as torch computes it elsewhere."""
    if request.param is Dense:
        monkeypatch.setattr(attention_module, "side_of", dense)


def litter(monkeypatch: pytest.MonkeyPatch, value: float) -> None:
    """Let something stand wherever a shard does not hold somebody."""
    made = LinedUp.__init__

    def littered(self: LinedUp, *arguments: object) -> None:
        made(self, *arguments)  # type: ignore[arg-type]
        assert self.absent.any()
        self.vectors[self.absent] = value

    monkeypatch.setattr(LinedUp, "__init__", littered)


@pytest.mark.usefixtures("either_network")
def test_whatever_stands_in_the_place_of_the_absent_has_no_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users live in one shard each; in the others there is a vector of them that nobody has learned."""
    submodels = submodels_of(ABLE["bpr"], ROWS, Hashed(n_shards=8).assign(ROWS, valid=None, seed=1))
    assert sum(len(model.users_) for model in submodels) == len(ROWS.users), "each in one: their weight there is 1"
    lesson = Lesson(ROWS, None, 1, torch.device("cpu"), None)
    before = _Network(submodels, lesson, 4).vectors()
    litter(monkeypatch, 1e4)
    after = _Network(submodels, lesson, 4).vectors()
    assert torch.equal(before[0], after[0])
    assert torch.equal(before[1], after[1])


@pytest.mark.usefixtures("either_network")
def test_the_absent_teach_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not while learning either: gradients do not flow through places where nobody is."""
    submodels = submodels_of(ABLE["bpr"], ROWS, Hashed(n_shards=8).assign(ROWS, valid=None, seed=1))
    expected = fit(submodels)
    litter(monkeypatch, 7.0)
    assert of_tensors(fit(submodels)) == of_tensors(expected)


@pytest.mark.parametrize("name", ABLE)
@pytest.mark.parametrize("parts", [0, 2])
def test_both_networks_learn_the_same(name: str, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    submodels = shards_of(ABLE[name])
    found = fit(submodels, n_epochs=3, user_parts=parts)
    monkeypatch.setattr(attention_module, "side_of", dense)
    expected = fit(submodels, n_epochs=3, user_parts=parts)
    for table in expected:
        one = wide(expected, table)
        np.testing.assert_allclose(wide(found, table), one, atol=1e-4 * float(np.abs(one).max()), err_msg=table)


# ---------------------------------------------------------------------- learning


def loss_of(state: Tensors, model: FactorModel) -> float:
    return loss(model, wide(state, "user_vectors") @ wide(state, "item_vectors").T, ROWS)


@pytest.mark.parametrize("name", ABLE)
@pytest.mark.parametrize(("optimizer", "learning_rate"), [("adagrad", 0.05), ("adam", 0.01)])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_the_loss_of_the_base_model_falls(name: str, optimizer: str, learning_rate: float, dropout: float) -> None:
    submodels = shards_of(ABLE[name])
    losses = [
        loss_of(
            fit(submodels, n_epochs=n, optimizer=optimizer, learning_rate=learning_rate, dropout=dropout),
            ABLE[name],
        )
        for n in (0, 5, 40)
    ]
    assert losses[0] > losses[1] > losses[2]
    assert losses[2] < 0.8 * losses[0]


@pytest.mark.parametrize("name", ABLE)
def test_the_submodels_stay_frozen(name: str) -> None:
    submodels = shards_of(ABLE[name])
    before = [bits(one) for one in submodels]
    fit(submodels, WORLD.held_out)
    assert [bits(one) for one in submodels] == before


@pytest.mark.parametrize("name", ABLE)
def test_validation_chooses_the_epoch(name: str) -> None:
    submodels = shards_of(ABLE[name])
    state, facts = attention(n_epochs=30, validate_every=3, patience=2).fit(
        submodels, ROWS, valid=WORLD.held_out, seed=1
    )
    curve = facts["validation"]
    assert isinstance(curve, list)
    best = max(value for _, value in curve)
    assert facts["best_epoch"] == next(epoch for epoch, value in curve if value == best)
    assert facts["epochs"] == curve[-1][0]
    assert of_tensors(fit(submodels, n_epochs=facts["best_epoch"])) == of_tensors(state)


def test_everything_in_a_fit_matters() -> None:
    submodels = shards_of(ABLE["bpr"])
    changes: list[dict[str, object]] = [
        {},
        {"n_epochs": 9},
        {"attention_dim": 5},
        {"batch_size": 32},
        {"n_negatives": 3},
        {"user_parts": 1},
        {"user_parts": 2},
        {"dropout": 0.0},
        {"dropout": 0.5},
        {"optimizer": "adam"},
        {"optimizer": "adam", "anneal": True},
        {"learning_rate": 0.06},
        {"weight_decay": 0.01},
    ]
    found = {of_tensors(attention(**change).fit(submodels, ROWS, valid=None, seed=1)[0]) for change in changes}
    seeded, _ = attention().fit(submodels, ROWS, valid=None, seed=2)
    fewer, _ = attention().fit(submodels, ROWS.take(np.arange(5, len(ROWS))), valid=None, seed=1)
    noisy = fit([noise(submodels[0]), *submodels[1:]])
    assert len(found | {of_tensors(one) for one in (seeded, fewer, noisy)}) == len(changes) + 3


ANNEALED: dict[str, object] = {"optimizer": "adam", "learning_rate": 0.02, "anneal": True}


@pytest.mark.parametrize("name", ABLE)
def test_annealing_matters_and_is_repeatable(name: str) -> None:
    """Two epochs: the steps differ from the second one on. Bit for bit the same again."""
    submodels = shards_of(ABLE[name])
    still = fit(submodels, None, n_epochs=2, **(ANNEALED | {"anneal": False}))
    annealed = fit(submodels, None, n_epochs=2, **ANNEALED)
    for table in annealed:
        assert not np.array_equal(annealed[table], still[table]), table
    assert of_tensors(fit(submodels, None, n_epochs=2, **ANNEALED)) == of_tensors(annealed)


@pytest.mark.parametrize("name", ABLE)
def test_the_steps_fall_to_zero_over_all_epochs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many steps as there are batches in them, however batches are counted; without annealing never."""
    made: list[tuple[Recorder, int | None]] = []

    class Recorder(Adam):
        taken = 0

        def __init__(
            self, parameters: Sequence[torch.Tensor], learning_rate: float, *, anneal_over: int | None = None
        ) -> None:
            super().__init__(parameters, learning_rate, anneal_over=anneal_over)
            made.append((self, anneal_over))

        def step(self, gradients: Sequence[torch.Tensor]) -> None:
            super().step(gradients)
            self.taken += 1

    monkeypatch.setattr(learning, "Adam", Recorder)
    monkeypatch.setattr(learning, "OPTIMIZERS", {"adam": Recorder})
    submodels = shards_of(ABLE[name])
    for changes in (ANNEALED, ANNEALED | {"batch_size": 50, "user_batch_size": 5}):
        fit(submodels, None, n_epochs=3, **changes)
        optimizer, anneal_over = made.pop()
        assert anneal_over == optimizer.taken
        assert optimizer.taken % 3 == 0
        assert optimizer.taken > 3
    fit(submodels, None, n_epochs=3, **(ANNEALED | {"anneal": False}))
    assert made.pop()[1] is None


def test_a_penalty_shrinks_the_parameters() -> None:
    """All of them: the transfer, the networks and their biases."""
    submodels = shards_of(ABLE["bpr"])
    names = [name for name in fit(submodels, n_epochs=0) if not name.endswith("_vectors")]
    assert len(names) == 8
    free, held, tight = (
        {name: float(np.square(wide(state, name)).sum()) for name in names}
        for state in (fit(submodels, n_epochs=40, weight_decay=decay) for decay in (0.0, 0.01, 1.0))
    )
    assert sum(free.values()) > 1.2 * sum(held.values()) > 2 * sum(tight.values())
    for name in ("transfer", "user_hidden", "item_hidden", "user_weights", "item_weights"):
        assert free[name] > tight[name], name


def test_a_submodel_that_knows_is_listened_to() -> None:
    """Of two that hold everybody, one of them noise: the transfer makes it quiet, or the attention passes it by."""
    model = BPR(dim=4, n_epochs=40, batch_size=64, learning_rate=0.05, n_negatives=1).fit(ROWS, seed=1)
    submodels: list[FactorModel] = [noise(model), model]
    state = fit(submodels, n_epochs=60, optimizer="adam", learning_rate=0.02, dropout=0.0)
    said = np.zeros(2)
    for name in ROWS.users:
        for k, weight in weights_of(state, "user", name, submodels).items():
            moved = transferred(state, "user", name, k, submodels[k])
            assert moved is not None
            said[k] += weight * float(np.linalg.norm(moved))
    assert said[1] > 1.5 * said[0]


# ---------------------------------------------------------------------- what is stored, and what is scored


def test_shapes() -> None:
    state = fit(shards_of(ABLE["bpr"]), attention_dim=5)
    assert {name: array.shape for name, array in state.items()} == {
        "transfer": (3, 4, 4),
        "bias": (3, 1, 4),
        "user_hidden": (4, 5),
        "user_hidden_bias": (5,),
        "user_weights": (5,),
        "item_hidden": (4, 5),
        "item_hidden_bias": (5,),
        "item_weights": (5,),
        "user_vectors": (len(ROWS.users), 4),
        "item_vectors": (len(ROWS.items), 4),
    }
    assert {array.dtype for array in state.values()} == {np.dtype(np.float32)}


@pytest.mark.parametrize("name", ABLE)
def test_the_scorer_is_the_base_model_with_the_aggregated_vectors(name: str) -> None:
    """It folds strangers in as the base model does, in the space of all submodels."""
    submodels = shards_of(ABLE[name])
    state = fit(submodels)
    scorer = attention().scorer(submodels, state)
    alone = type(ABLE[name])(**ABLE[name].hyperparameters())  # type: ignore[arg-type]
    alone.load_state(ROWS.users, ROWS.items, state)
    people = [Histories.of(["u03", "nobody"], ROWS, ROWS.items), history(["i00", "i02"], ROWS.items)]
    assert torch.equal(scorer.scores(batch(people)), alone.scores(batch(people)))
    assert isinstance(scorer, type(ABLE[name]))


def test_shards_without_rows_are_passed_over() -> None:
    """Their transfer is never used, and stays where the penalty leaves it."""
    submodels = shards_of(ABLE["bpr"], 2)
    nothing = np.zeros((0, 4), dtype=np.float32)
    none = IdMap([])
    nobody = BPR(dim=4).load_state(none, none, {"user_vectors": nothing, "item_vectors": nothing})
    state = fit([submodels[0], nobody, submodels[1]], weight_decay=0.0)
    start = fit([submodels[0], nobody, submodels[1]], n_epochs=0)
    assert np.array_equal(state["transfer"][1], start["transfer"][1])
    assert not np.array_equal(state["transfer"][0], start["transfer"][0])
    assert np.isfinite(state["user_vectors"]).all()


@pytest.mark.parametrize("name", ABLE)
def test_no_rows_at_all(name: str) -> None:
    none = Interactions.empty()
    submodels = submodels_of(ABLE[name], none, Random(n_shards=3).assign(none, valid=None, seed=1))
    state, facts = attention().fit(submodels, none, valid=WORLD.held_out, seed=1)
    assert state["user_vectors"].shape == (0, 4)
    assert facts["epochs"] == 0
    scorer = attention().scorer(submodels, state)
    assert scorer.scores(history([], scorer.items_)).shape == (1, 0)


def test_networks_set_out_from_numbers_of_the_right_size() -> None:
    """Glorot & Bengio: a variance of two over what comes in and what goes out; each its own draws."""
    start = _glorot(7, 200, 100)
    assert start.shape == (200, 100)
    assert float(np.var(start)) == pytest.approx(2 / 300, rel=0.03)
    state = fit(shards_of(ABLE["bpr"]), n_epochs=0)
    assert not any(state[name].any() for name in state if name.endswith("bias"))
    values = np.concatenate([state[name].ravel() for name in state if name not in ("user_vectors", "item_vectors")])
    drawn = values[values != 0]
    assert len(set(drawn.tolist())) > 0.95 * len(drawn)


def test_a_shard_sets_out_from_the_same_transfer_however_many_there_are() -> None:
    two, three = (fit(shards_of(ABLE["bpr"], n), n_epochs=0)["transfer"] for n in (2, 3))
    assert np.array_equal(two, three[:2])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optimizer": "sgd"}, "attention: unknown optimizer 'sgd': known: adagrad, adam"),
        ({"dropout": 1.0}, "attention: dropout is 1.0; expected less than 1"),
        ({"attention_dim": 0}, "attention: attention_dim is 0; expected a number of at least 1"),
        ({"validate_every": 0}, "attention: validate_every is 0"),
        (
            {"anneal": True, "optimizer": "adagrad"},
            "^attention: anneal is for optimizer adam; found adagrad: leave one of them out$",
        ),
    ],
)
def test_settings_that_cannot_be(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        attention(**changes)
