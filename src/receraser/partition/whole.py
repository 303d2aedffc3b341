"""`Whole`: one shard that holds everything: the partition of the `retrain` method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from receraser import settings
from receraser.data.interactions import Interactions
from receraser.errors import UsageError
from receraser.partition.partition import Embeddings, Partition
from receraser.protocols import Progress

__all__ = ["Whole"]


@dataclass(kw_only=True)
class Whole:
    """Every row in shard 0. Looks at no data, so it remembers none."""

    name: ClassVar[str] = "whole"
    remembers_data: ClassVar[bool] = False
    landmarks_of: ClassVar[str] = ""
    user_atomic: ClassVar[bool] = True

    n_shards: int = 1

    def __post_init__(self) -> None:
        settings.check(self, at_least_one=["n_shards"])
        if self.n_shards != 1:
            raise UsageError(f"the partition whole is one shard; {self.n_shards} were asked for")

    def assign(
        self,
        interactions: Interactions,
        *,
        valid: Interactions | None,
        seed: int,  # noqa: ARG002
        embeddings: Embeddings | None = None,  # noqa: ARG002
        progress: Progress | None = None,  # noqa: ARG002
    ) -> Partition:
        """Return shard 0 for every row."""
        of_valid = None if valid is None else np.zeros(len(valid), dtype=np.int32)
        return Partition(1, np.zeros(len(interactions), dtype=np.int32), of_valid)

    def place(
        self,
        newcomers: Interactions,
        *,
        held: Interactions,  # noqa: ARG002
        partition: Partition,  # noqa: ARG002
        seed: int,  # noqa: ARG002
    ) -> NDArray[np.int32]:
        """Return shard 0."""
        return np.zeros(len(newcomers), dtype=np.int32)
