from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from receraser import seeds
from receraser.data.ids import IdMap
from receraser.training import kernels
from receraser.training.normals import normal_for
from tests.training.kernels.missing import forget_numba

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=300)


@given(st.lists(TEXT, max_size=20), st.integers(0, 2**64 - 1), st.integers(1, 9))
def test_the_kernels_draw_what_the_definition_says(names: list[str], key: int, dim: int) -> None:
    """Bit for bit: ids of one block of BLAKE2b and of several, keys of all 64 bits."""
    ids = IdMap(names)
    drawn, expected = normal_for(ids, key, dim), seeds.normal(key, seeds.id_counters(ids), dim)
    assert drawn.dtype == expected.dtype
    assert drawn.tobytes() == expected.tobytes()


@pytest.mark.parametrize("size", [127, 128, 129, 255, 256, 257, 384])
def test_ids_that_fill_a_block_of_the_hash_to_its_end(size: int) -> None:
    ids = IdMap(["x" * size, "y" * (size - 1), "z"])
    assert normal_for(ids, 1, 4).tobytes() == seeds.normal(1, seeds.id_counters(ids), 4).tobytes()


def test_the_number_of_threads_changes_nothing() -> None:
    ids = IdMap(str(i) for i in range(1000))
    found = set()
    try:
        for n in (1, 2):
            kernels.use_threads(n)
            found.add(normal_for(ids, 3, 16).tobytes())
    finally:
        kernels.use_threads(1)
    assert len(found) == 1


def test_without_numba_the_same_comes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = IdMap(["a", "b", "c"])
    expected = normal_for(ids, 5, 3)
    forget_numba(monkeypatch)
    assert kernels.draws_on_cpu() is None
    assert np.array_equal(normal_for(ids, 5, 3), expected)


def test_what_is_frozen_into_compiled_kernels_has_not_changed() -> None:
    """Numba keeps what it compiled until the kernel's own file changes: these numbers come from another one."""
    assert (seeds.GOLDEN, seeds.MIX_1, seeds.MIX_2) == (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
    assert seeds.SQRT_3 == 3**0.5
