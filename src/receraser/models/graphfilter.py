"""`GraphFilter`: GF-CF, a linear filter and a low-pass filter on the graph of items. Shen et al. 2021.

With R the rows as a matrix, D_U and D_I the numbers of rows of users and items, and R~ = D_U^(-1/2) R D_I^(-1/2), the
scores of somebody with the items r are

    r (R~^T R~  +  alpha D_I^(-1/2) V V^T D_I^(1/2)),   V the leading eigenvectors of R~^T R~.

The linear part is never multiplied out: scores pass from somebody's items to the people who have them and on to their
items, so all it knows is the rows themselves, and forgetting in it is deletion. V is learned anew by the eigen-solver,
in a fixed number of passes over the rows, on no item x item matrix either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from receraser import settings
from receraser.data.ids import IdMap
from receraser.data.interactions import Histories, Interactions
from receraser.fingerprint import Tensors
from receraser.models.additive import AdditiveModel, Solved
from receraser.models.factors import score_blocks
from receraser.protocols import Scorer
from receraser.training.kernels import on_cpu
from receraser.training.krylov import draw_block, gap_after, leading_eigenvectors, rows_gram
from receraser.training.spectrum import leading

__all__ = ["GraphFilter", "merged_low_pass", "normalised"]


@dataclass(kw_only=True)
class GraphFilter(AdditiveModel):
    """Graph filter for collaborative filtering.

    Parameters
    ----------
    rank
        How many low frequencies pass.
    low_pass_weight
        Alpha above; 0 leaves the linear part alone, which has nothing to learn.
    n_steps
        Of the eigen-solver, with a quarter as many columns as there are directions.

    Examples
    --------
    >>> rows = Interactions.from_pairs([("u1", "a"), ("u1", "b"), ("u2", "a"), ("u2", "b"), ("u3", "c")])
    >>> GraphFilter(rank=2).fit(rows).state()["low_pass"].shape
    (3, 2)
    """

    name: ClassVar[str] = "graphfilter"

    rank: int = 256
    low_pass_weight: float = 0.3
    n_steps: int = 12

    def __post_init__(self) -> None:
        settings.check(self, at_least_one=("rank", "n_steps"))

    def _from_rows(self, rows: Interactions, seed: int) -> Solved:
        if self.low_pass_weight == 0:
            return {"low_pass": np.zeros((len(rows.items), 0), dtype=np.float32)}, {}
        vectors, values = _low_frequencies(rows, self.rank, self.n_steps, seed)
        return {"low_pass": np.ascontiguousarray(vectors, dtype=np.float32)}, {"gap": gap_after(values, self.rank)}

    def _make_scorer(self, rows: Interactions, state: Tensors) -> Scorer:
        return _Filter(rows, np.asarray(state["low_pass"], dtype=np.float32), self.low_pass_weight)


def normalised(rows: Interactions) -> sp.csr_matrix:
    """Return R~: every row divided by the square roots of how many its user and its item have."""
    of_users, of_items = (1 / np.sqrt(counts) for counts in (np.diff(rows.indptr), rows.item_counts))
    matrix = rows.matrix().astype(np.float64)
    matrix.data = np.repeat(of_users, np.diff(matrix.indptr)) * of_items[matrix.indices]
    return matrix


def _low_frequencies(
    rows: Interactions, rank: int, n_steps: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the leading eigenvectors and eigenvalues of R~^T R~."""
    apply = rows_gram(rows, 1 / np.diff(rows.indptr), 1 / np.sqrt(rows.item_counts))
    return leading_eigenvectors(apply, draw_block(rows.items, -(-rank // 4), seed), rank, n_steps)


def merged_low_pass(shards: Sequence[Interactions], rank: int, *, seed: int = 0) -> tuple[IdMap, NDArray[np.float32]]:
    """Return the low-pass vectors of all rows, put together from shards that share no user.

    Every shard gives the leading directions F_k of its own R~_k, which are normalised by its own item counts d_k.
    Counts are sums over shards, so two neighbours are put side by side as sqrt(d_k / (d_1 + d_2)) F_k and cut back to
    `rank` columns, and so on up a fixed binary tree: a changed shard changes one path of it.

    Examples
    --------
    >>> one = Interactions.from_pairs([("u1", "a"), ("u1", "b"), ("u2", "a"), ("u2", "b")])
    >>> other = Interactions.from_pairs([("u3", "b"), ("u3", "c")])
    >>> items, vectors = merged_low_pass([one, other], 2)
    >>> items.ids, vectors.shape
    (('a', 'b', 'c'), (3, 2))
    """
    if not shards:
        raise ValueError("no shards to merge")
    level = [_leaf(rows, rank, seed) for rows in shards]
    while len(level) > 1:
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        level = [_beside(pair[0], pair[1], rank) if len(pair) == 2 else pair[0] for pair in pairs]
    items, columns, _ = level[0]
    lengths = np.sqrt((columns**2).sum(axis=0))
    return items, (columns / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)


_Node = tuple[IdMap, NDArray[np.float64], NDArray[np.float64]]  # items, V S, how many rows each item has


def _leaf(rows: Interactions, rank: int, seed: int) -> _Node:
    vectors, values = _low_frequencies(rows, rank, GraphFilter.n_steps, seed)
    return rows.items, vectors * np.sqrt(values[:rank]), rows.item_counts.astype(np.float64)


def _beside(left: _Node, right: _Node, rank: int) -> _Node:
    items = IdMap([*left[0], *right[0]])
    at = [items.indices(one[0]) for one in (left, right)]
    counts = np.zeros(len(items))
    for one, place in zip((left, right), at, strict=True):
        counts[place] += one[2]
    columns = np.zeros((len(items), 2 * rank))
    for k, (one, place) in enumerate(zip((left, right), at, strict=True)):
        columns[place, k * rank : (k + 1) * rank] = one[1] * np.sqrt(one[2] / counts[place])[:, None]
    return items, leading(columns, rank)[0], counts


class _Filter:
    """The rows, both ways, and the low-pass vectors."""

    def __init__(self, rows: Interactions, low_pass: NDArray[np.float32], weight: float) -> None:
        self.items_ = rows.items
        by_user = normalised(rows).astype(np.float32)
        self._by_user = _arrays(by_user)
        self._by_item = _arrays(by_user.T.tocsr())
        self._n_users = len(rows.users)
        self._root = np.sqrt(rows.item_counts).astype(np.float32)
        self._into = low_pass / self._root[:, None]  # of somebody's items, into the low frequencies
        self._out_of = torch.from_numpy(low_pass * (self._root * np.float32(weight))[:, None])

    def scores(self, histories: Histories) -> torch.Tensor:
        """Return (len(histories), n_items): somebody's scores do not depend on who else is asked about."""
        n = len(histories)
        ones = np.ones(len(histories.item_index), dtype=np.float32)
        items = np.zeros((len(self.items_), n), dtype=np.float32)
        items[histories.item_index, np.repeat(np.arange(n), np.diff(histories.indptr))] = 1.0
        people = np.empty((self._n_users, n), dtype=np.float32)
        linear = np.empty_like(items)
        on_cpu().csr_times_dense(*self._by_user, items, people)
        on_cpu().csr_times_dense(*self._by_item, people, linear)
        low = np.empty((n, self._into.shape[1]), dtype=np.float32)
        on_cpu().csr_times_dense(histories.indptr, histories.item_index, ones, self._into, low)
        return torch.from_numpy(np.ascontiguousarray(linear.T)) + score_blocks(torch.from_numpy(low), self._out_of)


def _arrays(matrix: sp.csr_matrix) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data
