"""What proof costs: durability, ledger and certificate of a warm forget, and the time of a verification.

    python -m benchmarks.proof --data DIR

`spectral` over WMF on ML-1M, 32 shards. One process with warm workers forgets users one by one in an open store with
its keys; of every forget it is taken how long it took in all, and how long what is there for proof alone: writing the
request down and clearing it away, commitments and statement, signatures, the ledger's line. (The state's digest is
computed beforehand: a store has one, proof or not.) Then `receraser verify` of that store, as a command and inside.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.datasets import load

RESULTS = Path(__file__).parent / "results"
ALONE = ("write_down", "_certified", "_entered", "_subjects")  # of custody
FILES = ("put_certificate", "drop_pending")  # of the store


class Clock:
    """Adds up the seconds spent in some methods."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def around(self, owner: type, name: str) -> None:
        """Time every call of a method from now on."""
        original: Callable[..., Any] = getattr(owner, name)

        def timed(*arguments: object, **named: object) -> Any:
            started = time.perf_counter()
            try:
                return original(*arguments, **named)
            finally:
                self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

        setattr(owner, name, timed)


def measured(data: Path, n_forgets: int) -> dict[str, Any]:
    """Fit, forget one by one, verify."""
    from receraser.custody import Custody
    from receraser.engine import Engine
    from receraser.execution.local import LocalExecutor
    from receraser.models.wmf import WMF
    from receraser.proof.keyring import Keyring
    from receraser.state import State
    from receraser.store.directory import DirectoryStore
    from receraser.verify.checks import examine
    from receraser.verify.signatures import Vouchers

    rows = load(data, "ml-1m").train
    clock = Clock()
    original = Custody.publish

    def publish(self: Custody, snapshot: Any, act: Any, **named: Any) -> Any:
        state: State = snapshot.state
        _ = state.digest, [one.report for one in state.shards]  # computed with or without proof
        return original(self, snapshot, act, **named)

    Custody.publish = publish  # type: ignore[method-assign]
    for name in ALONE:
        clock.around(Custody, name)
    for name in FILES:
        clock.around(DirectoryStore, name)
    forgets = []
    with tempfile.TemporaryDirectory() as folder, LocalExecutor() as executor:
        store, keys = Path(folder) / "store", Path(folder) / "keys"
        engine = Engine(model=WMF(), method="spectral", shards=32, executor=executor).fit(rows)
        engine.save(store, keyring=Keyring(keys))
        with Engine.changing(store, executor=executor, keyring=Keyring(keys)) as opened:
            for user in rows.users.ids[:: len(rows.users) // n_forgets][:n_forgets]:
                clock.seconds.clear()
                started = time.perf_counter()
                opened.forget(users=[user])
                forgets.append({"total": time.perf_counter() - started, "parts": dict(clock.seconds)})
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
        "forgets": forgets,
        "verify": {"ok": answer["ok"], "checks": len(answer["checks"]), "command": commands, "inside": inside},
    }


def report(found: dict[str, Any]) -> str:
    """Return the page."""
    forgets = found["forgets"]
    whole = [one["total"] for one in forgets]
    proof = [sum(one["parts"].values()) for one in forgets]
    names = sorted({name for one in forgets for name in one["parts"]})
    lines = [
        "# What proof costs",
        "",
        f"`python -m benchmarks.proof --data DIR`, two CPU cores, {found['date']}. ML-1M, `spectral`, WMF, 32 shards,",
        f"warm; {len(forgets)} users forgotten one by one, to the store. Milliseconds, median (largest).",
        "",
        "| | ms |",
        "|---|---|",
        f"| a forget, everything included | {_ms(whole)} |",
        f"| of it for durability, ledger and certificate | {_ms(proof)} |",
        *(f"| - `{name.strip('_')}` | {_ms([one['parts'].get(name, 0.0) for one in forgets])} |" for name in names),
        f"| `receraser verify`, {found['verify']['checks']} checks, no replay | {_ms(found['verify']['command'])} |",
        f"| the same without starting Python | {_ms(found['verify']['inside'])} |",
        "",
    ]
    return "\n".join(lines)


def _ms(seconds: list[float]) -> str:
    return f"{1000 * statistics.median(seconds):,.1f} ({1000 * max(seconds):,.1f})"


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
