"""`Custom`: somebody else's model as a submodel like any other. How it is found is in `source`, called in `foreign`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from receraser.data.ids import IdMap
from receraser.fingerprint import Tensors
from receraser.models.bpr import BPR
from receraser.models.factors import FactorModel, Learned, Lesson
from receraser.models.foreign import Rows, call, checked_values, vectors_of
from receraser.seeds import derive

__all__ = ["Custom"]


@contextmanager
def _filled() -> Iterator[None]:
    """Let torch, where it is deterministic, fill new memory with what is no number meanwhile."""
    switch = torch.utils.deterministic
    before = switch.fill_uninitialized_memory  # type: ignore[attr-defined]
    switch.fill_uninitialized_memory = True  # type: ignore[attr-defined]
    try:
        yield
    finally:
        switch.fill_uninitialized_memory = before  # type: ignore[attr-defined]


class Custom(FactorModel):
    """A model of vectors that somebody else has written.

    How long the vectors are is known once it is fitted; shards may differ in it. Where an aggregation is learned by
    the base model's loss, it is BPR's: of the object's own loss nothing is known.

    Parameters
    ----------
    name
        "package.module:Object".
    hyperparameters
        The object's own; besides, what is ours: `device`, and the SHA-256 of the source (`foreign.SOURCE`).

    Examples
    --------
    >>> Custom("als:ALS", {"dim": 8}).hyperparameters()
    {'dim': 8, 'device': 'cpu'}
    """

    def __init__(self, name: str, hyperparameters: Mapping[str, object]) -> None:
        given = checked_values(name, hyperparameters)
        super().__init__(dim=1, device=str(given.pop("device", "cpu")))
        self.name = name  # type: ignore[misc]  # of the class, in every other model
        self._given = given
        self._folder: str | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Custom):
            return NotImplemented
        return (self.name, self.hyperparameters()) == (other.name, other.hyperparameters())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Custom({self.name!r}, {self.hyperparameters()})"

    def found_in(self, folder: str) -> Self:
        """Say where the module was found, for a process that would not look there. No part of the model."""
        self._folder = folder
        return self

    def hyperparameters(self) -> dict[str, object]:
        """Return what the object is made with, and what is ours."""
        return {**self._given, "device": self.device}

    def teacher(self) -> FactorModel:
        """Return the model whose loss an aggregation is learned by: one that asks for an order of scores only."""
        return BPR(device=self.device)

    def load_state(
        self, users: IdMap, items: IdMap, state: Tensors, *, item_counts: NDArray[np.int64] | None = None
    ) -> Self:
        """Take over the vectors of these users and items, however long they are."""
        super().load_state(users, items, state, item_counts=item_counts)
        self.dim = self.item_vectors_.shape[1]
        return self

    def _learn(self, lesson: Lesson) -> Learned:
        """Let the object fit; one that has nothing to learn from is not asked."""
        rows = Rows.of(lesson.rows)
        if not len(rows):
            self.dim = 1
            return torch.zeros((0, 1)), torch.zeros((0, 1)), {"dim": 1}
        seed = derive(lesson.seed, "custom") >> 33  # below 2**31: any library takes it
        with _filled():  # new memory may hold what an earlier task has left there
            result = call(self.name, self.hyperparameters(), rows, seed, folder=self._folder)
        users, items = vectors_of(self.name, result, rows)
        self.dim = users.shape[1]
        return torch.from_numpy(users), torch.from_numpy(items), {"dim": self.dim}
