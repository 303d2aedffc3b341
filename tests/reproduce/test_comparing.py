from __future__ import annotations

import numpy as np
import pytest

from receraser.reproduce.cell import Cell
from receraser.reproduce.comparing import Share, Spread, bootstrap, paired_p
from receraser.reproduce.progress import Expected, duration
from receraser.reproduce.settings import chosen

GENERATOR = np.random.default_rng(0)
THEIRS = GENERATOR.random(400)


def test_an_interval_covers_the_share_and_is_narrow_where_users_agree() -> None:
    low, high = bootstrap(0.95 * THEIRS, THEIRS)
    assert low == pytest.approx(0.95)
    assert high == pytest.approx(0.95)
    noisy = 0.95 * THEIRS + GENERATOR.normal(0, 0.2, 400)
    low, high = bootstrap(noisy, THEIRS)
    assert low < noisy.mean() / THEIRS.mean() < high
    assert high - low < 0.1


def test_an_interval_is_what_drawing_users_one_by_one_gives() -> None:
    noisy = 0.9 * THEIRS + GENERATOR.normal(0, 0.1, 400)
    shares = []
    for _ in range(2000):
        at = GENERATOR.integers(400, size=400)
        shares.append(noisy[at].mean() / THEIRS[at].mean())
    assert bootstrap(noisy, THEIRS) == pytest.approx(tuple(np.quantile(shares, (0.025, 0.975))), abs=0.004)


def test_nothing_can_be_a_share_of_nothing() -> None:
    nothing = np.zeros(10)
    assert all(np.isnan(one) for one in bootstrap(nothing, nothing))


def test_shares_of_seeds() -> None:
    share = Share.of([(0.9 * THEIRS, THEIRS), (0.8 * THEIRS, THEIRS)])
    assert (share.mean, share.low, share.high) == pytest.approx((0.85, 0.8, 0.9))
    assert share.text == "85.0 % [80.0, 90.0]"
    assert Spread((0.1, 0.2, 0.3)).text(2) == "0.20 ± 0.10"


def test_p_values() -> None:
    assert paired_p(THEIRS, THEIRS) == 1.0
    assert paired_p(THEIRS + 0.01 + GENERATOR.normal(0, 0.001, 400), THEIRS) < 0.01
    assert paired_p(THEIRS + GENERATOR.normal(0, 0.1, 400), THEIRS) > 0.01


def test_times_are_expected_by_what_is_alike() -> None:
    fits = [Cell("fit", "ml-1m", chosen("ml-1m", "wmf", method).config) for method in ("sisa", "receraser", "retrain")]
    other = Cell("fit", "ml-1m", chosen("ml-1m", "bpr", "sisa").config)
    expected = Expected()
    assert expected.left(fits) is None
    expected.learn(fits[0], 4.0)
    assert expected.seconds(fits[0]) == 4.0
    assert expected.seconds(fits[1]) == 4.0, "the same model"
    expected.learn(fits[1], 8.0)
    assert expected.seconds(fits[0]) == 4.0
    assert expected.seconds(fits[2]) == 6.0
    assert expected.seconds(other) == 6.0, "whatever was done"
    assert expected.left([fits[0], fits[1]]) == 12.0
    again = Expected([(fits[0].inputs("rows", "cpu"), 5.0)])
    assert again.seconds(fits[0]) == 5.0
    assert expected.left([]) == 0.0
    assert [duration(one) for one in (59, 61, 3700)] == ["59 s", "1:01 min", "1:01 h"]
