"""`Alone`: one submodel speaks for itself: the aggregation of the `retrain` method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from receraser.aggregation.unlearned import NothingLearned
from receraser.fingerprint import Tensors
from receraser.models.factors import FactorModel
from receraser.protocols import Scorer

__all__ = ["Alone"]


@dataclass(kw_only=True)
class Alone(NothingLearned):
    """The only submodel is the scorer; nothing is learned on top of it."""

    name: ClassVar[str] = "alone"

    def scorer(self, submodels: Sequence[FactorModel], state: Tensors) -> Scorer:  # noqa: ARG002
        """Return the submodel."""
        (only,) = submodels
        return only
