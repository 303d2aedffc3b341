"""`Spectral`: our own aggregation. The item sides of all shards merged by a truncated SVD; users are folded in.

Shards are user-atomic, so the score matrix of all shards is their P_k Q_k^T on top of each other; what matters of it
are the spaces that the shards' item vectors Q_k span. They are put side by side (an item that a shard does not hold has
zeros there), the SVD U S W^T gives the best summary of a given rank, and a user's vector is the ridge solution over
their own surviving history in that space: nothing of a user is stored, and a forget costs one shard and the merge, and
no pass over the data. Four ways to put a shard beside the others, by what its submodel's numbers mean:

- "concat", for WMF: Q_k as it is. Least squares shares its scale evenly between users and items and shrinks what it
  knows little about.
- "sum", for gram: Q_k, of which Q_k Q_k^T is the shard's matrix but for its size, times the root of that
  (`Gram.weight`, which leaves out users' weights). S^2 are near the eigenvalues of the sum of the shards' matrices, and
  items get U S with a mean squared length of 1, as gram's own do.
- "product": B_k = Q_k (P_k^T P_k)^(1/2), for B_k B_k^T = Q_k P_k^T P_k Q_k^T whatever basis and scale a submodel chose.
- "consensus", for pairwise losses (BPR, LightGCN): lengths mean little there, so every shard votes for its directions
  with equal weight. Vectors are centred (such a loss leaves the mean free), the noisy ones of rare items shortened,
  q_i |q_i|^(-1/2) n_i^0.3 with n_i the item's rows in the shard, and the shard is whitened: Q_k (Q_k^T Q_k)^(-1/2). A
  direction that m shards of K agree on then has the squared singular value m: canonical correlation of many views
  (MAXVAR; Kettenring 1971).

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
from receraser.models.factors import FactorModel, torch_device
from receraser.models.folded import FoldedScorer
from receraser.models.gram import Gram
from receraser.protocols import Progress, Reuse, Scorer
from receraser.training.kernels import one_torch_thread
from receraser.training.least_squares import polished
from receraser.training.powers import power
from receraser.training.spectrum import leading, square_root, whitened

__all__ = ["NO_PRODUCT", "Spectral"]

Matrix = NDArray[np.float64]
Submodel = FactorModel | Gram

_MERGES = ("concat", "sum", "product", "consensus")
_COUNT_POWER = 0.3  # by which the vectors of rare items are shortened for a consensus
_WIDTHS = ((16, 96), (64, 104))  # up to so many shards, columns of a node: a deeper tree cuts more often
_WIDEST = 128
NO_PRODUCT = "spectral: merge is product, which takes the users' vectors, and gram has none; choose auto"
_CONSENSUS_WEIGHTS = 0.3, 0.02  # missing_weight, regularization


@dataclass(kw_only=True)
class Spectral:
    """Shards merged by a truncated SVD, users folded in.

    Parameters
    ----------
    rank
        Length of the items' vectors in the merged space.
    merge
        "concat", "sum", "product" or "consensus", see above; "auto" takes what validation prefers: consensus for
        pairwise submodels, sum for gram, concat for the others.
    width
        Columns that a node of the merge tree is cut back to, if it has over a third more; at least the rank. 0: 96,
        with more than 16 shards 104, with more than 64 128: there the tree is deeper, and more is cut on the way.
    missing_weight, regularization
        Of the users' fold-in (`training.least_squares`); 0 and 0 take the base model's own, or 0.3 and 0.02 in the
        space of a consensus, whose scale is always the same.
    polish
        So many alternating sweeps over all surviving rows afterwards, ending on the item side: exact too, but a pass
        over everything, and with pairwise submodels a WMF merely started from them.
    device
        Where the nodes of the tree and its root are cut; each shard's columns, and the sweeps, are computed on the CPU.
        An engine says it: where submodels are fitted.
    """

    name: ClassVar[str] = "spectral"
    learns: ClassVar[bool] = True

    rank: int = 64
    merge: str = "auto"
    width: int = 0
    missing_weight: float = 0.0
    regularization: float = 0.0
    polish: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        settings.check(self, at_least_one=["rank"], choices={"merge": ("auto", *_MERGES)})
        if self.missing_weight > 0 and self.regularization == 0:
            raise UsageError("spectral: regularization is 0; expected more, or a user's vector is not determined")

    @property
    def needs_rows(self) -> bool:
        """Only to polish."""
        return self.polish > 0

    def fit(
        self,
        submodels: Sequence[Submodel],
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
        submodels: Sequence[Submodel],
        known: Tensors,
        interactions: Interactions,
        *,
        progress: Progress | None = None,
    ) -> tuple[Tensors, Mapping[str, object]]:
        """Merge again; nodes that are known are not computed anew. The result does not depend on which are known."""
        with one_torch_thread():
            device = torch_device(self.device)
            tree = MergeTree(
                len(submodels),
                lambda k: submodels[k].items_,
                lambda k: self._leaf(submodels[k]),
                max(self._width_for(len(submodels)), self.rank),
                known,
                progress,
                device,
            )
            vectors, values = leading(tree.root(), self.rank, device=device)
            q = self._scaled(vectors, submodels[0]).astype(np.float32)
            if self.polish:
                weight, penalty = self.fold_in_settings(submodels[0], interactions.density)
                q = polished(q, interactions, self.polish, missing_weight=weight, regularization=penalty)
            assert not self.needs_rows or tree.items == interactions.items, "every row is in some shard"
            return {"item_vectors": np.ascontiguousarray(q), **tree.nodes}, _gap(values, self.rank)

    def _width_for(self, n_shards: int) -> int:
        return self.width or next((width for most, width in _WIDTHS if n_shards <= most), _WIDEST)

    def _merge_of(self, base: Submodel) -> str:
        if self.merge != "auto":
            return self.merge
        return "consensus" if base.pairwise else "sum" if isinstance(base, Gram) else "concat"

    def _leaf(self, model: Submodel) -> NDArray[np.floating]:
        """Return what is merged of a shard: (its items, dim)."""
        merge = self._merge_of(model)
        if merge == "concat" and not model.pairwise:
            return model.item_vectors_
        q = model.item_vectors_.astype(np.float64)
        if model.pairwise and len(q):
            q -= q.mean(axis=0)  # a pairwise loss leaves the mean item vector free
        if merge == "sum":
            return q * model.weight() if isinstance(model, Gram) else q
        if merge == "product":
            if isinstance(model, Gram):
                raise UsageError(NO_PRODUCT)
            p = model.user_vectors_.astype(np.float64)
            return q @ square_root(p.T @ p)
        return _voting(q, model.item_counts_) if merge == "consensus" else q

    def _scaled(self, vectors: Matrix, base: Submodel) -> Matrix:
        """Return the items' vectors, given U S: U S^(1/2), or for a sum or a consensus U S.

        Where lengths mean nothing (both of these, pairwise submodels) they are brought to a mean square of 1.
        """
        if self._merge_of(base) not in ("sum", "consensus"):
            lengths = np.sqrt((vectors**2).sum(axis=0))
            vectors = vectors / np.sqrt(np.where(lengths > 0, lengths, 1.0))
            if not base.pairwise:
                return vectors
        size = np.sqrt((vectors**2).sum() / max(len(vectors), 1))
        return np.asarray(vectors / (size if size > 0 else 1.0))

    def fold_in_settings(self, base: Submodel, share: float) -> tuple[float, float]:
        """Return the missing weight and the regularization of the users' fold-in, and of `polish`.

        `share`: of all pairs of a user and an item, how many are rows; gram's own weights may be a function of it.
        """
        if self.missing_weight or self.regularization:
            return self.missing_weight, self.regularization
        if isinstance(base, Gram):
            return base.fold_in_settings(share)
        return _CONSENSUS_WEIGHTS if self._merge_of(base) == "consensus" else base.fold_in_settings()

    def scorer(self, submodels: Sequence[Submodel], state: Tensors) -> Scorer:
        """Return the merged items; users are folded in when they are asked for."""
        items = IdMap.union([model.items_ for model in submodels])
        missing_weight, regularization = self.fold_in_settings(submodels[0], _density(submodels, len(items)))
        vectors = np.asarray(state["item_vectors"], dtype=np.float32)
        return FoldedScorer(items, vectors, missing_weight, regularization)


def _density(submodels: Sequence[Submodel], n_items: int) -> float:
    """Return the share of all pairs of a user and an item that are rows; nobody is in two shards. 0 if not known."""
    counts = [model.item_counts_ for model in submodels]
    rows = sum(int(one.sum()) for one in counts if one is not None)
    return rows / max(1, n_items * sum(len(model.users_) for model in submodels))


def _voting(q: Matrix, counts: NDArray[np.int64] | None) -> Matrix:
    """Return a shard's directions with equal weight; in them the vectors of rare items are shortened."""
    if counts is None:
        raise ValueError("a consensus needs the number of rows of each item; restore the submodel with its rows")
    lengths = np.sqrt((q**2).sum(axis=1))
    scale = power(counts, _COUNT_POWER) / np.sqrt(np.where(lengths > 0, lengths, 1.0))
    return whitened(q * scale[:, None])


def _gap(values: Matrix, rank: int) -> dict[str, object]:
    """Return how far the last singular value that was kept is above the first that was not."""
    if len(values) <= rank or values[rank] <= 0:
        return {"gap": None}
    return {"gap": round(float(values[rank - 1] / values[rank]), 4)}
