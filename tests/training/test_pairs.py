from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
import torch

from receraser import seeds
from receraser.data.interactions import Interactions
from receraser.errors import TrainingError
from receraser.models.lightgcn import normalised_graph, on_cpu
from receraser.models.objectives import Pairwise
from receraser.training import pairs
from receraser.training.batches import Held
from receraser.training.kernels import pairs_cpu, pairs_plain, threads, use_threads
from receraser.training.least_squares import pad
from receraser.training.loop import Descent
from receraser.training.optimizers import Adagrad, Adam
from receraser.training.pairs import ADAGRAD, ADAM, PairSteps, Rule
from tests.contracts.worlds import edges, random_rows

CPU = torch.device("cpu")
ROWS = random_rows(60, 40, 0.2, seed=1)
Tables = tuple[torch.Tensor, torch.Tensor]


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = threads()
    use_threads(2)
    yield
    use_threads(before)


def tables(rows: Interactions, dim: int = 24) -> Tables:
    """Vectors to set out from."""
    p, q = (
        pad(seeds.normal(key, seeds.id_counters(ids), dim) * np.float32(0.3), CPU)
        for key, ids in ((1, rows.users), (2, rows.items))
    )
    return p, q


def trained(rows: Interactions, rule: Rule, *, n_epochs: int = 3, batch_size: int = 70, layers: int = 0) -> Tables:
    """What comes of a few epochs."""
    found = tables(rows)
    steps = PairSteps(
        rows,
        parameters=found,
        rule=rule,
        batch_size=batch_size,
        n_negatives=3,
        seed=4,
        propagate=on_cpu(rows, layers) if layers else None,
    )
    for epoch in range(1, n_epochs + 1):
        steps.run_epoch(epoch)
    assert steps.sound()
    return found


def by_autograd(rows: Interactions, rule: Rule, *, n_epochs: int = 3, layers: int = 0) -> Tables:
    """The same by the few lines of torch that say what the loss is."""
    p, q = tables(rows)
    graph = normalised_graph(rows, CPU)

    def vectors() -> Tables:
        layer = total = torch.cat([p, q])
        for _ in range(layers):
            layer = graph @ layer
            total = total + layer
        return (total / (layers + 1))[: len(p)], (total / (layers + 1))[len(p) :]

    objective = Pairwise(
        rows,
        batch_size=70,
        n_negatives=3,
        seed=4,
        parameters=(p, q),
        vectors=vectors,
        weight_decay=rule.weight_decay,
        penalised=(p, q),
    )
    optimizer = (Adagrad if rule.optimizer == ADAGRAD else Adam)((p, q), rule.learning_rate)
    descent = Descent(objective, optimizer)
    for epoch in range(1, n_epochs + 1):
        descent.run_epoch(epoch)
    return p.detach(), q.detach()


RULES = [(Rule(ADAGRAD, 0.05, 0.03), 0), (Rule(ADAGRAD, 0.05, 0.0), 0), (Rule(ADAM, 0.01, 0.01), 2)]


@pytest.mark.parametrize(("rule", "layers"), RULES)
@pytest.mark.parametrize("rows", [ROWS, edges()["a user has everything"]], ids=["many", "a user has everything"])
def test_the_steps_are_those_of_the_loss(rule: Rule, layers: int, rows: Interactions) -> None:
    start = tables(rows)
    for one, other, first in zip(
        trained(rows, rule, layers=layers), by_autograd(rows, rule, layers=layers), start, strict=True
    ):
        np.testing.assert_allclose(one, other, atol=2e-5)
        assert not torch.equal(one, first), "something was learned"


@pytest.mark.parametrize(("rule", "layers"), RULES)
def test_the_kernels_against_plain_ones(rule: Rule, layers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = trained(ROWS, rule, layers=layers)

    def plain() -> ModuleType:
        return pairs_plain

    monkeypatch.setattr(pairs, "pairs_on_cpu", plain)
    for one, other in zip(fast, trained(ROWS, rule, layers=layers), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(("rule", "layers"), RULES)
def test_the_bits_do_not_depend_on_the_number_of_threads(rule: Rule, layers: int) -> None:
    rows = random_rows(300, 80, 0.2, seed=2)
    both = [trained(rows, rule, layers=layers, batch_size=900)]
    use_threads(1)
    both.append(trained(rows, rule, layers=layers, batch_size=900))
    for one, other in zip(*both, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("n_owners", [2, 4, 8])
def test_the_bits_do_not_depend_on_how_items_are_shared_out(n_owners: int) -> None:
    held = Held(ROWS)
    found = []
    for owners in (1, n_owners):
        p, q = (one.numpy() for one in tables(ROWS))
        out = np.zeros_like(p), np.zeros_like(q)
        counts = np.zeros(len(p), dtype=np.int32), np.zeros(len(q), dtype=np.int32)
        rows = np.arange(0, len(ROWS), 2, dtype=np.int32)
        users, items = ROWS.user_index.astype(np.int32), ROWS.item_index.astype(np.int32)
        keys = np.array([5, 6], dtype=np.uint64)
        pairs_cpu.gradients(rows, keys, users, items, held.everything, held.words, p, q, owners, *out, *counts)
        assert counts[0].sum() * 2 == counts[1].sum() == 2 * len(rows)
        found.append(out)
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("n", [0, 1, 2, 255, 256, 257, 1000])
@pytest.mark.parametrize("module", [pairs_cpu, pairs_plain])
def test_batches_are_dealt_by_the_places(module: ModuleType, n: int) -> None:
    size = 64
    rows = np.zeros(-(-n // size) * size, dtype=np.int32)
    module.deal(seeds.rounds(9), n, seeds.domain_bits(n), size, rows)
    places = seeds.places(9, n)
    for number, batch in enumerate(rows.reshape(-1, size)):
        expected = np.flatnonzero(places // size == number).tolist()
        assert batch.tolist() == expected + [-1] * (size - len(expected))


def test_who_has_what() -> None:
    held = Held(ROWS)
    dense = ROWS.matrix().toarray()
    for user, item in np.ndindex(*dense.shape):
        assert (int(held.words[user, item >> 5]) >> (item & 31)) & 1 == dense[user, item]
    assert Held(edges()["a user has everything"]).everything.tolist() == [True, False]


def test_no_number_is_noticed() -> None:
    steps = PairSteps(
        ROWS, parameters=tables(ROWS), rule=Rule(ADAGRAD, float("nan"), 0.0), batch_size=70, n_negatives=1, seed=1
    )
    steps.run_epoch(1)
    assert not steps.sound()


@pytest.mark.parametrize("x", [-1e9, -30.0, -3.3, -1e-4, 0.0, 0.7, 5.0, 30.0, 1e9, float("nan")])
def test_the_sigmoid(x: float) -> None:
    expected = 1 / (1 + np.exp(-np.clip(x, -30, 30)))
    np.testing.assert_allclose(pairs_cpu._sigmoid(np.float32(x)), expected, rtol=1e-6)


def test_the_table_of_who_has_what_may_not_outgrow_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("receraser.training.batches.MOST_BYTES", 100)
    with pytest.raises(TrainingError, match=r"60 users and 40 items: .* expected at most 0\.0; use more shards"):
        Held(ROWS)


def test_adagrad_is_not_for_vectors_that_are_propagated() -> None:
    with pytest.raises(ValueError, match="Adagrad moves vectors that are scored as they are"):
        trained(ROWS, Rule(ADAGRAD, 0.1, 0.0), layers=1)


@pytest.mark.parametrize("module", [pairs_cpu, pairs_plain])
@pytest.mark.parametrize("dim", [1, 16, 37])
def test_the_hardest_candidate(module: ModuleType, dim: int) -> None:
    """By whole numbers, so that there are ties and no rounding: the first of the highest."""
    rng = np.random.default_rng(dim)
    users, items = (rng.integers(-2, 3, (n, dim)).astype(np.float32) for n in (30, 9))
    candidates = rng.integers(0, 9, (30, 4))
    found = np.empty(30, dtype=np.int64)
    module.hardest(users, items, candidates, found)
    for user, some, one in zip(users, candidates.tolist(), found.tolist(), strict=True):
        assert one == max(some, key=lambda item: float(items[item] @ user))


@pytest.mark.parametrize("module", [pairs_cpu, pairs_plain])
def test_the_cells_that_are_dropped(module: ModuleType) -> None:
    """The draws are those of `seeds`, whichever cell is the first."""
    key, lowest = seeds.derive(3, "dropout"), int(0.3 * 2**32)
    expected = (seeds.draw(key, np.arange(1000)) >> np.uint64(32)) >= lowest
    for first in (0, 137):
        out = np.empty(1000 - first, dtype=np.float32)
        module.kept_cells(np.uint64(key), first, lowest, np.float32(1.5), out)
        assert np.array_equal(out, np.where(expected[first:], np.float32(1.5), np.float32(0)))
