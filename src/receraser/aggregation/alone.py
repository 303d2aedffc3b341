"""`Alone`: one submodel speaks for itself: the aggregation of the `retrain` method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from receraser.aggregation.unlearned import NothingLearned
from receraser.fingerprint import Tensors
from receraser.protocols import Model, Scorer

__all__ = ["Alone"]


@dataclass(kw_only=True)
class Alone(NothingLearned):
    """The only submodel, of any kind, is the scorer; nothing is learned on top of it."""

    name: ClassVar[str] = "alone"

    def scorer(self, submodels: Sequence[Model], state: Tensors) -> Scorer:  # noqa: ARG002
        """Return the submodel."""
        (only,) = submodels
        return only
