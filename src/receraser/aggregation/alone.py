"""`Alone`: one submodel speaks for itself: the aggregation of the `retrain` method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from receraser.data.interactions import Interactions
from receraser.fingerprint import Tensors
from receraser.models.factors import FactorModel
from receraser.protocols import Progress, Scorer

__all__ = ["Alone"]


@dataclass(kw_only=True)
class Alone:
    """The only submodel is the scorer; nothing is learned on top of it."""

    name: ClassVar[str] = "alone"
    needs_rows: ClassVar[bool] = False
    learns: ClassVar[bool] = False

    def fit(
        self,
        submodels: Sequence[FactorModel],  # noqa: ARG002
        interactions: Interactions,  # noqa: ARG002
        *,
        valid: Interactions | None,  # noqa: ARG002
        seed: int,  # noqa: ARG002
        progress: Progress | None = None,  # noqa: ARG002
    ) -> tuple[Tensors, Mapping[str, object]]:
        """Return nothing: there is nothing to learn."""
        return {}, {}

    def scorer(self, submodels: Sequence[FactorModel], state: Tensors) -> Scorer:  # noqa: ARG002
        """Return the submodel."""
        (only,) = submodels
        return only
