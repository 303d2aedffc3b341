"""The evaluation protocol: rank every item a user does not have, compare with that user's held-out items.

Full ranking, no sampled candidates. Only training rows are masked. Held-out items that the model has never seen stay
in the truth, as misses. Users without a training row cannot be ranked for; they are left out and counted, as are the
users who have nothing held out. `RankingTask` prepares the lookups once, so that validating after every epoch is cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from receraser.data.ids import IdMap
from receraser.data.interactions import Histories, Interactions
from receraser.errors import DataError, UsageError
from receraser.metrics import METRICS, by_name
from receraser.protocols import Progress, Scorer
from receraser.ranking import top_k
from receraser.training.kernels import one_torch_thread

__all__ = ["SCORE_BLOCK", "Evaluation", "RankingTask", "evaluate"]

SCORE_BLOCK = 64  # users scored together, always exactly so many (padded): a user's scores do not depend on the others

Score = Callable[[Histories], torch.Tensor]


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation found.

    Attributes
    ----------
    metrics
        Means over users, by name ("recall@20").
    users, users_skipped
        Ranked for; in the held-out rows, but without training rows.
    users_without_truth
        In the training rows, but with nothing held out.
    per_user
        The metrics of each user, for paired tests; in the order of `user_ids`.
    """

    metrics: dict[str, float]
    users: int
    users_skipped: int
    users_without_truth: int
    user_ids: tuple[str, ...]
    per_user: dict[str, NDArray[np.float64]]


class RankingTask:
    """Who is ranked for, what they have and what was held out, in the vocabulary of one model.

    Parameters
    ----------
    items
        The model's vocabulary.
    train, held_out
        The rows masked, and the rows to be found.
    """

    def __init__(self, items: IdMap, train: Interactions, held_out: Interactions) -> None:
        ranked = [name for name in held_out.users if name in train.users]
        self.users_skipped = len(held_out.users) - len(ranked)
        self.users_without_truth = len(train.users) - len(ranked)
        self.histories = Histories.of(ranked, train, items)
        self.truth = Histories.of(ranked, held_out, items)
        rows = held_out.users.indices(ranked)
        self.n_truth: NDArray[np.int64] = np.diff(held_out.indptr)[rows]  # unknown items count as held out

    def hits(
        self, score: Score, depth: int, progress: Progress | None = None, *, together: int = SCORE_BLOCK
    ) -> NDArray[np.bool_]:
        """Return (n_users, depth) booleans: whether the item at this rank is a held-out one.

        `together`: how many users are handed to `score` at a time.
        """
        blocks = []
        for start in range(0, len(self.histories), together):
            stop = min(start + together, len(self.histories))
            scores = score(self.histories.part(start, stop))  # (block, n_items)
            best = top_k(scores, depth, exclude=_cells(self.histories, start, stop, scores.device))
            rows, columns = _cells(self.truth, start, stop, scores.device)
            width = scores.shape[1] + 1  # the last column stands for "no item" (-1) and is wanted by nobody
            places = torch.arange(len(best), device=best.device)[:, None] * width + best.remainder(width)
            wanted = torch.cat([rows * width + columns, rows.new_full((1,), len(best) * width)]).sort().values
            blocks.append(wanted[torch.searchsorted(wanted, places)] == places)
            if progress is not None:
                progress("users", stop, len(self.histories))
        if not blocks:
            return np.zeros((0, depth), dtype=bool)
        return np.asarray(torch.cat(blocks).cpu().numpy(), dtype=bool)

    def metric(self, score: Score, name: str, *, together: int = SCORE_BLOCK) -> float:
        """Return the mean of one metric, such as "ndcg@20"; 0 where there is nobody to rank for."""
        function, cut = by_name(name)
        if not len(self.histories):
            return 0.0
        return float(function(self.hits(score, cut, together=together), self.n_truth, cut).mean())


def evaluate(
    scorer: Scorer,
    train: Interactions,
    test: Interactions,
    *,
    at: Sequence[int] = (10, 20, 50),
    progress: Progress | None = None,
) -> Evaluation:
    """Rank for every user of `test` and return all metrics at every cut.

    Raises
    ------
    DataError
        If no user of the test rows has training rows: there is nothing to measure.
    """
    task = RankingTask(scorer.items_, train, test)
    if not len(task.histories):
        raise DataError(
            f"none of the {len(test.users)} users of the test rows has training rows: there is nobody to rank for "
            "(do both files name users in the same way?)"
        )
    if not at or min(at) < 1:
        raise UsageError(f"the cuts are {list(at)}; expected at least one, each at least 1")
    with one_torch_thread():
        hits = task.hits(scorer.scores, max(at), progress)
    per_user = {f"{name}@{k}": function(hits, task.n_truth, k) for k in at for name, function in METRICS.items()}
    return Evaluation(
        metrics={name: float(values.mean()) for name, values in per_user.items()},
        users=len(task.histories),
        users_skipped=task.users_skipped,
        users_without_truth=task.users_without_truth,
        user_ids=task.histories.users,
        per_user=per_user,
    )


def _cells(histories: Histories, start: int, stop: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    part = histories.part(start, stop)
    rows = np.repeat(np.arange(stop - start), np.diff(part.indptr))
    return torch.from_numpy(rows).to(device), torch.from_numpy(part.item_index).to(device)
