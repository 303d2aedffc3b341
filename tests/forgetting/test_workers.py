"""The same through real worker processes, held to another process that has only ever seen the survivors."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

from receraser import fingerprint
from receraser.aggregation.registry import AGGREGATIONS
from receraser.data.interactions import Interactions
from receraser.data.readers import write_csv
from receraser.erasure.request import ForgetRequest
from receraser.execution.local import LocalExecutor
from receraser.execution.task import submodel_task
from receraser.models.registry import MODELS
from receraser.partition.registry import PARTITIONS
from tests.contracts.worlds import blocks, random_rows
from tests.forgetting.engines import EVERY_METHOD, OF_SUMS, Book, Combination, Pair, rows_of

ROOT = Path(__file__).parent.parent.parent
WORLD = blocks(14, 12, 2)
REQUEST = ForgetRequest.of(["u03", "nobody"], ["i04"], [("u00", "i00"), *list(WORLD.held_out.pairs())[:2]])
NEW = [("u03", "i05"), ("stranger", "i02"), ("stranger", "new"), ("u01", "new")]


def test_another_process_with_the_survivors_alone(tmp_path: Path) -> None:
    """Two workers with two threads each here; one with one over there. For every method and every model."""
    expected = {}
    with LocalExecutor(n_workers=2, threads=2) as executor:
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
            write_csv(own / "train.csv", rows_of(book.train))
            write_csv(own / "valid.csv", rows_of(book.valid))
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


def test_three_workers_of_four_threads_and_rows_in_any_order(worker: LocalExecutor) -> None:
    """One worker with one thread, or three with four each, on rows that come otherwise; and a forget on either."""
    rows = random_rows(40, 30, 0.2, 3)
    valid = random_rows(40, 30, 0.05, 4).without(rows)
    mixed = [Interactions.from_pairs(reordered(table)) for table in (rows, valid)]
    found: dict[str, list[str]] = {}
    with LocalExecutor(n_workers=3, threads=4) as three:
        for executor, (train, held) in ((worker, (rows, valid)), (three, mixed)):
            for combination in BOTH_WAYS:
                engine = combination.engine(executor).fit(train, valid=held)
                before = engine.digest
                engine.forget(users=["u007"], items=["i003"])
                found.setdefault(str(combination), []).extend([before, engine.digest])
    assert {name for name, (one, two, *others) in found.items() if [one, two] != others} == set()


def reordered(rows: Interactions) -> list[Pair]:
    pairs = list(rows.pairs())
    random.Random(5).shuffle(pairs)
    return pairs


def test_a_table_of_many_blocks_and_any_number_of_threads() -> None:
    """Large enough that products are cut up and shared out: one thread, two or four in a worker."""
    rows = random_rows(300, 1500, 0.01, 6)
    tasks = [
        submodel_task("gram", {"rank": 8}, 1, rows),
        submodel_task("graphfilter", {"rank": 8}, 1, rows),
        submodel_task("wmf", {"dim": 20, "n_sweeps": 2}, 1, rows),
        submodel_task("lightgcn", {"dim": 8, "n_epochs": 1}, 1, rows),
    ]
    with LocalExecutor(n_workers=1, threads=4) as executor:
        found = []
        for threads in (1, 2, 4):
            executor._threads = threads
            found.append([fingerprint.of_tensors(result.arrays) for result in executor.run(tasks)])
    assert found[0] == found[1] == found[2]
