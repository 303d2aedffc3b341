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
from receraser.models.pairwise import PairwiseModel, Propagate
from receraser.training.optimizers import Adagrad, Adam
from receraser.training.sparse import SymmetricMatrix

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
    optimizer: ClassVar[type[Adagrad | Adam]] = Adam

    n_layers: int = 3
    batch_size: int = 2048
    learning_rate: float = 0.005
    weight_decay: float = 0.003
    initial_scale: float = 0.1

    def _propagation(self, interactions: Interactions, device: torch.device) -> Propagate:
        graph = normalised_graph(interactions, device)
        n_users = len(interactions.users)

        def propagate(p: torch.Tensor, q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            layer = torch.cat([p, q])  # (n_users + n_items, dim)
            total = layer
            for _ in range(self.n_layers):
                layer = graph @ layer
                total = total + layer
            mean = total / (self.n_layers + 1)
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
