"""`Mean`: SISA's aggregation (Bourtoule et al. 2021, as the RecEraser paper uses it): the submodels' average score.

The sum over the shards that hold both user and item, divided by the number of all shards. Nothing is learned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from receraser.aggregation.weighted import WeightedSum
from receraser.data.interactions import Interactions
from receraser.fingerprint import Tensors
from receraser.models.factors import FactorModel
from receraser.protocols import Progress, Scorer

__all__ = ["Mean"]


@dataclass(kw_only=True)
class Mean:
    """Every submodel has the same say."""

    name: ClassVar[str] = "mean"
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
        """Return the average of the submodels."""
        return WeightedSum(submodels, np.full(len(submodels), 1 / len(submodels), dtype=np.float32))
