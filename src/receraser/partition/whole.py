"""`Whole`: one shard that holds everything: the partition of the `retrain` method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from receraser.data.interactions import Interactions
from receraser.partition.partition import Partition

__all__ = ["Whole"]


@dataclass(frozen=True)
class Whole:
    """Every row in shard 0. Looks at no data, so it remembers none."""

    name: ClassVar[str] = "whole"
    remembers_data: ClassVar[bool] = False
    n_shards: ClassVar[int] = 1

    def assign(self, interactions: Interactions, *, valid: Interactions | None, seed: int) -> Partition:  # noqa: ARG002
        """Return shard 0 for every row."""
        of_valid = None if valid is None else np.zeros(len(valid), dtype=np.int32)
        return Partition(1, np.zeros(len(interactions), dtype=np.int32), of_valid)
