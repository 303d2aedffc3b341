"""Training by gradient descent, as BPR, LightGCN and WMF's second solver do it: the loop, and its validation.

The epoch whose weights are kept is the one that ranks the shard's own held-out rows best. They choose it and do nothing
else; without any, the preset number of epochs runs to its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch

from receraser.data.interactions import Histories, Interactions
from receraser.evaluation import SCORE_BLOCK, RankingTask
from receraser.models.factors import Lesson, score_blocks
from receraser.training.loop import Steps, train

__all__ = ["VALIDATION_METRIC", "Validation", "descend"]

VALIDATION_METRIC = "ndcg@20"
_LARGE = 2**25  # scores at a time on a GPU


class Schedule(Protocol):
    """The hyperparameters that say how long a model trains."""

    n_epochs: int
    validate_every: int
    patience: int


def descend(
    schedule: Schedule,
    steps: Steps,
    lesson: Lesson,
    *,
    vectors: Callable[[], tuple[torch.Tensor, torch.Tensor]],
) -> dict[str, object]:
    """Train the parameters of the steps in place; return the facts of the training.

    Parameters
    ----------
    vectors
        Returns the user and item vectors that the parameters stand for at the moment.
    """
    validation = None if lesson.valid is None else Validation(lesson.rows, lesson.valid, lesson.device)

    def validate() -> float:
        assert validation is not None
        with torch.no_grad():
            return validation(*vectors())

    log = train(
        steps,
        n_epochs=schedule.n_epochs,
        validate=validate if validation else None,
        validate_every=schedule.validate_every,
        patience=schedule.patience,
        progress=lesson.progress,
    )
    return {"epochs": log.epochs_run, "best_epoch": log.best_epoch, "validation": log.curve}


class Validation:
    """Scores the shard's own held-out rows while a model trains.

    On a GPU in few large products, since a product of 64 users is over before it is launched. The same users are
    always together there: what comes out is the same on every run.
    """

    def __init__(self, train: Interactions, valid: Interactions, device: torch.device) -> None:
        self._task = RankingTask(train.items, train, valid)
        self._rows = torch.from_numpy(train.users.indices(self._task.histories.users)).to(device)
        self._whole = device.type == "cuda"
        self._together = max(SCORE_BLOCK, _LARGE // max(1, len(train.items))) if self._whole else SCORE_BLOCK

    def __bool__(self) -> bool:
        return len(self._rows) > 0

    def __call__(self, users: torch.Tensor, items: torch.Tensor) -> float:
        """Return the validation metric of these vectors."""
        vectors = users.detach()[self._rows]
        done = 0

        def score(histories: Histories) -> torch.Tensor:
            nonlocal done
            block = vectors[done : done + len(histories)]
            done += len(histories)
            return block @ items.detach().T if self._whole else score_blocks(block, items.detach())

        return self._task.metric(score, VALIDATION_METRIC, together=self._together)
