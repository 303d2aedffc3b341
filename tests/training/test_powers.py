from __future__ import annotations

import numpy as np
import pytest

from receraser.training.powers import power


@pytest.mark.parametrize("exponent", [0.0, 0.25, 0.3, 0.35, 0.5, 0.75, 1.0, 1.35, 3.0])
def test_it_is_a_power(exponent: float) -> None:
    counts = np.arange(1, 5000)
    np.testing.assert_allclose(power(counts, exponent), counts.astype(np.float64) ** exponent, rtol=2e-6)


def test_halves_and_quarters_are_exact() -> None:
    squares = np.arange(1, 1000).astype(np.float64) ** 2
    assert np.array_equal(power(squares, 0.5), np.sqrt(squares))
    assert np.array_equal(power(squares**2, 0.25), np.sqrt(squares))


def test_a_value_does_not_depend_on_the_others() -> None:
    """Vectors of any length: no path for the ends of an array."""
    counts = np.arange(1, 40)
    assert [float(power(np.array([n]), 0.35)[0]) for n in counts] == power(counts, 0.35).tolist()


def test_no_negative_exponent() -> None:
    with pytest.raises(ValueError, match="not negative"):
        power(np.ones(1), -0.5)
