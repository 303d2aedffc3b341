"""`Gram`: items by the leading eigenvectors of how often they are taken together; users folded in.

The sums are G = sum over users of w(n_u) x_u x_u^T, with x_u the items of a user, n_u their number and w(n) = n^(-b)
in fixed point: people with long lists do not outweigh the others. Items are scaled by pop^(-a), so that bestsellers do
not fill all directions; the leading eigenvectors U with values L give items the rows of U L^(1/2), brought to a mean
squared length of 1. A user's vector is the ridge solution over their own items, as in WMF. Kin: PureSVD (Cremonesi et
al. 2010).

Where there are few items for many rows, the sums over all pairs of items are kept: a forget is an exact downdate, and
the eigen-solver works on the matrix. Otherwise (`pairs_per_row`, a function of the rows at hand) passes over the rows
are cheaper than that matrix, it is never made, and all there is to forget are the rows.

Where an item has many rows, a part of the users says nearly what all of them say. So the solver sets out from the
leading directions of a core: the rows of users whom a hash of their name chooses, half of them, a quarter, ...
(`core_share`), and a few passes over all rows make the answer of it. It is a function of the rows as before;
but as long as a change leaves the core alone, where it sets out from is the same, and need not be computed again.

With very many rows even those passes are long. Then shards of users can have one each, merged by
`aggregation.spectral` (the sum over all users is the sum over the shards', but for each scaling by its own counts), and
a forget costs one shard's passes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from receraser import settings
from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.fingerprint import Tensors
from receraser.models.additive import AdditiveModel, Solved
from receraser.models.folded import FoldedScorer
from receraser.protocols import Scorer
from receraser.seeds import derive, id_counters, uniform
from receraser.training.counts import counted, n_pairs, recounted, symmetric, user_weights
from receraser.training.kernels import one_torch_thread
from receraser.training.krylov import (
    Operator,
    blocked,
    draw_block,
    gap_after,
    leading_eigenvectors,
    refined,
    rows_gram,
)
from receraser.training.least_squares import polished
from receraser.training.normals import uniform_for
from receraser.training.powers import power

__all__ = ["Gram", "core_share"]

_PENALTY = 0.09  # by default, for each unit of missing weight
_STEPS = 8  # of the eigen-solver, with half as many columns as there are directions
_CORE_STEPS = 5  # of the eigen-solver there
_WIDER = 16  # directions more than the rank that are asked of the core
_DRAWN = 16  # columns beside them
_PASSES = 3  # from there: how often the matrix of all rows is applied


def _core_key(seed: int) -> int:
    return derive(seed, "core")


Found = tuple[NDArray[np.float64], NDArray[np.float64]]  # directions, and their values


def core_share(rows: Interactions, core_rows: float, n_directions: int) -> float:
    """Return what share of the users is in the core: 1, for no core at all, or 1/2, 1/4, ...

    The smallest that leaves an item `core_rows` rows in the mean, and a tenth as many users for each direction.

    Examples
    --------
    >>> rows = Interactions.from_pairs([(u, i) for u in range(40) for i in "ab"])
    >>> core_share(rows, 8.0, 4), core_share(rows, 30.0, 4), core_share(rows, 8.0, 20)
    (0.25, 1.0, 0.5)
    """
    n_rows, n_users, n_items = len(rows), len(rows.users), len(rows.items)
    share = 1.0
    while share / 2 * n_rows >= core_rows * n_items > 0 and share / 2 * n_users >= core_rows / 10 * n_directions:
        share /= 2
    return share


@dataclass(kw_only=True)
class Gram(AdditiveModel):
    """Leading eigenvectors of the co-occurrences of items.

    Parameters
    ----------
    rank
        Length of the items' vectors.
    user_power, item_power
        b and a above: how much long lists and popular items are held back.
    missing_weight, regularization
        Of the fold-in (`training.least_squares`). A missing_weight of 0 stands for the square root of the share of all
        pairs that are rows, and a regularization of 0 for 0.09 times the missing_weight: sparse data wants less of
        both. Functions of the rows at hand, taken anew at every fit.
    polish
        So many alternating sweeps over all rows afterwards: a WMF that was merely started here. No sums are kept then,
        for the sweeps pass over everybody.
    pairs_per_row
        The sums over all pairs of items are kept while there are at most so many pairs for each row.
    core_rows
        The solve sets out from a core of the users that has at least so many rows for each item, in the mean (and a
        tenth as many users for each direction); from nothing where half of the users have fewer, or with 0.

    Examples
    --------
    >>> rows = Interactions.from_pairs([("u1", "a"), ("u1", "b"), ("u2", "a"), ("u2", "b"), ("u3", "c")])
    >>> Gram(rank=2).fit(rows).state()["item_vectors"].shape
    (3, 2)
    """

    name: ClassVar[str] = "gram"
    pairwise: ClassVar[bool] = False

    rank: int = 128
    user_power: float = 0.75
    item_power: float = 0.35
    missing_weight: float = 0.0
    regularization: float = 0.0
    polish: int = 0
    pairs_per_row: float = 4.0
    core_rows: float = 20.0

    _counts: NDArray[np.int64] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        settings.check(self, at_least_one=("rank",))

    def sums(self, rows: Interactions) -> Tensors | None:
        """Return the sums over pairs of items, and how many rows each item has."""
        if not self.keeps_sums(rows):
            return None
        return {"pairs": counted(rows, self.user_power), "counts": rows.item_counts}

    def resummed(self, sums: Tensors, before: Interactions, after: Interactions) -> Tensors | None:
        """Take away what is gone and add what came."""
        if not self.keeps_sums(after):
            return None
        pairs = np.asarray(sums["pairs"], dtype=np.int64)
        return {"pairs": recounted(pairs, before, after, self.user_power), "counts": after.item_counts}

    def keeps_sums(self, rows: Interactions) -> bool:
        """Where there are few items for many rows, and no sweep over the rows follows."""
        return self.polish == 0 and n_pairs(len(rows.items)) <= self.pairs_per_row * len(rows)

    def solve(self, items: IdMap, sums: Tensors, seed: int) -> Solved:
        """Return the items' vectors."""
        scale = self._scale(np.asarray(sums["counts"], dtype=np.int64))
        matrix = symmetric(np.asarray(sums["pairs"], dtype=np.int64), scale)
        found = self._directions(
            lambda columns: blocked(lambda rows: matrix[rows] @ columns, *columns.shape), items, self.rank, _STEPS, seed
        )
        return self._solved(*found)

    def start(self, rows: Interactions, seed: int) -> Tensors:
        """Return the leading directions of the core, zeros for items that it does not have; nothing without a core."""
        share = self.core_share(rows)
        if share == 1.0 or self.keeps_sums(rows):
            return {}
        core = rows.take((uniform_for(rows.users, _core_key(seed)) < share)[rows.user_index])
        if not len(core):
            return {}
        found, _ = self._directions(self._operator(core), core.items, self.rank + _WIDER, _CORE_STEPS, seed)
        columns = np.zeros((len(rows.items), found.shape[1]), dtype=np.float32)
        columns[rows.items.indices(core.items)] = found
        return {"columns": columns}

    def keeps_start(self, before: Interactions, after: Interactions, touched: IdMap, seed: int) -> bool:
        """Whether there is a core, of the same share of the users, none of whom is touched."""
        share = self.core_share(after)
        same = share < 1.0 and share == self.core_share(before) and not self.keeps_sums(after)
        return same and not (uniform(_core_key(seed), id_counters(touched)) < share).any()  # they are few

    def carried(self, start: Tensors, before: Interactions, after: Interactions) -> Tensors:
        """Return the same directions, of the items that there are now."""
        if before.items == after.items:
            return start
        known = np.asarray(start["columns"], dtype=np.float32)
        columns = np.zeros((len(after.items), known.shape[1]), dtype=np.float32)
        at = after.items.indices(before.items)  # an item that came, or is gone, is not the core's: zeros
        columns[at[at >= 0]] = known[at >= 0]
        return {"columns": columns}

    def fit_from(self, interactions: Interactions, start: Tensors, *, seed: int = 0) -> Self:
        """Do the rest of `fit`, given `start(interactions, seed)`; where no sums of these rows are kept."""
        return self._learned(interactions, *self._set_out(interactions, start, seed))

    def core_share(self, rows: Interactions) -> float:
        """Return what share of the users the solve sets out from; 1: from nothing."""
        return core_share(rows, self.core_rows, self.rank + _WIDER)

    def _from_rows(self, rows: Interactions, seed: int) -> Solved:
        return self._set_out(rows, self.start(rows, seed), seed)

    def _set_out(self, rows: Interactions, start: Tensors, seed: int) -> Solved:
        apply = self._operator(rows)
        if start:
            # And columns drawn for every item: of those that share nobody with the core's, it says nothing.
            columns = np.hstack([start["columns"], draw_block(rows.items, _DRAWN, seed)])
            found = refined(apply, columns, self.rank, _PASSES)
        else:
            found = self._directions(apply, rows.items, self.rank, _STEPS, seed)
        state, facts = self._solved(*found)
        if self.polish:
            weight, penalty = self._weights(rows)
            vectors = np.asarray(state["item_vectors"], dtype=np.float32)
            with one_torch_thread():
                vectors = polished(vectors, rows, self.polish, missing_weight=weight, regularization=penalty)
            state = {"item_vectors": vectors}
        return state, facts

    def _operator(self, rows: Interactions) -> Operator:
        return rows_gram(rows, user_weights(np.diff(rows.indptr), self.user_power), self._scale(rows.item_counts))

    def _scale(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        return 1.0 / power(counts, self.item_power)

    def _directions(self, apply: Operator, items: IdMap, rank: int, n_steps: int, seed: int) -> Found:
        return leading_eigenvectors(apply, draw_block(items, -(-rank // 2), seed), rank, n_steps)

    def _solved(self, directions: NDArray[np.float64], values: NDArray[np.float64]) -> Solved:
        vectors = directions * np.sqrt(values[: self.rank])
        size = np.sqrt((vectors**2).sum() / max(len(vectors), 1))
        vectors = np.ascontiguousarray(vectors / (size if size > 0 else 1.0), dtype=np.float32)
        return {"item_vectors": vectors}, {"gap": gap_after(values, self.rank)}

    def _make_scorer(self, rows: Interactions, state: Tensors) -> Scorer:
        vectors = np.asarray(state["item_vectors"], dtype=np.float32)
        return FoldedScorer(rows.items, vectors, *self._weights(rows))

    def _weights(self, rows: Interactions) -> tuple[float, float]:
        return self.fold_in_settings(rows.density)

    # ------------------------------------------------------------------ as a submodel of `spectral`

    @property
    def dim(self) -> int:
        """Length of the items' vectors."""
        return self.rank

    @property
    def item_vectors_(self) -> NDArray[np.float32]:
        """What was solved for."""
        return np.asarray(self._state["item_vectors"], dtype=np.float32)

    @property
    def item_counts_(self) -> NDArray[np.int64] | None:
        """Rows of each item, where they are known."""
        return self._counts if self._rows is None else self._rows.item_counts

    def load_state(
        self, users: IdMap, items: IdMap, state: Tensors, *, item_counts: NDArray[np.int64] | None = None
    ) -> Self:
        """Take over the vectors of these items, where the rows are not at hand: to be merged, not to be asked."""
        self.users_, self.items_, self.facts_ = users, items, {}
        self._state, self._rows, self._scorer, self._counts = state, None, None, item_counts
        return self

    def weight(self) -> float:
        """Return by what its vectors, whose lengths mean nothing, are multiplied beside those of other shards.

        The mean over items of their own entries of the matrix, but for the users' weights, is the square of it: a shard
        of few rows does not count as much as one of many.
        """
        if self.item_counts_ is None:
            raise ValueError("a sum needs the number of rows of each item; restore the submodel with its rows")
        own = self.item_counts_ * self._scale(self.item_counts_) ** 2
        return float(np.sqrt(own.sum() / max(1, len(own))))

    def fold_in_settings(self, share: float) -> tuple[float, float]:
        """Return the missing weight and the regularization, given the share of all pairs that are rows."""
        weight = self.missing_weight or float(np.sqrt(share))
        return weight, self.regularization or _PENALTY * weight
