from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from receraser.aggregation.learning import LinedUp
from receraser.aggregation.network import Dense, side_of
from receraser.data.ids import IdMap
from receraser.training import kernels
from receraser.training.kernels import attention_cpu
from tests.training.kernels.missing import forget_numba

FindKernels = Callable[[], ModuleType | None]
BESIDE_BLAS = [kernels.attention_on_cpu, kernels.non_sampling_on_cpu]


@pytest.mark.parametrize("found", BESIDE_BLAS)
def test_without_numba_there_are_none(found: FindKernels, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found() is not None
    forget_numba(monkeypatch)
    assert found() is None


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


@pytest.mark.parametrize("found", BESIDE_BLAS)
def test_where_blas_may_use_several_threads_there_are_none(found: FindKernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would come on top of ours, and sum in another order."""
    for value in ("2", ""):
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", value)
        assert found() is None
    monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    assert found() is None
    part = IdMap(["a"]), np.ones((1, 2), dtype=np.float32)
    assert isinstance(side_of(LinedUp([part], part[0], torch.device("cpu")), "user", 4), Dense)


SIZE = 32  # people of a block


@dataclass(frozen=True)
class World:
    """People, each held by one shard at least, and a network: what the kernels are given."""

    there: NDArray[np.bool_]  # (n_shards, n_people)
    table: NDArray[np.float32]
    edges: NDArray[np.int64]
    indptr: NDArray[np.int64]
    places: NDArray[np.int64]
    size: int
    to_both: NDArray[np.float32]
    to_logit: NDArray[np.float32]
    dim: int

    def forward(self) -> list[NDArray[np.float32]]:
        """Moved vectors beside their hidden layers, weights, sums."""
        width = self.to_both.shape[2]
        shapes: list[tuple[int, ...]] = [
            *((len(self.table), width), (len(self.table),)),
            (len(self.indptr) - 1, self.dim),
        ]
        made = [np.full(shape, np.nan, dtype=np.float32) for shape in shapes]
        layout = self.edges, self.indptr, self.places, self.size
        attention_cpu.forward(self.table, *layout, self.to_both, self.to_logit, *made)
        return made

    def backward(self, of_out: NDArray[np.float32], n_stretches: int) -> NDArray[np.float32]:
        """What is wanted, for each shard."""
        both, weights, _ = self.forward()
        found = np.zeros((n_stretches, *self.to_both.shape), dtype=np.float32)
        layout = self.edges, self.indptr, self.places, self.size
        attention_cpu.backward(self.table, *layout, both, weights, of_out, found)
        return np.asarray(found.sum(axis=0))

    def shard_of(self, place: int) -> int:
        """Where a row of the table is from."""
        return int(np.searchsorted(self.edges[:, -1], place, side="right"))


def world(n_people: int, dim: int, width: int, n_shards: int = 4) -> World:
    """People in any shards; nobody in the last but one."""
    rng = np.random.default_rng([n_people, dim])
    there = rng.random((n_shards, n_people)) < 0.5
    there[n_shards - 2] = False
    there[0] |= ~there.any(axis=0)
    shards, people = np.nonzero(there)
    n_blocks = -(-n_people // SIZE)
    edges = [
        [np.searchsorted(shards * n_people + people, k * n_people + min(n_people, b * SIZE))]
        for k in range(n_shards)
        for b in range(n_blocks + 1)
    ]
    table = np.column_stack([rng.normal(size=(len(people), dim)), np.ones(len(people))]).astype(np.float32)
    to_logit = np.concatenate([np.zeros(dim), rng.normal(size=width)])[None].astype(np.float32)
    return World(
        there,
        table,
        np.array(edges).reshape(n_shards, n_blocks + 1),
        np.concatenate([[0], np.cumsum(there.sum(axis=0))]),
        np.argsort(people, kind="stable"),
        SIZE,
        rng.normal(size=(n_shards, dim + 1, dim + width)).astype(np.float32),
        to_logit,
        dim,
    )


SIZES = [(1, 1, 1), (5, 16, 32), (SIZE, 7, 5), (3 * SIZE + 1, 33, 17)]


@pytest.mark.parametrize(("n_people", "dim", "width"), SIZES)
def test_weighted_sums(n_people: int, dim: int, width: int) -> None:
    """Done by hand, person by person."""
    given = world(n_people, dim, width)
    both, weights, out = given.forward()
    for person in range(n_people):
        own = given.places[given.indptr[person] : given.indptr[person + 1]]
        expected = [given.table[place].astype(np.float64) @ given.to_both[given.shard_of(place)] for place in own]
        moved, hidden = np.stack(expected)[:, :dim], np.maximum(np.stack(expected)[:, dim:], 0.0)
        np.testing.assert_allclose(both[own], np.hstack([moved, hidden]), rtol=1e-3, atol=1e-4)
        logits = hidden @ given.to_logit[0, dim:]
        loud = np.exp(logits - logits.max())
        np.testing.assert_allclose(weights[own], loud / loud.sum(), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(out[person], (loud / loud.sum()) @ moved, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("n_stretches", [1, 3])
@pytest.mark.parametrize(("n_people", "dim", "width"), SIZES)
def test_the_way_back(n_people: int, dim: int, width: int, n_stretches: int) -> None:
    """From what the way there wrote, by the formulas, in double precision; a shard that holds nobody has zeros."""
    given = world(n_people, dim, width)
    both, weights, _ = (one.astype(np.float64) for one in given.forward())
    of_out = np.random.default_rng(1).normal(size=(n_people, dim)).astype(np.float32)
    person = np.repeat(np.arange(n_people), np.diff(given.indptr))[np.argsort(given.places)]
    said = (of_out[person] * both[:, :dim]).sum(axis=1)
    mean = np.bincount(person, weights * said, minlength=n_people)
    slope = (weights * (said - mean[person]))[:, None] * (both[:, dim:] > 0)
    columns = np.hstack([weights[:, None] * of_out[person], slope])
    first = np.concatenate([[0], given.edges[:, -1]])
    expected = np.stack([given.table[a:b].T @ columns[a:b] for a, b in itertools.pairwise(first)])
    found = given.backward(of_out, n_stretches)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * float(np.abs(expected).max()))
    assert not found[-2].any()


def test_the_bits_do_not_depend_on_the_number_of_threads() -> None:
    before = kernels.threads()
    given = world(5 * SIZE + 3, 16, 8)
    of_out = np.ones((len(given.indptr) - 1, 16), dtype=np.float32)
    found = set()
    try:
        for n in (1, 2, 2):
            kernels.use_threads(n)
            found.add(b"".join(one.tobytes() for one in (*given.forward(), given.backward(of_out, 3))))
    finally:
        kernels.use_threads(before)
    assert len(found) == 1


@pytest.mark.parametrize("no_number", [math.nan, math.inf])
def test_vectors_that_are_no_numbers_show(no_number: float) -> None:
    """A network that has diverged is noticed by what it makes; the neighbours of who is hit are not."""
    given = world(5, 16, 8)
    given.table[given.places[given.indptr[2]], 3] = no_number
    *_, out = given.forward()
    assert np.isnan(out[2]).any()
    assert np.isfinite(out[[0, 1, 3, 4]]).all()
