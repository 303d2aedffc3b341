"""`Alone`: one submodel speaks for itself: the aggregation of the `retrain` method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from receraser.data.interactions import Interactions
from receraser.fingerprint import Tensors
from receraser.protocols import Model, Scorer

__all__ = ["Alone"]


@dataclass(frozen=True)
class Alone:
    """The only submodel is the scorer; nothing is learned on top of it."""

    name: ClassVar[str] = "alone"

    def fit(
        self,
        submodels: Sequence[Model],  # noqa: ARG002
        interactions: Interactions,  # noqa: ARG002
        *,
        valid: Interactions | None,  # noqa: ARG002
        seed: int,  # noqa: ARG002
    ) -> Tensors:
        """Return nothing: there is nothing to learn."""
        return {}

    def scorer(self, submodels: Sequence[Model], state: Tensors) -> Scorer:  # noqa: ARG002
        """Return the submodel."""
        (only,) = submodels
        return only
