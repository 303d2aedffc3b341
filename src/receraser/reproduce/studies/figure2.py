"""Figure 2: ways to cut the rows into shards, under the same attention. The paper's four, and the keyed hash.

The hash looks at no data and so remembers none: what it costs in quality is the price of exactness at once.
"""

from __future__ import annotations

from receraser.reproduce import paper
from receraser.reproduce.order import Order
from receraser.reproduce.settings import chosen
from receraser.reproduce.studies.bars import Bars
from receraser.reproduce.studies.study import Entry, Study, fits, picked

__all__ = ["STUDY"]

PARTITIONS = ("random", "ubp", "ibp", "inbp", "hash")


def entries(order: Order) -> list[Entry]:
    """Return a fit for each partition; InBP's is RecEraser of Table 3."""
    wanted = picked(order, PARTITIONS)
    found = []
    for seed in range(order.seeds):
        for model in order.models:
            found.append(fits(order, model, "retrain", chosen(order.dataset, model, "retrain", seed=seed)))
            attended = chosen(order.dataset, model, "receraser", seed=seed)
            found += [fits(order, model, name, attended.cut_by(name)) for name in PARTITIONS if name in wanted]
    return found


_BARS = Bars(
    [
        "Ten shards, the same submodels and the same attention over each way to cut the rows. `balance`: the",
        "largest shard over the mean, in rows. Random and hash look at no data (level L3 at once); the others",
        "remember what they saw until a rebuild (L1). The paper shows a picture; the numbers beside ours are",
        "those that its text names.",
    ],
    paper.FIGURE2,
    "how rows are cut into shards, under attention",
)
STUDY = Study(
    "figure2", "Figure 2: ways to cut the rows into shards", entries, _BARS.page, _BARS.draw, methods=PARTITIONS
)
