from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from receraser.training import spectrum
from receraser.training.spectrum import Group, _leading_there, leading, signs, square_root, whitened


@given(st.integers(0, 30), st.integers(1, 9), st.integers(1, 12), st.integers(0, 1000))
def test_what_is_kept_is_the_best_of_its_rank(n: int, width: int, rank: int, seed: int) -> None:
    columns = np.random.default_rng(seed).normal(size=(n, width))
    kept, values = leading(columns, rank)
    assert kept.shape == (n, rank)
    _, expected, directions = np.linalg.svd(columns, full_matrices=False)
    assert values[: len(expected)] == pytest.approx(expected, abs=1e-6)
    best = (columns @ directions[:rank].T) @ directions[:rank]
    np.testing.assert_allclose(kept @ kept.T, best @ best.T, atol=1e-6 * max(1.0, float((columns**2).sum())))


class Halves:
    """Two tables beside each other, of which one or both have orthogonal columns."""

    def __init__(self, left: np.ndarray, right: np.ndarray, orthogonal: tuple[bool, bool]) -> None:
        self._whole = np.hstack([left, right])
        edge, self.shape = left.shape[1], self._whole.shape
        self.groups = [Group(slice(0, edge), orthogonal[0]), Group(slice(edge, self.shape[1]), orthogonal[1])]

    def write(self, rows: slice, out: np.ndarray) -> None:
        out[:] = self._whole[rows]

    def on(self, device: torch.device) -> torch.Tensor:
        return torch.from_numpy(self._whole).to(device, torch.float64)


@given(st.integers(0, 1200), st.integers(1, 6), st.integers(1, 6), st.integers(1, 12), st.integers(0, 1000))
def test_products_of_orthogonal_columns_need_not_be_taken(n: int, left: int, right: int, rank: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    tables = [leading(generator.normal(size=(n, 7)), width, np.float32)[0] for width in (left, right)]
    expected, values = leading(np.hstack(tables), rank)
    for orthogonal in ((True, True), (True, False), (False, True)):
        kept, found = leading(Halves(tables[0], tables[1], orthogonal), rank)
        np.testing.assert_allclose(found, values, atol=2.0**-12 * max(1.0, float(values[0])))
        np.testing.assert_allclose(kept @ kept.T, expected @ expected.T, atol=1e-6 * max(1.0, float(values[0]) ** 2))


def test_what_rounding_left_of_orthogonal_columns_is_no_direction() -> None:
    """More columns than rows: beyond the rank is nothing, though the products that are not taken were not zero."""
    generator = np.random.default_rng(3)
    tables = [leading(generator.normal(size=(5, 9)), 4, np.float32)[0] for _ in range(2)]
    kept, values = leading(Halves(tables[0], tables[1], (True, True)), 8)
    assert (values[5:] < 2.0**-12 * values[0]).all()
    assert not kept[:, 5:].any()
    assert kept[:, :5].any(axis=0).all()


def test_products_that_are_said_to_be_zero_are_not_taken() -> None:
    same = np.ones((4, 2))
    assert leading(Halves(same, np.zeros((4, 1)), (True, False)), 1)[1].tolist() == [2.0, 2.0, 0.0]
    assert leading(Halves(same, np.zeros((4, 1)), (False, False)), 1)[1][0] == pytest.approx(8**0.5)


@given(
    st.integers(1, 40), st.integers(1, 6), st.integers(1, 6), st.integers(1, 12), st.integers(0, 1000), st.booleans()
)
def test_in_one_piece_as_a_gpu_does_it(n: int, left: int, right: int, rank: int, seed: int, single: bool) -> None:
    """Its code, on the CPU: narrow, wide, flat, rounded, orthogonal columns; in another order in memory, read-only."""
    generator, dtype = np.random.default_rng(seed), np.float32 if single else np.float64
    tables = [leading(generator.normal(size=(n, 7)), width, np.float32)[0] for width in (left, right)]
    beside = Halves(tables[0], tables[1], (True, False))
    alone = np.asfortranarray(generator.normal(size=(n, left)))
    alone.flags.writeable = False
    for columns, groups in ((beside, beside.groups), (alone, [Group(slice(0, left), orthogonal=False)])):
        expected, values = leading(columns, rank, dtype)
        kept, found = _leading_there(columns, groups, rank, dtype, torch.device("cpu"))
        assert kept.dtype == dtype
        assert kept.shape == expected.shape
        np.testing.assert_allclose(found, values, atol=1e-7 * max(1.0, float(values[0])))
        scale = max(1.0, float(values[0]) ** 2)
        np.testing.assert_allclose(kept @ kept.T, expected @ expected.T, atol=1e-6 * scale)


def test_signs_are_fixed() -> None:
    columns = np.random.default_rng(1).normal(size=(20, 5))
    kept, _ = leading(columns, 5)
    assert (kept[np.abs(kept).argmax(axis=0), range(5)] > 0).all()
    np.testing.assert_allclose(leading(-columns, 5)[0], kept, atol=1e-12)


def test_the_sign_of_a_column_is_that_of_its_largest_coordinate() -> None:
    columns = np.array([[3.0, 2.0, -2.0, 2.0, 0.0], [-2.0, -3.0, 2.0, -2.0, 0.0], [1.0, 1.0, 0.0, 0.0, 0.0]])
    assert signs(columns).tolist() == [1, -1, 1, 1, 1], "a column that has it with both signs stays as it is"
    assert signs(np.zeros((0, 3))).tolist() == [1, 1, 1]


def test_noise_beyond_the_rank_is_cut_off() -> None:
    thin = np.random.default_rng(2).normal(size=(50, 2))
    kept, values = leading(np.hstack([thin, thin, thin @ np.ones((2, 3))]), 6)
    assert (values[2:] < 1e-6 * values[0]).all()
    assert not kept[:, 2:].any()


def test_equal_singular_values_span_the_same_space() -> None:
    basis, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(12, 3)))
    for turn in range(4):
        rotation, _ = np.linalg.qr(np.random.default_rng(turn).normal(size=(3, 3)))
        kept, values = leading(basis @ rotation, 3)
        assert values == pytest.approx([1.0, 1.0, 1.0])
        np.testing.assert_allclose(kept @ kept.T, basis @ basis.T, atol=1e-12)


def test_the_same_bits_again() -> None:
    columns = np.random.default_rng(4).normal(size=(200, 40))
    assert leading(columns, 10)[0].tobytes() == leading(columns.copy(), 10)[0].tobytes()


@pytest.mark.parametrize("n", [1500, 9100])
def test_the_bits_do_not_depend_on_the_number_of_threads(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several stretches of blocks, with orthogonal columns too; added up in order, whoever is ready first."""
    columns = np.random.default_rng(5).normal(size=(n, 70)) * np.geomspace(1, 1e-6, 70)
    left = leading(columns, 20, np.float32)[0]
    for whole in (columns, Halves(left, columns[:, :30], (True, False))):
        found = set()
        for number in (1, 2, 2, 2, 3, 5, 8):
            monkeypatch.setattr(spectrum, "threads", lambda number=number: number)
            kept, values = leading(whole, 30)
            found.add(kept.tobytes() + values.tobytes())
        assert len(found) == 1


@pytest.mark.parametrize("n", [0, 1, 511, 512, 513, 4096, 4097, 8192, 8193, 100_000])
def test_stretches_are_of_equal_length_and_blocks_not_too_long(n: int) -> None:
    stretches = spectrum._stretches(n)
    blocks = [block for stretch in stretches for block in stretch]
    assert [block.start for block in blocks] == [0, *(block.stop for block in blocks[:-1])][: len(blocks)]
    assert (blocks[-1].stop if blocks else 0) == n
    assert all(0 < block.stop - block.start <= 512 for block in blocks)
    lengths = [stretch[-1].stop - stretch[0].start for stretch in stretches]
    assert max(lengths, default=0) - min(lengths, default=0) <= 1
    assert len(stretches) == (0 if not n else 1 if n <= 512 else 8 if n <= 4096 else 16)


@pytest.mark.parametrize("n", [511, 512, 513, 1024, 1500, 4096, 4097, 9000])
def test_blocks_of_rows_make_up_the_whole(n: int) -> None:
    columns = np.random.default_rng(n).normal(size=(n, 6))
    kept, values = leading(columns, 6)
    begins = [block.start for stretch in spectrum._stretches(n) for block in stretch]
    some = np.unique(np.concatenate([np.arange(0, n, 97), begins, [n - 1]]))
    np.testing.assert_allclose(kept[some] @ kept[some].T, columns[some] @ columns[some].T, atol=1e-9)
    np.testing.assert_allclose(values, np.linalg.svd(columns, compute_uv=False), atol=1e-9)


@given(st.integers(1, 8), st.integers(0, 1000))
def test_a_square_root_squared(n: int, seed: int) -> None:
    half = np.random.default_rng(seed).normal(size=(n, n))
    symmetric = half @ half.T
    root = square_root(symmetric)
    np.testing.assert_allclose(root, root.T, atol=1e-9)
    np.testing.assert_allclose(root @ root, symmetric, atol=1e-8 * max(1.0, float(np.abs(symmetric).max())))


@given(st.integers(0, 12), st.integers(1, 6), st.integers(0, 6), st.integers(0, 1000))
def test_whitened_columns_span_the_same_with_equal_weight(n: int, width: int, rank: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    columns = generator.normal(size=(n, rank)) @ generator.normal(size=(rank, width))
    found = whitened(columns)
    u, values, _ = np.linalg.svd(columns, full_matrices=False)
    u = u[:, values > 1e-6 * values.max(initial=0.0)]
    np.testing.assert_allclose(found @ found.T, u @ u.T, atol=1e-6)
    np.testing.assert_allclose(whitened(1000 * columns), found, atol=1e-6)


def test_rounded_to_float32_at_the_end() -> None:
    columns = np.random.default_rng(6).normal(size=(700, 12)).astype(np.float32)
    rounded, values = leading(columns, 5, np.float32)
    kept, same = leading(columns, 5)
    assert rounded.dtype == np.float32
    assert rounded.tobytes() == kept.astype(np.float32).tobytes()
    assert values.tobytes() == same.tobytes()


def test_after_a_fork() -> None:
    """A child has none of its parent's threads, and starts its own."""
    columns = np.random.default_rng(7).normal(size=(1200, 6))
    expected = leading(columns, 3)[0].tobytes()
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        assert pool.submit(_leading_bytes, columns).result(timeout=60) == expected


def _leading_bytes(columns: np.ndarray) -> bytes:
    return leading(columns, 3)[0].tobytes()
