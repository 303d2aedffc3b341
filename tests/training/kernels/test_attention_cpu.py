from __future__ import annotations

import itertools
import math
import sys

import numpy as np
import pytest

from receraser.training import kernels
from receraser.training.kernels import attention_cpu


def test_without_numba_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernels.attention_on_cpu() is attention_cpu
    monkeypatch.delattr(kernels, "attention_cpu")
    monkeypatch.setitem(sys.modules, "receraser.training.kernels.attention_cpu", None)
    assert kernels.attention_on_cpu() is None


def test_e_to_the_x() -> None:
    for x in [*np.linspace(-60.0, 0.0, 5000), *-np.geomspace(1e-12, 60.0, 500), -0.5 * math.log(2), -1.5 * math.log(2)]:
        assert attention_cpu._exp(float(x)) == pytest.approx(math.exp(x), rel=1e-8, abs=0.0)
    assert attention_cpu._exp(0.0) == 1.0


def test_e_to_the_x_ends_somewhere() -> None:
    """It never rises on the way down; from some point on it stays: what is so small weighs nothing, but is a number."""
    least = attention_cpu._exp(-60.0)
    assert least == pytest.approx(math.exp(-60), rel=1e-8, abs=0.0)
    for x in (-60.001, -61.0, -88.0, -746.0, -1e9, -1e300, -math.inf):
        assert attention_cpu._exp(x) == least
    values = [attention_cpu._exp(-x) for x in np.arange(0.0, 62.0, 0.01).tolist()]
    assert all(one >= other for one, other in itertools.pairwise(values))
    assert math.isnan(attention_cpu._exp(math.nan)), "no number stays none"


@pytest.mark.parametrize("no_number", [math.nan, math.inf])
def test_weights_that_are_no_numbers_show(no_number: float) -> None:
    """A network that has diverged is noticed by what it makes; the neighbours of who is hit are not."""
    indptr, places = np.array([0, 2, 4]), np.array([0, 2, 1, 3])
    vectors, hidden = np.ones((4, 5), dtype=np.float32), np.ones((4, 3), dtype=np.float32)
    hidden[2, 1] = no_number
    weights, out = np.empty(4, dtype=np.float32), np.empty((2, 5), dtype=np.float32)
    attention_cpu.weighted(indptr, places, vectors, hidden, np.ones((1, 3), dtype=np.float32), weights, out)
    assert np.isnan(out[0]).all()
    assert (out[1] == 1).all()


@pytest.mark.parametrize(("dim", "width"), [(1, 1), (16, 32), (7, 5), (33, 17)])
def test_weighted_sums(dim: int, width: int) -> None:
    """Done by hand, group by group; the hidden layer is cut off at zero in place."""
    rng = np.random.default_rng(dim)
    indptr = np.array([0, 1, 4, 6, 11])
    places = rng.permutation(11)
    vectors, hidden = (rng.normal(size=(11, n)).astype(np.float32) for n in (dim, width))
    to_logit = rng.normal(size=(1, width)).astype(np.float32)
    before = hidden.copy()
    weights, out = np.full(11, np.nan, dtype=np.float32), np.full((4, dim), np.nan, dtype=np.float32)
    attention_cpu.weighted(indptr, places, vectors, hidden, to_logit, weights, out)
    assert np.array_equal(hidden, np.maximum(before, 0))
    for group in range(4):
        own = places[indptr[group] : indptr[group + 1]]
        loud = np.exp(hidden[own].astype(np.float64) @ to_logit[0])
        np.testing.assert_allclose(weights[own], loud / loud.sum(), rtol=1e-5)
        np.testing.assert_allclose(out[group], (loud / loud.sum()) @ vectors[own], rtol=1e-5, atol=1e-6)
