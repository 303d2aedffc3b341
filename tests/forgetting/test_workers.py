"""The same through real worker processes, held to another process that has only ever seen the survivors."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from receraser import fingerprint
from receraser.aggregation.registry import AGGREGATIONS
from receraser.erasure.request import ForgetRequest
from receraser.execution.local import LocalExecutor
from receraser.execution.task import Task, submodel_task
from receraser.models.registry import MODELS
from receraser.partition.registry import PARTITIONS
from tests.contracts.worlds import blocks, random_rows
from tests.forgetting.engines import EVERY_METHOD, OF_SUMS, Book, Combination, Pair, rows_of
from tests.nightly import nightly

ROOT = Path(__file__).parent.parent.parent
WORLD = blocks(14, 12, 2)
REQUEST = ForgetRequest.of(["u03", "nobody"], ["i04"], [("u00", "i00"), *list(WORLD.held_out.pairs())[:2]])
NEW = [("u03", "i05"), ("stranger", "i02"), ("stranger", "new"), ("u01", "new")]


class Ready:
    """Workers that are there already: to prepare them for every fit takes longer than the fits."""

    def __init__(self, workers: LocalExecutor, n_tasks: int) -> None:
        workers.prepare([], n_tasks)
        self.environment = workers.environment
        self.run = workers.run

    def prepare(self, toys: Sequence[Task], n_tasks: int = 1) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def three_workers() -> Iterator[LocalExecutor]:
    with LocalExecutor(n_workers=3, threads=4) as executor:
        yield executor


def test_another_process_with_the_survivors_alone(three_workers: LocalExecutor, tmp_path: Path) -> None:
    """Three workers with four threads each here; one with one over there, which reads the rows in another order.

    For every method and every model.
    """
    expected = {}
    executor = Ready(three_workers, 3)
    for combination in EVERY_METHOD:
        engine = combination.engine(executor).fit(WORLD.train, valid=WORLD.held_out)
        book = Book(combination, engine, WORLD.train.pairs(), WORLD.held_out.pairs())
        before = engine.digest
        engine.forget_request(REQUEST)
        book.forget(REQUEST)
        engine.add(rows_of(NEW))
        book.add(NEW, engine)
        for request in (ForgetRequest.of(items=["i07"]), ForgetRequest.of(users=["u05"])):  # of many, and of one
            engine.forget_request(request)
            book.forget(request)
        assert engine.digest != before
        own = tmp_path / str(combination)
        engine.export(own / "export")
        assert book.valid is not None
        write_mixed(own / "train.csv", book.train)
        write_mixed(own / "valid.csv", book.valid)
        (own / "config.json").write_text(json.dumps(combination.config().as_dict()))
        forgot = engine.digest
        rebuilt = engine.rebuild().digest
        assert combination.remembers_data or rebuilt == forgot
        expected[own.name] = [forgot, rebuilt]
    command = [sys.executable, "-m", "tests.forgetting.fresh", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == len(EVERY_METHOD)
    assert {name: found[name] for name in expected if found[name] != expected[name]} == {}


def write_mixed(path: Path, rows: Iterable[Pair]) -> None:
    path.write_text("user,item\n" + "".join(f"{user},{item}\n" for user, item in mixed(rows)))


def mixed(rows: Iterable[Pair]) -> list[Pair]:
    pairs = list(rows)
    random.Random(5).shuffle(pairs)
    return pairs


BOTH_WAYS = [
    *OF_SUMS.values(),
    Combination("whole", "alone", "gram", hyperparameters={"pairs_per_row": 0.0}),
    Combination("whole", "alone", "gram", hyperparameters={"polish": 1}),
    Combination("hash", "spectral", "wmf"),
    Combination("hash", "spectral", "bpr"),
    Combination("hash", "attention", "wmf", hyperparameters={"solver": "adagrad", "n_epochs": 3, "batch_size": 4}),
    Combination("random", "mean", "lightgcn"),
    Combination("ubp", "attention", "bpr"),
    Combination("ibp", "static", "wmf"),
    Combination("inbp", "attention", "wmf"),
    Combination("bekm", "static", "lightgcn"),
    Combination("blpa", "mean", "bpr"),
]


def test_every_part_is_among_them() -> None:
    made = [one.config() for one in BOTH_WAYS]
    assert {one.model for one in made} == set(MODELS)
    assert {one.aggregation for one in made} == set(AGGREGATIONS)
    assert {one.partition for one in made} == set(PARTITIONS)


@nightly
def test_three_workers_of_four_threads_and_rows_in_any_order(
    worker: LocalExecutor, three_workers: LocalExecutor
) -> None:
    """One worker with one thread, or three with four each, on rows that come in another order."""
    rows = random_rows(24, 20, 0.2, 3)
    valid = random_rows(24, 20, 0.05, 4).without(rows)
    otherwise = rows_of(mixed(rows.pairs())), rows_of(mixed(valid.pairs()))
    found: dict[str, set[str]] = {}
    for executor, (train, held) in ((Ready(worker, 1), (rows, valid)), (Ready(three_workers, 3), otherwise)):
        for combination in BOTH_WAYS:
            engine = combination.engine(executor).fit(train, valid=held)
            found.setdefault(str(combination), set()).add(engine.digest)
    assert {name for name, digests in found.items() if len(digests) > 1} == set()
    assert len(found) == len(BOTH_WAYS)


@nightly
def test_tables_of_many_blocks_and_any_number_of_threads(three_workers: LocalExecutor) -> None:
    """Large enough that products are cut up and shared out."""
    rows = random_rows(300, 1500, 0.01, 6)
    tasks = [
        submodel_task("gram", {"rank": 8}, 1, rows),
        submodel_task("graphfilter", {"rank": 8}, 1, rows),
        submodel_task("wmf", {"dim": 20, "n_sweeps": 2}, 1, rows),
        submodel_task("lightgcn", {"dim": 8, "n_epochs": 1}, 1, rows),
    ]
    found = []
    with pytest.MonkeyPatch.context() as patch:
        for threads in (1, 2, 4):
            patch.setattr(three_workers, "_threads", threads)
            found.append([fingerprint.of_tensors(result.arrays) for result in three_workers.run(tasks)])
    assert found[0] == found[1] == found[2]
