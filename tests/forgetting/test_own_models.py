"""A model that somebody else wrote forgets as exactly as ours do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.forgetting.engines import Combination, Here, differences
from tests.forgetting.stories import Story, stories
from tests.forgetting.test_equality import again, fitted, live

ALS = "tests.models.pure:ALS"
OWN = [
    Combination("hash", "spectral", ALS, hyperparameters={"dim": 3}),
    Combination("random", "mean", ALS, hyperparameters={"dim": 3, "sweeps": 1}),
    Combination("ubp", "attention", "tests.models.pure:Narrow", hyperparameters={"dim": 5}),
    Combination("whole", "alone", "tests.models.pure_torch:Descent", hyperparameters={"steps": 2}),
]


@pytest.fixture(autouse=True, scope="module")
def unchecked() -> Iterator[None]:
    """They are looked at for leaks in `tests/test_purity.py`; not for every story."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("receraser.fitting.require_pure", lambda *_, **__: None)
        yield


@pytest.mark.parametrize("combination", OWN, ids=lambda one: f"{one.partition}-{one.aggregation}-{one.model[13:]}")
@given(story=stories(), backwards=st.booleans())
@settings(max_examples=6)
def test_forgetting_equals_never_having_seen(combination: Combination, story: Story, backwards: bool) -> None:
    engine, book = fitted(combination, story, Here(backwards=backwards))
    live(story, engine, book)
    other = Here(backwards=not backwards)
    assert differences(engine, book.fresh(other)) == []
    assert differences(engine, again(engine, other)) == []
    assert engine.level == ("L1" if combination.remembers_data and book.changed else "L3")
