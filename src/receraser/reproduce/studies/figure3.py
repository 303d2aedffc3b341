"""Figure 3: ways to put the submodels together. The paper's three on the very same InBP shards, and ours.

`spectral` stands there twice: on the InBP shards, like the others, and on the hash shards that it is made for, beside
attention on those very shards. `gram`, which needs no shards at all, is its other control.
"""

from __future__ import annotations

from receraser.reproduce import paper
from receraser.reproduce.order import Order
from receraser.reproduce.settings import additive, chosen
from receraser.reproduce.studies.bars import Bars
from receraser.reproduce.studies.study import Entry, Study, fits, picked

__all__ = ["STUDY"]

SAME_SHARDS = {"mean": "sisa", "static": "grapheraser", "attention": "receraser", "spectral": "spectral"}
ON_HASH = {"attention, hash": "receraser", "spectral, hash": "spectral"}
METHODS = (*SAME_SHARDS, "hash", "gram")
_ON_INBP = {"mean": "Mean", "static": "Static", "attention": "Attention", "spectral": "Spectral"}


def entries(order: Order) -> list[Entry]:
    """Return a fit for each aggregation; those of one partition share their submodels."""
    wanted = picked(order, METHODS)
    found = []
    for seed in range(order.seeds):
        for model in order.models:
            by_method = {
                name: chosen(order.dataset, model, name, seed=seed) for name in ("retrain", *SAME_SHARDS.values())
            }
            found.append(fits(order, model, "retrain", by_method["retrain"]))
            for row, method in SAME_SHARDS.items():
                if row in wanted:
                    settings = by_method["receraser"]
                    same = settings if method == "receraser" else settings.under(by_method[method])
                    found.append(fits(order, model, row, same))
            for row, method in ON_HASH.items():
                if "hash" in wanted:
                    settings = by_method["spectral"]
                    same = settings if method == "spectral" else settings.under(by_method[method])
                    found.append(fits(order, model, row, same))
            if "gram" in wanted:
                found.append(fits(order, model, "gram", additive(order.dataset, "gram", seed=seed)))
    return found


_BARS = Bars(
    [
        "Ten shards. The first four put the very same submodels on the very same InBP shards together; the",
        "next two those on hash shards, which remember nothing. Gram, a control of Spectral, needs no shards.",
        "The paper shows a picture; the numbers beside ours are those that its text names.",
    ],
    paper.FIGURE3,
    "how submodels are put together",
    {row: f"{name}, InBP" for row, name in _ON_INBP.items()}
    | {"attention, hash": "Attention, hash", "spectral, hash": "Spectral, hash"},
)
STUDY = Study(
    "figure3", "Figure 3: ways to put the submodels together", entries, _BARS.page, _BARS.draw, methods=METHODS
)
