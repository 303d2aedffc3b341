"""`Static`: GraphEraser's aggregation (Chen et al. 2022): one learned weight per submodel, whatever is predicted.

Weights are non-negative, learned by the base model's loss of the weighted scores on the training rows, plus lambda
times the length of the vector of weights, and normalised to sum to one at the end. A weighted sum of scores is one
inner product of longer vectors (the submodels' vectors side by side, the users' scaled by the weights), so the base
model's own loss applies as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from receraser import settings
from receraser.aggregation.learning import OPTIMIZERS, LinedUp, learn
from receraser.aggregation.weighted import WeightedSum
from receraser.data.interactions import Interactions
from receraser.fingerprint import Tensors
from receraser.models.factors import FactorModel, Lesson, torch_device
from receraser.protocols import Progress, Scorer
from receraser.training.kernels import one_torch_thread

__all__ = ["Static"]


@dataclass(kw_only=True)
class Static:
    """One weight per submodel.

    Parameters
    ----------
    n_epochs, patience, validate_every, batch_size, n_negatives, user_batch_size, dropout, optimizer, learning_rate,
    weight_decay
        As for `Attention`.
    """

    name: ClassVar[str] = "static"
    needs_rows: ClassVar[bool] = True
    learns: ClassVar[bool] = True

    n_epochs: int = 10
    patience: int = 3
    validate_every: int = 1
    batch_size: int = 8192
    n_negatives: int = 1
    user_batch_size: int = 512
    dropout: float = 0.0
    optimizer: str = "adagrad"
    learning_rate: float = 0.05
    weight_decay: float = 0.001
    device: str = "cpu"

    def __post_init__(self) -> None:
        whole = ("batch_size", "user_batch_size", "validate_every", "n_negatives")
        settings.check(self, at_least_one=whole, less_than_one=["dropout"], choices={"optimizer": OPTIMIZERS})

    def fit(
        self,
        submodels: Sequence[FactorModel],
        interactions: Interactions,
        *,
        valid: Interactions | None,
        seed: int,
        progress: Progress | None = None,
    ) -> tuple[Tensors, Mapping[str, object]]:
        """Learn the weights."""
        with one_torch_thread():
            lesson = Lesson(interactions, valid, seed, torch_device(self.device), progress)
            lined_up = LinedUp.users(submodels, lesson)
            n, _, dim = lined_up.vectors.shape
            users = _side_by_side(lined_up)
            items = _side_by_side(LinedUp.items(submodels, lesson))
            root = torch.full((n, 1), n**-0.5, device=lesson.device)  # its square is the weight: never negative

            def vectors(some: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
                asked = users if some is None else users[some]
                return asked * root.square().expand(n, dim).reshape(-1), items

            def length(parameters: Sequence[torch.Tensor]) -> torch.Tensor:
                return parameters[0].square().square().sum().sqrt()

            facts = learn(self, submodels[0], lesson, {"weights": root}, vectors, dim=n * dim, norm=length)
            weights = root.detach().square().cpu().numpy().reshape(-1).astype(np.float64)
            total = weights.sum()
            shares = weights / total if total > 0 else np.full(n, 1 / n)
            return {"weights": shares.astype(np.float32)}, facts | {
                "weights": [round(one, 4) for one in shares.tolist()]
            }

    def scorer(self, submodels: Sequence[FactorModel], state: Tensors) -> Scorer:
        """Return the weighted sum of the submodels."""
        return WeightedSum(submodels, np.asarray(state["weights"], dtype=np.float32))


def _side_by_side(side: LinedUp) -> torch.Tensor:
    """Return (n, n_shards * dim): everybody's vectors in all submodels in one row, zeros where there is none."""
    return side.vectors.permute(1, 0, 2).flatten(1).contiguous()
