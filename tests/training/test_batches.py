from __future__ import annotations

from collections import Counter
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from receraser import seeds
from receraser.data.interactions import Interactions
from receraser.training import batches as of_batches
from receraser.training.batches import Triples, UserBatches, UserRows, UserTables, UserTriples, shuffled
from receraser.training.kernels import pairs_cpu, pairs_plain, threads, use_threads
from tests.contracts.worlds import edges, random_rows

CPU = torch.device("cpu")
ROWS = random_rows(25, 18, 0.3, seed=1)


Triple = tuple[int, int, tuple[int, ...], float]


def triples(rows: Interactions, batch_size: int, epoch: int, *, seed: int = 3, n_negatives: int = 1) -> list[Triple]:
    """All triples of an epoch, as they come out of the batches: user, item, negatives and weight."""
    batches = Triples(rows, batch_size=batch_size, seed=seed, device=CPU, n_negatives=n_negatives)
    batches.prepare(epoch)
    found: list[Triple] = []
    for number in range(batches.n_batches):
        user, item, negatives, weight = batches.batch(torch.tensor(number))
        assert {len(column) for column in (user, item, negatives, weight)} == {batches.batch_size}
        drawn = [tuple(one) for one in negatives.tolist()]
        found += zip(user.tolist(), item.tolist(), drawn, weight.tolist(), strict=True)
    return found


def pairs(rows: Interactions) -> list[tuple[int, int]]:
    return list(zip(rows.user_index.tolist(), rows.item_index.tolist(), strict=True))


@given(st.integers(0, 2**64 - 1), st.integers(0, 300))
def test_torch_shuffles_as_numpy_does(key: int, n: int) -> None:
    assert shuffled(key, n, CPU).tolist() == seeds.places(key, n).tolist()


@pytest.mark.parametrize("batch_size", [1, 7, 32, 10_000])
def test_every_row_once_an_epoch(batch_size: int) -> None:
    for epoch in (1, 2):
        found = triples(ROWS, batch_size, epoch)
        assert sorted((user, item) for user, item, _, weight in found if weight > 0) == pairs(ROWS)
        filled = [weight for *_, weight in found[len(ROWS) :]]
        assert len(filled) < min(batch_size, len(ROWS))
        assert not any(filled)


def test_a_batch_is_no_larger_than_the_table() -> None:
    batches = Triples(ROWS, batch_size=10_000, seed=1, device=CPU)
    assert (batches.n_batches, batches.batch_size) == (1, len(ROWS))


def test_epochs_and_seeds_differ_in_order_and_negatives() -> None:
    orders, negatives = set(), set()
    for seed in (1, 2):
        for epoch in (1, 2, 3):
            found = triples(ROWS, 16, epoch, seed=seed)[: len(ROWS)]
            orders.add(tuple((user, item) for user, item, *_ in found))
            negatives.add(tuple(sorted(found)))
    assert len(orders) == len(negatives) == 6


def test_an_epoch_is_the_same_whenever_it_is_prepared() -> None:
    batches = Triples(ROWS, batch_size=16, seed=3, device=CPU)
    for epoch in (5, 1, 2):
        batches.prepare(epoch)
    user, item, negatives, _ = (column.tolist() for column in batches.batch(torch.tensor(0)))
    expected = triples(ROWS, 16, 2)[:16]
    assert list(zip(user, item, map(tuple, negatives), strict=True)) == [one[:3] for one in expected]


def test_the_batch_size_changes_neither_order_nor_negatives() -> None:
    assert triples(ROWS, 7, 1)[: len(ROWS)] == triples(ROWS, 50, 1)[: len(ROWS)]


def test_negatives_are_never_among_the_users_rows() -> None:
    own = set(pairs(ROWS))
    drawn = {
        (user, negative)
        for epoch in range(1, 30)
        for user, _, negatives, weight in triples(ROWS, 64, epoch, n_negatives=2)
        for negative in negatives
        if weight
    }
    missing = {(user, item) for user in range(len(ROWS.users)) for item in range(len(ROWS.items))} - own
    assert drawn <= missing
    assert len(drawn) > 0.98 * len(missing), "nearly every missing pair has had its turn"


@pytest.mark.parametrize("column", [0, 2])
def test_negatives_are_uniform_over_what_the_user_does_not_have(column: int) -> None:
    """Chi-square for a user with holes at either end and in the middle; the seed is fixed, so this cannot flicker."""
    has = [1, 2, 3, 7, 8, 12, 15, 18]
    rows = Interactions.from_pairs([*(("u", f"{i:02}") for i in has), *(("v", f"{i:02}") for i in range(20))])
    counts: Counter[int] = Counter()
    for seed in range(4):
        for epoch in range(1, 501):
            found = triples(rows, 28, epoch, n_negatives=3, seed=seed)
            counts.update(negatives[column] for user, _, negatives, _ in found if user == 0)
    assert set(counts) == set(range(20)) - set(has)
    assert sum(counts.values()) == 4 * 500 * len(has)
    assert chisquare(list(counts.values())).pvalue > 0.01


def test_several_negatives_are_drawn_independently() -> None:
    found = triples(ROWS, 64, 1, n_negatives=3)[: len(ROWS)]
    columns = list(zip(*(negatives for _, _, negatives, weight in found if weight), strict=True))
    for one in range(3):
        for other in range(one):
            equal = np.mean(np.array(columns[one]) == np.array(columns[other]))
            assert equal < 0.2, "they meet about once in every dozen missing items"
    assert [negatives[:1] for _, _, negatives, _ in found] == [one[2] for one in triples(ROWS, 64, 1)[: len(ROWS)]]


def test_rows_of_a_user_with_everything_have_no_weight() -> None:
    rows = edges()["a user has everything"]
    found = triples(rows, 3, 1)
    weights = {(user, item): weight for user, item, _, weight in found[: len(rows)]}
    assert weights == {(0, 0): 0.0, (0, 1): 0.0, (0, 2): 0.0, (1, 1): 1.0}
    assert all(0 <= negatives[0] < 3 for _, _, negatives, _ in found), "an index all the same: it is looked up"


@pytest.mark.parametrize("name", edges())
def test_tables_at_the_edge(name: str) -> None:
    rows = edges()[name]
    batches = Triples(rows, batch_size=2, seed=1, device=CPU)
    assert batches.n_batches == -(-len(rows) // 2)
    assert sorted((user, item) for user, item, *_ in triples(rows, 2, 1)[: len(rows)]) == pairs(rows)
    of_users = UserBatches(rows, batch_size=2, seed=1, device=CPU)
    of_users.prepare(1)
    assert of_users.n_batches == -(-len(rows.users) // 2)


# ---------------------------------------------------------------------- batches of users


@pytest.mark.parametrize("batch_size", [1, 4, 1000])
def test_batches_of_users_hold_every_row_once(batch_size: int) -> None:
    batches = UserBatches(ROWS, batch_size=batch_size, seed=3, device=CPU)
    orders = []
    for epoch in (1, 2):
        batches.prepare(epoch)
        found, order = [], []
        for number in range(batches.n_batches):
            user, place, item = batches.batch(number)
            assert len(user) <= batch_size
            assert (place.diff() >= 0).all()
            found += list(zip(user[place].tolist(), item.tolist(), strict=True))
            order += user.tolist()
        assert sorted(found) == pairs(ROWS)
        assert sorted(order) == list(range(len(ROWS.users)))
        places = seeds.places(seeds.derive(3, "shuffle", epoch), len(ROWS.users))
        assert order == np.argsort(places).tolist()
        orders.append(order)
    assert orders[0] != orders[1]


def test_a_users_rows_come_in_their_order() -> None:
    batches = UserBatches(ROWS, batch_size=5, seed=3, device=CPU)
    batches.prepare(1)
    user, place, item = batches.batch(2)
    for position, one in enumerate(user.tolist()):
        own = ROWS.item_index[ROWS.indptr[one] : ROWS.indptr[one + 1]]
        assert np.array_equal(item[place == position], own)


# ---------------------------------------------------------------------- triples of few users


def parted(
    rows: Interactions = ROWS, *, parts: int = 2, batch_size: int = 40, seed: int = 3, epoch: int = 1
) -> UserTriples:
    made = UserTriples(rows, parts=parts, batch_size=batch_size, seed=seed, device=CPU, n_negatives=2)
    made.prepare(epoch)
    return made


@pytest.mark.parametrize("parts", [1, 2, 5])
@pytest.mark.parametrize("batch_size", [1, 20, 45, 10_000])
@pytest.mark.parametrize("module", [pairs_cpu, pairs_plain])
def test_triples_of_few_users_hold_every_row_once(
    module: ModuleType, batch_size: int, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In batches whose users are named; what fills them up has no weight; negatives are what a user lacks."""
    monkeypatch.setattr(of_batches, "pairs_on_cpu", lambda: module)
    made = parted(batch_size=batch_size, parts=parts)
    held = set(pairs(ROWS))
    for epoch in (1, 2, 3):
        made.prepare(epoch)
        found = []
        for number in range(made.n_batches):
            user, item, negatives, weight = made.batch(torch.tensor(number))
            users, place = made.users(number)
            assert len(user) == len(place) == made.batch_size
            assert torch.equal(users[place], user), "also where nobody is"
            real = weight > 0
            assert set(users.tolist()) >= set(user[real].tolist())
            found += list(zip(user[real].tolist(), item[real].tolist(), strict=True))
            for one, drawn in zip(user[real].tolist(), negatives[real].tolist(), strict=True):
                assert not {(one, other) for other in drawn} & held
        assert sorted(found) == pairs(ROWS)


def test_with_one_part_all_rows_of_a_user_are_in_one_batch() -> None:
    made = parted(parts=1)
    assert made.n_batches > 2
    batches_of: dict[int, set[int]] = {}
    for number in range(made.n_batches):
        user, _, _, weight = made.batch(torch.tensor(number))
        for one in user[weight > 0].tolist():
            batches_of.setdefault(one, set()).add(number)
    assert {len(some) for some in batches_of.values()} == {1}


def test_more_parts_bring_more_users_into_a_batch() -> None:
    rows = random_rows(100, 60, 0.5, seed=2)
    means = []
    for parts in (1, 3, 9):
        made = parted(rows, parts=parts, batch_size=200)
        means.append(np.mean([len(set(made.users(number)[0].tolist())) for number in range(made.n_batches - 1)]))
    assert means[1] > 2 * means[0]
    assert means[2] > 2 * means[1]


def test_triples_of_few_users_depend_on_seed_and_epoch_alone() -> None:
    def drawn(made: UserTriples) -> list[object]:
        return [one.tolist() for one in (made.user, made.item, made.negatives, made.weight)]

    first = drawn(parted())
    again = parted(epoch=5)
    again.prepare(1)
    assert drawn(again) == first, "whatever was drawn before"
    assert drawn(parted(epoch=2)) != first
    assert drawn(parted(seed=4)) != first


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(1, 100), st.integers(1, 60), st.integers(0, 99)
)
def test_there_are_batches_enough_for_any_order(counts: list[int], batch_size: int, parts: int, seed: int) -> None:
    """`prepare` says so itself; and hardly more than are needed: all but the last few have their share of the rows."""
    rows = Interactions.from_pairs(
        [*((f"u{user}", f"i{item}") for user, n in enumerate(counts) for item in range(n)), ("another", "only theirs")]
    )
    made = UserTriples(rows, parts=parts, batch_size=batch_size, seed=seed, device=CPU)
    made.prepare(1)
    largest = -(-max(counts) // min(parts, max(counts)))
    assert made.batch_size == min(max(batch_size, 2 * largest), len(rows))
    filled = (made.weight.reshape(made.n_batches, -1) > 0).sum(dim=1)
    assert int(filled.sum()) == len(rows), "everybody lacks something"
    share = len(rows) / made.n_batches
    used = int((filled > 0).sum())
    assert (filled[: used - 1] >= share).all()
    assert used >= len(rows) / (share + largest)


@pytest.mark.parametrize("name", edges())
def test_triples_of_few_users_at_the_edge(name: str) -> None:
    rows = edges()[name]
    made = parted(rows, batch_size=2)
    assert all(len(made.users(number)[0]) for number in range(made.n_batches))
    assert made.n_batches >= bool(len(rows))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(1, 5), st.integers(0, 2**64 - 1))
def test_parts_are_dealt_and_laid_out_alike_by_both_kernels(counts: list[int], n_parts: int, key: int) -> None:
    """A user's parts are as equal as can be."""
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    n, n_rows = len(counts), int(indptr[-1])
    bits = np.array([seeds.domain_bits(one) for one in counts], dtype=np.int64)
    numbers = np.random.default_rng(1).permutation(n * n_parts).reshape(n_parts, n)
    found = []
    for module in (pairs_cpu, pairs_plain):
        part, place = np.empty((2, n_rows), dtype=np.int64)
        sizes = np.zeros(n * n_parts, dtype=np.int64)
        module.deal_parts(seeds.rounds(key), indptr, bits, numbers, part, sizes)
        free = 1000 * np.arange(n * n_parts)
        module.lay_out(part, free, place)
        found.append([part.tolist(), place.tolist(), sizes.tolist(), free.tolist()])
    assert found[0] == found[1]
    part, place, sizes, free = (np.array(one, dtype=np.int64) for one in found[0])
    assert len(set(place.tolist())) == n_rows
    assert (1000 * np.arange(n * n_parts) + sizes).tolist() == free.tolist()
    for user, own in enumerate(numbers.T):
        rows = part[indptr[user] : indptr[user + 1]]
        assert set(rows.tolist()) <= set(own.tolist()), "its own parts"
        assert np.ptp(sizes[own]) <= 1


# ---------------------------------------------------------------------- the rows of a batch of users as a table


@pytest.mark.parametrize("batch_size", [1, 4, 1000])
def test_tables_of_users_hold_the_rows_of_the_same_batches(batch_size: int) -> None:
    plain = UserBatches(ROWS, batch_size=batch_size, seed=3, device=CPU)
    table = UserTables(ROWS, batch_size=batch_size, seed=3, device=CPU)
    assert plain.n_batches == table.n_batches
    for epoch in (1, 2):
        plain.prepare(epoch)
        table.prepare(epoch)
        for number in range(plain.n_batches):
            user, place, item = plain.batch(number)
            everybody, real, held = table.batch(torch.tensor(number))
            assert everybody[real > 0].tolist() == user.tolist()
            assert len(everybody) == table.batch_size
            cells = sorted(zip(place.tolist(), item.tolist(), strict=True))
            assert [(row, column) for row, column in held[real > 0].nonzero().tolist()] == cells


# ---------------------------------------------------------------------- the rows of a batch of users in slots


def same_rows(rows: Interactions, batch_size: int, epochs: range) -> list[int]:
    """Hold slots to batches as they are; return how many slots were filled in each."""
    plain = UserBatches(rows, batch_size=batch_size, seed=3, device=CPU)
    slots = UserRows(rows, batch_size=batch_size, seed=3, device=CPU)
    assert plain.n_batches == slots.n_batches
    filled = []
    for epoch in epochs:
        plain.prepare(epoch)
        slots.prepare(epoch)
        found = []
        for number in range(plain.n_batches):
            expected, of_user, own = plain.batch(number)
            user, real, place, item, weight = slots.batch(torch.tensor(number))
            assert (len(user), len(real)) == (slots.batch_size, slots.batch_size)
            assert {len(one) for one in (place, item, weight)} == {slots.n_slots}
            assert torch.equal(user[real > 0], expected), "the same users in the same order"
            n = len(own)
            assert torch.equal(weight, (torch.arange(slots.n_slots) < n).to(torch.float32))
            assert torch.equal(place[:n], of_user)
            assert torch.equal(item[:n], own)
            assert not place[n:].any()
            assert not item[n:].any()
            found += list(zip(user[place[:n]].tolist(), item[:n].tolist(), strict=True))
            filled.append(n)
        assert sorted(found) == pairs(rows), "every row once"
    return filled


@pytest.mark.parametrize("batch_size", [1, 4, 25, 1000])
def test_slots_of_users_hold_the_rows_of_the_same_batches(batch_size: int) -> None:
    same_rows(ROWS, batch_size, range(1, 4))


@pytest.mark.parametrize("name", edges())
def test_slots_of_users_at_the_edge(name: str) -> None:
    same_rows(edges()[name], 2, range(1, 3))


@given(st.lists(st.integers(1, 300), min_size=1, max_size=12), st.integers(1, 14), st.integers(1, 1000))
def test_there_are_slots_enough_for_any_order(counts: list[int], batch_size: int, epoch: int) -> None:
    """As many as the users with most rows need, and hardly more: the rows alone decide."""
    rows = Interactions.from_pairs([(f"u{user}", f"i{item}") for user, n in enumerate(counts) for item in range(n)])
    most = sum(sorted(counts)[-batch_size:])
    n_slots = UserRows.slots(rows, batch_size)
    assert most <= n_slots < most + 128
    assert max(same_rows(rows, batch_size, range(epoch, epoch + 2))) <= most


def test_slots_are_filled_to_the_last_in_some_epoch() -> None:
    """Users of 127, 65, 63 and 1 rows, two at a time: in slots for 192."""
    counts = (127, 65, 63, 1)
    rows = Interactions.from_pairs([(f"u{user}", f"i{item}") for user, n in enumerate(counts) for item in range(n)])
    assert UserRows.slots(rows, 2) == 256
    assert UserRows.slots(rows.take(rows.user_index > 0), 2) == 128
    assert max(same_rows(rows, 2, range(1, 50))) == 192
    assert max(same_rows(rows.take(rows.user_index > 0), 2, range(1, 50))) == 128, "not one slot is empty"


def test_what_a_captured_step_reads_of_slots_is_refilled_in_place() -> None:
    slots = UserRows(ROWS, batch_size=4, seed=3, device=CPU)
    slots.prepare(1)
    names = ("_user", "_place", "_item", "_edges")
    buffers = [getattr(slots, name) for name in names]
    before = [one.clone() for one in buffers]
    slots.prepare(2)
    assert all(getattr(slots, name) is one for name, one in zip(names, buffers, strict=True))
    assert not any(torch.equal(one, other) for one, other in zip(before, buffers, strict=True))


def test_slots_pay_where_a_table_would_be_nearly_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs_of_few = [(f"u{user:03}", f"i{(7 * user + 11 * n) % 1000:03}") for user in range(400) for n in range(5)]
    sparse = Interactions.from_pairs(pairs_of_few)
    assert UserRows.slots(sparse, 128) == 640
    assert 128 * len(sparse.items) > 16 * 640
    assert UserRows.pays(sparse, 128)
    assert not UserRows.pays(ROWS, 16), "of 18 items a user has a third"
    assert not UserRows.pays(Interactions.empty(), 16)
    monkeypatch.setattr(of_batches, "MOST_SLOTS", 639)
    assert not UserRows.pays(sparse, 128)


def test_parts_are_dealt_alike_by_any_number_of_threads() -> None:
    """Thousands of users, so that several threads are at work at once: a part is one user's, and counted by one."""
    counts = np.random.default_rng(1).integers(1, 40, 4000)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    bits = np.array([seeds.domain_bits(int(n)) for n in counts], dtype=np.int64)
    numbers = np.random.default_rng(2).permutation(3 * len(counts)).reshape(3, -1)
    found = []
    before = threads()
    try:
        for number in (1, 2, 2):
            use_threads(number)
            part, sizes = np.empty(indptr[-1], dtype=np.int64), np.zeros(numbers.size, dtype=np.int64)
            pairs_cpu.deal_parts(seeds.rounds(7), indptr, bits, numbers, part, sizes)
            found.append(part.tobytes() + sizes.tobytes())
    finally:
        use_threads(before)
    assert found[0] == found[1] == found[2]
    assert sizes.sum() == counts.sum()
