"""`Gram`: items by the leading eigenvectors of how often they are taken together; users folded in.

The sums are G = sum over users of w(n_u) x_u x_u^T, with x_u the items of a user, n_u their number and w(n) = n^(-b)
in fixed point: people with long lists do not outweigh the others. Items are scaled by pop^(-a), so that bestsellers do
not fill all directions; the leading eigenvectors U with values L give items the rows of U L^(1/2), brought to a mean
squared length of 1. A user's vector is the ridge solution over their own items, as in WMF. Kin: PureSVD (Cremonesi et
al. 2010).

Where there are few items for many rows, the sums over all pairs of items are kept: a forget is an exact downdate, and
the eigen-solver works on the matrix. Otherwise (`pairs_per_row`, a function of the rows at hand) passes over the rows
are cheaper than that matrix, it is never made, and all there is to forget are the rows.

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
from receraser.training.counts import counted, n_pairs, recounted, symmetric, user_weights
from receraser.training.kernels import one_torch_thread
from receraser.training.krylov import (
    Operator,
    blocked,
    draw_block,
    gap_after,
    leading_eigenvectors,
    sparse_gram,
)
from receraser.training.least_squares import polished
from receraser.training.powers import power

__all__ = ["Gram"]

_PENALTY = 0.09  # by default, for each unit of missing weight
_STEPS = 8  # of the eigen-solver, with half as many columns as there are directions


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
        So many alternating sweeps over all rows afterwards: a WMF that was merely started here. A forget is then a
        refit, for the sweeps pass over everybody.
    pairs_per_row
        The sums over all pairs of items are kept while there are at most so many pairs for each row.

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
        vectors, facts = self._vectors(
            lambda columns: blocked(lambda rows: matrix[rows] @ columns, *columns.shape), items, seed
        )
        return {"item_vectors": vectors}, facts

    def _from_rows(self, rows: Interactions, seed: int) -> Solved:
        weights = np.sqrt(user_weights(np.diff(rows.indptr), self.user_power).astype(np.float64))
        matrix = rows.matrix().astype(np.float64)
        matrix.data = weights[rows.user_index] * self._scale(rows.item_counts)[rows.item_index]
        vectors, facts = self._vectors(sparse_gram(matrix), rows.items, seed)
        if self.polish:
            weight, penalty = self._weights(rows)
            with one_torch_thread():
                vectors = polished(vectors, rows, self.polish, missing_weight=weight, regularization=penalty)
        return {"item_vectors": vectors}, facts

    def _scale(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        return 1.0 / power(counts, self.item_power)

    def _vectors(self, apply: Operator, items: IdMap, seed: int) -> tuple[NDArray[np.float32], dict[str, object]]:
        start = draw_block(items, -(-self.rank // 2), seed)
        directions, values = leading_eigenvectors(apply, start, self.rank, _STEPS)
        vectors = directions * np.sqrt(values[: self.rank])
        size = np.sqrt((vectors**2).sum() / max(len(items), 1))
        vectors = vectors / (size if size > 0 else 1.0)
        return np.ascontiguousarray(vectors, dtype=np.float32), {"gap": gap_after(values, self.rank)}

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
