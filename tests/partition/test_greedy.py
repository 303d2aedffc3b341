from __future__ import annotations

from types import ModuleType
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from receraser.partition.greedy import Distances, assign_greedily
from receraser.training import kernels
from receraser.training.kernels import cpu, plain
from tests.nightly import examples
from tests.partition.plain import walk

Table = NDArray[np.float64]
Ints = NDArray[np.int64]


def assign(distances: Table, weights: Ints, room: Ints) -> NDArray[np.int32]:
    return assign_greedily(Distances.of_table(distances), weights, room)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Table, Ints, Ints]:
    """Few points, few distances: many ties; zeros, shards without room, pairs that are never made."""
    n, n_shards = draw(st.integers(0, 14)), draw(st.integers(1, 5))
    values = st.sampled_from([0.0, 0.0, 1.0, 2.0, 2.5, 7.0, np.inf])
    distances = draw(st.lists(st.lists(values, min_size=n_shards, max_size=n_shards), min_size=n, max_size=n))
    most = draw(st.sampled_from([1, 1, 2, 6]))
    weights = draw(st.lists(st.integers(1 if most == 1 else 0, most), min_size=n, max_size=n))
    room = draw(st.lists(st.integers(0, 8), min_size=n_shards, max_size=n_shards))
    return np.array(distances).reshape(n, n_shards), np.array(weights, dtype=np.int64), np.array(room)


@pytest.mark.parametrize("module", [cpu, plain])
@given(problem=problems())
@settings(max_examples=examples(100, 1000))
def test_ends_where_the_walk_through_the_sorted_pairs_does(
    module: ModuleType, problem: tuple[Table, Ints, Ints]
) -> None:
    with mock.patch("receraser.partition.greedy.on_cpu", return_value=module):
        assert assign(*problem).tolist() == walk(*problem)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("slack", [0.5, 1.0, 1.2])
def test_many_points(weighted: bool, slack: float) -> None:
    """Crowded: everybody wants the first shards."""
    rng = np.random.default_rng(5)
    n, n_shards = 8_700, 6
    distances = np.round(rng.random((n, n_shards)) + np.arange(n_shards) / 10, 3)  # rounded: some ties
    weights = rng.integers(1, 9, n) if weighted else np.ones(n, dtype=np.int64)
    room = np.full(n_shards, int(slack * weights.sum() / n_shards))
    found = assign(distances, weights, room)
    assert found.tolist() == walk(distances, weights, room)
    assert found.dtype == np.int32
    load = np.bincount(found[found >= 0], weights=weights[found >= 0], minlength=n_shards)
    assert (load < room + weights.max()).all()


@pytest.mark.parametrize("module", [cpu, plain])
def test_products_of_two_tables(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba's kernels and the plain ones, held to a table of all the products."""
    monkeypatch.setattr("receraser.partition.greedy.on_cpu", lambda: module)
    rng = np.random.default_rng(6)
    n, n_shards = 9_000, 4  # more than the plain ones look at at a time
    left, right = rng.integers(0, 4, (50, n_shards)) / 2.0, rng.integers(1, 4, (30, n_shards)) / 2.0  # many ties
    rows, columns = rng.integers(0, 50, n).astype(np.int32), rng.integers(0, 30, n).astype(np.int32)
    room = np.array([2500, 0, 3000, 2000])
    found = assign_greedily(Distances(left, rows, right, columns), np.ones(n, dtype=np.int64), room)
    assert found.tolist() == walk(left[rows] * right[columns], np.ones(n, dtype=np.int64), room)


def test_only_who_is_refused_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = kernels.on_cpu().claim

    def claim(*arguments: Ints) -> None:
        asked.append(len(arguments[4]))
        real(*arguments)

    monkeypatch.setattr(kernels.on_cpu(), "claim", claim)
    distances = np.random.default_rng(6).random((8_000, 3))
    assign(distances, np.ones(len(distances), dtype=np.int64), np.array([4000, 4000, 400]))
    assert asked[0] == len(distances)
    assert sum(asked) < 3 * len(distances)


def test_the_last_one_may_overshoot() -> None:
    distances = np.array([[1.0], [2.0], [3.0]])
    assert assign(distances, np.array([1, 5, 1]), np.array([2])).tolist() == [0, 0, -1]


def test_of_equals_the_first_point_and_the_first_shard() -> None:
    distances = np.zeros((4, 3))
    assert assign(distances, np.ones(4, dtype=np.int64), np.array([1, 2, 2])).tolist() == [0, 1, 1, 2]
