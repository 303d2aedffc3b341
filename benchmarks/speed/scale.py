"""Ten million interactions of a made world (71,567 users, 10,681 items): fit, forget, partition, reading, growth."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import alternately, peak_memory, timed
from benchmarks.peers import implicit_als, matrix_of

if TYPE_CHECKING:
    from receraser.data.interactions import Interactions
    from receraser.execution.local import LocalExecutor

__all__ = ["fit_and_forget", "growth", "partition", "reading", "world"]

SHAPE = (71_567, 10_681)


def world(n_rows: int) -> Interactions:
    """Return a made world of so many rows, of the shape of MovieLens 10M or smaller in proportion."""
    from receraser.data.worlds import large_world_interactions

    return large_world_interactions(max(1000, SHAPE[0] * n_rows // 10_000_000), SHAPE[1], n_rows)


def fit_and_forget(rows: Interactions, executor: LocalExecutor, *, shards: int = 32, n: int = 5) -> dict[str, Any]:
    """WMF on all rows beside ALS; then users forgotten one by one by `spectral`."""
    from receraser.engine import Engine
    from receraser.models.wmf import WMF
    from receraser.proof.keyring import Keyring

    alone = Engine(model=WMF(), method="retrain", executor=executor)
    engine = Engine(model=WMF(), method="spectral", shards=shards, executor=executor)
    with tempfile.TemporaryDirectory() as place:
        keyring = Keyring(Path(place) / "keys")
        with peak_memory() as peak_in_shards:  # weighed first, and not timed: nothing else is held yet
            engine.fit(rows).save(Path(place) / "weighed", keyring=keyring)
            with Engine.changing(Path(place) / "weighed", executor=executor, keyring=keyring) as opened:
                opened.forget(users=rows.users.ids[:1])
        del engine, opened
        matrix = matrix_of(rows)
        with peak_memory() as peak:
            alone.fit(rows)
        times = alternately({"ours": lambda: alone.fit(rows), "implicit": lambda: implicit_als(matrix)}, repeats=3)
        publish = timed(lambda: alone.save(Path(place) / "alone", keyring=keyring))
        engine = Engine(model=WMF(), method="spectral", shards=shards, executor=executor)
        first = timed(lambda: engine.fit(rows))
        engine.save(Path(place) / "store", keyring=keyring)
        forgets = []
        with Engine.changing(Path(place) / "store", executor=executor, keyring=keyring) as opened:
            for user in rows.users.ids[:: len(rows.users) // (n + 1)][: n + 1]:
                seconds = timed(lambda: opened.forget(users=[user]))  # noqa: B023
                forgets.append({"total": seconds, **opened.seconds})
    forgets = forgets[1:]
    whole = times["ours"].median + publish
    return {
        "rows": len(rows),
        "shards": shards,
        "seconds": {name: list(one.runs) for name, one in times.items()},
        "publish": publish,
        "ratio": times["ours"].median / times["implicit"].median,
        "peak_bytes": peak.bytes,
        "peak_bytes_in_shards": peak_in_shards.bytes,
        "first_fit": first,
        "forgets": forgets,
        "forget_ratio": statistics.median(one["total"] for one in forgets) / whole,
    }


def growth(
    executor: LocalExecutor, sizes: tuple[int, ...] = (1_000_000, 3_000_000, 10_000_000)
) -> list[dict[str, Any]]:
    """Time a row of a WMF fit, for worlds of several sizes."""
    from receraser.engine import Engine
    from receraser.models.wmf import WMF

    found = []
    for n in sizes:
        rows = world(n)
        engine = Engine(model=WMF(), method="retrain", executor=executor)
        engine.fit(rows.take(rows.user_index < 500))
        runs = [timed(lambda: engine.fit(rows)) for _ in range(3)]  # noqa: B023
        found.append({"rows": len(rows), "seconds": runs, "per_million": 1e6 * statistics.median(runs) / len(rows)})
    return found


def partition(rows: Interactions, executor: LocalExecutor, repeats: int = 3) -> dict[str, Any]:
    """InBP in ten shards, embeddings included."""
    from receraser.aggregation.mean import Mean
    from receraser.engine import Engine
    from receraser.models.wmf import WMF
    from receraser.partition.balanced import InBP

    # One sweep, and nothing learned on top: it is the partition that is timed, by a clock of its own.
    engine = Engine(model=WMF(n_sweeps=1), partitioner=InBP(n_shards=10), aggregator=Mean(), executor=executor)
    with peak_memory() as peak:
        runs = [engine.fit(rows).seconds["partition"] for _ in range(repeats)]
    return {"rows": len(rows), "seconds": runs, "peak_bytes": peak.bytes}


def reading(n_rows: int = 10_000_000) -> dict[str, Any]:
    """Read the world from CSV and from Parquet."""
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    from receraser.data.readers import read
    from receraser.data.worlds import write_large_world

    found: dict[str, Any] = {"rows": n_rows}
    with tempfile.TemporaryDirectory() as place:
        parquet, csv = Path(place) / "world.parquet", Path(place) / "world.csv"
        write_large_world(parquet, *SHAPE, n_rows)
        with pq.ParquetFile(parquet) as source, pc.CSVWriter(csv, source.schema_arrow) as target:
            for batch in source.iter_batches():
                target.write_batch(batch)
        for path in (csv, parquet):
            with peak_memory() as peak:
                runs = [timed(lambda: read(path)) for _ in range(3)]  # noqa: B023
            found[path.suffix[1:]] = {"seconds": runs, "peak_bytes": peak.bytes}
    return found
