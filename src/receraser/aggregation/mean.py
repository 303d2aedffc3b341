"""`Mean`: SISA's aggregation (Bourtoule et al. 2021, as the RecEraser paper uses it): the submodels' average score.

The sum over the shards that hold both user and item, divided by the number of all shards. Nothing is learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from receraser.aggregation.unlearned import NothingLearned
from receraser.aggregation.weighted import WeightedSum
from receraser.fingerprint import Tensors
from receraser.models.factors import FactorModel
from receraser.protocols import Scorer

__all__ = ["Mean"]


@dataclass(kw_only=True)
class Mean(NothingLearned):
    """Every submodel has the same say."""

    name: ClassVar[str] = "mean"

    def scorer(self, submodels: Sequence[FactorModel], state: Tensors) -> Scorer:  # noqa: ARG002
        """Return the average of the submodels."""
        return WeightedSum(submodels, np.full(len(submodels), 1 / len(submodels), dtype=np.float32))
