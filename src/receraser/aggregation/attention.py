"""`Attention`: RecEraser's aggregation. Vectors of all submodels, moved into one space and added up by learned weights.

For every shard i a transfer matrix and a bias, P_tr = P W + b (Eq. 5); the aggregated vector of a user is the weighted
sum over shards (Eq. 6), with weights that a small network gives the user's own transferred vectors, softmax over shards
(Eq. 7; the paper writes p in the item's half too, q is meant). Items likewise, with a network of their own. All of it
is trained by the base model's own loss on all training rows, plus lambda |Theta|^2; the submodels stay as they are
(Eq. 8).

Where the paper is silent: a user or item that a shard does not hold has no learned vector there, so it is left out of
its softmax (published code lets never-trained vectors in). Ours: Adam by default, which needs a fraction of Adagrad's
steps; the vectors that the network makes are stored beside it, so that serving computes nothing anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from receraser import settings
from receraser.aggregation.learning import OPTIMIZERS, LinedUp, learn
from receraser.aggregation.network import side_of
from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.errors import UsageError
from receraser.fingerprint import Tensors
from receraser.models.factors import FactorModel, Lesson, torch_device
from receraser.models.registry import make_factor_model
from receraser.protocols import Progress, Scorer
from receraser.seeds import derive, normal
from receraser.training.kernels import one_torch_thread

__all__ = ["Attention"]


@dataclass(kw_only=True)
class Attention:
    """Attention-based adaptive aggregation.

    Parameters
    ----------
    attention_dim
        Width of the network that weighs the submodels.
    n_epochs, patience, validate_every
        Passes over all training rows, at most; stop by validation as the base models do.
    batch_size, n_negatives
        For pairwise models: rows per step; items drawn per row, of which the hardest is used.
    user_parts
        For pairwise models: deal the rows of a user into so many parts, each in one step (0: a step has rows at
        random). Then a step computes the vectors of its own users alone, which on a CPU saves some of the time. A step
        has room for two of the largest parts, whatever `batch_size` says.
    user_batch_size
        For WMF: users per step.
    dropout
        Share of the coordinates of the aggregated user vectors that is dropped in training.
    optimizer, learning_rate, weight_decay
        "adam", or "adagrad" as in the paper; its step size; lambda of Eq. 8.
    anneal
        Let Adam's step size fall to zero in a straight line over the epochs: as good with a third of them.
    """

    name: ClassVar[str] = "attention"
    needs_rows: ClassVar[bool] = True
    learns: ClassVar[bool] = True

    attention_dim: int = 32
    n_epochs: int = 20
    patience: int = 3
    validate_every: int = 2
    batch_size: int = 2048
    n_negatives: int = 8
    user_parts: int = 0
    user_batch_size: int = 256
    dropout: float = 0.3
    optimizer: str = "adam"
    learning_rate: float = 0.005
    weight_decay: float = 0.00001
    anneal: bool = False
    device: str = "cpu"

    def __post_init__(self) -> None:
        whole = ("attention_dim", "batch_size", "user_batch_size", "validate_every", "n_negatives")
        settings.check(self, at_least_one=whole, less_than_one=["dropout"], choices={"optimizer": OPTIMIZERS})
        if self.anneal and self.optimizer != "adam":
            raise UsageError(f"attention: anneal is for optimizer adam; found {self.optimizer}: leave one of them out")

    def fit(
        self,
        submodels: Sequence[FactorModel],
        interactions: Interactions,
        *,
        valid: Interactions | None,
        seed: int,
        progress: Progress | None = None,
    ) -> tuple[Tensors, Mapping[str, object]]:
        """Train the network; return it, and the aggregated vectors it makes of the submodels."""
        with one_torch_thread():
            lesson = Lesson(interactions, valid, seed, torch_device(self.device), progress)
            network = _Network(submodels, lesson, self.attention_dim)
            base = submodels[0]
            facts = learn(
                self,
                base,
                lesson,
                network.parameters,
                network.vectors,
                dim=network.dim,
                norm=_squared,
                anneal=self.anneal,
                user_parts=self.user_parts,
            )
            with torch.no_grad():
                users, items = network.vectors()
            learned = network.parameters | {"user_vectors": users, "item_vectors": items}
            return {name: np.ascontiguousarray(one.detach().cpu().numpy()) for name, one in learned.items()}, facts

    def scorer(self, submodels: Sequence[FactorModel], state: Tensors) -> Scorer:
        """Return the aggregated vectors, which score and fold in strangers as the base model does."""
        users = IdMap.union([model.users_ for model in submodels])
        items = IdMap.union([model.items_ for model in submodels])
        whole = make_factor_model(submodels[0].name, submodels[0].hyperparameters())
        return whole.load_state(users, items, state)


class _Network:
    """The parameters, and the aggregated vectors they make of the frozen submodels."""

    def __init__(self, submodels: Sequence[FactorModel], lesson: Lesson, width: int) -> None:
        users, items = LinedUp.users(submodels, lesson), LinedUp.items(submodels, lesson)
        self._users, self._items = side_of(users, "user", width), side_of(items, "item", width)
        n, _, dim = users.vectors.shape
        self.dim = dim
        transfer = [_glorot(derive(lesson.seed, "transfer", k), dim, dim) for k in range(n)]
        start = {
            "transfer": np.stack(transfer),  # (n_shards, dim, dim): W of Eq. 5, applied from the right
            "bias": np.zeros((n, 1, dim), dtype=np.float32),
        }
        for side in ("user", "item"):
            start |= {
                f"{side}_hidden": _glorot(derive(lesson.seed, side, "hidden"), dim, width),  # W_1, W_2 of Eq. 7
                f"{side}_hidden_bias": np.zeros(width, dtype=np.float32),
                f"{side}_weights": _glorot(derive(lesson.seed, side, "weights"), width, 1)[:, 0].copy(),  # h_1, h_2
            }
        self.parameters = {name: torch.from_numpy(array).to(lesson.device) for name, array in start.items()}

    def vectors(self, users: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the aggregated (n_users, dim), of these users alone where some are named, and (n_items, dim)."""
        return self._users.aggregated(self.parameters, users), self._items.aggregated(self.parameters)


def _squared(parameters: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.stack([one.square().sum() for one in parameters]).sum()


def _glorot(key: int, n_in: int, n_out: int) -> NDArray[np.float32]:
    """Return (n_in, n_out) random numbers of variance 2 / (n_in + n_out). Glorot & Bengio 2010."""
    scale = np.float32((2.0 / (n_in + n_out)) ** 0.5)
    return np.asarray(normal(key, np.arange(n_in, dtype=np.uint64), n_out) * scale, dtype=np.float32)
