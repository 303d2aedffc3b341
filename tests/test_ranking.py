from __future__ import annotations

import math
from collections.abc import Sequence
from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from receraser.ranking import top_k

# Few different values, so that ties are common; both zeros; both infinities; the smallest and largest numbers.
SCORES = st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 1e-45, -1e-45, 3.4e38, -3.4e38, math.inf, -math.inf])
TABLES = st.integers(0, 4).flatmap(
    lambda n: st.integers(0, 12).flatmap(
        lambda m: st.lists(st.lists(SCORES, min_size=m, max_size=m), min_size=n, max_size=n).map(
            lambda rows: torch.tensor(rows, dtype=torch.float32).reshape(n, m)
        )
    )
)


def brute(scores: Sequence[float], k: int, excluded: set[int]) -> list[int]:
    left = [item for item in range(len(scores)) if item not in excluded]
    best = sorted(left, key=lambda item: (-scores[item], item))[:k]  # Python takes -0.0 and 0.0 for equal, as it should
    return best + [-1] * (k - len(best))


@given(TABLES, st.integers(0, 15), st.data())
def test_against_a_sort(scores: torch.Tensor, k: int, data: st.DataObject) -> None:
    n, m = scores.shape
    cells = st.tuples(st.integers(0, max(n - 1, 0)), st.integers(0, max(m - 1, 0)))
    excluded = data.draw(st.lists(cells, max_size=20)) if n and m else []
    rows, columns = (torch.tensor([cell[axis] for cell in excluded], dtype=torch.int64) for axis in (0, 1))
    before = scores.clone()
    found = top_k(scores, k, exclude=(rows, columns))
    assert found.shape == (n, k)
    for row in range(n):
        assert found[row].tolist() == brute(scores[row].tolist(), k, {c for r, c in excluded if r == row})
    assert torch.equal(scores, before)
    with patch("receraser.ranking.compiles", return_value=False):  # as where numba is not installed
        assert torch.equal(top_k(scores, k, exclude=(rows, columns)), found)
    assert torch.equal(top_k(scores, k), top_k(scores, k, exclude=(rows[:0], columns[:0])))


def test_the_first_of_equals_comes_first() -> None:
    assert top_k(torch.zeros((1, 1000)), 5).tolist() == [[0, 1, 2, 3, 4]]
    assert top_k(torch.tensor([[1.0, -0.0, 0.0, -0.0, -1.0]]), 4).tolist() == [[0, 1, 2, 3]]


def test_a_large_table_against_a_stable_sort() -> None:
    scores = torch.randint(-50, 50, (20, 3000), generator=torch.Generator().manual_seed(1)).to(torch.float32) / 7
    expected = torch.sort(scores, dim=1, descending=True, stable=True).indices[:, :100]
    assert torch.equal(top_k(scores, 100), expected)


@pytest.mark.parametrize("k", [1, 3, 7])
def test_where_everything_is_excluded_nothing_is_left(k: int) -> None:
    everything = torch.zeros(3, dtype=torch.int64), torch.arange(3)
    assert top_k(torch.ones((1, 3)), k, exclude=everything).tolist() == [[-1] * k]


def test_an_excluded_item_stays_out_even_where_minus_infinity_is_the_best() -> None:
    scores = torch.full((1, 3), -math.inf)
    assert top_k(scores, 3, exclude=(torch.tensor([0]), torch.tensor([0]))).tolist() == [[1, 2, -1]]


def test_views_are_ranked_as_what_they_show() -> None:
    wide = torch.tensor([[1.0, 9.0, 2.0, 8.0], [5.0, 0.0, 6.0, 0.0]])
    assert top_k(wide[:, ::2], 2).tolist() == [[1, 0], [1, 0]]
    assert top_k(wide[:1].expand(3, -1), 1).tolist() == [[1]] * 3
