"""Everything that takes too long to be asked every time; by hand, or at night.

    python tools/nightly.py [--cases 2000] [--processes 50] [--seed N] [--skip-tests]

Draws small worlds, a way to fit them (every method, every model, and more) and what happens to them: users, items and
interactions forgotten, rows added, everything rebuilt, in any order, through a signed store. What the store then holds
must be, bit for bit, what two others have: a fit of its export, and a fit that has only ever seen the surviving rows as
a plain set of pairs has them. Some of these fits are made by the command line in a process of their own. Then come the
tests marked `nightly`: every instant at which a process can be killed, every call that the system can refuse, single
bytes changed.

Writes benchmarks/results/nightly.md and nightly.json. The exit status is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from benchmarks.tables import head
from tests.forgetting.engines import COMBINATIONS, Book, Combination, Here, Pair, pseudonym, rows_of, told
from tests.forgetting.stories import ITEMS, NOBODY, NOTHING, USERS

from receraser.engine import Engine
from receraser.erasure.request import ForgetRequest
from receraser.execution.local import LocalExecutor
from receraser.proof.keyring import Keyring
from receraser.store.export import read_export
from receraser.verify.checks import examine

if TYPE_CHECKING:
    from receraser.data.interactions import Interactions
    from receraser.protocols import Executor

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
TESTS = ["tests"]
TOLD = {
    "test_every_kill": "kills, before, after and amid every step of every operation",
    "test_every_refusal": "calls refused: disk full, disk read-only",
    "test_every_byte": "bytes of a store changed, each noticed by `verify`",
}
KINDS = ("user", "item", "interaction", "batch", "nobody", "add", "rebuild")
ODDS = (6, 4, 6, 3, 1, 5, 1)
MEMORY = Path("/dev/shm")  # flushing to a disk would take most of the time


# ---------------------------------------------------------------------- what happens


@dataclass(frozen=True)
class Step:
    """One thing that happens: its kind, and what is forgotten or added."""

    kind: str
    request: ForgetRequest = field(default_factory=ForgetRequest)
    rows: tuple[Pair, ...] = ()


@dataclass(frozen=True)
class Case:
    """A world, a way to fit it, and what happens to it."""

    number: int
    combination: Combination
    train: tuple[Pair, ...]
    valid: tuple[Pair, ...] | None
    steps: tuple[Step, ...]
    at_once: bool
    hide: bool
    keep_old: bool
    executor: tuple[bool, bool]  # which tasks come first, here and in the fresh fit


def drawn(seed: int, number: int) -> Case:
    """Return a case; the same one for the same numbers."""
    draw = random.Random(f"{seed} {number}")
    users = draw.sample([*USERS, *(f"u{n}" for n in range(9))], draw.randint(3, 14))
    items = draw.sample([*ITEMS, *(f"i{n}" for n in range(9))], draw.randint(3, 12))
    cells = [(user, item) for user in users for item in items]
    share = draw.uniform(0.25, 0.8)
    train = tuple(sorted(draw.sample(cells, max(6, int(share * len(cells))))))
    valid = tuple(draw.sample(cells, draw.randint(0, len(cells) // 4))) if draw.random() < 0.6 else None
    steps = []
    for kind in draw.choices(KINDS, ODDS, k=draw.randint(1, 5)):
        some = draw.sample(sorted({*train, *(valid or ())}), draw.randint(1, 4))
        request = ForgetRequest()
        rows: tuple[Pair, ...] = ()
        if kind == "user":
            request = ForgetRequest.of(draw.sample(users, draw.randint(1, 2)))
        elif kind == "item":
            request = ForgetRequest.of(items=draw.sample(items, 1))
        elif kind == "interaction":
            request = ForgetRequest.of(interactions=some)
        elif kind == "batch":
            request = ForgetRequest.of([users[0], NOBODY], [items[0]], [*some, (users[1], NOTHING)])
        elif kind == "nobody":
            request = ForgetRequest.of([NOBODY], [NOTHING], [(NOBODY, items[0])])
        elif kind == "add":
            pool = [*cells, *(("newcomer", item) for item in items), *((user, "novelty") for user in users)]
            rows = tuple(draw.sample(pool, draw.randint(1, 6)))
        steps.append(Step(kind, request, rows))
    combination = COMBINATIONS[number % len(COMBINATIONS)]
    order = draw.random() < 0.5
    return Case(
        number,
        combination,
        train,
        valid,
        tuple(steps),
        at_once=draw.random() < 0.5,
        hide=draw.random() < 0.2,
        keep_old=draw.random() < 0.2,
        executor=(order, not order),
    )


@dataclass
class Lived:
    """A store after everything has happened, and what should be in it."""

    book: Book
    digest: str
    faults: list[str]


def lived(case: Case, folder: Path, executor: Executor) -> Lived:
    """Let a case happen, through a store in a folder; compare every report with the book's."""
    store, keyring = folder / "store", Keyring(folder / "keys")
    valid = None if case.valid is None else rows_of(case.valid)
    engine = case.combination.engine(executor).fit(rows_of(case.train), valid=valid)
    engine.save(store, keyring=keyring)
    book, faults = Book(case.combination, engine, case.train, case.valid), []
    for steps in [case.steps] if case.at_once else [[step] for step in case.steps]:
        with Engine.changing(store, executor=executor, keyring=keyring, keep_old=case.keep_old) as opened:
            for step in steps:
                faults += [f"{step.kind}: {fault}" for fault in happened(step, opened, book, hide=case.hide)]
                if step.kind == "rebuild":
                    opened.rebuild()
                    book = Book(case.combination, opened, book.train, book.valid)
            digest = opened.digest
    if Engine.load(store).digest != digest:
        faults.append("the store does not hold what the engine had")
    faults += [f"verify: {one.name}: {one.detail}" for one in examine(store, keyring=keyring)[1] if not one.ok]
    return Lived(book, digest, faults)


def happened(step: Step, engine: Engine, book: Book, *, hide: bool) -> list[str]:
    """Forget or add; return in what the report is not the book's."""
    if step.kind == "rebuild":
        return []
    if step.kind == "add":
        added = engine.add(rows_of(step.rows))
        expected = book.add(step.rows, engine)
        found: Mapping[str, object] = {name: getattr(added, name) for name in expected}
    else:
        found = told(engine.forget_request(step.request, hide=hide))
        expected = book.forget(step.request)
    # which way is the cheapest depends on whether sums are at hand, which a store does not keep
    return [name for name in expected if name != "path" and found[name] != expected[name]]


def compared(after: Lived, folder: Path, executor: Executor) -> list[str]:
    """Return in what the store is not what fresh fits of the survivors are."""
    faults = []
    export = read_export(folder / "export")
    for name, table, held in (("train", export.train, after.book.train), ("valid", export.valid, after.book.valid)):
        if pairs_of(table) != (None if held is None else {(pseudonym(user), item) for user, item in held}):
            faults.append(f"the {name} rows are not the survivors")
    if Engine.fit_export(folder / "export", executor=executor).digest != after.digest:
        faults.append("a fit of the export has another digest")
    if after.book.fresh(executor).digest != after.digest:
        faults.append("a fit of the survivors has another digest")
    return faults


def pairs_of(table: Interactions | None) -> set[Pair] | None:
    """Return the rows of a table as a set."""
    return None if table is None else set(table.pairs())


# ---------------------------------------------------------------------- here, and in processes of their own


def in_memory() -> tempfile.TemporaryDirectory[str]:
    """Return a folder that is gone afterwards; in memory, where there is such a place."""
    return tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None)


def one_case(seed_and_number: tuple[int, int]) -> tuple[int, list[str]]:
    """Return what is wrong with a case, all of it computed in this process."""
    import numba

    numba.set_num_threads(1)
    case = drawn(*seed_and_number)
    with in_memory() as place:
        folder = Path(place)
        try:
            after = lived(case, folder, Here(backwards=case.executor[0]))
            Engine.load(folder / "store").export(folder / "export")
            return case.number, after.faults + compared(after, folder, Here(backwards=case.executor[1]))
        except Exception as error:  # noqa: BLE001 - is what was to be found
            return case.number, [f"{type(error).__name__}: {error}"]


def many_cases(seed: int, n: int, n_processes: int) -> Iterator[tuple[int, list[str]]]:
    """Yield what is wrong with each of so many cases."""
    with multiprocessing.get_context("spawn").Pool(n_processes) as pool:
        started = time.perf_counter()
        for done, found in enumerate(pool.imap_unordered(one_case, ((seed, one) for one in range(n)), 10), start=1):
            yield found
            if done % 200 == 0:
                print(f"{done:,} cases, {time.perf_counter() - started:,.0f} s", flush=True)


def fresh_processes(seed: int, first: int, n: int, n_at_once: int) -> Iterator[tuple[int, list[str]]]:
    """Yield what is wrong with cases that workers compute here, and the command line in a process of its own."""
    with in_memory() as place, ThreadPoolExecutor(n_at_once) as pool:
        waiting = []
        with LocalExecutor(n_workers=1, threads=1) as executor:
            for number in range(first, first + n):
                case, folder = drawn(seed, number), Path(place) / str(number)
                folder.mkdir()
                after = lived(case, folder, executor)
                Engine.load(folder / "store").export(folder / "export")
                faults = after.faults + compared(after, folder, executor)
                waiting.append((case, after, faults, pool.submit(command, folder)))
        for done, (case, after, faults, digest) in enumerate(waiting, start=1):
            more = [] if digest.result() == after.digest else [f"a fresh process: {digest.result()}"]
            yield case.number, faults + more
            if done % 10 == 0:
                print(f"{done} processes", flush=True)


def command(folder: Path) -> str:
    """Fit an export by the command line, in a process that has seen nothing else; return the digest, or the message."""
    words = ["fit", "--from-export", str(folder / "export"), "--store", str(folder / "fresh"), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "receraser", *words],
        cwd=folder,
        env=os.environ | {"RECERASER_KEYS": str(folder / "keys")},
        capture_output=True,
        text=True,
        check=False,
    )
    return str(json.loads(done.stdout)["digest"]) if done.returncode == 0 else done.stderr.strip()


Part = dict[str, Any]


def tests(n_processes: int) -> list[Part]:
    """Run the tests marked `nightly`; return what they did, by kinds, with the seconds that each kind took."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        words = ["-q", "-m", "nightly", "-n", str(n_processes), f"--junitxml={report}", *TESTS]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *words], cwd=ROOT, env=os.environ | {"RECERASER_NIGHTLY": "1"}, check=False
        )
        found = list(ET.parse(report).getroot().iter("testcase"))
    parts = []
    for kind, what in TOLD.items():
        own = [one for one in found if one.attrib["name"].startswith(kind)]
        found = [one for one in found if one not in own]
        parts.append(_part(what, sum(map(_number, own)), own))
    parts.append(_part("other tests marked nightly", len(found), found))
    if done.returncode and not any(one["failures"] for one in parts):
        parts[-1]["failures"].append(f"pytest ended with status {done.returncode}")
    return parts


def _part(what: str, number: int, cases: Sequence[ET.Element]) -> Part:
    bad = [one for one in cases if one.find("failure") is not None or one.find("error") is not None]
    names = [f"{one.attrib['classname']}::{one.attrib['name']}" for one in bad]
    return {
        "what": what,
        "number": number,
        "failures": names,
        "seconds": sum(float(one.attrib["time"]) for one in cases),
    }


def _number(one: ET.Element) -> int:
    """Return how much a test did: as it says itself, or by its parameter; what failed says nothing."""
    said = [int(prop.attrib["value"]) for prop in one.iter("property")]
    parameter = one.attrib["name"].partition("[")[2].rstrip("]")
    return sum(said) or (int(parameter) if parameter.isdigit() else 0)


# ---------------------------------------------------------------------- the page


def page(found: Mapping[str, object]) -> str:
    """Return the page about a run."""
    parts = found["parts"]
    assert isinstance(parts, list)
    lines = [
        "# Nightly",
        "",
        f"`{found['command']}`, {found['cores']} CPU cores, {found['date']}; other work ran on the same cores. What is",
        "drawn and what is compared: `tools/nightly.py`.",
        "",
        *head(["", "number", "failures", "seconds"]),
        *(f"| {one['what']} | {one['number']:,} | {len(one['failures'])} | {one['seconds']:,.0f} |" for one in parts),
        "",
        f"In all: {sum(len(one['failures']) for one in parts)} failures.",
        "",
        *[f"- {one['what']}: {fault}" for one in parts for fault in one["failures"][:20]],
    ]
    lines += [""] if lines[-1] else []
    kinds, models = found["kinds"], found["combinations"]
    assert isinstance(kinds, dict)
    assert isinstance(models, dict)
    columns = sorted({model for row in models.values() for model in row})
    lines += ["## What happened in the cases", "", *head(["", "times"])]
    lines += [f"| {name} | {n:,} |" for name, n in kinds.items()]
    lines += ["", "## Cases by partition, aggregation and model", "", *head(["", *columns])]
    for name, row in models.items():
        lines.append(f"| {name} | {' | '.join(str(row.get(model, '')) for model in columns)} |")
    return "\n".join(lines) + "\n"


def counted(cases: Sequence[Case]) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """Return how often each kind of step is there, and how many cases each combination has."""
    steps = Counter(step.kind for case in cases for step in case.steps)
    names = {"add": "rows added", "rebuild": "rebuilt", "nobody": "forget what is not held", "batch": "forget a batch"}
    kinds = {names.get(kind, f"forget by {kind}"): steps[kind] for kind in KINDS}
    table: dict[str, dict[str, int]] = {}
    for case in cases:
        row = table.setdefault(f"{case.combination.partition}, {case.combination.aggregation}", {})
        row[case.combination.model] = row.get(case.combination.model, 0) + 1
    return kinds, dict(sorted(table.items()))


def main() -> int:
    """Run everything, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=2000, help="cases in processes that compute by themselves")
    parser.add_argument("--processes", type=int, default=50, help="cases whose fresh fit is a command of its own")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip-tests", action="store_true", help="only the cases; no page is written")
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # as the tests
    os.environ["PYTHONPATH"] = str(ROOT / "src")  # whatever is installed, it is this tree that is tested
    n_cores = len(os.sched_getaffinity(0))
    parts: list[Part] = []

    def note(part: Part) -> None:
        parts.append(part)
        print(
            f"{part['what']}: {part['number']:,}, {len(part['failures'])} failures, {part['seconds']:,.0f} s",
            flush=True,
        )
        for one in part["failures"][:20]:
            print(f"  {one}", flush=True)

    what = "cases: store = fit of its export = fit of the survivors"
    note(timed(what, many_cases(options.seed, options.cases, n_cores)))
    what = "the same, and = `receraser fit --from-export` in a fresh process"
    note(timed(what, fresh_processes(options.seed, options.cases, options.processes, n_cores)))
    if not options.skip_tests:
        for one in tests(n_cores):
            note(one)
    cases = [drawn(options.seed, number) for number in range(options.cases + options.processes)]
    kinds, combinations = counted(cases)
    result = {
        "command": " ".join(["python tools/nightly.py", *sys.argv[1:]]),
        "date": datetime.now(UTC).date().isoformat(),
        "seed": options.seed,
        "cores": n_cores,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "parts": parts,
        "kinds": kinds,
        "combinations": combinations,
    }
    if not options.skip_tests:
        (RESULTS / "nightly.json").write_text(json.dumps(result, indent=1) + "\n")
        (RESULTS / "nightly.md").write_text(page(result))
    return int(any(one["failures"] for one in parts))


def timed(what: str, cases: Iterator[tuple[int, list[str]]]) -> Part:
    """Go through cases; return how many there were, what is wrong, by the number of the case, and the seconds."""
    started = time.perf_counter()
    found = sorted(cases)
    faults = [f"case {number}: {fault}" for number, faults in found for fault in faults]
    return {"what": what, "number": len(found), "failures": faults, "seconds": time.perf_counter() - started}


if __name__ == "__main__":
    raise SystemExit(main())
