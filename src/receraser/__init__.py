"""receraser: a recommender that can forget: exactly, fast, and provably.

    >>> import receraser
    >>> rows = receraser.Interactions.from_pairs([("ann", "tea"), ("ann", "cake"), ("bob", "tea"), ("cy", "soup")])
    >>> engine = receraser.Engine(model=receraser.WMF(dim=4), seed=7).fit(rows)
    >>> [one.item for one in engine.recommend(users=["bob"], k=1)["bob"]]
    ['cake']

Importing the package is cheap: torch comes with the first model.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from receraser.data.films import films
    from receraser.data.interactions import Interactions
    from receraser.data.readers import read
    from receraser.engine import Engine
    from receraser.errors import ReceraserError
    from receraser.evaluation import evaluate
    from receraser.models.bpr import BPR
    from receraser.models.ease import EASE
    from receraser.models.gram import Gram
    from receraser.models.graphfilter import GraphFilter
    from receraser.models.lightgcn import LightGCN
    from receraser.models.wmf import WMF

__all__ = [
    "BPR",
    "EASE",
    "WMF",
    "Engine",
    "Gram",
    "GraphFilter",
    "Interactions",
    "LightGCN",
    "ReceraserError",
    "evaluate",
    "films",
    "read",
]

_HOMES = {
    "BPR": "receraser.models.bpr",
    "EASE": "receraser.models.ease",
    "Engine": "receraser.engine",
    "Gram": "receraser.models.gram",
    "GraphFilter": "receraser.models.graphfilter",
    "Interactions": "receraser.data.interactions",
    "LightGCN": "receraser.models.lightgcn",
    "ReceraserError": "receraser.errors",
    "WMF": "receraser.models.wmf",
    "evaluate": "receraser.evaluation",
    "films": "receraser.data.films",
    "read": "receraser.data.readers",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'receraser' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
