"""The kernels of the pairwise loss for CUDA, by Triton's interpreter: drawing bit for bit, epochs as on the CPU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from receraser import seeds
from receraser.data.interactions import Interactions
from receraser.models.lightgcn import on_cpu
from receraser.training.batches import Held, draw_keys
from receraser.training.kernels import pairs_cuda, pairs_plain
from receraser.training.pairs import ADAGRAD, ADAM, OnCPU, Rule
from receraser.training.pairs_cuda import OnCUDA
from tests.contracts.worlds import edges, random_rows
from tests.training.kernels import interpreter

pytestmark = interpreter.by_the_interpreter
CPU = torch.device("cpu")
WIDTH = 16


@pytest.fixture(autouse=True)
def as_on_a_gpu() -> Iterator[None]:
    """Integers wrap around there without a word; numpy, which the interpreter computes with, has one."""
    interpreter.prepare()
    with np.errstate(over="ignore"):
        yield


@pytest.mark.parametrize("n", [1, 2, 63, 257, 1_000])
def test_places_are_those_of_the_seeds(n: int) -> None:
    order = seeds.rounds(seeds.derive(3, "shuffle", 5))
    found = pairs_cuda.places(order, n, seeds.domain_bits(n), CPU)
    assert found.tolist() == seeds.places_by(order, n).tolist()


def test_drawn_items_are_those_of_the_cpu() -> None:
    rows = random_rows(40, 30, 0.5, seed=2)
    held, drawn = Held(rows), draw_keys(4, 1, 3)
    weights = (np.arange(len(rows)) % 4 > 0).astype(np.float32)
    users = rows.user_index.astype(np.int64)
    found = pairs_cuda.lacking(
        drawn,
        torch.from_numpy(users),
        torch.from_numpy(weights),
        torch.from_numpy(held.words.view(np.int32)),
        len(rows.items),
    )
    expected = pairs_plain._lacking(drawn, np.arange(len(rows)), users, held.words, len(rows.items))
    expected[weights == 0] = 0
    assert found.tolist() == expected.tolist()


def tables(rows: Interactions) -> tuple[torch.Tensor, torch.Tensor]:
    p, q = (
        torch.from_numpy(seeds.normal(key, seeds.id_counters(ids), WIDTH) * np.float32(0.3))
        for key, ids in ((1, rows.users), (2, rows.items))
    )
    return p, q


@pytest.mark.parametrize("optimizer", [ADAGRAD, ADAM])
@pytest.mark.parametrize("rows", [random_rows(25, 20, 0.25, seed=1), *edges().values()], ids=["random", *edges()])
def test_an_epoch_moves_the_tables_as_on_the_cpu(rows: Interactions, optimizer: str) -> None:
    propagate = None if optimizer == ADAGRAD else on_cpu(rows, 2)
    order, drawn = seeds.rounds(seeds.derive(3, "shuffle", 1)), draw_keys(3, 1, 3)
    learned = []
    for kind in (OnCPU, OnCUDA):
        found = tables(rows)
        kind(rows, Held(rows), 32, found, Rule(optimizer, 0.05, 0.01), propagate).run(order, drawn)
        learned.append(torch.cat(found))
    nobody_lacks_anything = bool(Held(rows).everything.all())
    assert torch.equal(torch.cat(tables(rows)), learned[0]) == nobody_lacks_anything
    torch.testing.assert_close(*learned, atol=2e-5, rtol=2e-5)


def test_a_sum_does_not_depend_on_the_order_of_its_rows() -> None:
    rows = random_rows(25, 20, 0.25, seed=1)
    held, drawn = Held(rows), pairs_cuda.device_keys(draw_keys(3, 1, 3), CPU)
    every = torch.arange(len(rows))
    found = []
    for batch in (every, every.flip(0)):
        p, q = tables(rows)
        sums = [torch.zeros(one.shape, dtype=torch.int64) for one in (p, q)]
        counts = [torch.zeros(len(one), dtype=torch.int32) for one in (p, q)]
        pairs_cuda.gradients(
            batch,
            drawn,
            torch.from_numpy(rows.user_index.astype(np.int64)),
            torch.from_numpy(rows.item_index.astype(np.int64)),
            torch.from_numpy(held.everything.astype(np.int8)),
            torch.from_numpy(held.words.view(np.int32)),
            p,
            q,
            *sums,
            *counts,
        )
        found.append(torch.cat([one.flatten() for one in sums]))
    assert torch.equal(*found)
    assert found[0].any()
