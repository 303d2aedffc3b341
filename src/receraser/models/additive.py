"""`AdditiveModel`: models that are functions of sums over users, and so need no shards to forget.

What such a model knows is a function of sums of whole numbers over users (`training.counts`): whatever one user added
can be taken away exactly, and the rest is a deterministic solve. Nothing of a user is learned: whoever is asked about
is known by the items they have at that moment, a stranger as well as a member.

Two ways lead to the same bits: `fit`, from the rows; and, where a model keeps sums, `solve`, from sums that were
brought up to date by `resummed` (a forget looks at the rows of those who asked, and at no others). `gram` has a third.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

import torch

from receraser import settings
from receraser.data.ids import IdMap
from receraser.data.interactions import Histories, Interactions
from receraser.fingerprint import Tensors
from receraser.protocols import Progress, Scorer

__all__ = ["AdditiveModel", "Solved"]

Solved = tuple[Tensors, Mapping[str, object]]


@dataclass(kw_only=True)
class AdditiveModel:
    """Base of the models without shards: holds what was solved for, and scores by it. Computes on the CPU."""

    name: ClassVar[str]

    users_: IdMap = field(init=False, repr=False, compare=False)
    items_: IdMap = field(init=False, repr=False, compare=False)
    facts_: Mapping[str, object] = field(init=False, repr=False, compare=False)
    _state: Tensors = field(init=False, repr=False, compare=False)
    _rows: Interactions | None = field(init=False, repr=False, compare=False)
    _scorer: Scorer | None = field(init=False, repr=False, compare=False)

    # ------------------------------------------------------------------ what a model says

    def keeps_sums(self, rows: Interactions) -> bool:  # noqa: ARG002
        """Say whether the model is solved for from sums of these rows; otherwise from the rows."""
        return False

    def sums(self, rows: Interactions) -> Tensors | None:  # noqa: ARG002
        """Return the sums that `solve` takes; None where it takes the rows."""
        return None

    def resummed(self, sums: Tensors, before: Interactions, after: Interactions) -> Tensors | None:
        """Return the sums of the rows `after`, given those of the rows `before`."""
        raise NotImplementedError

    def solve(self, items: IdMap, sums: Tensors, seed: int) -> Solved:
        """Return what `state` gives, and facts, from the sums alone."""
        raise NotImplementedError

    def _from_rows(self, rows: Interactions, seed: int) -> Solved:
        """Return the same from the rows; for a model that keeps no sums."""
        raise NotImplementedError

    def _make_scorer(self, rows: Interactions, state: Tensors) -> Scorer:
        """Put what was solved for to use."""
        raise NotImplementedError

    # ------------------------------------------------------------------ what the protocol asks

    def fit(
        self,
        interactions: Interactions,
        *,
        valid: Interactions | None = None,  # noqa: ARG002 - nothing is chosen by them
        seed: int = 0,
        progress: Progress | None = None,  # noqa: ARG002 - there is nothing to wait for
    ) -> Self:
        """Learn from these rows alone, from nothing."""
        sums = self.sums(interactions)
        if sums is None:
            return self._learned(interactions, *self._from_rows(interactions, seed))
        return self._learned(interactions, *self.solve(interactions.items, sums, seed))

    def _learned(self, rows: Interactions, state: Tensors, facts: Mapping[str, object]) -> Self:
        self.restore(rows, state)
        self.facts_ = facts
        return self

    def hyperparameters(self) -> dict[str, object]:
        """Return the constructor's arguments."""
        return settings.values(self)

    def state(self) -> Tensors:
        """Return what was solved for."""
        return self._state

    def restore(self, rows: Interactions, state: Tensors) -> Self:
        """Take over what `state` returned, learned from these rows."""
        self.users_, self.items_ = rows.users, rows.items
        self.facts_ = {}
        self._state = state
        self._rows = rows
        self._scorer = None  # made when somebody is asked about
        return self

    def facts(self) -> Mapping[str, object]:
        """Return what a person may want to know of the fit."""
        return self.facts_

    def scores(self, histories: Histories) -> torch.Tensor:
        """Return (len(histories), n_items), from the items that people have."""
        if self._scorer is None:
            assert self._rows is not None, "fitted, or restored with its rows"
            self._scorer = self._make_scorer(self._rows, self._state)
        return self._scorer.scores(histories)
