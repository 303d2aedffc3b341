"""A solve that sets out from a core of the users: which way is taken and told, what is kept, and the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from receraser import seeds
from receraser.changes import without
from receraser.data.interactions import Interactions
from receraser.engine import Engine
from receraser.erasure.plan import CORE, REFIT
from receraser.erasure.request import ForgetRequest
from receraser.fitting import Fitting
from receraser.models.gram import Gram
from tests.contracts.worlds import bits, blocks, random_rows
from tests.forgetting.engines import (
    Book,
    Combination,
    Here,
    differences,
    planned_for,
    rows_of,
    start_of,
    state_of,
    tensors,
)

WORLD = blocks(40, 12, 2)
COMBINATION = Combination("whole", "alone", "gram", hyperparameters={"pairs_per_row": 0.0, "core_rows": 3.0})
POLISHED = Combination("whole", "alone", "gram", hyperparameters={"polish": 1, "core_rows": 3.0})
ROWS = random_rows(400, 90, 0.1, seed=1)


def fitted(combination: Combination = COMBINATION) -> tuple[Engine, Book]:
    engine = combination.engine().fit(WORLD.train, valid=WORLD.held_out)
    return engine, Book(combination, engine, WORLD.train.pairs(), WORLD.held_out.pairs())


def members(book: Book) -> tuple[list[str], list[str]]:
    """Users of the core, and the others."""
    users = sorted({user for user, _ in book.train})
    core = [user for user in users if book._of_core([(user, "")])]
    return core, [user for user in users if user not in core]


def known(engine: Engine) -> int:
    """How many tasks were handed what the solve sets out from."""
    executor = engine._executor
    assert isinstance(executor, Here)
    return sum(1 for task in executor.ran if task.arrays)


@pytest.mark.parametrize("combination", [COMBINATION, POLISHED], ids=str)
def test_the_way_and_what_is_used_again(combination: Combination) -> None:
    """The core's own rows, and whatever touches one of them, are a refit; all else sets out from where it did."""
    engine, book = fitted(combination)
    assert 0 < book.core < 1
    core, others = members(book)
    assert len(core) > 3 < len(others)
    first = start_of(engine)
    assert first
    steps: list[tuple[ForgetRequest, str]] = [
        (ForgetRequest.of(users=others[:1]), CORE),
        (ForgetRequest.of(users=core[:1]), REFIT),
        (ForgetRequest.of(users=others[1:3]), CORE),
        (ForgetRequest.of(interactions=[pair for pair in book.train if pair[0] == others[3]][:1]), CORE),
        (ForgetRequest.of(users=[others[4], core[1]]), REFIT),
        (ForgetRequest.of(interactions=[pair for pair in book.train if pair[0] == core[2]][:1]), REFIT),
        (ForgetRequest.of(items=["i03"]), REFIT),
    ]
    uses = 0
    for request, path in steps:
        before = start_of(engine)
        assert engine.forget_request(request, dry_run=True).path == path
        assert engine.forget_request(request).path == path
        assert book.forget(request)["path"] == path
        assert differences(engine, book.fresh()) == []
        uses += path == CORE
        assert known(engine) == uses
        assert (start_of(engine) is before) == (path == CORE)


def test_rows_that_join() -> None:
    engine, book = fitted(Combination("whole", "alone", "gram", 1, {"pairs_per_row": 0.0, "core_rows": 1.2}))
    core, others = members(book)
    new = next(name for name in (f"n{number}" for number in range(99)) if not book._of_core([(name, "")]))
    for rows, path in (
        ([(new, "a00"), (new, "i00"), (new, "i05x"), (new, "i99")], CORE),  # items that nobody had, in every place
        ([(others[0], "i98"), (others[0], "a01")], CORE),
        ([(core[0], "i97")], REFIT),
        ([(others[1], "i02x")], CORE),
    ):
        report = engine.add(rows_of(rows))
        assert report.path == path == book.add(rows, engine)["path"]
        assert differences(engine, book.fresh()) == []
    gone = ForgetRequest.of(users=[new], interactions=[(others[1], "i02x")])  # and with them items
    assert engine.forget_request(gone).path == CORE == book.forget(gone)["path"]
    assert known(engine) == 4
    assert differences(engine, book.fresh()) == []


def test_a_validation_row_is_nobody_s_core() -> None:
    """Nothing is learned from it; whoever it belongs to, the solve sets out from where it did."""
    engine, book = fitted()
    assert book.valid
    own = next(pair for pair in book.valid if book._of_core([pair]))
    gone = ForgetRequest.of(interactions=[own])
    assert engine.forget_request(gone).path == CORE == book.forget(gone)["path"]
    assert differences(engine, book.fresh()) == []


@pytest.mark.parametrize("number", range(12))
def test_whatever_comes_and_goes(number: int) -> None:
    """Users, items, single rows and newcomers, in any order: the state is that of a fresh fit, and the path as told."""
    rng = np.random.default_rng(number)
    settings = {
        "pairs_per_row": float(rng.choice([0.0, 0.0, 0.7])),
        "core_rows": float(rng.choice([0.3, 0.8, 2.0, 4.0])),
    }
    engine, book = fitted(Combination("whole", "alone", "gram", 1, {**settings, "rank": int(rng.integers(1, 6))}))
    paths = set()
    for _ in range(5):
        users, items = sorted({u for u, _ in book.train}), sorted({i for _, i in book.train})
        if rng.random() < 0.3:
            rows = [(str(rng.choice([*users, "new", "9", "10"])), str(rng.choice([*items, "a00", "i05x", "zz"])))]
            told = engine.add(rows_of(rows)).path, book.add(rows, engine)["path"]
        else:
            some = {
                "users": rng.choice(users, rng.integers(0, 3)).tolist(),
                "items": rng.choice(items, int(rng.random() < 0.2)).tolist(),
                "interactions": [list(book.train)[at] for at in rng.integers(0, len(book.train), rng.integers(0, 3))],
            }
            request = ForgetRequest.of(**some)
            told = engine.forget_request(request).path, book.forget(request)["path"]
        assert told[0] == told[1]
        paths.add(told[0])
        assert differences(engine, book.fresh()) == []
    assert paths


def test_random_walks_meet_both_ways() -> None:
    """Most of the worlds above have a core, and others than the core's; the hash may happen to choose nobody."""
    found = []
    for core_rows in (0.3, 0.8, 2.0, 4.0):
        _, book = fitted(Combination("whole", "alone", "gram", 1, {"pairs_per_row": 0.0, "core_rows": core_rows}))
        found.append(all(members(book)) and book.core < 1)
    assert sum(found) >= 3


def test_a_core_of_another_share_is_another_core() -> None:
    """So many go, none of them the core's, that the core has to be a larger part of those who are left."""
    engine, book = fitted(Combination("whole", "alone", "gram", 1, {"pairs_per_row": 0.0, "core_rows": 1.5}))
    _, others = members(book)
    share, most = book.core, ForgetRequest.of(users=others[:-1])
    assert book._combination.core([pair for pair in book.train if pair[0] not in others[:-1]]) > share
    assert engine.forget_request(most).path == REFIT
    book.forget(most)
    assert differences(engine, book.fresh()) == []


def test_every_way_leads_to_the_same_state() -> None:
    engine, book = fitted()
    state = state_of(engine)
    request = ForgetRequest.of(users=members(book)[1][:2])
    planned = planned_for(state, request)
    book.forget(request)
    fresh = book.fresh()
    for path in (CORE, REFIT):
        with Fitting(engine.config, Here(), n_tasks=1, partitions=False, progress=None) as fitting:
            engine._fitted = fitting.changed(state, without(state, planned), path)
        assert differences(engine, fresh) == []


def test_it_is_kept_in_memory_alone(tmp_path: Path) -> None:
    """What is not stored need not be destroyed: whoever opens a store computes it, and has it from then on."""
    engine, book = fitted()
    others = members(book)[1]
    engine.save(tmp_path / "s")
    start = start_of(engine)
    assert start
    assert {array.shape[1] for array in tensors(tmp_path / "s")} == {3}
    loaded = Engine.load(tmp_path / "s", executor=Here())
    assert start_of(loaded) is None
    assert [loaded.forget([user]).path for user in others[:2]] == [REFIT, CORE]
    book.forget(ForgetRequest.of(users=others[:2]))
    assert differences(loaded, book.fresh()) == []


def test_in_shards_nothing_is_kept() -> None:
    combination = Combination("hash", "spectral", "gram", 2, {"pairs_per_row": 0.0, "core_rows": 1.0})
    engine, book = fitted(combination)
    assert all(one.start is None for one in state_of(engine).shards)
    engine.forget(["u03"])
    book.forget(ForgetRequest.of(users=["u03"]))
    assert differences(engine, book.fresh()) == []


# ---------------------------------------------------------------------- the model


def model(**settings: float) -> Gram:
    return Gram(rank=6, pairs_per_row=0.0, **{"core_rows": 8.0, **settings})  # type: ignore[arg-type]


def in_core(rows: Interactions, share: float, seed: int = 3) -> NDArray[np.bool_]:
    """Which rows are of users whom the hash chooses."""
    drawn = seeds.uniform(seeds.derive(seed, "core"), seeds.id_counters(rows.users))
    return np.asarray((drawn < share)[rows.user_index])


def test_where_it_sets_out_from_is_a_function_of_the_core_alone() -> None:
    """Others may have any rows: nothing in it moves but that their items have zeros."""
    own = model()
    share = own.core_share(ROWS)
    assert share == 0.25
    chosen = in_core(ROWS, share)
    other = random_rows(400, 99, 0.1, seed=9)
    mixed = Interactions.union([ROWS.take(chosen), other.take(~in_core(other, share))])
    assert own.core_share(mixed) == share
    one, another = (np.asarray(own.start(rows, 3)["columns"]) for rows in (ROWS, mixed))
    at = mixed.items.indices(ROWS.items)
    assert np.array_equal(another[at], one)
    assert not np.delete(another, at, axis=0).any()
    assert one.any(axis=1).all(), "every item is in the core here"
    assert not np.array_equal(own.start(ROWS, 4)["columns"], one), "another seed chooses another core"


def test_the_answer_is_that_of_a_solve_from_nothing_nearly() -> None:
    """Of a world of six tastes and some noise."""
    u, i = np.divmod(np.arange(1500 * 120), 120)
    chance = np.where(u % 6 == i % 6, 0.5, 0.05)
    chosen = np.random.default_rng(2).random(len(u)) < chance
    rows = Interactions.from_columns(u[chosen].tolist(), i[chosen].tolist())
    found, expected = (
        np.asarray(model(core_rows=one).fit(rows, seed=1).state()["item_vectors"], dtype=np.float64)
        for one in (40.0, 0.0)
    )
    assert not np.array_equal(found, expected)
    off = np.linalg.norm(found @ found.T - expected @ expected.T) / np.linalg.norm(expected @ expected.T)
    assert off < 1e-3


def test_items_that_share_nobody_with_the_core_are_not_left_out() -> None:
    """Nor is everybody, where the core is empty: there the solve sets out from nothing."""
    own = Interactions.from_pairs(
        [(f"u{u}", f"i{i}") for u in range(300) for i in range(12) if (u + i) % 3]
        + [(f"v{u}", f"j{i}") for u in range(8) for i in range(5) if (u + i) % 2]
    )
    for seed in range(200):
        if not in_core(own, model(core_rows=20.0).core_share(own), seed)[[u[0] == "v" for u, _ in own.pairs()]].any():
            break
    else:
        pytest.fail("no seed has them all outside of the core")
    one = model(core_rows=20.0)
    assert one.start(own, seed)
    lengths = np.linalg.norm(np.asarray(one.fit(own, seed=seed).state()["item_vectors"], dtype=np.float64), axis=1)
    assert (lengths > 0.1).all()
    few = own.take(~in_core(own, 1 / 16, seed))
    nobody = model(core_rows=0.5)
    assert nobody.core_share(few) <= 1 / 16
    assert nobody.start(few, seed) == {}
    assert np.asarray(nobody.fit(few, seed=seed).state()["item_vectors"]).any(axis=1).all()


def test_fits_are_those_of_their_two_halves() -> None:
    whole, halves = model(), model()
    start = halves.start(ROWS, 5)
    assert start
    assert bits(whole.fit(ROWS, seed=5)) == bits(halves.fit_from(ROWS, start, seed=5))
    assert bits(model(core_rows=0.0).fit(ROWS, seed=5)) != bits(whole)


def test_where_sums_are_kept_there_is_no_core() -> None:
    assert Gram(rank=6, core_rows=8.0, pairs_per_row=1e9).start(ROWS, 1) == {}
    assert model(core_rows=0.0).start(ROWS, 1) == {}
    assert model().start(Interactions.empty(), 1) == {}
