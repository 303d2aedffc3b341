"""The same through real worker processes, held to another process that has only ever seen the survivors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from receraser.data.readers import write_csv
from receraser.erasure.request import ForgetRequest
from receraser.execution.local import LocalExecutor
from tests.contracts.worlds import blocks
from tests.forgetting.engines import EVERY_METHOD, Book, rows_of

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
