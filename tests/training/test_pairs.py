from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

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
MANY = random_rows(300, 3000, 0.01, seed=3)  # items: so many that who has which is looked up in a smaller table first
WEIGHTS = (np.arange(len(ROWS)) % 5 > 0).astype(np.float32)
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


class Recorded(Pairwise):
    """The loss with the gradient that torch records, also where there is one that is written out."""

    def loss(self, number: torch.Tensor) -> torch.Tensor:
        return self._recorded(*self._vectors(), self._batches.batch(number), None)


def by_autograd(rows: Interactions, rule: Rule, *, n_epochs: int = 3, layers: int = 0) -> Tables:
    """The same by the few lines of torch that say what the loss is."""
    p, q = tables(rows)
    graph = normalised_graph(rows, CPU)

    def vectors(_users: torch.Tensor | None = None) -> Tables:
        layer = total = torch.cat([p, q])
        for _ in range(layers):
            layer = graph @ layer
            total = total + layer
        return (total / (layers + 1))[: len(p)], (total / (layers + 1))[len(p) :]

    objective = Recorded(
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
@pytest.mark.parametrize("rows", [ROWS, MANY], ids=["few items", "many items"])
def test_the_kernels_against_plain_ones(
    rows: Interactions, rule: Rule, layers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = trained(rows, rule, layers=layers)

    def plain() -> ModuleType:
        return pairs_plain

    monkeypatch.setattr(pairs, "pairs_on_cpu", plain)
    for one, other in zip(fast, trained(rows, rule, layers=layers), strict=True):
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
        pairs_cpu.gradients(
            rows, keys, users, items, held.everything, held.near, held.words, p, q, owners, *out, *counts
        )
        assert counts[0].sum() * 2 == counts[1].sum() == 2 * len(rows)
        found.append(out)
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one, other)


def stepped(module: ModuleType, rows: Interactions, n_owners: int, batch_size: int) -> list[NDArray[np.float32]]:
    """What an epoch of Adagrad's steps makes of the vectors, and of the sums of squares."""
    held, size = Held(rows), min(batch_size, len(rows))
    batches = np.zeros(-(-len(rows) // size) * size, dtype=np.int32)
    module.deal(seeds.rounds(9), len(rows), seeds.domain_bits(len(rows)), size, batches)
    found = [one.numpy() for one in tables(rows)]
    found += [np.zeros_like(one) for one in found]
    users, items = rows.user_index.astype(np.int32), rows.item_index.astype(np.int32)
    given = users, items, held.everything, held.near, held.words
    keys = np.array([5, 6, 7], dtype=np.uint64)
    module.adagrad_epoch(batches, size, keys, *given, *found[:2], n_owners, *found[2:], 0.05, 0.03)
    return found


def world_of(rows_of_users: list[int], n_items: int) -> Interactions:
    """Users who have so many of the items, each at random."""
    rng = np.random.default_rng(n_items)
    return Interactions.from_pairs(
        [
            (f"{user:04}", f"{item:05}")
            for user, n in enumerate(rows_of_users)
            for item in rng.permutation(n_items)[:n].tolist()
        ]
    )


# Users of more rows than a thread takes at a time, and one who has every item.
LONG = world_of([1, 63, 64, 65, 541, 200, 500, 2, 130, 1], 541)
WIDE = world_of([150, 3, 400, *[70] * 100], 9_001)


@pytest.mark.parametrize("batch_size", [64, 700, 10_000])
@pytest.mark.parametrize("rows", [ROWS, LONG, WIDE], ids=["many", "long", "wide"])
def test_an_epoch_of_steps(rows: Interactions, batch_size: int) -> None:
    """To the bit the same however many own the items, also more than there are; and close to the plain one."""
    alone = stepped(pairs_cpu, rows, 1, batch_size)
    for n_owners in (2, 4, 8, 64, 1024):
        found = stepped(pairs_cpu, rows, n_owners, batch_size)
        assert [one.tobytes() for one in found] == [one.tobytes() for one in alone], n_owners
    for one, other in zip(alone, stepped(pairs_plain, rows, 1, batch_size), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


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


def test_what_is_not_near_is_lacked() -> None:
    held = Held(MANY)
    assert held.near.shape == (len(MANY.users), 8), "64 bytes of each user"
    assert Held(WIDE).near.shape == (len(WIDE.users), 16), "more where people have more"
    assert Held(ROWS).near.shape == (len(ROWS.users), 0), "few items need none"
    assert Held(Interactions.empty()).near.shape == (0, 0)
    shift = pairs_cpu._shift(held.near)
    number = (np.arange(held.n_items, dtype=np.uint64) * np.uint64(seeds.GOLDEN)) >> np.uint64(shift)
    assert number.max() == 64 * 8 - 1
    near = (held.near[:, (number >> np.uint64(6)).astype(np.int64)] >> (number & np.uint64(63))) & np.uint64(1)
    there = MANY.matrix().toarray() > 0
    assert near[there].all()
    assert near[~there].mean() < 0.1, "most of what is lacked is known at once"


@pytest.mark.parametrize(("columns", "shift"), [(0, 0), (1, 58), (2, 57), (8, 55), (64, 52)])
def test_a_hash_is_shifted_to_the_number_of_a_bit(columns: int, shift: int) -> None:
    assert pairs_cpu._shift(np.zeros((3, columns), dtype=np.uint64)) == shift


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


# ---------------------------------------------------------------------- gradients where every row drops coordinates


@dataclass(frozen=True)
class Batch:
    """A batch of triples and the vectors it is scored by; a few rows have no weight.

    `drawn`: of what, from which cell on, from which draw on and as what coordinates are kept.
    """

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    candidates: NDArray[np.int64]
    weights: NDArray[np.float32]
    drawn: tuple[np.uint64, int, int, np.float32]
    p: NDArray[np.float32]
    q: NDArray[np.float32]
    by_user: bool = False

    @property
    def kept(self) -> NDArray[np.float32]:
        """What the coordinates of every row's user vector are multiplied with."""
        made = np.empty((len(self.users), self.p.shape[1]), dtype=np.float32)
        pairs_plain.kept_cells(*self.drawn, made.reshape(-1))
        return made

    @property
    def given(self) -> tuple[Any, ...]:
        """What the kernels take."""
        rows = self.users, self.items, self.candidates, self.weights
        return *rows, self.by_user, *self.drawn, self.p, self.q

    def sorted(self) -> Batch:
        """The same rows, user by user; those without weight are somebody's too."""
        order = np.argsort(self.users, kind="stable")
        rows = {name: getattr(self, name)[order] for name in ("users", "items", "candidates", "weights")}
        return replace(self, **rows, by_user=True)

    def gradients(self, module: ModuleType, n_owners: int = 1) -> list[NDArray[np.float32]]:
        """Those of the users and of the items, and by how much the candidates are ahead."""
        out = [np.zeros_like(self.p), np.zeros_like(self.q), np.full(len(self.users), np.nan, dtype=np.float32)]
        module.dropped_gradients(*self.given, n_owners, *out)
        return out

    def by_autograd(self) -> list[NDArray[np.float32]]:
        """The same by torch, in double precision."""
        p, q = (torch.from_numpy(one).double().requires_grad_() for one in (self.p, self.q))
        u = p[self.users] * torch.from_numpy(self.kept)
        scores = (q[self.candidates] * u[:, None]).sum(dim=2)
        behind = scores.max(dim=1).values - (q[self.items] * u).sum(dim=1)
        weights = torch.from_numpy(self.weights)
        loss = (weights * torch.nn.functional.softplus(behind)).mean()
        found = [*torch.autograd.grad(loss, (p, q)), behind.detach() * (weights > 0)]
        return [one.numpy().astype(np.float32) for one in found]


DRAWN = np.uint64(2**63 + 11), 5 * 7 * 11, int(0.3 * 2**32), np.float32(1 / 0.7)


def batch_of(dim: int, *, size: int = 150, n_candidates: int = 4, seed: int = 1) -> Batch:
    rng = np.random.default_rng([dim, size, seed])
    n_users, n_items = 21, 34
    return Batch(
        users=rng.integers(0, n_users, size),
        items=rng.integers(0, n_items, size),
        candidates=rng.integers(0, n_items, (size, n_candidates)),
        weights=(rng.random(size) < 0.8).astype(np.float32),
        drawn=DRAWN,
        p=rng.normal(size=(n_users, dim)).astype(np.float32),
        q=rng.normal(size=(n_items, dim)).astype(np.float32),
    )


SIZES = [1, 63, 64, 65, 200]  # around the edges of what a thread takes at a time


@pytest.mark.parametrize("module", [pairs_cpu, pairs_plain])
@pytest.mark.parametrize(("dim", "size", "n_candidates"), [(1, 150, 4), (16, 150, 1), *((37, n, 4) for n in SIZES)])
def test_gradients_with_dropped_coordinates(module: ModuleType, dim: int, size: int, n_candidates: int) -> None:
    batch = batch_of(dim, size=size, n_candidates=n_candidates)
    assert size == 1 or {0.0, 1.0} == set(batch.weights.tolist())
    for given in (batch, batch.sorted(), replace(batch, drawn=(*DRAWN[:2], 0, np.float32(1.0)))):  # none is dropped
        for found, expected in zip(given.gradients(module), given.by_autograd(), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-6 * float(np.abs(expected).max()))


@pytest.mark.parametrize("module", [pairs_cpu, pairs_plain])
def test_rows_without_weight_teach_nothing(module: ModuleType) -> None:
    batch = replace(batch_of(16), drawn=(*DRAWN[:2], 0, np.float32(1.0)))  # cells are counted: with rows that stay too
    none = replace(batch, weights=np.zeros_like(batch.weights))
    assert not any(one.any() for one in none.gradients(module))
    rows = np.flatnonzero(batch.weights)
    fewer = replace(batch, **{name: getattr(batch, name)[rows] for name in ("users", "items", "candidates", "weights")})
    share = np.float32(len(rows) / len(batch.users))
    for whole, part in zip(batch.gradients(module)[:2], fewer.gradients(module)[:2], strict=True):
        np.testing.assert_allclose(whole, part * share, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("module", [pairs_cpu, pairs_plain])
def test_gradients_are_added_to_what_is_there(module: ModuleType) -> None:
    batch = batch_of(16)
    out = [np.ones_like(batch.p), np.ones_like(batch.q), np.empty(len(batch.users), dtype=np.float32)]
    module.dropped_gradients(*batch.given, 2, *out)
    for one, alone in zip(out[:2], batch.gradients(module), strict=False):
        np.testing.assert_allclose(one, 1 + alone, rtol=1e-6)


@pytest.mark.parametrize("module", [pairs_cpu, pairs_plain])
@pytest.mark.parametrize("dim", [1, 16, 37])
def test_the_hardest_candidate(module: ModuleType, dim: int) -> None:
    """By whole numbers, so that there are ties and no rounding: the first of the highest."""
    rng = np.random.default_rng(dim)
    p = rng.integers(1, 4, (30, dim)).astype(np.float32)
    q = rng.integers(-2, 3, (10, dim)).astype(np.float32) / np.float32(16)
    q[4:8] = q[:4]
    candidates = rng.integers(0, 9, (30, 4))
    ties = 0
    for user, some in enumerate(candidates.tolist()):
        row = slice(user, user + 1)
        users, items, weights = np.array([user]), np.array([9]), np.ones(1, dtype=np.float32)
        drawn = np.uint64(user), 0, int(0.4 * 2**32) if dim > 1 else 0, np.float32(1.0)
        batch = Batch(users, items, candidates[row], weights, drawn, p, q)
        kept = batch.kept[0]
        assert kept.any()
        _, of_items, behind = batch.gradients(module)
        scores = {item: float(q[item] @ (p[user] * kept)) for item in some}
        best = max(some, key=scores.__getitem__)
        ties += sum(score == scores[best] for score in scores.values()) > 1
        assert np.flatnonzero(of_items.any(axis=1)).tolist() == [best, 9]
        assert behind[0] == scores[best] - float(q[9] @ (p[user] * kept))
    assert ties > 3


@pytest.mark.parametrize("module", [pairs_cpu, pairs_plain])
def test_of_candidates_that_score_the_same_the_first_is_taken(module: ModuleType) -> None:
    batch = batch_of(16, size=1)
    same = np.tile(batch.q[:1], (len(batch.q), 1))
    for candidates in ([5, 2, 8], [8, 5, 2], [2, 2, 5]):
        one = replace(
            batch, q=same, items=np.array([1]), candidates=np.array([candidates]), weights=np.ones(1, dtype=np.float32)
        )
        taken = np.flatnonzero(one.gradients(module)[1].any(axis=1)).tolist()
        assert taken == sorted([1, candidates[0]])


@pytest.mark.parametrize("n_owners", [2, 4, 8])
def test_the_bits_do_not_depend_on_how_users_and_items_are_shared_out(n_owners: int) -> None:
    for batch in (batch_of(37, size=500), batch_of(37, size=500).sorted()):
        for one, other in zip(batch.gradients(pairs_cpu), batch.gradients(pairs_cpu, n_owners), strict=True):
            assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("n_users", [1, 2, 21, 150])
def test_the_bits_do_not_depend_on_whether_rows_are_taken_user_by_user(n_users: int) -> None:
    """Users of more rows than a thread takes at a time, and of one; rows of the first that are left out lie last."""
    batch = batch_of(16, size=500)
    batch = replace(batch, users=batch.users % n_users).sorted()
    users, weights = batch.users.copy(), batch.weights.copy()
    users[-70:], weights[-70:] = users[0], 0.0
    batch = replace(batch, users=users, weights=weights)
    for one, other in zip(batch.gradients(pairs_cpu), replace(batch, by_user=False).gradients(pairs_cpu), strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.usefixtures("two_threads")
def test_the_bits_of_dropped_gradients_do_not_depend_on_the_number_of_threads() -> None:
    for batch in (batch_of(16, size=3000), batch_of(16, size=3000).sorted()):
        use_threads(2)
        found = [batch.gradients(pairs_cpu, 4) for _ in range(3)]
        use_threads(1)
        found.append(batch.gradients(pairs_cpu, 4))
        assert len({b"".join(one.tobytes() for one in some) for some in found}) == 1


# ---------------------------------------------------------------------- draws


def triples_of(
    module: ModuleType, places: NDArray[np.int64], keys: list[int], table: Interactions = ROWS
) -> list[NDArray[Any]]:
    """Every row of a table in its place, among more places than rows; each fifth has no weight."""
    held = Held(table)
    n = len(table) + 7
    out = [np.full(n, -7), np.full(n, -7), np.full((n, len(keys)), -7), np.full(n, -7, dtype=np.float32)]
    weights = (np.arange(len(table)) % 5 > 0).astype(np.float32)
    rows = (table.user_index.astype(np.int64), table.item_index.astype(np.int64), weights)
    module.triples(np.array(keys, dtype=np.uint64), *rows, held.near, held.words, held.n_items, places, *out)
    return out


@pytest.mark.parametrize("module", [pairs_cpu, pairs_plain])
def test_triples_are_written_into_the_places_of_their_rows(module: ModuleType) -> None:
    """Where there is no weight, 0 for a negative; places that are nobody's are left alone."""
    places = np.random.default_rng(1).permutation(len(ROWS) + 7)[: len(ROWS)]
    in_order = triples_of(module, np.arange(len(ROWS)), [3, 4, 5])
    scattered = triples_of(module, places, [3, 4, 5])
    users, items, negatives, weights = (one[places] for one in scattered)
    assert all(np.array_equal(one[places], other[: len(ROWS)]) for one, other in zip(scattered, in_order, strict=True))
    assert all((np.delete(one, places, axis=0) == -7).all() for one in scattered)
    assert np.array_equal(users, ROWS.user_index)
    assert np.array_equal(items, ROWS.item_index)
    assert np.array_equal(weights, WEIGHTS)
    assert not negatives[weights == 0].any()
    has = ROWS.matrix().toarray() > 0
    assert not has[users[:, None], negatives][weights > 0].any()
    assert len(np.unique(negatives)) == len(ROWS.items)


@pytest.mark.parametrize("rows", [ROWS, MANY, WIDE], ids=["few items", "many", "wide"])
def test_triples_are_drawn_alike_by_both(rows: Interactions) -> None:
    places = np.random.default_rng(2).permutation(len(rows))
    one, other = (triples_of(module, places, [2**63 + 9, 4], rows) for module in (pairs_cpu, pairs_plain))
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("module", [pairs_cpu, pairs_plain])
def test_the_cells_that_are_dropped(module: ModuleType) -> None:
    """The draws are those of `seeds`, whichever cell is the first."""
    key, lowest = seeds.derive(3, "dropout"), int(0.3 * 2**32)
    expected = (seeds.draw(key, np.arange(1000)) >> np.uint64(32)) >= lowest
    for first in (0, 137):
        out = np.empty(1000 - first, dtype=np.float32)
        module.kept_cells(np.uint64(key), first, lowest, np.float32(1.5), out)
        assert np.array_equal(out, np.where(expected[first:], np.float32(1.5), np.float32(0)))
