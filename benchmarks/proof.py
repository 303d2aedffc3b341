"""What proof costs: durability, ledger and certificate of a warm forget, and the time of a verification.

    python -m benchmarks.proof --data DIR

`spectral` over WMF on ML-1M, 32 shards. One process with warm workers forgets users in two stores of the same rows, in
turn: in one with everything (the request made durable, every file flushed, commitments, signatures, ledger), in the
other without (no request written down, nothing flushed, nothing signed; the same files and the same ledger line). The
difference of the two is what durability and proof cost. Then `receraser verify` of the first, as a command and inside.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from receraser.reproduce.datasets import load

if TYPE_CHECKING:
    from receraser.custody import Custody
    from receraser.engine import Engine
    from receraser.store.pending import Pending

RESULTS = Path(__file__).parent / "results"


def _as_it_is(_: Custody, pending: Pending) -> Pending:
    return pending


@contextmanager
def without_proof() -> Iterator[None]:
    """Let nothing be flushed and no request be written down."""
    from receraser.custody import Custody

    flush, write_down = os.fsync, Custody.write_down
    os.fsync = lambda *_: None
    Custody.write_down = _as_it_is  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        os.fsync, Custody.write_down = flush, write_down  # type: ignore[method-assign]


def measured(data: Path, n_forgets: int) -> dict[str, Any]:
    """Fit, forget one by one, verify."""
    from receraser.engine import Engine
    from receraser.execution.local import LocalExecutor
    from receraser.models.wmf import WMF
    from receraser.proof.keyring import Keyring
    from receraser.verify.checks import examine
    from receraser.verify.signatures import Vouchers

    rows = load(data, "ml-1m").train
    seconds: dict[str, list[float]] = {"with": [], "without": []}
    with tempfile.TemporaryDirectory() as folder, LocalExecutor() as executor:
        store, bare, keys = (Path(folder) / name for name in ("store", "bare", "keys"))
        engine = Engine(model=WMF(), method="spectral", shards=32, executor=executor).fit(rows)
        engine.save(bare)
        engine.save(store, keyring=Keyring(keys))
        users = rows.users.ids[:: len(rows.users) // n_forgets][:n_forgets]
        with (
            Engine.changing(store, executor=executor, keyring=Keyring(keys)) as opened,
            Engine.changing(bare, executor=executor) as plain,
        ):
            for user in users:
                with without_proof():
                    seconds["without"].append(_timed(plain, user))
                seconds["with"].append(_timed(opened, user))
            assert opened.digest == plain.digest
        command = [sys.executable, "-m", "receraser", "verify", "--store", str(store), "--keys", str(keys), "--json"]
        commands, inside = [], []
        for _ in range(5):
            started = time.perf_counter()
            done = subprocess.run(command, capture_output=True, check=True, text=True)
            commands.append(time.perf_counter() - started)
            started = time.perf_counter()
            ring = Keyring(keys)
            examine(store, vouchers=Vouchers.of([], ring, named=True), keyring=ring)
            inside.append(time.perf_counter() - started)
        answer = json.loads(done.stdout)
    return {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "forgets": seconds,
        "verify": {"ok": answer["ok"], "checks": len(answer["checks"]), "command": commands, "inside": inside},
    }


def _timed(engine: Engine, user: str) -> float:
    started = time.perf_counter()
    engine.forget(users=[user])
    return time.perf_counter() - started


def report(found: dict[str, Any]) -> str:
    """Return the page."""
    whole, bare, verify = found["forgets"]["with"], found["forgets"]["without"], found["verify"]
    cost = [one - other for one, other in zip(whole, bare, strict=True)]
    lines = [
        "# What proof costs",
        "",
        f"`python -m benchmarks.proof --data DIR`, two CPU cores, {found['date']}. ML-1M, `spectral`,",
        f"WMF, 32 shards, warm workers; {len(whole)} users forgotten one by one, to the published store.",
        "Milliseconds, median [smallest, largest].",
        "",
        "| | ms |",
        "|---|---|",
        f"| a forget, durable and certified | {_ms(whole)} |",
        f"| the same, nothing flushed, written down or signed | {_ms(bare)} |",
        f"| difference, user by user | {_ms(cost)} |",
        f"| `receraser verify`, {verify['checks']} checks, no replay | {_ms(verify['command'])} |",
        f"| the same without starting Python | {_ms(verify['inside'])} |",
        "",
    ]
    return "\n".join(lines)


def _ms(seconds: list[float]) -> str:
    middle, least, most = (1000 * one(seconds) for one in (statistics.median, min, max))
    return f"{middle:,.0f} [{least:,.0f}, {most:,.0f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds ml-1m")
    parser.add_argument("--forgets", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    found = measured(options.data, options.forgets)
    (options.out / "proof.json").write_text(json.dumps(found, indent=1) + "\n")
    (options.out / "proof.md").write_text(report(found))
    print(report(found))


if __name__ == "__main__":
    main()
