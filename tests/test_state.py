from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch

from receraser import fingerprint
from receraser.aggregation.weighted import WeightedSum
from receraser.data.ids import IdMap
from receraser.data.interactions import Histories, Interactions
from receraser.fingerprint import Tensors
from receraser.partition.partition import Shard
from receraser.partition.registry import PARTITIONS
from receraser.state import FittedShard, ShardReport, State
from tests.contracts.worlds import blocks
from tests.forgetting.engines import Combination
from tests.store.conftest import CONFIG, SHARDS, fitted_shard, state_of

STATE = state_of("a")
LANDMARKS = STATE.partition.landmarks
assert LANDMARKS is not None


def with_partition(**changes: Any) -> State:
    return replace(STATE, partition=replace(STATE.partition, **changes))


def with_landmarks(**changes: Any) -> State:
    assert LANDMARKS is not None
    return with_partition(landmarks=replace(LANDMARKS, **changes))


def with_shard(change: Callable[[FittedShard], FittedShard], number: int = 0) -> State:
    shards = list(STATE.shards)
    shards[number] = change(shards[number])
    return replace(STATE, shards=shards)


def with_config(**changes: Any) -> State:
    """Another configuration, of the state and of its shards."""
    config = replace(CONFIG, **changes)
    return replace(STATE, config=config, shards=[replace(one, config=config) for one in STATE.shards])


def moved(one: FittedShard) -> FittedShard:
    """A single weight, by the least that a float can differ."""
    state = {name: array.copy() for name, array in one.model.state().items()}
    state["item_vectors"][0, 0] = np.nextafter(state["item_vectors"][0, 0], np.float32(np.inf))
    return FittedShard.of(one.config, one.shard, state, facts=one.facts, seconds=one.seconds)


def one_more(rows: Interactions | None) -> Interactions:
    assert rows is not None
    return Interactions.union([rows, Interactions.from_pairs([("x", "a-item0")])])


def with_rows(change: Callable[[Shard], Shard]) -> State:
    """Other rows in the shards, the same weights."""
    return replace(STATE, shards=[replace(one, shard=change(one.shard)) for one in STATE.shards])


def moved_on(table: Literal["train", "valid"]) -> State:
    """The first row of the first shard lives in the second."""
    whole = getattr(STATE.shards[0].shard, table)
    first = np.arange(len(whole)) == 0

    def change(shard: Shard) -> Shard:
        own = getattr(shard, table)
        rows = {0: whole.take(~first), 1: Interactions.union([own, whole.take(first)])}
        return replace(shard, **{table: rows.get(shard.id, own)})

    return with_rows(change)


CHANGES: dict[str, Callable[[], State]] = {
    "a training row": lambda: with_shard(
        lambda one: replace(one, shard=replace(one.shard, train=one_more(one.shard.train)))
    ),
    "a training row of another shard": lambda: with_shard(
        lambda one: replace(one, shard=replace(one.shard, train=one_more(one.shard.train))), 1
    ),
    "a training row in a shard without rows": lambda: with_shard(
        lambda one: replace(one, shard=replace(one.shard, train=one_more(one.shard.train))), 2
    ),
    "a validation row": lambda: with_shard(
        lambda one: replace(one, shard=replace(one.shard, valid=one_more(one.shard.valid)))
    ),
    "no validation rows": lambda: with_rows(lambda shard: replace(shard, valid=None)),
    "no validation rows, but said so": lambda: with_rows(lambda shard: replace(shard, valid=Interactions.empty())),
    "where a row lives": lambda: moved_on("train"),
    "where a validation row lives": lambda: moved_on("valid"),
    "no landmarks": lambda: with_partition(landmarks=None),
    "an anchor": lambda: with_landmarks(anchors=np.full((SHARDS, 2), 97.5)),
    "a landmark": lambda: with_landmarks(vectors=np.full((4, 2), 98, dtype=np.float32)),
    "whose landmark it is": lambda: with_landmarks(ids=IdMap([*STATE.train.items.ids[:3], "other"])),
    "the seed": lambda: with_config(seed=4),
    "the model": lambda: with_config(model="bpr", hyperparameters={}),
    "a hyperparameter": lambda: with_config(hyperparameters=dict(CONFIG.hyperparameters) | {"patience": 11}),
    "the method": lambda: with_config(method="other"),
    "the partition": lambda: with_config(partition="ibp"),
    "a setting of the partition": lambda: with_config(partition_settings={"slack": 1.5}),
    "the aggregation": lambda: with_config(aggregation="mean"),
    "a setting of the aggregation": lambda: with_config(aggregation_settings={"n_epochs": 1}),
    "the device": lambda: with_config(device="cuda"),
    "the number of shards": lambda: with_config(shards=4),
    "a weight": lambda: with_shard(moved),
    "a weight of another shard": lambda: with_shard(moved, 1),
    "a training row and what was learned from it": lambda: with_shard(
        lambda one: fitted_shard(Shard(0, one_more(one.shard.train), one.shard.valid), 97.0)
    ),
    "two shards exchanged": lambda: replace(
        STATE,
        shards=[
            replace(STATE.shards[1], shard=replace(STATE.shards[1].shard, id=0)),
            replace(STATE.shards[0], shard=replace(STATE.shards[0].shard, id=1)),
            STATE.shards[2],
        ],
    ),
    "what the aggregation learned": lambda: replace(STATE, aggregate={"weights": np.ones(3, dtype=np.float32)}),
    "the name of what it learned": lambda: replace(STATE, aggregate={"another": STATE.aggregate["weights"]}),
    "something more that it learned": lambda: replace(
        STATE, aggregate={**STATE.aggregate, "more": np.zeros(0, dtype=np.float32)}
    ),
    "nothing learned": lambda: replace(STATE, aggregate={}),
}


@pytest.mark.parametrize("what", CHANGES)
def test_whatever_is_part_of_the_model_changes_the_digest(what: str) -> None:
    assert CHANGES[what]().digest != STATE.digest


def test_no_two_changes_look_alike() -> None:
    assert len({change().digest for change in CHANGES.values()}) == len(CHANGES)


@pytest.mark.parametrize(
    "changes",
    [
        {"environment": {"python": "4"}},
        {"inherited": True},
        {"kept_old": True},
        {"aggregate_facts": {}},
        {"aggregate_files": {"weights": "x"}},
        {"seconds": {}},
        {"shards": [replace(one, facts={}, seconds=9.0, files={"train": "x"}) for one in STATE.shards]},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_is_only_told_does_not(changes: dict[str, Any]) -> None:
    assert replace(STATE, **changes).digest == STATE.digest


def test_every_field_is_either_digested_or_only_told() -> None:
    """Whoever adds a field decides on which side it is."""
    digested = {"config", "partition", "shards", "aggregate"}
    shard_by_shard = {"train", "valid"}  # and what the partition says of each row: see the next test
    told = {"environment", "inherited", "kept_old", "aggregate_facts", "aggregate_files", "seconds"}
    assert {spec.name for spec in dataclasses.fields(State)} == digested | shard_by_shard | told


def in_shards(state: State) -> tuple[object, ...]:
    """All rows, and the shard of each, by what the shards hold."""
    train, of_train = Interactions.joined([one.shard.train for one in state.shards])
    held = [one.shard.valid for one in state.shards if one.shard.valid is not None]
    if not held:
        return train, of_train.tolist(), None, None
    assert len(held) == len(state.shards)
    valid, of_valid = Interactions.joined(held)
    return train, of_train.tolist(), valid, of_valid.tolist()


def in_tables(state: State) -> tuple[object, ...]:
    """The same, by the tables and the partition."""
    of_valid = None if state.partition.valid is None else state.partition.valid.tolist()
    return state.train, state.partition.train.tolist(), state.valid, of_valid


@pytest.mark.parametrize("partition", ["hash", "ubp"])
def test_the_shards_hold_the_tables_and_the_assignment(partition: str) -> None:
    """So whoever digests the shards' rows digests both: after a fit, a forget, an add and a rebuild."""
    world = blocks(12, 15, 3)
    engine = Combination(partition, "mean", "wmf", shards=4).engine().fit(world.train, valid=world.held_out)
    users = list(world.train.users)
    seen = [in_tables(engine._state())]
    assert in_shards(engine._state()) == seen[-1]
    for act in (
        lambda: engine.forget(users[:2]),
        lambda: engine.add(Interactions.from_pairs([(users[0], "i00"), ("somebody", "i01")])),
        engine.rebuild,
    ):
        act()
        seen.append(in_tables(engine._state()))
        assert in_shards(engine._state()) == seen[-1]
    assert seen[0] != seen[1] != seen[2], "something has changed each time"


def test_equal_content_has_one_digest() -> None:
    state_of.cache_clear()
    assert state_of("a") is not STATE
    assert state_of("a").digest == STATE.digest


# ---------------------------------------------------------------------- what is known already


def from_nothing(state: State) -> str:
    """The digest, with nothing taken over that was computed before."""
    shards = [replace(one) for one in state.shards]
    aggregate = {name: array.copy() for name, array in state.aggregate.items()}
    fresh = replace(state, shards=shards, aggregate=aggregate)
    assert not {"digest", "aggregate_digests", "rows_digests"} & vars(fresh).keys()
    assert not {"report", "rows_digest"} & {name for one in shards for name in vars(one)}
    return fresh.digest


def test_a_state_after_a_forget_has_the_digest_of_one_that_nothing_is_known_of() -> None:
    """However many changes it has come through, each of which keeps what the last one knew."""
    world = blocks(24, 30, 3)
    engine = Combination("hash", "spectral", "wmf", shards=8).engine().fit(world.train, valid=world.held_out)
    for user in list(world.train.users)[:3]:
        was = engine._state()
        assert was.digest == from_nothing(was)
        engine.forget([user])
        state = engine._state()
        kept = [name for name, array in state.aggregate.items() if array is was.aggregate.get(name)]
        assert len(kept) > len(state.aggregate) / 2, "the nodes below which no shard has changed"
        assert all(state.aggregate_digests[name] is was.aggregate_digests[name] for name in kept)
        assert state.digest == from_nothing(state) != was.digest


@pytest.fixture
def digested(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the tensors whose bytes are looked at."""
    names: list[str] = []

    def counted(tensors: Tensors) -> str:
        names.extend(tensors)
        return fingerprint_of_tensors(tensors)

    fingerprint_of_tensors = fingerprint.of_tensors
    monkeypatch.setattr(fingerprint, "of_tensors", counted)
    return names


def test_only_what_is_new_is_digested_again(digested: list[str]) -> None:
    shared, changed, equal = (np.arange(4, dtype=np.float32) + k for k in range(3))
    files = {"shared": "f" * 64, "changed": "e" * 64, "equal": "d" * 64, "gone": "c" * 64}
    learned = {"shared": shared, "changed": changed, "equal": equal, "gone": shared}
    was = replace(STATE, aggregate=learned, aggregate_files=files)
    assert was.aggregate_digests.keys() == learned.keys()
    digested.clear()
    now = replace(STATE, aggregate={"shared": shared, "changed": changed + 1, "equal": equal.copy(), "new": changed})
    kept = now.keeping(was)
    assert kept.aggregate_files == {"shared": files["shared"]}, "the same array, and not only an equal one"
    assert kept.digest
    assert [name for name in digested if name in (*learned, "new")] == ["changed", "equal", "new"]
    assert kept.digest == from_nothing(now)


# ---------------------------------------------------------------------- levels


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("inherited", [False, True])
@pytest.mark.parametrize("kept_old", [False, True])
def test_levels(partition: str, inherited: bool, kept_old: bool) -> None:
    """L1 where an assignment that looked at rows outlived some of them; L2 where an old state was kept; else L3."""
    config = replace(CONFIG, partition=partition)
    state = replace(STATE, config=config, inherited=inherited, kept_old=kept_old)
    if inherited and partition in ("ubp", "ibp", "inbp", "bekm", "blpa"):
        assert state.level == "L1"
    else:
        assert state.level == ("L2" if kept_old else "L3")


@pytest.mark.parametrize("inherited", [False, True])
def test_vectors_from_a_file_remember_what_they_were_learned_from(inherited: bool) -> None:
    config = replace(CONFIG, partition_settings=dict(CONFIG.partition_settings) | {"embeddings": "file"})
    assert replace(STATE, config=config, inherited=inherited).level == "L1"


def test_partitions_that_look_at_no_data() -> None:
    assert {name for name, one in PARTITIONS.items() if not one.remembers_data} == {"whole", "hash", "random"}


# ---------------------------------------------------------------------- shards and scores


def test_a_shard_in_numbers() -> None:
    one = STATE.shards[0]
    train = one.shard.train
    assert one.report == ShardReport(0, len(train), len(train.users), len(train.items), one.report.digest)
    assert (STATE.shards[2].report.rows, STATE.shards[2].report.users) == (0, 0)


def test_a_shards_digest_does_not_depend_on_the_others() -> None:
    """Nor on anything of the configuration but its model, its hyperparameters and its seed."""
    one = STATE.shards[0]
    for changes in ({"aggregation": "mean"}, {"partition": "hash"}, {"shards": 9}, {"method": "x"}):
        assert replace(one, config=replace(CONFIG, **changes)).report == one.report
    for other in (
        replace(one, config=replace(CONFIG, seed=9)),
        replace(one, config=replace(CONFIG, hyperparameters=dict(CONFIG.hyperparameters) | {"n_sweeps": 9})),
        moved(one),
    ):
        assert other.report.digest != one.report.digest


def test_a_fitted_shard_is_a_model_of_its_rows() -> None:
    one = STATE.shards[0]
    assert one.model.users_ == one.shard.train.users
    assert one.model.items_ == one.shard.train.items
    assert one.model.name == "wmf"
    assert one.model.hyperparameters()["dim"] == 2


def test_the_scorer_is_the_submodels_put_together() -> None:
    scorer = STATE.scorer
    assert isinstance(scorer, WeightedSum)
    assert scorer is STATE.scorer, "put together once"
    people = Histories.of(STATE.train.users.ids, STATE.train, scorer.items_)
    expected = torch.zeros((6, 4))
    for one in STATE.shards[:2]:
        rows = STATE.train.users.indices(one.model.users_)
        p, q = (torch.from_numpy(one.model.state()[name]) for name in ("user_vectors", "item_vectors"))
        expected[rows] += 97.0 * (p @ q.T)
    assert torch.allclose(scorer.scores(people), expected)


def test_a_state_without_shards_but_one() -> None:
    """The whole table in one shard: the submodel is the scorer."""
    config = replace(CONFIG, partition="whole", aggregation="alone", shards=1, aggregation_settings={})
    one = fitted_shard(Shard(0, STATE.train, None), 1.0, config)
    partition = replace(STATE.partition, n_shards=1, train=np.zeros_like(STATE.partition.train), valid=None)
    state = State(config, STATE.train, None, partition, [one], {}, {})
    assert state.scorer is one.model
    assert state.level == "L3"
