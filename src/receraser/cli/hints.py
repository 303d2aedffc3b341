"""What `fit` says of a choice that another one would clearly beat: measured regimes, as short as can be.

Pure: a configuration and the size of the data in, sentences out. The figures behind them are in benchmarks/results
(closed-form.md, ablations.md, methods.md); the argument is in docs/decisions/0007-defaults.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from receraser.config import EngineConfig
    from receraser.data.interactions import Interactions

__all__ = ["hints"]

_REFIT_ROWS = 10_000_000  # up to about here a refit of WMF takes seconds
_GRAM_ROWS = 2_000_000  # up to here a refit of gram takes about as long as a forget of one of its shards
_SLOW_ROWS = 100_000  # from about here BPR and LightGCN take long on a CPU
_THIN_SHARD = 2_000  # rows of a shard under which its submodel knows little
_SPARSE = 50  # rows per item under which a graph filter is ahead


def hints(config: EngineConfig, rows: Interactions) -> list[str]:
    """Return what to know before waiting; mostly nothing.

    Examples
    --------
    >>> from receraser.config import EngineConfig, resolve
    >>> from receraser.data.interactions import Interactions
    >>> few = Interactions.from_pairs([("u", "a"), ("v", "b")])
    >>> [one[:33] for one in hints(resolve(EngineConfig(method="sisa", device="cpu")), few)]
    ['with 2 rows a refit of wmf takes ']
    """
    found = []
    sharded = config.shards > 1
    if sharded and config.model == "wmf" and config.aggregation != "spectral" and len(rows) <= _REFIT_ROWS:
        found.append(
            f"with {len(rows):,} rows a refit of wmf takes seconds: --method retrain --model wmf forgets as exactly, "
            "recommends better and is quicker"
        )
    if sharded and config.model == "gram" and len(rows) <= _GRAM_ROWS:
        found.append(
            f"with {len(rows):,} rows a refit of gram takes a second or two: --method retrain --model gram forgets as "
            "exactly and recommends better; shards pay with more rows, or where half a second is too long"
        )
    if config.model in ("bpr", "lightgcn") and config.device == "cpu" and len(rows) >= _SLOW_ROWS:
        found.append(
            f"fitted on all {len(rows):,} rows on a CPU, {config.model} takes about a hundred times as long as gram, "
            "which is about as good where items have many rows: --method retrain --model gram"
        )
    if sharded and len(rows) / config.shards < _THIN_SHARD and len(rows) >= _THIN_SHARD:
        enough = len(rows) // (2 * _THIN_SHARD)
        instead = f"--shards {enough} would do" if enough > 1 else "with so little data --method retrain is cheap"
        found.append(f"{config.shards} shards of {len(rows) // config.shards:,} rows each know little; {instead}")
    if config.model in ("wmf", "gram", "ease") and len(rows) >= _SLOW_ROWS and len(rows) / len(rows.items) < _SPARSE:
        found.append(
            f"there are only {len(rows) / len(rows.items):.0f} rows for each item; on data as sparse as that (Yelp2018)"
            " --method retrain --model graphfilter was ahead"
        )
    return found
