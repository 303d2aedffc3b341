"""Ten million interactions: one WMF fitted on all of them, beside a forget in shards merged by `spectral`.

    python -m benchmarks.large

A made world of 71,567 users and 10,681 items (`receraser data make large`), everything in one run on one machine: WMF
on all rows, the fit of 32 shards, and users forgotten one by one in the open store, to the published, certified state.
"""

from __future__ import annotations

import argparse
import datetime
import json
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def measured(n_rows: int, n_shards: int, n_forgets: int) -> dict[str, Any]:
    """Fit, fit in shards, forget."""
    from receraser.data.worlds import large_world_interactions
    from receraser.engine import Engine
    from receraser.execution.local import LocalExecutor
    from receraser.models.wmf import WMF
    from receraser.proof.keyring import Keyring

    rows = large_world_interactions(71_567, 10_681, n_rows)
    forgets = []
    with tempfile.TemporaryDirectory() as folder, LocalExecutor() as executor:
        whole = Engine(model=WMF(), method="retrain", executor=executor).fit(rows).seconds
        engine = Engine(model=WMF(), method="spectral", shards=n_shards, executor=executor).fit(rows)
        sharded = dict(engine.seconds)
        keyring = Keyring(Path(folder) / "keys")
        engine.save(Path(folder) / "store", keyring=keyring)
        del engine
        with Engine.changing(Path(folder) / "store", executor=executor, keyring=keyring) as opened:
            for user in rows.users.ids[:: len(rows.users) // n_forgets][:n_forgets]:
                started = time.perf_counter()
                opened.forget(users=[user])
                forgets.append({"total": time.perf_counter() - started, **opened.seconds})
    return {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "rows": len(rows),
        "shards": n_shards,
        "retrain": whole,
        "fit": sharded,
        "forgets": forgets,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def report(found: dict[str, Any]) -> str:
    """Return the page."""
    retrain = found["retrain"]["submodels"]
    totals = [one["total"] for one in found["forgets"]]
    stages = ["partition", "submodels", "aggregate", "publish"]
    parts = {stage: statistics.median(one[stage] for one in found["forgets"]) for stage in stages}
    first, middle = sum(found["fit"].values()), statistics.median(totals)
    rest = middle - sum(parts.values())
    lines = [
        "# Ten million interactions",
        "",
        f"`python -m benchmarks.large`, {found['date']}; {found['rows']:,} rows, {found['shards']} shards",
        "",
        "| | seconds | of the WMF fit |",
        "|---|---|---|",
        f"| WMF on all rows | {retrain:.1f} | 1 |",
        f"| the shards and their merge, first fit | {first:.1f} | {first / retrain:.2f} |",
        f"| forget one user, median of {len(totals)} | {middle:.2f} | {middle / retrain:.3f} |",
        *(f"| - {stage} | {value:.2f} | {value / retrain:.3f} |" for stage, value in parts.items()),
        f"| - plan, tables and the rest | {rest:.2f} | {rest / retrain:.3f} |",
        "",
        f"Peak memory of the parent process: {found['peak_gb']:.1f} GB.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--shards", type=int, default=32)
    parser.add_argument("--forgets", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    found = measured(options.rows, options.shards, options.forgets)
    (options.out / "large.json").write_text(json.dumps(found, indent=1) + "\n")
    (options.out / "large.md").write_text(report(found))
    print(report(found))


if __name__ == "__main__":
    main()
