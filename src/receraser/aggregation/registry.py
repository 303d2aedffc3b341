"""The aggregations by name. An aggregation is looked up here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping

from receraser import settings
from receraser.aggregation.alone import Alone
from receraser.aggregation.attention import Attention
from receraser.aggregation.mean import Mean
from receraser.aggregation.spectral import Spectral
from receraser.aggregation.static import Static
from receraser.protocols import Aggregator

__all__ = ["AGGREGATIONS", "make_aggregator"]

AGGREGATIONS: dict[str, type[Aggregator]] = {one.name: one for one in (Alone, Attention, Mean, Spectral, Static)}


def make_aggregator(name: str, values: Mapping[str, object]) -> Aggregator:
    """Return an aggregation with these settings.

    Examples
    --------
    >>> make_aggregator("attention", {"attention_dim": 8}).name
    'attention'
    """
    return settings.make(AGGREGATIONS, "aggregation", name, values)
