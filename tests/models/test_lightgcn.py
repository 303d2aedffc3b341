from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from receraser.data.interactions import Interactions
from receraser.models.factors import initial_vectors
from receraser.models.lightgcn import LightGCN, normalised_graph, on_cpu
from receraser.protocols import Model
from tests.contracts.model_contract import FactorModelContract
from tests.contracts.worlds import random_rows

CPU = torch.device("cpu")


class TestLightGCN(FactorModelContract):
    model: ClassVar[Callable[..., Model]] = LightGCN
    quick: ClassVar[dict[str, object]] = {"dim": 5, "n_epochs": 6, "validate_every": 2, "batch_size": 50}
    able: ClassVar[dict[str, object]] = {
        "dim": 8,
        "n_epochs": 30,
        "batch_size": 64,
        "learning_rate": 0.03,
        "weight_decay": 0.0001,
        "n_negatives": 1,
    }


def dense_graph(rows: Interactions) -> NDArray[np.float64]:
    """D^-1/2 A D^-1/2, written down."""
    r = rows.matrix().toarray().astype(np.float64)
    a = np.block([[np.zeros((len(r), len(r))), r], [r.T, np.zeros((r.shape[1], r.shape[1]))]])
    scale = np.diag(1 / np.sqrt(a.sum(axis=1)))
    return np.asarray(scale @ a @ scale)


def test_the_graph_of_three_rows() -> None:
    """u has a and b, v has b: a row weighs 1 / sqrt(rows of its user * rows of its item)."""
    graph = normalised_graph(Interactions.from_pairs([("u", "a"), ("u", "b"), ("v", "b")]), CPU)
    assert graph.indptr.tolist() == [0, 2, 3, 4, 6]
    assert graph.indices.tolist() == [2, 3, 3, 0, 0, 1]  # u: a, b; v: b; a: u; b: u, v
    half, root = 0.5, 0.5**0.5
    np.testing.assert_allclose(graph.values, [root, half, root, root, half, root], rtol=1e-6)


def test_the_graph_against_a_dense_one() -> None:
    rows = random_rows(15, 12, 0.3, seed=1)
    graph = normalised_graph(rows, CPU)
    n = len(rows.users) + len(rows.items)
    np.testing.assert_allclose(graph @ torch.eye(n), dense_graph(rows), atol=1e-6)


@pytest.mark.parametrize("n_layers", [0, 1, 2, 4])
def test_propagation_is_the_mean_of_the_powers_of_the_graph(n_layers: int) -> None:
    rows = random_rows(15, 12, 0.3, seed=1)
    graph = dense_graph(rows)
    rng = np.random.default_rng(2)
    p, q = rng.normal(size=(len(rows.users), 3)), rng.normal(size=(len(rows.items), 3))
    powers = [np.linalg.matrix_power(graph, layer) for layer in range(n_layers + 1)]
    expected = sum(powers, start=np.zeros_like(graph)) / (n_layers + 1) @ np.vstack([p, q])
    propagate = on_cpu(rows, n_layers)
    found = propagate(torch.from_numpy(p.astype(np.float32)), torch.from_numpy(q.astype(np.float32)))
    np.testing.assert_allclose(torch.cat(found), expected, atol=1e-5)


def test_the_gradient_against_autograd_through_dense_matrices() -> None:
    rows = random_rows(15, 12, 0.3, seed=1)
    rng = np.random.default_rng(3)
    wide = [torch.from_numpy(rng.normal(size=(len(ids), 3))).requires_grad_() for ids in (rows.users, rows.items)]
    narrow = [one.detach().to(torch.float32) for one in wide]
    graph = torch.from_numpy(dense_graph(rows))
    layers = [torch.cat(wide)]
    for _ in range(3):
        layers.append(graph @ layers[-1])
    dense = torch.stack(layers).mean(dim=0)
    weights = torch.from_numpy(rng.normal(size=dense.shape))
    expected = torch.autograd.grad((dense.sigmoid() * weights).sum(), wide)
    propagate = on_cpu(rows, 3)
    result = [one.requires_grad_() for one in propagate(*narrow)]
    # The map is symmetric: what propagates vectors propagates their gradients back.
    of_result = torch.autograd.grad((torch.cat(result).sigmoid() * weights.to(torch.float32)).sum(), result)
    found = propagate(*of_result)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_what_is_published_has_been_propagated() -> None:
    rows = random_rows(15, 12, 0.3, seed=1)
    model = LightGCN(dim=3, n_layers=2, n_epochs=0).fit(rows, seed=4)
    first = np.vstack(
        [initial_vectors(ids, 3, 0.1, 4, what) for ids, what in ((rows.users, "user"), (rows.items, "item"))]
    )
    graph = dense_graph(rows)
    expected = (first + graph @ first + graph @ graph @ first) / 3
    np.testing.assert_allclose(np.vstack([model.user_vectors_, model.item_vectors_]), expected, atol=1e-6)


def test_rows_elsewhere_in_the_graph_do_not_reach_a_component_of_it() -> None:
    """The graph holds the rows it was given and no others: what is not connected is not heard of."""
    here = Interactions.from_pairs([("u", "a"), ("u", "b"), ("v", "b")])
    there = Interactions.from_pairs([("x", "y"), ("x", "z"), ("0", "z")])
    alone = LightGCN(dim=4, n_epochs=0).fit(here, seed=1)
    both = LightGCN(dim=4, n_epochs=0).fit(Interactions.union([here, there]), seed=1)
    assert np.array_equal(both.user_vectors_[both.users_.indices(["u", "v"])], alone.user_vectors_)
