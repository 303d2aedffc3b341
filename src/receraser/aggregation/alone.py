"""`Alone`: one submodel speaks for itself: the aggregation of the `retrain` method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from receraser.data.interactions import Interactions
from receraser.protocols import Model, Scorer

__all__ = ["Alone"]


@dataclass(frozen=True)
class Alone:
    """The only submodel is the scorer; nothing is learned on top of it."""

    name: ClassVar[str] = "alone"

    def fit(
        self,
        submodels: Sequence[Model],
        interactions: Interactions,  # noqa: ARG002
        *,
        valid: Interactions | None,  # noqa: ARG002
        seed: int,  # noqa: ARG002
    ) -> Scorer:
        """Return the submodel."""
        (only,) = submodels
        return only
