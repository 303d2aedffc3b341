"""The other side of the comparisons: `implicit`, and LightGCN in plain PyTorch.

`implicit` (ALS, BPR, recommend) is only in the `bench` extra: `make bench` installs it. The LightGCN here is nothing
but torch: `torch.sparse.mm` (in coordinates, whose backward pass is three times as quick as that of CSR), autograd,
Adam, a uniform negative for every row.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch

if TYPE_CHECKING:
    from receraser.data.interactions import Interactions
    from receraser.models.factors import FactorModel

__all__ = ["PlainLightGCN", "as_model", "implicit_als", "implicit_bpr", "matrix_of"]

CORES = len(os.sched_getaffinity(0))


def matrix_of(rows: Interactions) -> sp.csr_matrix:
    """Return the rows as `implicit` takes them."""
    return rows.matrix().astype(np.float32).tocsr()


def implicit_als(matrix: sp.csr_matrix, *, iterations: int = 15, seed: int = 0) -> Any:
    """Fit `implicit`'s ALS with 64 factors; alpha and regularization are the best of ten pairs on validation rows.

    With its defaults (1 and 0.01) it takes as long and finds less: N@20 .178 instead of .202 there.
    """
    from implicit.als import AlternatingLeastSquares
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):  # as its documentation asks for: it has threads of its own
        model = AlternatingLeastSquares(
            factors=64, alpha=10, regularization=100, iterations=iterations, num_threads=CORES, random_state=seed
        )
        model.fit(matrix, show_progress=False)
    return model


def implicit_bpr(
    matrix: sp.csr_matrix, *, iterations: int, learning_rate: float = 0.01, regularization: float = 0.01, seed: int = 0
) -> Any:
    """Fit `implicit`'s BPR with 64 factors."""
    from implicit.bpr import BayesianPersonalizedRanking
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):
        model = BayesianPersonalizedRanking(
            factors=64,
            iterations=iterations,
            learning_rate=learning_rate,
            regularization=regularization,
            num_threads=CORES,
            random_state=seed,
        )
        model.fit(matrix, show_progress=False)
    return model


def as_model(rows: Interactions, users: np.ndarray, items: np.ndarray) -> FactorModel:
    """Return vectors as a model of ours, to be judged by the same code."""
    from receraser.models.registry import make_factor_model

    state = {"user_vectors": np.asarray(users), "item_vectors": np.asarray(items)}
    return make_factor_model("wmf", {"dim": users.shape[1]}).load_state(rows.users, rows.items, state)


class PlainLightGCN:
    """LightGCN with nothing but torch. He et al. 2020."""

    def __init__(self, rows: Interactions, *, n_layers: int = 3, dim: int = 64, batch_size: int = 2048) -> None:
        torch.manual_seed(0)
        self._n_users, self._n_items = len(rows.users), len(rows.items)
        self._user = torch.from_numpy(rows.user_index.astype(np.int64))
        self._item = torch.from_numpy(rows.item_index.astype(np.int64))
        self._n_layers, self._batch_size = n_layers, batch_size
        r = rows.matrix().astype(np.float32)
        graph = sp.bmat([[None, r], [r.T, None]], format="csr")
        scale = sp.diags(np.asarray(graph.sum(axis=1)).ravel() ** -0.5)
        graph = (scale @ graph @ scale).tocoo()
        self._graph = torch.sparse_coo_tensor(
            torch.from_numpy(np.stack([graph.row, graph.col]).astype(np.int64)),
            torch.from_numpy(graph.data.astype(np.float32)),
            size=graph.shape,
            check_invariants=True,
        ).coalesce()
        self._table = torch.nn.Parameter(0.1 * torch.randn(self._n_users + self._n_items, dim))
        self._optimizer = torch.optim.Adam([self._table], lr=0.005)

    def run_epoch(self) -> None:
        """Take a step on every batch."""
        order = torch.randperm(len(self._user))
        for batch in torch.split(order, self._batch_size):
            layer: torch.Tensor = self._table
            total: torch.Tensor = self._table
            for _ in range(self._n_layers):
                layer = torch.sparse.mm(self._graph, layer)
                total = total + layer
            vectors = total / (self._n_layers + 1)
            user, item = self._user[batch], self._item[batch] + self._n_users
            other = torch.randint(self._n_items, (len(batch),)) + self._n_users
            u, i, j = vectors[user], vectors[item], vectors[other]
            loss = torch.nn.functional.softplus((u * (j - i)).sum(dim=1)).mean()
            own = (
                self._table[user].square().sum() + self._table[item].square().sum() + self._table[other].square().sum()
            )
            loss = loss + 0.5 * 0.003 * own / len(batch)
            self._optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
