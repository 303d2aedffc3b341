"""`NothingLearned`: what aggregations share that only put submodels together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from receraser.data.interactions import Interactions
from receraser.fingerprint import Tensors
from receraser.models.factors import FactorModel
from receraser.protocols import Progress

__all__ = ["NothingLearned"]


class NothingLearned:
    """An aggregation without anything to learn."""

    learns: ClassVar[bool] = False
    needs_rows: ClassVar[bool] = False

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
