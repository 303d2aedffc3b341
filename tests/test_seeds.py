from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from receraser import seeds

WORDS = st.integers(0, 2**64 - 1)


def positions(n: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    return np.arange(n, dtype=np.uint64)


def test_known_answers() -> None:
    """Every published digest rests on these numbers: they may never change."""
    assert seeds.derive(0) == 0x386FC8FF66EBEC5F
    assert seeds.derive(7, "shard", 3) == 0xF559A5595FC04CB3
    assert seeds.id_counters(["", "a", "é"]).tolist() == [0xB4B2797457A0A6E4, 0x2F42665B399EF840, 0x2F19F3EF8BBF1ACB]
    assert seeds.below(5, positions(6), 10).tolist() == [3, 7, 2, 0, 1, 3]
    assert seeds.uniform(5, positions(2)).tolist() == [0.386768045983934, 0.7523070158382239]
    assert seeds.permutation(5, 8).tolist() == [3, 4, 2, 5, 0, 7, 1, 6]
    assert seeds.places(5, 8).tolist() == [0, 5, 7, 1, 6, 3, 2, 4]
    assert seeds.places(2**64 - 1, 300)[:8].tolist() == [122, 8, 289, 4, 19, 237, 234, 216]
    assert seeds.places(7, 1000)[[0, 1, 500, 999]].tolist() == [739, 938, 727, 165]
    assert seeds.normal(5, positions(2), 3).tolist() == [
        [-0.9244599342346191, 0.2762887477874756, -1.4020583629608154],
        [0.7162258625030518, 0.6982277035713196, 1.5460699796676636],
    ]


def test_draws_are_the_published_outputs_of_splitmix64() -> None:
    assert seeds.draw(1234567, positions(5)).tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_derive_tells_paths_apart() -> None:
    paths: list[tuple[str | int, ...]] = [
        (),
        ("a",),
        ("a", "b"),
        ("ab",),
        ("1",),
        (1,),
        ("a", 1),
        ("a", "1"),
        ("b", "a"),
    ]
    keys = {seeds.derive(root, *path) for root in (0, 1, -1) for path in paths}
    assert len(keys) == 3 * len(paths)
    assert all(0 <= key < 2**64 for key in keys)


def test_a_counter_belongs_to_its_id_alone() -> None:
    together = seeds.id_counters(["a", "b", "c"])
    assert together[::-1].tolist() == seeds.id_counters(["c", "b", "a"]).tolist()
    assert seeds.id_counters(["b"])[0] == together[1]
    assert seeds.id_counters([]).shape == (0,)
    assert seeds.id_counters(["9"]) != seeds.id_counters(["09"])


@given(WORDS, st.lists(WORDS, max_size=20))
def test_torch_draws_the_same_bits_as_numpy(key: int, counters: list[int]) -> None:
    array = np.array(counters, dtype=np.uint64)
    from_torch = seeds.draw_torch(key, torch.from_numpy(array.view(np.int64)))
    assert from_torch.numpy().view(np.uint64).tolist() == seeds.draw(key, array).tolist()


@given(WORDS, WORDS)
def test_a_draw_stands_alone(key: int, counter: int) -> None:
    """The same counter gives the same draw beside whatever others, in whatever place."""
    alone = seeds.draw(key, np.array([counter], dtype=np.uint64))
    among = seeds.draw(key, np.array([5, counter, 0], dtype=np.uint64))
    assert alone[0] == among[1]


@given(WORDS, st.integers(1, 2**31))
def test_below_stays_in_bounds(key: int, bound: int) -> None:
    values = seeds.below(key, positions(50), bound)
    assert values.min() >= 0
    assert values.max() < bound
    mixed = seeds.below(key, positions(50), np.array([bound, 1] * 25))
    assert mixed[::2].tolist() == values[::2].tolist()
    assert not mixed[1::2].any()


def test_below_is_even() -> None:
    counts = np.bincount(seeds.below(3, positions(100_000), 10), minlength=10)
    assert np.abs(counts - 10_000).max() < 500


def test_uniform_lies_in_the_unit_interval() -> None:
    values = seeds.uniform(3, positions(100_000))
    assert values.min() >= 0
    assert values.max() < 1
    assert values.mean() == pytest.approx(0.5, abs=0.005)
    assert ((values * 2.0**53) % 1 == 0).all()


def test_normal_has_the_moments_of_a_normal_distribution() -> None:
    table = seeds.normal(3, seeds.id_counters(str(i) for i in range(5000)), 40)
    assert table.shape == (5000, 40)
    assert table.dtype == np.float32
    wide = table.astype(np.float64)
    assert wide.mean() == pytest.approx(0, abs=0.01)
    assert wide.var() == pytest.approx(1, abs=0.01)
    assert (wide**3).mean() == pytest.approx(0, abs=0.03)
    assert (wide**4).mean() == pytest.approx(2.7, abs=0.05), (
        "the sum of four uniforms: a little flatter than normal's 3"
    )
    assert np.abs(wide).max() < 3.47
    assert np.abs(np.corrcoef(wide.T) - np.eye(40)).max() < 0.08


def test_a_row_of_normals_belongs_to_its_id_alone() -> None:
    counters = seeds.id_counters(["a", "b"])
    assert seeds.normal(3, counters, 4)[1].tolist() == seeds.normal(3, counters[1:], 4)[0].tolist()
    assert seeds.normal(3, counters, 4).tolist() == seeds.normal(3, counters, 8)[:, :4].tolist()


@given(WORDS, st.integers(0, 200))
def test_a_permutation_holds_every_position_once(key: int, n: int) -> None:
    assert sorted(seeds.permutation(key, n).tolist()) == list(range(n))


def test_permutations_differ_by_key() -> None:
    orders = {tuple(seeds.permutation(key, 6).tolist()) for key in range(2000)}
    assert len(orders) > 650, "of 720 orders nearly all are seen"


def place_by_hand(key: int, n: int, row: int) -> int:
    """Where a row goes, in plain integers: a Feistel network of four rounds, walked until the place is one of the n."""

    def mixed(round_: int, value: int) -> int:
        return int(seeds.draw(int(seeds.draw(key, np.array([round_]))[0]), np.array([value]))[0])

    bits = max(8, (n - 1).bit_length())
    low, high = bits // 2, bits - bits // 2
    place: int = row
    while True:
        left, right = place >> low, place % 2**low
        for round_ in range(4):
            if round_ % 2 == 0:
                left = (left ^ mixed(round_, right)) % 2**high
            else:
                right = (right ^ mixed(round_, left)) % 2**low
        place = (left << low) + right
        if place < n:
            return place


@given(WORDS, st.integers(0, 300))
def test_everybody_has_a_place_of_their_own(key: int, n: int) -> None:
    places = seeds.places(key, n)
    assert places.dtype == np.int64
    assert sorted(places.tolist()) == list(range(n))


@given(WORDS, st.integers(1, 5000), st.data())
def test_a_place_is_computed_for_itself(key: int, n: int, data: st.DataObject) -> None:
    row = data.draw(st.integers(0, n - 1))
    assert seeds.places(key, n)[row] == place_by_hand(key, n, row)


@pytest.mark.parametrize("bits", [8, 9, 12])
def test_places_at_the_edge_of_a_power_of_two(bits: int) -> None:
    for n in (2**bits - 1, 2**bits, 2**bits + 1):
        assert sorted(seeds.places(3, n).tolist()) == list(range(n))
    assert [seeds.domain_bits(n) for n in (2**bits - 1, 2**bits, 2**bits + 1)] == [bits, bits, bits + 1]


def test_places_differ_by_key() -> None:
    orders = np.array([seeds.places(key, 200) for key in range(200)])
    assert len({tuple(order.tolist()) for order in orders}) == 200
    assert np.abs(orders.mean(axis=0) - 99.5).max() < 20, "nobody is mostly at the front"
    assert np.abs(np.corrcoef(orders)[np.triu_indices(200, 1)]).max() < 0.4, "no order is like another"
