from __future__ import annotations

import pytest

from receraser import settings
from receraser.aggregation.alone import Alone
from receraser.aggregation.attention import Attention
from receraser.aggregation.mean import Mean
from receraser.aggregation.registry import AGGREGATIONS, make_aggregator
from receraser.aggregation.spectral import Spectral
from receraser.aggregation.static import Static
from receraser.errors import UsageError


def test_every_aggregation_is_known_by_its_name() -> None:
    known = {"alone": Alone, "attention": Attention, "mean": Mean, "spectral": Spectral, "static": Static}
    assert known == AGGREGATIONS
    assert {name for name, one in AGGREGATIONS.items() if one.learns} == {"attention", "spectral", "static"}


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_an_aggregation_is_made_with_its_settings(name: str) -> None:
    made = make_aggregator(name, {})
    assert type(made) is AGGREGATIONS[name]
    assert make_aggregator(name, settings.values(made)) == made
    assert {type(value) for value in settings.values(made).values()} <= {int, float, str, bool}


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"unknown aggregation 'attentoin': did you mean 'attention'\?"):
        make_aggregator("attentoin", {})
    with pytest.raises(UsageError, match=r"the aggregation static has no setting 'atention_dim'"):
        make_aggregator("static", {"atention_dim": 3})
