"""The ways in which exactness is lost, one by one: each is planted here, or in `test_mutations`, and found out.

`WAYS` is the list of docs/threat-model.md. A leak is planted by a patch; a check says whether all is well, which it is
without the leak and is not with it. Most leaks show in that a forget no longer equals a fresh fit; some show only in
another order of files, on another machine, in another process, or in what lies about afterwards.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import logging
import math
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from receraser.aggregation.spectral import Spectral
from receraser.changes import Change
from receraser.custody import Act, Custody, Published
from receraser.data.ids import IdMap
from receraser.data.interactions import Histories, Interactions
from receraser.data.readers import read
from receraser.engine import Engine
from receraser.erasure.request import ForgetRequest
from receraser.errors import EnvironmentMismatchError
from receraser.evaluation import Evaluation, RankingTask
from receraser.execution.task import Task
from receraser.fingerprint import Tensors
from receraser.fitting import Fitting
from receraser.models.descent import Validation
from receraser.models.factors import FactorModel
from receraser.partition.hashed import Hashed
from receraser.partition.partition import Partition, Shard
from receraser.protocols import Progress
from receraser.reports import ForgetReport
from receraser.state import FittedShard, State
from receraser.store.directory import DirectoryStore, Manifest
from receraser.store.pending import Pending
from receraser.store.snapshot import Snapshot
from receraser.training.batches import Held
from receraser.training.kernels import on_cpu
from receraser.training.least_squares import Problem
from receraser.training.pairs import Propagate
from receraser.work import Work
from tests.contracts.worlds import batch, history
from tests.forgetting import test_mutations as mutations
from tests.forgetting.engines import (
    OF_SUMS,
    Book,
    Combination,
    Here,
    differences,
    every_byte,
    pseudonym,
    rows_of,
    scores,
    state_of,
)
from tests.forgetting.test_mutations import (
    HELD_OUT,
    RARE_ITEM,
    TRAIN,
    WHOLE_USER,
    around_a_change,
    equal_to_never_having_seen,
)

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]
Check = Callable[[Path], bool]

PAGE = Path(__file__).parents[2] / "docs" / "threat-model.md"


@functools.cache
def never_seen(combination: Combination, request: ForgetRequest) -> Check:
    """A forget equals a fresh fit of the survivors."""

    def check(folder: Path) -> bool:
        return equal_to_never_having_seen(combination, request)

    check.__name__ = f"never_seen-{combination}"
    return check


def one_row(user: str, item: str) -> ForgetRequest:
    return ForgetRequest.of(interactions=[(user, item)])


# ---------------------------------------------------------------------- looking at other shards


def all_rows(patch: Patch) -> list[Interactions]:
    """A place in which the whole table lies while its shards are fitted."""
    seen = [Interactions.empty()]
    state, changed = Fitting.state, Fitting.changed

    def from_nothing(self: Fitting, train: Interactions, *arguments: object, **named: object) -> State:
        seen[0] = train
        return state(self, train, *arguments, **named)  # type: ignore[arg-type]

    def after(self: Fitting, old: State, change: Change, path: str) -> State:
        seen[0] = change.tables.train
        return changed(self, old, change, path)

    patch.setattr(Fitting, "state", from_nothing)
    patch.setattr(Fitting, "changed", after)
    return seen


def elsewhere_too(rows: Interactions, everywhere: Interactions) -> Interactions:
    """The rows of a shard, and those of the same users and items in other shards."""
    known = [(user, item) for user, item in everywhere.pairs() if user in rows.users and item in rows.items]
    return Interactions.union([rows, rows_of(known)])


def negatives_are_filtered_by_rows_in_other_shards(patch: Patch) -> None:
    everywhere = all_rows(patch)

    class Filtered(Held):
        def __init__(self, rows: Interactions) -> None:
            super().__init__(elsewhere_too(rows, everywhere[0]))

    patch.setattr("receraser.training.pairs.Held", Filtered)


def a_mask_looks_at_other_shards(patch: Patch) -> None:
    everywhere = all_rows(patch)

    class Masked(Validation):
        def __init__(self, train: Interactions, valid: Interactions, device: torch.device) -> None:
            super().__init__(train, valid, device)
            self._task = RankingTask(train.items, elsewhere_too(train, everywhere[0]), valid)
            self._rows = torch.from_numpy(train.users.indices(self._task.histories.users)).to(device)

    patch.setattr("receraser.models.descent.Validation", Masked)


def early_stopping_looks_at_the_test_set(patch: Patch) -> None:
    """An engine that was evaluated remembers the test rows, and lets them choose epochs from then on."""
    tests: list[Interactions] = []
    evaluate, forget, task = Engine.evaluate, Engine._forget, Fitting._submodel_task

    def evaluated(self: Engine, test: Interactions, **named: object) -> Evaluation:
        vars(self)["test"] = self._pseudonymous(test)
        return evaluate(self, test, **named)  # type: ignore[arg-type]

    def forgotten(self: Engine, *arguments: object, **named: object) -> ForgetReport:
        tests[:] = [vars(self)["test"]] if "test" in vars(self) else []
        try:
            return forget(self, *arguments, **named)  # type: ignore[arg-type]
        finally:
            tests.clear()

    def with_tests(one: Shard) -> Shard:
        held = [] if one.valid is None else [one.valid]
        return dataclasses.replace(one, valid=Interactions.union([*held, *tests]) if tests else one.valid)

    def task_with_tests(self: Fitting, shard: Shard, sums: Tensors | None, was: FittedShard | None) -> Task:
        return task(self, with_tests(shard), sums, was)

    patch.setattr(Engine, "evaluate", evaluated)
    patch.setattr(Engine, "_forget", forgotten)
    patch.setattr(Fitting, "_submodel_task", task_with_tests)


def after_an_evaluation(folder: Path) -> bool:
    """A forget of an engine that was evaluated is that of one that was not."""
    combination = Combination("hash", "mean", "bpr", shards=2)
    engines = [combination.engine().fit(TRAIN) for _ in range(2)]
    engines[0].evaluate(HELD_OUT)
    for engine in engines:
        engine.forget_request(WHOLE_USER)
    return differences(*engines) == []


def a_regulariser_counts_the_items_of_all_shards(patch: Patch) -> None:
    everywhere = all_rows(patch)

    class Global(Problem):
        def __init__(
            self, matrix: sp.csr_matrix, *, missing_weight: float, regularization: float, device: torch.device
        ) -> None:
            super().__init__(matrix, missing_weight=missing_weight, regularization=regularization, device=device)
            missing = len(everywhere[0].items) - matrix.shape[1]
            self._penalty += regularization * missing_weight * missing

    patch.setattr("receraser.models.wmf.Problem", Global)


def a_graph_spans_all_shards(patch: Patch) -> None:
    """Edges are weighted by the degrees that items have in all shards together."""
    everywhere = all_rows(patch)

    def spanning(rows: Interactions, n_layers: int) -> Propagate:
        everything = everywhere[0]
        degrees = everything.item_counts[everything.items.indices(rows.items)]
        r = rows.matrix()
        users = np.asarray(r.sum(axis=1)).ravel()
        r.data = (1.0 / np.sqrt(users[rows.user_index] * degrees[rows.item_index])).astype(np.float32)
        graph = torch.from_numpy(sp.bmat([[None, r], [r.T, None]]).toarray().astype(np.float32))

        def propagate(p: torch.Tensor, q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            layers = [torch.cat([p, q])]
            for _ in range(n_layers):
                layers.append(graph @ layers[-1])
            mean = torch.stack(layers).mean(dim=0)
            return mean[: len(p)].contiguous(), mean[len(p) :].contiguous()

        return propagate

    patch.setattr("receraser.models.lightgcn.on_cpu", spanning)


def popularity_is_counted_over_all_shards(patch: Patch) -> None:
    everywhere = all_rows(patch)

    def restore(self: FactorModel, rows: Interactions, state: Tensors) -> FactorModel:
        everything = everywhere[0]
        counts = everything.item_counts[everything.items.indices(rows.items)]
        return self.load_state(rows.users, rows.items, state, item_counts=counts)

    patch.setattr(FactorModel, "restore", restore)


def a_merged_product_is_kept(patch: Patch) -> None:
    """Nodes of the merge tree, over the items of all shards below them, are taken for unchanged."""
    reusable = Spectral.reusable
    patch.setattr(Spectral, "reusable", lambda self, state, changed, n: reusable(self, state, (), n))


def the_scorer_over_all_items_is_kept(patch: Patch) -> None:
    def mutate(old: State, retrain: Callable[[], State]) -> State:
        new = retrain()
        vars(new)["scorer"] = old.scorer
        return new

    around_a_change(patch, mutate)


def also_when_it_answered_before(combination: Combination, request: ForgetRequest) -> Check:
    """The same of an engine whose scores were asked for before."""

    def check(folder: Path) -> bool:
        engine = combination.engine().fit(TRAIN, valid=HELD_OUT)
        book = Book(combination, engine, TRAIN.pairs(), HELD_OUT.pairs())
        scores(engine)
        engine.forget_request(request)
        book.forget(request)
        return differences(engine, book.fresh()) == []

    check.__name__ = f"answered_before-{combination}"
    return check


# ---------------------------------------------------------------------- looking at rows since deleted


def a_hash_partition_looks_at_the_rows(patch: Patch) -> None:
    """Where the first shard begins depends on how many rows there were."""
    assign = Hashed.assign

    def turned(
        self: Hashed, interactions: Interactions, *, valid: Interactions | None, seed: int, **named: object
    ) -> Partition:
        made = assign(self, interactions, valid=valid, seed=seed)
        by = len(interactions)
        of_valid = None if made.valid is None else (made.valid + by) % self.n_shards
        return Partition(self.n_shards, ((made.train + by) % self.n_shards).astype(np.int32), of_valid)

    patch.setattr(Hashed, "assign", turned)


def a_partition_that_remembers_says_it_does_not(patch: Patch) -> None:
    patch.setattr(State, "level", property(lambda self: "L3"))


def the_level_is_true(folder: Path) -> bool:
    """Who says L2 or more is what a fit of the survivors gives, partition and all."""
    combination = Combination("ubp", "mean", "wmf")
    engine = combination.engine().fit(TRAIN, valid=HELD_OUT)
    book = Book(combination, engine, TRAIN.pairs(), HELD_OUT.pairs())
    engine.forget_request(WHOLE_USER)
    book.forget(WHOLE_USER)
    return engine.level < "L2" or differences(engine, book.rebuilt()) == []


def defaults_are_chosen_once(patch: Patch) -> None:
    """The default of a weight is computed at the first fit and stored as if somebody had given it."""
    fit = Work.fit

    def chosen(self: Work, train: Interactions, valid: Interactions | None, **named: object) -> State:
        share = len(train) / max(1, len(train.users) * len(train.items))
        own = dict(self._config.hyperparameters) | {"missing_weight": math.sqrt(share)}
        self._config = dataclasses.replace(self._config, hyperparameters=own)
        return fit(self, train, valid, **named)  # type: ignore[arg-type]

    patch.setattr(Work, "fit", chosen)


def the_number_of_shards_follows_the_rows(patch: Patch) -> None:
    fit = Work.fit

    def chosen(self: Work, train: Interactions, valid: Interactions | None, **named: object) -> State:
        self._config = dataclasses.replace(self._config, shards=max(1, len(train) // 10))
        return fit(self, train, valid, **named)  # type: ignore[arg-type]

    patch.setattr(Work, "fit", chosen)


def types_of_ids_are_inferred(patch: Patch) -> None:
    """Where all ids of a file look like numbers they are read as numbers: 9 and 09 become one item."""

    class Inferring:
        @staticmethod
        def from_indices(users: Sequence[str], items: Sequence[str], *rest: object) -> Interactions:
            if all(item.isdigit() for item in items):
                items = [str(int(item)) for item in items]
            return Interactions.from_indices(users, items, *rest)  # type: ignore[arg-type]

    patch.setattr("receraser.data.readers.rows.Interactions", Inferring)


def read_without(folder: Path) -> bool:
    """A forget of rows that were read equals a fit of a file that never had them."""
    rows = [(f"u{n % 7}", f"{n % 12:02}") for n in range(0, 80, 3)] + [("u1", "9"), ("u2", "9"), ("u3", "09")]
    digests = []
    for name, extra in (("all", [("gone", "x1"), ("gone", "11")]), ("left", [])):
        path = folder / f"{name}.csv"
        path.write_text("user,item\n" + "".join(f"{user},{item}\n" for user, item in [*rows, *extra]))
        engine = Combination("hash", "mean", "wmf").engine().fit(read(path).interactions)
        engine.forget(["gone"])
        digests.append(engine.digest)
    return digests[0] == digests[1]


# ---------------------------------------------------------------------- what changes sums


def added_up_in_parts(patch: Patch, parts: Callable[[torch.Tensor], Iterable[torch.Tensor]]) -> None:
    """Let WMF add up Q^T Q part by part."""

    class InParts(Problem):
        def solve(self, others: torch.Tensor, start: torch.Tensor, *, cg_steps: int) -> torch.Tensor:
            gram = self._w * torch.stack([part.T @ part for part in parts(others)]).sum(dim=0)
            values, axes = torch.linalg.eigh(gram)
            solution: torch.Tensor = start @ axes
            fixed = (self._indptr, self._indices, others @ axes, values.clamp(min=0), self._penalty)
            on_cpu().solve_cg(*(one.numpy() for one in fixed), cg_steps, solution.numpy())
            back: torch.Tensor = solution @ axes.T
            return back

    patch.setattr("receraser.models.wmf.Problem", InParts)


def threads_share_out_a_sum(patch: Patch) -> None:
    number = [1]
    patch.setattr("tests.forgetting.engines.use_threads", lambda n: number.__setitem__(0, n))
    added_up_in_parts(patch, lambda table: table.tensor_split(number[0]))


def with_any_number_of_threads(folder: Path) -> bool:
    """One thread, two, or four: the same bits."""
    combination = Combination("hash", "static", "wmf")
    one, *others = (combination.engine(Here(threads=number)).fit(TRAIN, valid=HELD_OUT) for number in (1, 2, 4))
    return all(differences(one, other) == [] for other in others)


LANES = [4]
"""How many numbers the machine adds up at a time."""


class Machine(Here):
    """A machine with vectors of some width; it says of itself what its sums look like."""

    def __init__(self, lanes: int) -> None:
        super().__init__(environment={"probe": f"sums in {lanes} lanes"})
        self._lanes = lanes

    def compute(self, task, progress):  # type: ignore[no-untyped-def]
        LANES[0] = self._lanes
        try:
            return super().compute(task, progress)
        finally:
            LANES[0] = 4


def nobody_minds_another_width(patch: Patch) -> None:
    """What was computed elsewhere is taken for what would have been computed here."""
    patch.setattr(Fitting, "check_environment", lambda self, expected: None)


def on_a_machine_of_another_width(folder: Path) -> bool:
    """A forget on another machine is refused, or equals a fresh fit on either."""
    combination = Combination("hash", "static", "wmf")
    with pytest.MonkeyPatch.context() as patch:
        added_up_in_parts(patch, lambda table: [table[lane :: LANES[0]] for lane in range(LANES[0])])
        combination.engine(Machine(4)).fit(TRAIN, valid=HELD_OUT).save(folder / "s")
        engine = Engine.load(folder / "s", executor=Machine(16))
        try:
            engine.forget_request(WHOLE_USER)
        except EnvironmentMismatchError:
            return True
        left = [pair for pair in TRAIN.pairs() if pair[0] != "u03"]
        held = [pair for pair in HELD_OUT.pairs() if pair[0] != "u03"]
        fresh = [combination.engine(Machine(n)).fit(rows_of(left), valid=rows_of(held)).digest for n in (4, 16)]
        assert fresh[0] != fresh[1], "or there would be nothing to mind"
        return engine.digest in fresh


def scores_depend_on_who_else_is_asked_for(patch: Patch) -> None:
    """As a matrix product may that takes another path for another shape."""

    def at_once(users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        backwards = torch.arange(users.shape[1] - 1, -1, -1)
        order = backwards if len(users) % 2 else backwards.flip(0)
        total = torch.zeros(len(users), len(items))
        for k in order.tolist():
            total += users[:, k : k + 1] * items[:, k]
        return total

    for module in ("factors", "folded"):
        patch.setattr(f"receraser.models.{module}.score_blocks", at_once)


def alone_or_among_others(folder: Path) -> bool:
    """A stranger's scores, alone and beside somebody else."""
    scorer = state_of(Combination("hash", "spectral", "wmf").engine().fit(TRAIN)).scorer
    one: Histories = history(["i01", "i03"], scorer.items_)
    other: Histories = history(["i02"], scorer.items_)
    return torch.equal(scorer.scores(one)[0], scorer.scores(batch([one, other]))[0])


HASH_SEED = [0]
"""Of this process: the real one cannot be changed once it runs."""


def ids_are_ordered_by_their_hashes(patch: Patch) -> None:
    """As they are in a set."""

    def made(self: IdMap, ids: Iterable[str]) -> None:
        salt = bytes([HASH_SEED[0]])
        self.ids = tuple(sorted(set(ids), key=lambda name: hashlib.sha256(salt + name.encode()).digest()))

    patch.setattr(IdMap, "__init__", made)


def in_a_process_of_another_hash_seed(folder: Path) -> bool:
    digests = []
    for seed in (1, 2):
        HASH_SEED[0] = seed
        digests.append(Combination("whole", "alone", "wmf").engine().fit(rows_of(TRAIN.pairs())).digest)
    return digests[0] == digests[1]


# ---------------------------------------------------------------------- what stays behind


USER, ITEM = "forgotten@example.org", "the-forgotten-item"


def nothing_stays_behind(folder: Path) -> bool:
    """After a forget, who and what was forgotten is found nowhere: not in the store, in a temporary file, in a log."""
    heard: list[str] = []
    listener = logging.Handler(level=logging.DEBUG)
    listener.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    root, level = logging.getLogger(), logging.getLogger().level
    (folder / "temporary").mkdir(exist_ok=True)
    store = folder / f"store {len(list(folder.iterdir()))}"
    combination = Combination("hash", "static", "wmf")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(folder / "temporary"))
        root.addHandler(listener)
        root.setLevel(logging.DEBUG)
        try:
            engine = combination.engine().fit(rows_of([*TRAIN.pairs(), (USER, "i01"), (USER, ITEM)]))
            engine.titles = {ITEM: "A title"}
            engine.save(store)
            engine.recommend([USER])
            with Engine.changing(store, executor=Here()) as engine:
                engine.forget([USER])
        finally:
            root.removeHandler(listener)
            root.setLevel(level)
    assert engine.level == "L3"
    content = every_byte(store) + every_byte(folder / "temporary") + "\n".join(heard).encode()
    found = [one for one in (USER, pseudonym(USER), ITEM) if one.encode() in content]
    disk = DirectoryStore(store)
    return not found and not disk.strays(disk.manifest())


def a_cache_stays(patch: Patch) -> None:
    """Lists that were asked for lie beside the store, to be found faster the next time."""
    recommend, swap = Engine.recommend, DirectoryStore.swap
    asked: dict[str, list[str]] = {}

    def remembered(self: Engine, users: Sequence[str | int] = (), **named: object) -> Mapping[str, object]:
        found = recommend(self, users, **named)  # type: ignore[arg-type]
        asked.update({user: [one.item for one in own] for user, own in found.items()})
        return found

    def swapped(self: DirectoryStore, manifest: Manifest) -> None:
        swap(self, manifest)
        (self.path / "cache").write_text(str(asked))

    patch.setattr(Engine, "recommend", remembered)
    patch.setattr(DirectoryStore, "swap", swapped)


def superseded_files_stay(patch: Patch) -> None:
    patch.setattr(DirectoryStore, "_purge", lambda self, paths: None)


def a_checkpoint_stays(patch: Patch) -> None:
    """A fit writes down how far it has come, and a worker that ends well has no use for it."""
    compute = Here.compute

    def written(self: Here, task, progress: Progress | None):  # type: ignore[no-untyped-def]
        with tempfile.NamedTemporaryFile("w", suffix=".checkpoint", delete=False) as file:
            file.write(str({name: list(table.users) for name, table in task.tables.items()}))
        return compute(self, task, progress)

    patch.setattr(Here, "compute", written)


def a_log_names_who_asked(patch: Patch) -> None:
    forget = Engine.forget_request

    def logged(self: Engine, request: ForgetRequest, **named: object) -> ForgetReport:
        logging.getLogger("receraser.engine").debug("forget users=%s", ",".join(request.users))
        return forget(self, request, **named)  # type: ignore[arg-type]

    patch.setattr(Engine, "forget_request", logged)


def a_map_of_ids_stays(patch: Patch) -> None:
    """Somebody wants to know later whom a pseudonym stood for."""
    rename = Engine._pseudonymous
    names: dict[str, str] = {}

    def kept(self: Engine, rows: Interactions) -> Interactions:
        names.update({pseudonym(user): user for user in rows.users})
        return rename(self, rows)

    def published(self: Custody, snapshot: Snapshot, act: Act, **how: bool) -> Published:
        known = dataclasses.replace(snapshot, titles={**snapshot.titles, **names})
        return publish(self, known, act, **how)

    publish = Custody.publish
    patch.setattr(Engine, "_pseudonymous", kept)
    patch.setattr(Custody, "publish", published)


def a_request_stays_written_down(patch: Patch) -> None:
    patch.setattr(DirectoryStore, "drop_pending", lambda self, name: None)
    patch.setattr(Custody, "pending", lambda self: list[Pending]())


# ---------------------------------------------------------------------- the list

HASHED = Combination("hash", "mean", "wmf", shards=4)
SCATTERED = Combination("random", "mean", "bpr")
OFTEN_DRAWN = Combination("random", "mean", "bpr", hyperparameters={"n_negatives": 20})  # each item is, by someone
ONE_ROW = one_row("u00", "i04")  # of somebody with rows in other shards too, where there are several

PLANTED: list[tuple[Plant, Check]] = [
    (negatives_are_filtered_by_rows_in_other_shards, never_seen(OFTEN_DRAWN, ONE_ROW)),
    (a_mask_looks_at_other_shards, never_seen(SCATTERED, ONE_ROW)),
    (early_stopping_looks_at_the_test_set, after_an_evaluation),
    (a_regulariser_counts_the_items_of_all_shards, never_seen(HASHED, RARE_ITEM)),
    (a_merged_product_is_kept, never_seen(Combination("hash", "spectral", "wmf", shards=4), RARE_ITEM)),
    (the_scorer_over_all_items_is_kept, also_when_it_answered_before(HASHED, RARE_ITEM)),
    (a_graph_spans_all_shards, never_seen(Combination("hash", "mean", "lightgcn", shards=4), ONE_ROW)),
    (popularity_is_counted_over_all_shards, never_seen(Combination("hash", "spectral", "bpr", shards=4), ONE_ROW)),
    (a_hash_partition_looks_at_the_rows, never_seen(HASHED, WHOLE_USER)),
    (a_partition_that_remembers_says_it_does_not, the_level_is_true),
    (defaults_are_chosen_once, never_seen(OF_SUMS["gram"], WHOLE_USER)),
    (the_number_of_shards_follows_the_rows, never_seen(HASHED, WHOLE_USER)),
    (types_of_ids_are_inferred, read_without),
    (threads_share_out_a_sum, with_any_number_of_threads),
    (nobody_minds_another_width, on_a_machine_of_another_width),
    (scores_depend_on_who_else_is_asked_for, alone_or_among_others),
    (ids_are_ordered_by_their_hashes, in_a_process_of_another_hash_seed),
    (a_cache_stays, nothing_stays_behind),
    (superseded_files_stay, nothing_stays_behind),
    (a_checkpoint_stays, nothing_stays_behind),
    (a_log_names_who_asked, nothing_stays_behind),
    (a_map_of_ids_stays, nothing_stays_behind),
    (a_request_stays_written_down, nothing_stays_behind),
]

WAYS: Mapping[str, Sequence[Plant]] = {
    "negatives filtered by the user's rows in other shards": [
        negatives_are_filtered_by_rows_in_other_shards,
        mutations.negatives_come_from_all_shards,
    ],
    "early stopping or masks that look at other shards or at the test set": [
        mutations.early_stopping_looks_at_other_shards,
        mutations.shards_that_lose_validation_rows_are_passed_over,
        mutations.validation_rows_stay,
        a_mask_looks_at_other_shards,
        early_stopping_looks_at_the_test_set,
    ],
    "one random stream running through all shards": [mutations.one_random_stream_runs_through_all_shards],
    "warm starts, also of eigen-solvers": [
        mutations.an_affected_shard_keeps_its_submodel,
        mutations.submodels_start_from_what_they_knew,
        mutations.the_eigen_solver_starts_from_what_it_knew,
    ],
    "global vocabularies or counts that shift when an item vanishes elsewhere": [
        mutations.a_vocabulary_is_shared,
        mutations.a_vanished_item_keeps_its_row_in_the_sums,
        a_regulariser_counts_the_items_of_all_shards,
    ],
    "cached products taken over the union vocabulary": [
        mutations.the_sums_of_the_superseded_rows_are_used,
        mutations.a_user_keeps_the_weight_they_had,
        a_merged_product_is_kept,
        the_scorer_over_all_items_is_kept,
    ],
    "a graph or popularity over all shards": [a_graph_spans_all_shards, popularity_is_counted_over_all_shards],
    "an aggregator that is not refitted": [mutations.the_aggregation_is_not_fitted_again],
    "partitions computed from rows since deleted": [
        mutations.landmarks_keep_what_has_vanished,
        mutations.the_partition_is_computed_again_from_survivors,
        a_hash_partition_looks_at_the_rows,
        a_partition_that_remembers_says_it_does_not,
    ],
    "defaults chosen by looking at rows since deleted": [
        defaults_are_chosen_once,
        the_number_of_shards_follows_the_rows,
    ],
    "ids whose type is inferred": [types_of_ids_are_inferred],
    "thread counts, vector widths, batch composition or hash seeds that change sums": [
        threads_share_out_a_sum,
        nobody_minds_another_width,
        scores_depend_on_who_else_is_asked_for,
        ids_are_ordered_by_their_hashes,
    ],
    "caches, checkpoints, logs and id maps that stay behind": [
        mutations.a_row_stays_in_the_table_of_all_rows,
        a_cache_stays,
        superseded_files_stay,
        a_checkpoint_stays,
        a_log_names_who_asked,
        a_map_of_ids_stays,
        a_request_stays_written_down,
    ],
}


def test_every_way_on_the_list_is_planted_and_nothing_is_planted_that_is_not_on_it() -> None:
    planted = {plant for plant, *_ in (*PLANTED, *mutations.MUTATIONS)}
    assert all(WAYS.values())
    assert {plant for plants in WAYS.values() for plant in plants} == planted


def test_the_list_is_that_of_the_page() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", PAGE.read_text().split("## Ways to lose it\n")[1], re.MULTILINE)
    told = {way: set(re.findall("`([a-z_]+)`", leaks)) for way, leaks in rows[1:]}
    assert told == {way: {plant.__name__ for plant in plants} for way, plants in WAYS.items()}


@pytest.mark.parametrize("check", dict.fromkeys(check for _, check in PLANTED), ids=lambda one: one.__name__)
def test_without_a_leak_all_is_well(check: Check, tmp_path: Path) -> None:
    assert check(tmp_path)


@pytest.mark.parametrize(("plant", "check"), PLANTED, ids=[plant.__name__ for plant, _ in PLANTED])
def test_a_leak_is_found(plant: Plant, check: Check, tmp_path: Path, monkeypatch: Patch) -> None:
    plant(monkeypatch)
    assert not check(tmp_path)
