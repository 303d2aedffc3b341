"""Recommendations from a state: histories in, the best items out. Users go by pseudonyms here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from receraser.data.interactions import Histories, Interactions
from receraser.evaluation import SCORE_BLOCK
from receraser.ranking import top_k
from receraser.state import State
from receraser.training.kernels import one_torch_thread

__all__ = ["Recommendation", "best_items", "histories_of"]


class Recommendation(NamedTuple):
    """One recommended item and its score (higher is better; comparable within one user's list only)."""

    item: str
    score: float


def histories_of(state: State, users: Sequence[str], stranger: Sequence[str] | None) -> Histories:
    """Return what users have, in the scorer's vocabulary; a stranger, known by items alone, comes last under ""."""
    vocabulary = state.scorer.items_
    known = Histories.of(users, state.train, vocabulary)
    if stranger is None:
        return known
    lists = [known.item_index[known.indptr[i] : known.indptr[i + 1]] for i in range(len(known))]
    return Histories.from_lists([*known.users, ""], [*lists, vocabulary.indices(stranger)])


def best_items(
    state: State, histories: Histories, k: int, *, exclude_seen: bool, wishes: Interactions
) -> list[list[Recommendation]]:
    """Return the k best items of everybody, best first; none for somebody without rows.

    `wishes`: pairs of a user and an item that is to be kept out of their list whatever else holds.
    """
    vocabulary = state.scorer.items_
    left_out = _seen(state, histories) if exclude_seen else []
    left_out += [Histories.of(histories.users, wishes, vocabulary)] if len(wishes) else []
    lists: list[list[Recommendation]] = []
    with one_torch_thread():
        for start in range(0, len(histories), SCORE_BLOCK):
            stop = min(start + SCORE_BLOCK, len(histories))
            block, tables = histories.part(start, stop), [one.part(start, stop) for one in left_out]
            lists += _best_of_block(state, block, min(k, len(vocabulary)), tables)
    return lists


def _best_of_block(
    state: State, histories: Histories, k: int, left_out: Sequence[Histories]
) -> list[list[Recommendation]]:
    scorer = state.scorer
    if not len(scorer.items_):
        return [[] for _ in histories.users]
    scores = scorer.scores(histories)  # (n, n_items)
    best = top_k(scores, k, exclude=_cells(left_out, scores.device) if left_out else None)
    values = scores.gather(1, best.clamp(min=0)).tolist()
    known = np.diff(histories.indptr) > 0
    return [
        [Recommendation(scorer.items_.ids[i], v) for i, v in zip(row, own, strict=True) if i >= 0] if there else []
        for row, own, there in zip(best.tolist(), values, known.tolist(), strict=True)
    ]


def _seen(state: State, histories: Histories) -> list[Histories]:
    """Return what is not to be recommended again: rows trained on, and rows held for validation."""
    if state.valid is None:
        return [histories]
    return [histories, Histories.of(histories.users, state.valid, state.scorer.items_)]


def _cells(tables: Sequence[Histories], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rows and the columns of all entries."""
    rows = [np.repeat(np.arange(len(one)), np.diff(one.indptr)) for one in tables]
    cells = np.concatenate(rows), np.concatenate([one.item_index for one in tables])
    return torch.from_numpy(cells[0]).to(device), torch.from_numpy(cells[1]).to(device)
