"""`Spectral`: our own aggregation. The item sides of all shards merged by a truncated SVD; users are folded in.

Shards are user-atomic, so the score matrix of all shards is their P_k Q_k^T on top of each other. What matters of a
shard for items is P_k Q_k^T up to a rotation of its users: B_k = Q_k (P_k^T P_k)^(1/2), for B_k B_k^T = Q_k P_k^T P_k
Q_k^T whatever basis the submodel chose. Put side by side (an item that a shard does not hold has zeros there), their
SVD U S W^T gives the best summary of all shards' predictions of a given rank; items get the rows of U S^(1/2). (Where a
submodel shares its scale evenly between users and items, as WMF does, its item vectors as they are do as well.) A
user's vector is the ridge solution over their own surviving history in that space: nothing of a user is stored, and a
forget costs one shard and the merge, and no pass over the data.

Merged in a fixed binary tree (`tree`): one changed shard redoes one path of it. Kin: Divide-Factor-Combine (Mackey et
al. 2011), hierarchical SVD merging (Iwen & Ong 2016).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from receraser import settings
from receraser.aggregation.tree import MergeTree, holding, needed
from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.errors import UsageError
from receraser.fingerprint import Tensors
from receraser.models.factors import FactorModel, one_torch_thread
from receraser.models.folded import FoldedScorer
from receraser.protocols import Progress, Reuse, Scorer
from receraser.training.least_squares import polished
from receraser.training.spectrum import leading, square_root

__all__ = ["Spectral"]

Matrix = NDArray[np.float64]


@dataclass(kw_only=True)
class Spectral:
    """Shards merged by a truncated SVD, users folded in.

    Parameters
    ----------
    rank
        Length of the items' vectors in the merged space.
    merge
        "concat": the item vectors as they are, which validation prefers on ML-1M; "product": B_k, which does not depend
        on the submodels' bases and scales.
    width
        Columns that a node of the merge tree keeps; at least the rank.
    missing_weight, regularization
        Of the users' fold-in (`training.least_squares`); 0 and 0 take the base model's own.
    polish
        So many alternating sweeps over all surviving rows afterwards, ending on the item side: exact too, but a pass
        over everything, and with pairwise submodels a WMF merely started from them.
    """

    name: ClassVar[str] = "spectral"
    learns: ClassVar[bool] = True

    rank: int = 64
    merge: str = "concat"
    width: int = 128
    missing_weight: float = 0.0
    regularization: float = 0.0
    polish: int = 0

    def __post_init__(self) -> None:
        settings.check(self, at_least_one=("rank", "width"), choices={"merge": ("product", "concat")})
        if self.missing_weight > 0 and self.regularization == 0:
            raise UsageError("spectral: regularization is 0; expected more, or a user's vector is not determined")

    @property
    def needs_rows(self) -> bool:
        """Only to polish."""
        return self.polish > 0

    def fit(
        self,
        submodels: Sequence[FactorModel],
        interactions: Interactions,
        *,
        valid: Interactions | None,  # noqa: ARG002
        seed: int,  # noqa: ARG002
        progress: Progress | None = None,
    ) -> tuple[Tensors, Mapping[str, object]]:
        """Merge the submodels' item sides; return the items' vectors, and the inner nodes of the tree."""
        return self.refit(submodels, {}, interactions, progress=progress)

    def reusable(self, state: Tensors, changed: Collection[int], n_shards: int) -> Reuse:
        """Say which nodes of the tree stay; those beside the paths from changed shards to the root are asked for."""
        known, submodels = needed(state, changed, n_shards)
        return Reuse(holding(state, changed, n_shards), known, submodels)

    def refit(
        self,
        submodels: Sequence[FactorModel],
        known: Tensors,
        interactions: Interactions,
        *,
        progress: Progress | None = None,
    ) -> tuple[Tensors, Mapping[str, object]]:
        """Merge again; nodes that are known are not computed anew. The result does not depend on which are known."""
        with one_torch_thread():
            tree = MergeTree(
                len(submodels),
                lambda k: (submodels[k].items_, self._leaf(submodels[k])),
                max(self.width, self.rank),
                known,
                progress,
            )
            items, merged = tree.root()
            vectors, values = leading(merged, self.rank)
            lengths = np.sqrt((vectors**2).sum(axis=0))
            vectors = vectors / np.sqrt(np.where(lengths > 0, lengths, 1.0))  # U S -> U S^(1/2)
            q = vectors.astype(np.float32)
            if self.polish:
                weight, penalty = self._weights(submodels[0])
                q = polished(q, interactions, self.polish, missing_weight=weight, regularization=penalty)
            assert not self.needs_rows or items == interactions.items, "every row is in some shard"
            return {"item_vectors": np.ascontiguousarray(q), **tree.nodes}, _gap(values, self.rank)

    def _leaf(self, model: FactorModel) -> Matrix:
        """Return what is merged of a shard: (its items, dim)."""
        q = model.item_vectors_.astype(np.float64)
        if model.pairwise and len(q):
            q -= q.mean(axis=0)  # a pairwise loss leaves the mean item vector free
        if self.merge == "concat":
            return q
        p = model.user_vectors_.astype(np.float64)
        return q @ square_root(p.T @ p)

    def _weights(self, base: FactorModel) -> tuple[float, float]:
        if self.missing_weight == 0 and self.regularization == 0:
            return base.fold_in_settings()
        return self.missing_weight, self.regularization

    def scorer(self, submodels: Sequence[FactorModel], state: Tensors) -> Scorer:
        """Return the merged items; users are folded in when they are asked for."""
        items = IdMap(name for model in submodels for name in model.items_)
        missing_weight, regularization = self._weights(submodels[0])
        vectors = np.asarray(state["item_vectors"], dtype=np.float32)
        return FoldedScorer(items, vectors, missing_weight, regularization)


def _gap(values: Matrix, rank: int) -> dict[str, object]:
    """Return how far the last singular value that was kept is above the first that was not."""
    if len(values) <= rank or values[rank] <= 0:
        return {"gap": None}
    return {"gap": round(float(values[rank - 1] / values[rank]), 4)}
