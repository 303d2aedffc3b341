from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
import torch

from receraser.data.ids import IdMap
from receraser.data.interactions import Histories, Interactions
from receraser.errors import TrainingError, UsageError
from receraser.evaluation import SCORE_BLOCK
from receraser.models.factors import Brought, FactorModel, initial_vectors, score_blocks, torch_device
from receraser.models.wmf import WMF
from tests.contracts.worlds import batch, history


class Fixed(FactorModel):
    """A model whose vectors are given."""

    name: ClassVar[str] = "fixed"


class FixedPairwise(Fixed):
    pairwise: ClassVar[bool] = True


ROWS = Interactions.from_pairs([("u", "a"), ("u", "b"), ("v", "c")])
P = np.array([[1, 0], [0, 2]], dtype=np.float32)
Q = np.array([[1, 1], [2, 0], [0, 3]], dtype=np.float32)


def fixed(kind: type[Fixed] = Fixed) -> Fixed:
    return kind(dim=2).load_state(ROWS.users, ROWS.items, {"user_vectors": P, "item_vectors": Q})


# ---------------------------------------------------------------------- scores


def test_vectors_are_brought_to_a_device_once_and_anew_when_others_are_taken_over() -> None:
    """ "meta" is a device that every torch has."""
    brought, device = Brought(), torch.device("meta")
    assert brought.on(device, Q) is brought.on(device, Q)
    assert brought.on(torch.device("cpu"), Q).device.type == "cpu"
    assert brought.on(device, Q[:, :1]).shape == (3, 1)
    assert brought.on(device, Q).shape == Q.shape


@pytest.mark.parametrize("way", ["loaded", "fitted"])
def test_nothing_is_left_on_a_device_of_vectors_that_others_have_replaced(way: str) -> None:
    model = WMF(dim=2, n_sweeps=1).fit(ROWS)
    model._on_device.on(torch.device("meta"), model.item_vectors_)
    if way == "loaded":
        model.load_state(ROWS.users, ROWS.items, {"user_vectors": P, "item_vectors": Q})
    else:
        model.fit(ROWS)
    assert model._on_device._last is None


def test_a_score_is_an_inner_product() -> None:
    scores = fixed().scores(Histories.of(["v", "u"], ROWS, ROWS.items))
    assert scores.tolist() == [[2.0, 0.0, 6.0], [1.0, 2.0, 0.0]]


def test_a_fitted_user_keeps_the_learned_vector_whatever_the_history() -> None:
    model = fixed()
    assert torch.equal(
        model.scores(history(["c"], model.items_, name="u")), model.scores(history([], model.items_, name="u"))
    )


@pytest.mark.parametrize("kind", [Fixed, FixedPairwise])
def test_a_stranger_is_folded_in_by_least_squares(kind: type[Fixed]) -> None:
    """Weights 0.1 and 0.01, in the space of the items; of a pairwise model, around their mean."""
    q = Q.astype(np.float64)
    if kind is FixedPairwise:
        q = q - q.mean(axis=0)
    own = q[[0, 2]]
    a = 0.1 * q.T @ q + own.T @ own + 0.01 * (2 + 0.1 * 3) * np.eye(2)
    expected = np.linalg.solve(a, own.sum(axis=0)) @ Q.T
    model = fixed(kind)
    np.testing.assert_allclose(model.scores(history(["a", "c"], model.items_))[0], expected, rtol=1e-5)


def test_users_strangers_and_nobody_in_one_batch() -> None:
    model = fixed()
    people = [
        history([], model.items_, name="nobody"),
        Histories.of(["u"], ROWS, ROWS.items),
        history(["c"], model.items_),
        history(["c", "unknown"], model.items_, name="somebody"),
    ]
    scores = model.scores(batch(people))
    assert not scores[0].any()
    assert scores[1].tolist() == [1.0, 2.0, 0.0]
    assert scores[2].argmax() == 2
    assert torch.equal(scores[2], scores[3]), "what a stranger is called does not matter"


def test_only_strangers_are_folded_in_where_that_is_asked_for() -> None:
    model = fixed()
    people = batch([history(["a"], model.items_, name=name) for name in ("u", "x", "y")])
    everybody = model.vectors(people)
    assert everybody[0].tolist() == [1.0, 0.0]
    assert everybody[1].any()
    chosen = model.vectors(people, strangers=np.array([True, False, True]))
    assert np.array_equal(chosen[[0, 2]], everybody[[0, 2]])
    assert not chosen[1].any()
    assert torch.equal(model.scores_of(everybody), model.scores(people))


@pytest.mark.parametrize("dim", [1, 5, 17, 64])
@pytest.mark.parametrize("n_items", [1, 2, 7, 11, 63, 64, 97, 1000])
def test_a_user_has_the_same_bits_in_every_place_of_a_block(dim: int, n_items: int) -> None:
    rng = np.random.default_rng(dim * n_items)
    users = torch.from_numpy(rng.normal(size=(SCORE_BLOCK + 3, dim)).astype(np.float32))
    items = torch.from_numpy(rng.normal(size=(n_items, dim)).astype(np.float32))
    together = score_blocks(users, items)
    alone = torch.cat([score_blocks(users[i : i + 1], items) for i in range(len(users))])
    assert torch.equal(together, alone)
    np.testing.assert_allclose(together, users @ items.T, atol=1e-4)


def test_blocks_of_nobody() -> None:
    assert score_blocks(torch.zeros((0, 3)), torch.zeros((4, 3))).shape == (0, 4)


# ---------------------------------------------------------------------- initial vectors


def test_initial_vectors_belong_to_an_id_a_purpose_and_a_seed() -> None:
    few = initial_vectors(IdMap(["b", "d"]), 6, 0.5, 1, "user")
    many = initial_vectors(IdMap(["a", "b", "c", "d", "e"]), 6, 0.5, 1, "user")
    assert np.array_equal(few, many[[1, 3]])
    assert not np.isin(few, initial_vectors(IdMap(["b", "d"]), 6, 0.5, 1, "item")).any()
    assert not np.isin(few, initial_vectors(IdMap(["b", "d"]), 6, 0.5, 2, "user")).any()
    assert few.dtype == np.float32


def test_initial_vectors_have_the_scale_asked_for() -> None:
    wide = initial_vectors(IdMap(str(i) for i in range(500)), 32, 0.25, 1, "user")
    assert wide.std() == pytest.approx(0.25, rel=0.02)
    assert wide.mean() == pytest.approx(0, abs=0.01)


# ---------------------------------------------------------------------- what is taken over


def test_padding_is_cut_off_and_gradients_stay_behind() -> None:
    model = Fixed(dim=2)
    padded = torch.arange(8.0).reshape(2, 4).requires_grad_()
    model._take(ROWS, padded, torch.ones((3, 4)))
    assert model.user_vectors_.tolist() == [[0.0, 1.0], [4.0, 5.0]]
    assert model.item_vectors_.shape == (3, 2)
    assert model.user_vectors_.flags.c_contiguous


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_vectors_that_are_no_numbers_are_an_error(bad: float) -> None:
    good, broken = torch.ones((2, 2)), torch.ones((3, 2))
    broken[1, 1] = bad
    with pytest.raises(TrainingError, match="fixed: a learned vector is no number"):
        Fixed(dim=2)._take(ROWS, good, broken)
    with pytest.raises(TrainingError, match="no number"):
        Fixed(dim=2)._take(ROWS, broken, good)


# ---------------------------------------------------------------------- devices


def test_devices_by_name() -> None:
    assert torch_device("cpu") == torch.device("cpu")
    assert torch_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(UsageError, match="unknown device 'gpu': expected cpu, cuda or auto"):
        torch_device("gpu")
