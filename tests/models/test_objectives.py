from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from receraser import seeds
from receraser.data.interactions import Interactions
from receraser.models import objectives
from receraser.models.bpr import BPR
from receraser.models.factors import FactorModel
from receraser.models.lightgcn import LightGCN
from receraser.models.objectives import NonSampling, Pairwise, _hardest, _kept
from receraser.models.wmf import WMF
from receraser.training import batches
from receraser.training.batches import UserBatches, UserRows, UserTables
from receraser.training.kernels import pairs_cpu, pairs_plain
from tests.contracts.worlds import random_rows

ROWS = random_rows(40, 20, 0.3, seed=1)
DIM = 6


def tables(rows: Interactions = ROWS, dim: int = DIM) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(3)
    p, q = (torch.from_numpy(rng.normal(size=(len(ids), dim)).astype(np.float32)) for ids in (rows.users, rows.items))
    return p, q


def vectors_of(p: torch.Tensor, q: torch.Tensor) -> objectives.Vectors:
    """The tables themselves."""
    return lambda users=None, /: (p if users is None else p[users], q)


def pairwise(
    p: torch.Tensor,
    q: torch.Tensor,
    *,
    rows: Interactions = ROWS,
    seed: int = 1,
    dropout: float = 0.0,
    batch_size: int = 64,
    n_negatives: int = 1,
    weight_decay: float = 0.0,
    penalised: tuple[torch.Tensor, torch.Tensor] | None = None,
    user_parts: int = 0,
) -> Pairwise:
    return Pairwise(
        rows,
        batch_size=batch_size,
        n_negatives=n_negatives,
        seed=seed,
        parameters=(p, q),
        vectors=vectors_of(p, q),
        dropout=dropout,
        weight_decay=weight_decay,
        penalised=penalised,
        user_parts=user_parts,
    )


def non_sampling(
    p: torch.Tensor,
    q: torch.Tensor,
    *,
    seed: int = 1,
    dropout: float = 0.0,
    batch_size: int = 16,
    rows: Interactions = ROWS,
    kind: type[UserBatches | UserTables | UserRows] | None = None,
) -> NonSampling:
    return NonSampling(
        rows,
        batch_size=batch_size,
        seed=seed,
        missing_weight=0.3,
        dropout=dropout,
        dim=p.shape[1],
        parameters=(p, q),
        vectors=vectors_of(p, q),
        kind=kind,
    )


def losses(objective: Pairwise | NonSampling, epoch: int = 1) -> list[float]:
    """The loss of every batch of an epoch."""
    objective.prepare(epoch)
    return [float(objective.loss(torch.tensor(number))) for number in range(objective.n_batches)]


# ---------------------------------------------------------------------- draws


@given(st.integers(0, 2**64 - 1), st.lists(st.integers(0, 2**63 - 2), max_size=10))
def test_a_key_in_a_tensor_draws_what_the_key_draws(key: int, counters: list[int]) -> None:
    """A captured step has the address of its key, not its value: it draws anew when the tensor is filled anew."""
    cells = torch.tensor(counters, dtype=torch.int64)
    held = torch.zeros((), dtype=torch.int64)
    held.fill_(seeds.signed(key))
    assert torch.equal(seeds.draw_torch(held, cells), seeds.draw_torch(key, cells))
    for number in (0, 3):
        assert torch.equal(_kept(held, torch.tensor(number), (4, 5), 0.3), _kept(key, number, (4, 5), 0.3))


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**40), st.floats(0.0, 0.99))
def test_cells_are_kept_by_the_draws_of_their_numbers(key: int, number: int, dropout: float) -> None:
    """As they are on a GPU, by draws in torch; table number 1 goes on where table number 0 ended."""
    high = (seeds.draw_torch(key, torch.arange(6 * 7) + number * 6 * 7) >> 32) & 0xFFFFFFFF
    expected = torch.where(high >= int(dropout * 2**32), torch.tensor(1.0 / (1.0 - dropout)), 0.0)
    assert torch.equal(_kept(key, number, (6, 7), dropout), expected.reshape(6, 7))
    both = torch.cat([_kept(key, one, (6, 7), dropout) for one in (2 * number, 2 * number + 1)])
    assert torch.equal(both, _kept(key, number, (12, 7), dropout))


@pytest.mark.parametrize("value", [0, 1, 2**63 - 1, 2**63, 2**64 - 1])
def test_signed_holds_the_same_bits(value: int) -> None:
    assert -(2**63) <= seeds.signed(value) < 2**63
    assert seeds.signed(value) % 2**64 == value


@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.9])
def test_as_much_is_dropped_as_was_asked_for_and_made_up_for(dropout: float) -> None:
    kept = _kept(5, 0, (1000, 100), dropout)
    assert sorted(set(kept.flatten().tolist())) == pytest.approx([0.0, 1 / (1 - dropout)])
    assert (kept > 0).double().mean().item() == pytest.approx(1 - dropout, abs=0.005)
    assert kept.double().mean().item() == pytest.approx(1, abs=0.03)


# ---------------------------------------------------------------------- dropout in the two objectives


def test_pairwise_dropout_is_a_function_of_seed_and_epoch() -> None:
    p, q = tables()
    first = losses(pairwise(p, q, dropout=0.4), 3)
    assert losses(pairwise(p, q, dropout=0.4), 3) == first
    again = pairwise(p, q, dropout=0.4)
    losses(again, 1)
    assert losses(again, 3) == first, "whatever was drawn before"
    assert losses(pairwise(p, q, dropout=0.0), 3) != first


def masks_of(objective: Pairwise) -> list[torch.Tensor]:
    """What a user vector of ones is multiplied by, row for row: items of ones and zeros give it away."""
    found = []
    for number in range(objective.n_batches):
        shape = (objective._batches.batch_size, DIM)
        found.append(_kept(objective._key, number, shape, objective._dropout))
    return found


def test_pairwise_dropout_is_drawn_anew_for_every_row_batch_and_epoch() -> None:
    objective = pairwise(*tables(), dropout=0.4)
    epochs = []
    for epoch in (1, 2):
        objective.prepare(epoch)
        epochs.append(torch.cat(masks_of(objective)))
    share = (epochs[0] > 0).double().mean().item()
    assert share == pytest.approx(0.6, abs=0.04)
    for one, other in ((epochs[0], epochs[1]), (epochs[0][:64], epochs[0][64:128]), (epochs[0][1:], epochs[0][:-1])):
        # two independent draws agree with probability 0.6^2 + 0.4^2
        assert (one == other).double().mean().item() == pytest.approx(0.52, abs=0.08)


def test_pairwise_dropout_meets_the_users_vectors_alone() -> None:
    """Done by hand: the loss of a batch with its user vectors multiplied by the draws."""
    p, q = tables()
    objective = pairwise(p, q, dropout=0.4)
    objective.prepare(2)
    for number in range(objective.n_batches):
        user, item, negatives, weight = objective._batches.batch(torch.tensor(number))
        u = p[user] * masks_of(objective)[number]
        difference = (u * (q[item] - q[negatives[:, 0]])).sum(dim=1)
        expected = (weight * torch.log1p(torch.exp(-difference))).sum() / len(user)
        assert float(objective.loss(torch.tensor(number))) == pytest.approx(float(expected), rel=1e-5)


def test_the_penalty_does_not_see_the_dropout() -> None:
    p, q = tables()
    still = pairwise(p, q, weight_decay=1.0, penalised=(p, q))
    dropped = pairwise(p, q, weight_decay=1.0, penalised=(p, q), dropout=0.4)
    bare = losses(pairwise(p, q)), losses(pairwise(p, q, dropout=0.4))
    for one, other, a, b in zip(losses(still), losses(dropped), *bare, strict=True):
        assert one - a == pytest.approx(other - b, rel=1e-4)


def test_non_sampling_dropout_is_a_function_of_seed_and_epoch() -> None:
    masks = []
    for seed, epoch in ((1, 1), (1, 1), (1, 2), (2, 1)):
        objective = non_sampling(*tables(), dropout=0.25, seed=seed)
        objective.prepare(epoch)
        assert objective._mask is not None
        masks.append(objective._mask)
    assert torch.equal(masks[0], masks[1])
    assert masks[0].shape == (len(ROWS.users), DIM)
    for other in masks[2:]:
        assert 0.5 < (masks[0] == other).double().mean().item() < 0.75
    assert sorted(set(masks[0].flatten().tolist())) == pytest.approx([0.0, 1 / 0.75])
    assert (masks[0] > 0).double().mean().item() == pytest.approx(0.75, abs=0.06)


def test_without_dropout_every_epoch_has_the_same_loss() -> None:
    p, q = tables()
    objective = non_sampling(p, q)
    sums = [sum(losses(objective, epoch)) for epoch in (1, 2)]
    r = ROWS.matrix().toarray().astype(np.float64)
    y = p.double().numpy() @ q.double().numpy().T
    expected = (r * (1 - y) ** 2 + 0.3 * (1 - r) * y**2).sum() - r.sum()  # up to a constant
    # every batch adds the items' part for its users: together they are the sum over all pairs
    assert sums == pytest.approx([expected, expected], rel=1e-4)


# ---------------------------------------------------------------------- negatives


def test_of_several_negatives_the_hardest_is_taken() -> None:
    """The one that scores highest for its user now; of equals, the first."""
    users = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    items = torch.tensor([[0.0, 3.0], [2.0, 0.0], [1.0, 2.0], [2.0, 1.0]])
    candidates = torch.tensor([[0, 1, 2], [1, 0, 3], [3, 2, 1]])
    assert _hardest(users, items, candidates).tolist() == [1, 0, 3]
    assert _hardest(users, items, candidates[:, 2:]).tolist() == [2, 3, 1]


def test_harder_negatives_cost_more() -> None:
    p, q = tables()
    few, many = (sum(losses(pairwise(p, q, n_negatives=n))) for n in (1, 8))
    assert many > few


# ---------------------------------------------------------------------- the gradient that is written out


def by_torch(objective: Pairwise, number: int) -> torch.Tensor:
    """The loss of a batch with the gradient that torch records."""
    batch, (p, q) = objective._batches.batch(torch.tensor(number)), objective._vectors()
    return objective._recorded(p, q, batch, masks_of(objective)[number] if objective._dropout else None)


SOME = Interactions.from_pairs([*ROWS.pairs(), *(("all of it", item) for item in ROWS.items)])


@pytest.mark.parametrize("module", [pairs_cpu, pairs_plain])
@pytest.mark.parametrize("n_negatives", [1, 5])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_the_gradient_that_is_written_out_is_that_of_the_loss(
    module: ModuleType, n_negatives: int, dropout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all batches: some rows have no weight, and the last batch is not full."""
    monkeypatch.setattr(objectives, "pairs_on_cpu", lambda: module)
    p, q = (one.requires_grad_() for one in tables(SOME))
    objective = pairwise(p, q, rows=SOME, n_negatives=n_negatives, dropout=dropout)
    objective.prepare(1)
    weightless = 0
    for number in range(objective.n_batches):
        weightless += int((objective._batches.batch(torch.tensor(number))[3] == 0).sum())
        found, expected = objective.loss(torch.tensor(number)), by_torch(objective, number)
        assert type(found.grad_fn).__name__ == "_WrittenOutBackward", "not the recorded one"
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=0.0)
        gradients = (torch.autograd.grad(3 * one, (p, q)) for one in (found, expected))
        for one, other in zip(*gradients, strict=True):
            torch.testing.assert_close(one, other, rtol=0.0, atol=2e-6 * float(other.abs().max()))
    assert weightless > len(SOME.items), "who has everything, and what fills the last batch"


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_only_the_users_of_a_batch_are_asked_for_and_the_gradient_is_that_of_all(parts: int, dropout: float) -> None:
    p, q = (one.requires_grad_() for one in tables(SOME))
    objective = pairwise(p, q, rows=SOME, n_negatives=3, dropout=dropout, user_parts=parts)
    asked: list[int] = []
    whole = objective._vectors

    def noted(users: torch.Tensor | None = None, /) -> tuple[torch.Tensor, torch.Tensor]:
        asked.append(len(p) if users is None else len(users))
        return whole(users)

    objective._vectors = noted
    objective.prepare(1)
    assert objective.n_batches > 3
    for number in range(objective.n_batches):
        found = objective.loss(torch.tensor(number))
        assert asked.pop() < len(p)
        expected = by_torch(objective, number)
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)
        gradients = (torch.autograd.grad(one, (p, q)) for one in (found, expected))
        for one, other in zip(*gradients, strict=True):
            torch.testing.assert_close(one, other, rtol=0.0, atol=2e-6 * float(other.abs().max()) + 1e-9)


def test_a_gradient_flows_on_to_what_the_vectors_are_made_of() -> None:
    """The vectors need not be the parameters, nor lie in memory row by row."""
    p, q = tables()
    turn = torch.from_numpy(np.random.default_rng(5).normal(size=(DIM, DIM)).astype(np.float32)).requires_grad_()
    objective = Pairwise(
        ROWS,
        batch_size=64,
        n_negatives=3,
        seed=1,
        parameters=(turn,),
        vectors=lambda _=None, /: ((turn.T @ p.T).T, (turn @ q.T).T),
        dropout=0.3,
    )
    assert not objective._vectors()[0].is_contiguous()
    objective.prepare(1)
    found, expected = (
        torch.autograd.grad(loss, turn)[0] for loss in (objective.loss(torch.tensor(1)), by_torch(objective, 1))
    )
    torch.testing.assert_close(found, expected, rtol=0.0, atol=5e-6 * float(expected.abs().max()))


def test_a_penalty_is_left_to_torch() -> None:
    p, q = (one.requires_grad_() for one in tables())
    objective = pairwise(p, q, weight_decay=0.1, penalised=(p, q))
    objective.prepare(1)
    bare = pairwise(p, q)
    bare.prepare(1)
    user, item, negatives, weight = bare._batches.batch(torch.tensor(0))
    squares = sum((weight * one.square().sum(dim=1)).sum() for one in (p[user], q[item], q[negatives[:, 0]]))
    expected = torch.autograd.grad(bare.loss(torch.tensor(0)) + 0.1 * 0.5 * squares / len(user), (p, q))
    for one, other in zip(torch.autograd.grad(objective.loss(torch.tensor(0)), (p, q)), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0.0, atol=2e-6 * float(other.abs().max()))


# ---------------------------------------------------------------------- a model's own loss


@pytest.mark.parametrize("model", [BPR(dim=DIM), LightGCN(dim=DIM), WMF(dim=DIM, dropout=0.25)], ids=lambda m: m.name)
def test_a_model_gives_out_its_own_loss(model: FactorModel) -> None:
    p, q = tables()
    objective = model.objective(ROWS, 7, parameters=(p, q), vectors=vectors_of(p, q))
    assert objective.parameters == (p, q)
    assert objective.fixed_shape == model.pairwise
    if isinstance(objective, Pairwise):
        assert objective._dropout == 0, "the pairwise models have none of their own"
        assert objective._weight_decay == 0, "no penalty where no table is named"
        named = model.objective(ROWS, 7, parameters=(p, q), vectors=vectors_of(p, q), penalised=(p, q))
        assert isinstance(named, Pairwise)
        assert named._weight_decay == model.hyperparameters()["weight_decay"]
    else:
        assert isinstance(objective, NonSampling)
        assert objective._dropout == 0.25
    for dropout in (0.0, 0.5):
        asked = model.objective(ROWS, 7, parameters=(p, q), vectors=vectors_of(p, q), dropout=dropout)
        assert isinstance(asked, (Pairwise, NonSampling))
        assert asked._dropout == dropout


def test_the_base_of_the_models_has_no_loss() -> None:
    with pytest.raises(NotImplementedError):
        FactorModel.objective(BPR(), ROWS, 1, parameters=(), vectors=vectors_of(*tables()))


@pytest.mark.parametrize("batch_size", [1, 16, 100])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_the_gradient_over_all_pairs_that_is_written_out_is_that_of_the_loss(batch_size: int, dropout: float) -> None:
    """Of all batches, the last of which is not full, and of two epochs: each has users of its own."""
    p, q = (one.requires_grad_() for one in tables())
    objective = non_sampling(p, q, dropout=dropout, batch_size=batch_size)
    for epoch in (1, 2):
        objective.prepare(epoch)
        for number in range(objective.n_batches):
            found, expected = objective.loss(torch.tensor(number)), objective._recorded(number)
            assert type(found.grad_fn).__name__ == "_AllPairsBackward", "not the recorded one"
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
            gradients = (torch.autograd.grad(3 * one, (p, q)) for one in (found, expected))
            for one, other in zip(*gradients, strict=True):
                torch.testing.assert_close(one, other, rtol=0.0, atol=2e-6 * float(other.abs().max()))


def test_the_loss_over_all_pairs_is_left_to_torch_where_there_is_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same loss."""
    by_kernel = losses(non_sampling(*tables(), dropout=0.4))
    monkeypatch.setattr(objectives, "non_sampling_on_cpu", lambda: None)
    p, q = (one.requires_grad_() for one in tables())
    learned = non_sampling(p, q, dropout=0.4)
    learned.prepare(1)
    assert type(learned.loss(torch.tensor(0)).grad_fn).__name__ != "_AllPairsBackward"
    assert losses(non_sampling(*tables(), dropout=0.4)) == pytest.approx(by_kernel, rel=1e-5)


# ---------------------------------------------------------------------- the rows of a batch of users in one fixed shape


@pytest.mark.parametrize("kind", [UserTables, UserRows])
@pytest.mark.parametrize("batch_size", [1, 16, 40, 100])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_batches_of_one_shape_give_the_loss_and_the_gradients_of_rows_one_by_one(
    kind: type[UserTables | UserRows], batch_size: int, dropout: float
) -> None:
    """The forms of a GPU, here on the CPU; 16 does not divide the users, so a batch is filled up."""
    p, q = (one.requires_grad_(True) for one in tables())
    plain, fixed = (non_sampling(p, q, dropout=dropout, batch_size=batch_size, kind=one) for one in (UserBatches, kind))
    assert (plain.fixed_shape, fixed.fixed_shape) == (False, True)
    assert plain.n_batches == fixed.n_batches
    for epoch in (1, 2):
        plain.prepare(epoch)
        fixed.prepare(epoch)
        for number in range(plain.n_batches):
            one, other = (objective.loss(torch.tensor(number)) for objective in (plain, fixed))
            assert other.item() == pytest.approx(one.item(), rel=1e-5)
            for a, b in zip(torch.autograd.grad(one, (p, q)), torch.autograd.grad(other, (p, q)), strict=True):
                assert float((a - b).norm()) < 1e-5 * float(a.norm())


def test_empty_slots_have_no_part_in_scores_and_gradients() -> None:
    """Whatever comes back for them: not even what is no number."""
    p, q = (one.requires_grad_(True) for one in tables())
    batches_of = UserRows(ROWS, batch_size=16, seed=1, device=torch.device("cpu"))
    batches_of.prepare(1)
    user, _, place, item, weight = batches_of.batch(torch.tensor(0))
    scores = objectives._SlotScores.apply(p[user], q, place, item, weight)  # type: ignore[no-untyped-call]
    taken = weight > 0
    assert 0 < int(taken.sum()) < len(taken)
    assert not scores[~taken].any()
    expected = (p[user][place] * q[item]).sum(dim=1)[taken]
    assert torch.equal(scores[taken], expected)
    back = torch.linspace(-1, 1, len(taken)).masked_fill(~taken, torch.nan)
    found = torch.autograd.grad(scores, (p, q), back)
    for a, b in zip(torch.autograd.grad(expected, (p, q), back[taken]), found, strict=True):
        assert torch.allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [UserTables, UserRows])
def test_what_a_captured_step_reads_stays_where_it_is(kind: type[UserTables | UserRows]) -> None:
    """A replayed graph reads the addresses it was captured with: an epoch refills the buffers."""
    objective = non_sampling(*tables(), dropout=0.4, kind=kind)
    objective.prepare(1)
    mask, users = objective._mask, objective._batches._user  # type: ignore[union-attr]
    assert mask is not None
    before = mask.clone(), users.clone()
    objective.prepare(2)
    assert objective._mask is mask
    assert objective._batches._user is users  # type: ignore[union-attr]
    assert not torch.equal(mask, before[0])
    assert not torch.equal(users, before[1])


def test_rows_have_one_shape_on_a_gpu_alone_as_a_table_where_it_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert not non_sampling(*tables()).fixed_shape
    few = Interactions.from_pairs([(f"u{user:03}", f"i{user + n:03}") for user in range(200) for n in range(4)])
    for rows in (ROWS, few):
        assert objectives._kind(rows, 64, cpu) is UserBatches
    assert objectives._kind(ROWS, 16, gpu) is UserTables
    assert objectives._kind(few, 64, gpu) is UserRows
    monkeypatch.setattr(batches, "MOST_SLOTS", 64)
    assert objectives._kind(few, 64, gpu) is UserTables
    monkeypatch.setattr(batches, "MOST_CELLS", 16 * len(ROWS.items) - 1)
    assert objectives._kind(ROWS, 16, gpu) is UserBatches
