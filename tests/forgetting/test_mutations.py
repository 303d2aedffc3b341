"""The tests of equality can fail: ways in which published code remembers, put in on purpose, are all found out.

Each mutation is one leak. Without it the engine equals a fresh fit on the survivors; with it, it must not.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from receraser.changes import Change, Tables
from receraser.changes import without as without_as_it_is
from receraser.data.ids import IdMap
from receraser.data.interactions import Interactions
from receraser.engine import Engine
from receraser.erasure.plan import Plan
from receraser.erasure.plan import plan as plan_as_it_is
from receraser.erasure.request import ForgetRequest
from receraser.errors import TrainingError
from receraser.execution.task import Task
from receraser.fingerprint import Tensors
from receraser.fitting import Fitting
from receraser.models.factors import FactorModel
from receraser.models.factors import initial_vectors as vectors_as_they_are
from receraser.partition.partition import Landmarks, Partition, Shard
from receraser.seeds import derive as derive_as_it_is
from receraser.state import FittedShard, State
from receraser.training.counts import Pairs, user_weights
from receraser.training.counts import _moved as moved_as_it_is
from receraser.training.kernels import on_cpu
from receraser.training.krylov import draw_block as block_as_it_is
from tests.contracts.worlds import blocks
from tests.forgetting.engines import OF_SUMS, Book, Combination, Here, differences, state_of

WORLD = blocks(14, 12, 2)
TRAIN = Interactions.from_pairs([*WORLD.train.pairs(), ("u03", "exotic")])  # before all others
HELD_OUT = WORLD.held_out

Patch = pytest.MonkeyPatch
Mutate = Callable[[State, Callable[[], State]], State]


def around_a_change(patch: Patch, mutate: Mutate) -> None:
    """Let `mutate(old state, retrain)` make the new state."""
    original = Fitting.changed

    def changed(self: Fitting, state: State, change: Change, path: str) -> State:
        return mutate(state, lambda: original(self, state, change, path))

    patch.setattr(Fitting, "changed", changed)


def vectors_of(one: FittedShard) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    assert isinstance(one.model, FactorModel)
    return one.model.user_vectors_, one.model.item_vectors_


def the_aggregation_is_not_fitted_again(patch: Patch) -> None:
    around_a_change(patch, lambda old, retrain: dataclasses.replace(retrain(), aggregate=old.aggregate))


def an_affected_shard_keeps_its_submodel(patch: Patch) -> None:
    def mutate(old: State, retrain: Callable[[], State]) -> State:
        new = retrain()
        return dataclasses.replace(new, shards=[cut(*both) for both in zip(new.shards, old.shards, strict=True)])

    def cut(own: FittedShard, old: FittedShard) -> FittedShard:
        """The old vectors of who is left: what forgets by deleting from the tables."""
        users, items = vectors_of(old)
        state = {
            "user_vectors": users[old.model.users_.indices(own.model.users_)],
            "item_vectors": items[old.model.items_.indices(own.model.items_)],
        }
        return FittedShard.of(own.config, own.shard, state, facts=own.facts, seconds=own.seconds)

    around_a_change(patch, mutate)


def submodels_start_from_what_they_knew(patch: Patch) -> None:
    known: dict[tuple[str, str], NDArray[np.float32]] = {}

    def mutate(old: State, retrain: Callable[[], State]) -> State:
        for one in old.shards:
            users, items = vectors_of(one)
            known.update({("user", name): own for name, own in zip(one.model.users_, users, strict=True)})
            known.update({("item", name): own for name, own in zip(one.model.items_, items, strict=True)})
        new = retrain()
        known.clear()
        return new

    def initial_vectors(ids: IdMap, dim: int, scale: float, seed: int, purpose: str) -> NDArray[np.float32]:
        table = vectors_as_they_are(ids, dim, scale, seed, purpose)
        for row, name in enumerate(ids):
            table[row] = known.get((purpose, name), table[row])
        return table

    around_a_change(patch, mutate)
    patch.setattr("receraser.models.pairwise.initial_vectors", initial_vectors)


def everywhere_while_fitted(patch: Patch) -> list[Interactions | None]:
    """A place in which the tables of all rows, of training and of validation, lie while the shards are fitted."""
    seen: list[Interactions | None] = [None, None]
    original, original_changed = Fitting.state, Fitting.changed

    def state(
        self: Fitting, train: Interactions, valid: Interactions | None, *arguments: object, **named: object
    ) -> State:
        seen[:] = train, valid
        return original(self, train, valid, *arguments, **named)  # type: ignore[arg-type]

    def changed(self: Fitting, state: State, change: Change, path: str) -> State:
        seen[:] = change.tables[:2]
        return original_changed(self, state, change, path)

    patch.setattr(Fitting, "state", state)
    patch.setattr(Fitting, "changed", changed)
    return seen


def negatives_come_from_all_shards(patch: Patch) -> None:
    """What a shard draws depends on how many items there are elsewhere."""
    everywhere = everywhere_while_fitted(patch)

    def derived(seed: int, *path: int | str) -> int:
        assert everywhere[0] is not None
        return derive_as_it_is(seed, *path, len(everywhere[0].items))

    patch.setattr("receraser.fitting.derive", derived)


def a_vocabulary_is_shared(patch: Patch) -> None:
    """Every submodel also learns from a row of each item: nobody is left without a vector."""
    everywhere, original = everywhere_while_fitted(patch), Fitting.submodels

    def with_all_items(one: Shard) -> Shard:
        if not len(one.train):
            return one
        assert everywhere[0] is not None
        somebody = one.train.users.ids[0]
        shared = Interactions.from_pairs((somebody, item) for item in everywhere[0].items)
        return dataclasses.replace(one, train=Interactions.union([one.train, shared]))

    def submodels(self: Fitting, shards: Sequence[Shard], *arguments: object, **named: object) -> list[FittedShard]:
        fitted = original(self, [with_all_items(one) for one in shards], *arguments, **named)  # type: ignore[arg-type]
        return [dataclasses.replace(one, shard=own) for one, own in zip(fitted, shards, strict=True)]

    patch.setattr(Fitting, "submodels", submodels)


def one_random_stream_runs_through_all_shards(patch: Patch) -> None:
    streams: list[itertools.count[int]] = []
    original = Fitting.__enter__

    def enter(self: Fitting) -> Fitting:
        streams.append(itertools.count())
        return original(self)

    patch.setattr(Fitting, "__enter__", enter)
    patch.setattr("receraser.fitting.derive", lambda seed, *path: seed + next(streams[-1]))


def early_stopping_looks_at_other_shards(patch: Patch) -> None:
    """How long a shard trains depends on the validation rows of all shards."""
    everywhere, original = everywhere_while_fitted(patch), Fitting._submodel_task

    def task(self: Fitting, shard: Shard, sums: Tensors | None, was: FittedShard | None) -> Task:
        made = original(self, shard, sums, was)
        known = made.settings["hyperparameters"]
        assert isinstance(known, Mapping)
        epochs = 1 + (0 if everywhere[1] is None else len(everywhere[1]) % 3)
        return replace(made, settings={**made.settings, "hyperparameters": {**known, "n_epochs": epochs}})

    patch.setattr(Fitting, "_submodel_task", task)


def shards_that_lose_validation_rows_are_passed_over(patch: Patch) -> None:
    def planned(
        request: ForgetRequest, train: Interactions, valid: Interactions | None, partition: Partition
    ) -> Plan:  # fmt: skip
        found = plan_as_it_is(request, train, valid, partition)
        return dataclasses.replace(found, shards=tuple(np.unique(partition.train[found.train_rows]).tolist()))

    patch.setattr("receraser.acts.plan", planned)


def validation_rows_stay(patch: Patch) -> None:
    def planned(
        request: ForgetRequest, train: Interactions, valid: Interactions | None, partition: Partition
    ) -> Plan:  # fmt: skip
        found = plan_as_it_is(request, train, valid, partition)
        return dataclasses.replace(found, valid_rows=np.zeros_like(found.valid_rows))

    patch.setattr("receraser.acts.plan", planned)


def a_row_stays_in_the_table_of_all_rows(patch: Patch) -> None:
    """The shards have lost it; an export, and whoever asks for a list, would read it in the table."""

    def changed(state: State, retrain: Callable[[], State]) -> State:
        new = retrain()
        return dataclasses.replace(new, train=state.train, partition=state.partition)

    around_a_change(patch, changed)


def landmarks_keep_what_has_vanished(patch: Patch) -> None:
    patch.setattr(Landmarks, "among", lambda self, alive: self)


def the_partition_is_computed_again_from_survivors(patch: Patch) -> None:
    """Exact, but not what a forget promises: rows would move, and every shard that they leave or join is stale."""

    def again(state: State, planned: Plan) -> Change:
        change = without_as_it_is(state, planned)
        train, valid, _ = change.tables
        tables = Tables(
            train,
            valid,
            state_of(Engine.from_config(state.config, executor=Here())._fit(train, valid, None, None, None)).partition,
        )
        return Change(
            change.affected,
            lambda: [tables.partition.shard(k, train, valid) for k in change.affected],
            lambda: tables,
        )

    patch.setattr("receraser.work.without", again)


def a_user_keeps_the_weight_they_had(patch: Patch) -> None:
    """Fewer rows, but the weight of as many as there were."""
    known: dict[str, int] = {}

    def add(pairs: Pairs, rows: Interactions, items: IdMap, power: float, sign: int) -> None:
        own = dict(zip(rows.users, user_weights(np.diff(rows.indptr), power).tolist(), strict=True))
        if sign < 0:
            known.update(own)
        weights = np.array([sign * known.get(name, weight) for name, weight in own.items()], dtype=np.int64)
        on_cpu().add_pairs(rows.indptr, items.indices(rows.items)[rows.item_index], weights, len(items), pairs)

    patch.setattr("receraser.training.counts._add", add)


def a_vanished_item_keeps_its_row_in_the_sums(patch: Patch) -> None:
    """Sums are kept by place: it is the last one that goes."""

    def moved(pairs: Pairs, old: IdMap, new: IdMap) -> Pairs:
        return moved_as_it_is(pairs, old, IdMap(old.ids[: len(new)]))

    patch.setattr("receraser.training.counts._moved", moved)


def the_sums_of_the_superseded_rows_are_used(patch: Patch) -> None:
    for model in ("gram", "ease"):
        patch.setattr(f"receraser.models.{model}.recounted", lambda pairs, before, after, power: pairs)


def the_eigen_solver_starts_from_what_it_knew(patch: Patch) -> None:
    known: dict[str, NDArray[np.float64]] = {}

    def mutate(old: State, retrain: Callable[[], State]) -> State:
        (one,) = old.shards
        (vectors,) = one.model.state().values()
        known.update(zip(one.model.items_, vectors.astype(np.float64), strict=True))
        new = retrain()
        known.clear()
        return new

    def draw_block(ids: IdMap, width: int, seed: int) -> NDArray[np.float64]:
        block = block_as_it_is(ids, width, seed)
        for row, name in enumerate(ids):
            block[row] = known.get(name, block[row])[:width]
        return block

    around_a_change(patch, mutate)
    patch.setattr("receraser.training.krylov._LEAST", 1)  # more columns would span all of this world
    for model in ("gram", "graphfilter"):
        patch.setattr(f"receraser.models.{model}.draw_block", draw_block)


WHOLE_USER = ForgetRequest.of(users=["u03"])
RARE_ITEM = ForgetRequest.of(items=["exotic"])
USER_AND_ITEM = ForgetRequest.of(["u03"], ["i04"])
SINGLE_ROWS = ForgetRequest.of(interactions=[*list(HELD_OUT.pairs())[:3], ("u00", "i00")])

MUTATIONS: list[tuple[Callable[[Patch], None], Combination, ForgetRequest]] = [
    (the_aggregation_is_not_fitted_again, Combination("hash", "static", "wmf"), WHOLE_USER),
    (the_aggregation_is_not_fitted_again, Combination("bekm", "static", "bpr"), WHOLE_USER),
    (an_affected_shard_keeps_its_submodel, Combination("hash", "mean", "wmf", shards=2), USER_AND_ITEM),
    (an_affected_shard_keeps_its_submodel, Combination("whole", "alone", "lightgcn"), USER_AND_ITEM),
    (submodels_start_from_what_they_knew, Combination("whole", "alone", "bpr"), WHOLE_USER),
    (submodels_start_from_what_they_knew, Combination("inbp", "attention", "lightgcn"), WHOLE_USER),
    (negatives_come_from_all_shards, Combination("hash", "mean", "bpr", shards=4), RARE_ITEM),
    (a_vocabulary_is_shared, Combination("hash", "mean", "wmf", shards=4), RARE_ITEM),
    (one_random_stream_runs_through_all_shards, Combination("hash", "mean", "wmf", shards=4), WHOLE_USER),
    (one_random_stream_runs_through_all_shards, Combination("ubp", "mean", "bpr", shards=4), WHOLE_USER),
    (early_stopping_looks_at_other_shards, Combination("hash", "mean", "bpr", shards=4), WHOLE_USER),
    (shards_that_lose_validation_rows_are_passed_over, Combination("random", "mean", "wmf", shards=4), SINGLE_ROWS),
    (validation_rows_stay, Combination("random", "mean", "bpr"), SINGLE_ROWS),
    (a_row_stays_in_the_table_of_all_rows, Combination("random", "mean", "wmf"), SINGLE_ROWS),
    (a_row_stays_in_the_table_of_all_rows, Combination("hash", "spectral", "wmf"), WHOLE_USER),
    (landmarks_keep_what_has_vanished, Combination("ubp", "mean", "wmf"), USER_AND_ITEM),
    (landmarks_keep_what_has_vanished, Combination("ibp", "mean", "wmf"), USER_AND_ITEM),
    (landmarks_keep_what_has_vanished, Combination("blpa", "mean", "wmf"), USER_AND_ITEM),
    (the_partition_is_computed_again_from_survivors, Combination("inbp", "mean", "wmf"), WHOLE_USER),
    (a_user_keeps_the_weight_they_had, OF_SUMS["gram"], SINGLE_ROWS),
    (a_vanished_item_keeps_its_row_in_the_sums, OF_SUMS["gram"], RARE_ITEM),
    (a_vanished_item_keeps_its_row_in_the_sums, OF_SUMS["ease"], RARE_ITEM),
    (the_sums_of_the_superseded_rows_are_used, OF_SUMS["gram"], WHOLE_USER),
    (the_sums_of_the_superseded_rows_are_used, OF_SUMS["ease"], SINGLE_ROWS),
    # with so few directions the solver does not come to the end, and where it sets out from shows
    (the_eigen_solver_starts_from_what_it_knew, replace(OF_SUMS["gram"], hyperparameters={"rank": 1}), WHOLE_USER),
    (the_eigen_solver_starts_from_what_it_knew, OF_SUMS["graphfilter"], WHOLE_USER),
]


# The engine itself refuses these: the table of all rows is not that of its shards.
REFUSED = (shards_that_lose_validation_rows_are_passed_over, the_partition_is_computed_again_from_survivors)


def equal_to_never_having_seen(combination: Combination, request: ForgetRequest) -> bool:
    engine = combination.engine().fit(TRAIN, valid=HELD_OUT)
    book = Book(combination, engine, TRAIN.pairs(), HELD_OUT.pairs())
    engine.forget_request(request)
    book.forget(request)
    return differences(engine, book.fresh()) == []


@pytest.mark.parametrize(
    ("mutation", "combination", "request_"),
    MUTATIONS,
    ids=[f"{mutation.__name__}-{combination}" for mutation, combination, _ in MUTATIONS],
)
def test_a_leak_is_found(
    mutation: Callable[[Patch], None], combination: Combination, request_: ForgetRequest, monkeypatch: Patch
) -> None:
    assert equal_to_never_having_seen(combination, request_)
    mutation(monkeypatch)
    if mutation in REFUSED:
        with pytest.raises(TrainingError, match="the table of all rows has"):
            equal_to_never_having_seen(combination, request_)
    else:
        assert not equal_to_never_having_seen(combination, request_)
