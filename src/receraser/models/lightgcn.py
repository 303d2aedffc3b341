"""LightGCN: vectors averaged over the user-item graph, nothing else learned. He et al. 2020, trained with Adam.

E(l+1) = D^-1/2 A D^-1/2 E(l); what is scored is the mean of layers 0 to n_layers (Eq. 4, 8). The graph holds the rows
the model is fitted on, and no others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch

from receraser.data.interactions import Interactions
from receraser.models.pairwise import PairwiseModel
from receraser.training import kernels
from receraser.training.pairs import ADAM, Propagate
from receraser.training.sparse import SymmetricMatrix, times_dense

__all__ = ["LightGCN"]


@dataclass(kw_only=True)
class LightGCN(PairwiseModel):
    """Light graph convolution.

    Parameters
    ----------
    n_layers
        How often vectors are passed on along the edges.

    Examples
    --------
    >>> rows = Interactions.from_pairs([("u1", "a"), ("u1", "b"), ("u2", "a"), ("u3", "c")])
    >>> LightGCN(dim=4, n_epochs=2).fit(rows, seed=1).user_vectors_.shape
    (3, 4)
    """

    name: ClassVar[str] = "lightgcn"
    optimizer: ClassVar[str] = ADAM

    n_layers: int = 3
    batch_size: int = 2048
    learning_rate: float = 0.005
    weight_decay: float = 0.003
    initial_scale: float = 0.1

    def _propagation(self, interactions: Interactions, device: torch.device) -> Propagate:
        if device.type == "cuda":
            return on_cuda(interactions, self.n_layers, device)
        return on_cpu(interactions, self.n_layers)


def on_cpu(interactions: Interactions, n_layers: int) -> Propagate:
    """Return the propagation for the CPU.

    With z = D^-1/2 e a layer is z(l+1) = D^-1 A z(l): the neighbours' plain sum, which needs no weight for each edge.
    """
    r = interactions.matrix()
    transposed = r.T.tocsr()
    sides = [(one.indptr.astype(np.int64), one.indices.astype(np.int32)) for one in (r, transposed)]
    degrees = [np.maximum(np.diff(indptr), 1).astype(np.float64) for indptr, _ in sides]
    shares = [(1.0 / degree).astype(np.float32) for degree in degrees]
    roots = [torch.from_numpy(np.sqrt(degree).astype(np.float32))[:, None] for degree in degrees]
    pass_on = kernels.on_cpu().pass_on

    def propagate(p: torch.Tensor, q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        layer = [(table / root).numpy() for table, root in zip((p, q), roots, strict=True)]
        totals = [one.copy() for one in layer]
        for _ in range(n_layers):
            new = [np.empty_like(one) for one in layer]
            for side, (indptr, indices) in enumerate(sides):
                pass_on(indptr, indices, shares[side], layer[1 - side], new[side], totals[side])
            layer = new
        means = [torch.from_numpy(one) * (root / (n_layers + 1)) for one, root in zip(totals, roots, strict=True)]
        return means[0], means[1]

    return propagate


def on_cuda(interactions: Interactions, n_layers: int, device: torch.device) -> Propagate:
    """Return the propagation for a GPU: all vectors at once, a weight for each edge."""
    graph = normalised_graph(interactions, device)
    n_users = len(interactions.users)

    def propagate(p: torch.Tensor, q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        layer = torch.cat([p, q])  # (n_users + n_items, dim)
        total = layer
        for _ in range(n_layers):
            layer = times_dense(graph.indptr, graph.indices, graph.values, layer)
            total = total + layer
        mean = total / (n_layers + 1)
        return mean[:n_users], mean[n_users:]

    return propagate


def normalised_graph(interactions: Interactions, device: torch.device) -> SymmetricMatrix:
    """Return D^-1/2 A D^-1/2 of the bipartite graph of these rows, users first."""
    r = interactions.matrix()
    per_user, per_item = np.asarray(r.sum(axis=1)).ravel(), np.asarray(r.sum(axis=0)).ravel()
    users, items = interactions.user_index, interactions.item_index
    r.data = (1.0 / np.sqrt(per_user[users].astype(np.float64) * per_item[items])).astype(np.float32)
    graph = sp.bmat([[None, r], [r.T, None]], format="csr")
    graph.sort_indices()
    return SymmetricMatrix(
        torch.from_numpy(graph.indptr.astype(np.int64)).to(device),
        torch.from_numpy(graph.indices.astype(np.int64)).to(device),
        torch.from_numpy(graph.data.astype(np.float32)).to(device),
    )
