"""`FactorModel`: what every embedding model shares. A vector per user and per item; the score is their inner product.

A user who was fitted is scored by their learned vector; anybody else who comes with a list of items is folded in by
least squares in the space of the items (`training.least_squares`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray

from receraser import settings
from receraser.data.ids import IdMap
from receraser.data.interactions import Histories, Interactions
from receraser.errors import TrainingError, UsageError
from receraser.evaluation import SCORE_BLOCK
from receraser.fingerprint import Tensors
from receraser.models import objectives
from receraser.protocols import Progress
from receraser.seeds import derive
from receraser.training.kernels import one_torch_thread
from receraser.training.least_squares import fold_in
from receraser.training.loop import Objective
from receraser.training.normals import normal_for

__all__ = ["Brought", "FactorModel", "Learned", "Lesson", "initial_vectors", "score_blocks", "torch_device"]

_AT_LEAST_ONE = ("dim", "batch_size", "validate_every", "n_negatives")

Vectors = NDArray[np.float32]
Learned = tuple[torch.Tensor, torch.Tensor, dict[str, object]]


@dataclass(frozen=True, eq=False)
class Lesson:
    """All that a model may learn from, and where."""

    rows: Interactions
    valid: Interactions | None
    seed: int
    device: torch.device
    progress: Progress | None


class Brought:
    """An array on the device where it is asked for: brought to a GPU once, not every time.

    Another array comes anew; one that is changed in place does not.
    """

    def __init__(self) -> None:
        self._last: tuple[NDArray[np.generic], torch.Tensor] | None = None  # what was brought, and what became of it

    def on(self, device: torch.device, array: NDArray[np.generic]) -> torch.Tensor:
        """Return the array there."""
        if device.type == "cpu":
            return torch.from_numpy(array)
        last = self._last
        if last is None or last[0] is not array or last[1].device != device:
            last = self._last = array, torch.from_numpy(array).to(device)
        return last[1]


@dataclass(kw_only=True)
class FactorModel:
    """Base of the embedding models: holds vectors, scores with them, gives them out and takes them back.

    Parameters
    ----------
    dim
        Length of the vectors.
    device
        "cpu" or "cuda": where `fit` computes. Scores are computed there too where it exists, else on the CPU.
    """

    name: ClassVar[str]
    pairwise: ClassVar[bool] = False  # learned from differences of scores: the mean item vector means nothing

    dim: int = 64
    device: str = "cpu"

    users_: IdMap = field(init=False, repr=False, compare=False)
    items_: IdMap = field(init=False, repr=False, compare=False)
    user_vectors_: Vectors = field(init=False, repr=False, compare=False)
    item_vectors_: Vectors = field(init=False, repr=False, compare=False)
    item_counts_: NDArray[np.int64] | None = field(init=False, repr=False, compare=False)  # rows of each item; no state
    facts_: dict[str, object] = field(init=False, repr=False, compare=False)
    _on_device: Brought = field(init=False, repr=False, compare=False)  # item_vectors_

    def __post_init__(self) -> None:
        settings.check(self, at_least_one=_AT_LEAST_ONE)

    # ------------------------------------------------------------------ what the protocol asks

    def fit(
        self,
        interactions: Interactions,
        *,
        valid: Interactions | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from these rows alone, from nothing; `valid` chooses the epoch and is never trained on."""
        with one_torch_thread():
            lesson = Lesson(interactions, valid, seed, torch_device(self.device), progress)
            users, items, self.facts_ = self._learn(lesson)
            self._take(interactions, users, items)
        return self

    def _learn(self, lesson: Lesson) -> Learned:
        """Return the vectors of the users and of the items, and the facts of the fit. What a model is, is here."""
        raise NotImplementedError

    def objective(
        self,
        rows: Interactions,
        seed: int,
        *,
        parameters: Sequence[torch.Tensor],
        vectors: objectives.Vectors,
        penalised: tuple[torch.Tensor, torch.Tensor] | None = None,
        dropout: float | None = None,
        user_parts: int = 0,
    ) -> Objective:
        """Return the model's own loss, over whatever parameters the vectors are made of.

        `dropout`: share of the coordinates of a user's vector that is dropped in training, instead of the model's own.
        `user_parts`: let a batch have rows of few users, each user's dealt into so many parts; 0: rows at random.
        """
        raise NotImplementedError

    def hyperparameters(self) -> dict[str, object]:
        """Return the constructor's arguments."""
        return settings.values(self)

    def teacher(self) -> FactorModel:
        """Return the model whose loss an aggregation is learned by: this one."""
        return self

    def state(self) -> Tensors:
        """Return the vectors."""
        return {"user_vectors": self.user_vectors_, "item_vectors": self.item_vectors_}

    def restore(self, rows: Interactions, state: Tensors) -> Self:
        """Take over what `state` returned, learned from these rows."""
        return self.load_state(rows.users, rows.items, state, item_counts=rows.item_counts)

    def load_state(
        self, users: IdMap, items: IdMap, state: Tensors, *, item_counts: NDArray[np.int64] | None = None
    ) -> Self:
        """Take over the vectors of these users and items, where the rows are not at hand."""
        self.users_, self.items_, self._on_device = users, items, Brought()
        self.item_counts_ = item_counts
        self.user_vectors_ = np.asarray(state["user_vectors"], dtype=np.float32)
        self.item_vectors_ = np.asarray(state["item_vectors"], dtype=np.float32)
        self.facts_ = {}
        return self

    def facts(self) -> dict[str, object]:
        """Return what a person may want to know of the fit."""
        return self.facts_

    def scores(self, histories: Histories) -> torch.Tensor:
        """Return (len(histories), n_items): learned vectors where the user was fitted, folded in otherwise."""
        return self.scores_of(self.vectors(histories))

    def vectors(self, histories: Histories, *, strangers: NDArray[np.bool_] | None = None) -> Vectors:
        """Return (len(histories), dim): learned where the user was fitted, else folded in from the items they have.

        Only `strangers` are folded in, if given: a user whom other submodels know has no vector in this one.
        """
        vectors = np.zeros((len(histories), self.dim), dtype=np.float32)
        index = self.users_.indices(histories.users)
        vectors[index >= 0] = self.user_vectors_[index[index >= 0]]
        new = (index < 0) & (np.diff(histories.indptr) > 0)
        folded = np.flatnonzero(new if strangers is None else new & strangers)
        if len(folded):
            vectors[folded] = self._folded(histories, folded)
        return vectors

    def scores_of(self, vectors: Vectors) -> torch.Tensor:
        """Return (len(vectors), n_items): the scores of users given by their vectors."""
        device = self._serving_device()
        users = torch.from_numpy(vectors).to(device)
        return score_blocks(users, self._on_device.on(users.device, self.item_vectors_))

    def _serving_device(self) -> torch.device:
        """Return where scores are computed: on the GPU if it was fitted there and there is one here, else the CPU."""
        return torch.device("cuda" if self.device == "cuda" and torch.cuda.is_available() else "cpu")

    # ------------------------------------------------------------------ folding in

    def _folded(self, histories: Histories, which: NDArray[np.int64]) -> Vectors:
        items = self.item_vectors_
        if self.pairwise:
            items = items - items.mean(axis=0, dtype=np.float64).astype(np.float32)
        chosen = Histories.from_lists(
            [histories.users[i] for i in which],
            [histories.item_index[histories.indptr[i] : histories.indptr[i + 1]] for i in which],
        )
        weight, penalty = self.fold_in_settings()
        return fold_in(chosen.indptr, chosen.item_index, items, missing_weight=weight, regularization=penalty)

    def fold_in_settings(self) -> tuple[float, float]:
        """Return (missing_weight, regularization) for a stranger's vector."""
        return 0.1, 0.01

    # ------------------------------------------------------------------ for subclasses

    def _take(self, interactions: Interactions, users: torch.Tensor, items: torch.Tensor) -> None:
        """Keep the vocabularies of the shard and the learned vectors."""
        self.users_, self.items_, self._on_device = interactions.users, interactions.items, Brought()
        self.item_counts_ = interactions.item_counts
        self.user_vectors_ = np.ascontiguousarray(users.detach().cpu().numpy()[:, : self.dim], dtype=np.float32)
        self.item_vectors_ = np.ascontiguousarray(items.detach().cpu().numpy()[:, : self.dim], dtype=np.float32)
        if not (np.isfinite(self.user_vectors_).all() and np.isfinite(self.item_vectors_).all()):
            raise TrainingError(
                f"{self.name}: a learned vector is no number; try a smaller learning_rate or a stronger regularization"
            )


def score_blocks(users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
    """Return users @ items.T in blocks of exactly SCORE_BLOCK rows, padded with zeros.

    A matrix product may take other paths for other shapes; with one shape, a user's scores have the same bits whoever
    else is in the batch. Where there are hardly any items the places of a block are not alike on every processor: so
    there are never fewer than a block of them.
    """
    n, n_items = users.shape[0], items.shape[0]
    if 0 < n_items < SCORE_BLOCK:
        items = torch.cat([items, items.new_zeros((SCORE_BLOCK - n_items, items.shape[1]))])
    scores = users.new_empty((-(-n // SCORE_BLOCK) * SCORE_BLOCK, items.shape[0]))
    for start in range(0, n, SCORE_BLOCK):
        block = users[start : start + SCORE_BLOCK]
        if block.shape[0] < SCORE_BLOCK:
            block = torch.cat([block, block.new_zeros((SCORE_BLOCK - block.shape[0], block.shape[1]))])
        torch.mm(block, items.T, out=scores[start : start + SCORE_BLOCK])
    return scores[:n, :n_items]


def initial_vectors(ids: IdMap, dim: int, scale: float, seed: int, purpose: str) -> Vectors:
    """Return small random vectors, one per id; an id's vector does not depend on the other ids."""
    return np.asarray(normal_for(ids, derive(seed, "initial", purpose), dim) * np.float32(scale))


def torch_device(name: str) -> torch.device:
    """Return the device, or say why it cannot be had."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cpu", "cuda"):
        raise UsageError(f"unknown device {name!r}: expected cpu, cuda or auto")
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("device 'cuda' was asked for, but torch finds no CUDA device here; use --device cpu or auto")
    return torch.device(name)
