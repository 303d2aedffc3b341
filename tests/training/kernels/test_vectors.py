from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from numba.core.errors import TypingError

from receraser.training.kernels import attention_cpu, cpu, draws_cpu, non_sampling_cpu, pairs_cpu, vectors
from receraser.training.kernels.vectors import add_row, compiled, dot_rows, sum_rows

WIDTHS = [1, 3, 15, 16, 17, 31, 32, 63, 64, 65, 80, 128, 130]


@compiled
def _dot(a, b):  # type: ignore[no-untyped-def]
    return dot_rows(a, 1, b, 2)


@compiled
def _add(scale, a, b):  # type: ignore[no-untyped-def]
    add_row(scale, a, 1, b, 1)


@compiled
def _sum(indices, first, last, a, b):  # type: ignore[no-untyped-def]
    sum_rows(indices, first, last, a, b, 1)


def table(n: int, width: int) -> np.ndarray:
    return np.random.default_rng(width).normal(size=(n, width)).astype(np.float32)


@pytest.mark.parametrize("width", WIDTHS)
def test_dot_products(width: int) -> None:
    a, b = table(3, width), table(4, width)
    assert _dot(a, b) == pytest.approx(float(a[1].astype(np.float64) @ b[2]), abs=1e-5 * width)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_scaled_row_is_added_to_one_row_alone(width: int) -> None:
    a, b = table(3, width), table(3, width) + 1
    expected = b.copy()
    expected[1] += np.float32(0.3) * a[1]
    _add(np.float32(0.3), a, b)
    assert np.array_equal(b, expected)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize(("first", "last"), [(0, 5), (2, 3), (4, 4)])
def test_sums_of_rows_in_their_order(width: int, kind: type[np.int32 | np.int64], first: int, last: int) -> None:
    a, b = table(6, width), table(3, width)
    indices: np.ndarray = np.array([5, 0, 3, 3, 1], dtype=kind)
    expected = b.copy()
    expected[1] = 0
    for index in indices[first:last]:
        expected[1] += a[index]
    _sum(indices, first, last, a, b)
    assert np.array_equal(b, expected)


def lanes(a: np.ndarray, b: np.ndarray) -> np.float32:
    """The order that is part of the program: 16 partial sums, a tree over them, and what is left over one by one."""
    whole = len(a) // 16 * 16
    sums = np.zeros(16, dtype=np.float32)
    for at in range(0, whole, 16):
        sums += a[at : at + 16] * b[at : at + 16]
    while len(sums) > 1:
        sums = sums[: len(sums) // 2] + sums[len(sums) // 2 :]
    total = sums[0]
    for at in range(whole, len(a)):
        total = total + a[at] * b[at]
    return np.float32(total)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_order_of_a_dot_product_bit_for_bit(width: int) -> None:
    a, b = table(3, width), table(4, width)
    assert np.float32(_dot(a, b)) == lanes(a[1], b[2])


@pytest.mark.parametrize(
    "bad", [np.asfortranarray(table(3, 16)), table(3, 32)[:, :16], table(3, 16).astype(np.float64)]
)
def test_tables_that_lie_otherwise_are_refused(bad: np.ndarray) -> None:
    good = table(4, 16)
    with pytest.raises(TypingError, match="expected a C-contiguous float32 table"):
        _dot(bad, good)
    with pytest.raises(TypingError, match=r"expected a C-contiguous float(32|64) table"):
        _sum(np.array([0, 1]), 0, 2, bad, good)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_sum_of_float64_is_taken_in_order(width: int) -> None:
    a, b = table(5, width).astype(np.float64) / 3, np.full((4, width), 7.0)
    indices = np.array([4, 1, 1, 0], dtype=np.int32)
    expected = b.copy()
    expected[1] = 0
    for index in indices:
        expected[1] += a[index]
    _sum(indices, 0, 4, a, b)
    assert np.array_equal(b, expected)


def test_machine_code_is_not_kept_when_the_instructions_change() -> None:
    found = hashlib.sha256(Path(vectors.__file__).read_bytes()).hexdigest()[:16]
    kept = {module.VECTORS for module in (attention_cpu, cpu, draws_cpu, non_sampling_cpu, pairs_cpu)}
    assert kept == {found}, "write this into all: numba looks at the date of those files"
