from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from receraser.models.bpr import BPR
from receraser.models.factors import FactorModel
from receraser.models.lightgcn import LightGCN
from receraser.models.wmf import WMF
from receraser.training.kernels import cuda, plain
from receraser.training.sparse import gather
from tests.contracts.worlds import bits, checkerboard
from tests.training.kernels import interpreter
from tests.training.kernels.pretended import a_gpu
from tests.training.kernels.test_cpu import equations

by_kernels = pytest.mark.skipif(
    not (torch.cuda.is_available() or interpreter.HERE),
    reason="there is no CUDA device here, and not Triton's interpreter: make kernels",
)


def there(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> torch.Tensor:
    return torch.tensor(array, device="cuda" if torch.cuda.is_available() else "cpu")  # a copy


@by_kernels
@pytest.mark.parametrize("dim", [1, 5, 16, 33, 64])
def test_sparse_times_dense_against_the_plain_version(dim: int) -> None:
    e = equations(dim, n_rows=300 if torch.cuda.is_available() else 20)
    values = np.random.default_rng(1).normal(size=len(e.indices)).astype(np.float32)
    slow = np.empty((len(e.indptr) - 1, dim), dtype=np.float32)
    plain.csr_times_dense(e.indptr, e.indices, values, e.others, slow)
    arguments = [there(one) for one in (e.indptr, e.indices, values, e.others)]
    fast = cuda.csr_times_dense(*arguments)
    np.testing.assert_allclose(fast.cpu(), slow, atol=1e-5)
    assert not fast[-1].any()
    assert all(torch.equal(cuda.csr_times_dense(*arguments), fast) for _ in range(3))


@by_kernels
@pytest.mark.parametrize("dim", [16, 32, 64])
@pytest.mark.parametrize("n_steps", [0, 2, 60])
def test_conjugate_gradients_against_the_plain_version(dim: int, n_steps: int) -> None:
    e = equations(dim, n_rows=300 if torch.cuda.is_available() else 20)
    slow = e.start.copy()
    plain.solve_cg(**e.for_cg, n_steps=n_steps, solution=slow)
    arguments: dict[str, Any] = {name: there(one) for name, one in e.for_cg.items()}
    found = []
    for _ in range(3):
        fast = there(e.start)
        cuda.solve_cg(**arguments, n_steps=n_steps, solution=fast)
        found.append(fast)
    np.testing.assert_allclose(found[0].cpu(), slow, atol=2e-3 * np.abs(slow).max())
    assert all(torch.equal(one, found[0]) for one in found)


@by_kernels
def test_gradients_of_looked_up_rows() -> None:
    rng = np.random.default_rng(1)
    index = rng.integers(50, size=3000)
    weights = rng.normal(size=(3000, 7)).astype(np.float32)
    expected = np.zeros((50, 7))
    np.add.at(expected, index, weights.astype(np.float64))
    results = []
    with a_gpu():
        for _ in range(3):
            table = torch.zeros((50, 7), device="cuda", requires_grad=True)
            looked_up = gather(table, torch.tensor(index, device="cuda")) * torch.tensor(weights, device="cuda")
            (gradient,) = torch.autograd.grad(looked_up.sum(), table)
            results.append(gradient.cpu().numpy())
    np.testing.assert_allclose(results[0], expected, atol=1e-3)
    np.testing.assert_array_equal(results[1:], results[:1] * 2)


@by_kernels
@pytest.mark.parametrize(
    "make",
    [
        lambda device: BPR(dim=5, n_epochs=6, batch_size=50, validate_every=2, device=device),
        lambda device: LightGCN(dim=5, n_epochs=6, batch_size=50, validate_every=2, device=device),
        lambda device: WMF(dim=5, cg_steps=60, device=device),
        lambda device: WMF(solver="adagrad", dim=5, n_epochs=6, batch_size=10, device=device),
    ],
    ids=["bpr", "lightgcn", "wmf-als", "wmf-adagrad"],
)
def test_a_fit_repeats_its_bits_and_agrees_with_the_cpu(make: object) -> None:
    assert callable(make)
    world = checkerboard()
    here: FactorModel = make("cpu").fit(world.train, valid=world.held_out, seed=3)
    n_fits = 3 if torch.cuda.is_available() else 1  # one that is pretended has no bits to lose
    with a_gpu():
        models = [make("cuda").fit(world.train, valid=world.held_out, seed=3) for _ in range(n_fits)]
    assert all(bits(one) == bits(models[0]) for one in models)
    np.testing.assert_allclose(models[0].user_vectors_, here.user_vectors_, atol=5e-3)
    np.testing.assert_allclose(models[0].item_vectors_, here.item_vectors_, atol=5e-3)
