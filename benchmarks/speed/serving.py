"""Serving, warm: the ten best items for a thousand users, beside `implicit`; one person with a thousand rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from benchmarks.harness import alternately, timed
from benchmarks.peers import CORES, implicit_als, matrix_of
from benchmarks.speed.fits import engine_for
from receraser.reproduce.datasets import Dataset

if TYPE_CHECKING:
    from receraser.execution.local import LocalExecutor

__all__ = ["one_person", "top_ten"]

HISTORY = 1000  # rows of the person who asks


def top_ten(data: Dataset, executor: LocalExecutor, repeats: int = 15) -> dict[str, Any]:
    """Both leave out what the user has; both begin with users and end with items, best first."""
    import numpy as np
    import torch

    torch.set_num_threads(CORES)
    matrix = matrix_of(data.train)
    theirs = implicit_als(matrix)
    engine = engine_for("wmf", executor).fit(data.train)
    users = data.train.users.ids[:: len(data.train.users) // 1000][:1000]
    index = np.array([data.train.users.index_of(one) for one in users])
    sides: dict[str, Callable[[], object]] = {
        "ours": lambda: engine.recommend(users=users, k=10),
        "implicit": lambda: theirs.recommend(index, matrix[index], N=10, filter_already_liked_items=True),
    }
    for work in sides.values():
        work()
    times = alternately(sides, repeats=repeats)
    return {
        "seconds": {name: list(one.runs) for name, one in times.items()},
        "ratio": times["implicit"].median / times["ours"].median,
    }


def one_person(data: Dataset, executor: LocalExecutor, repeats: int = 200) -> dict[str, Any]:
    """Somebody new, known by a thousand rows: their vector alone, and their ten best from ids to ids."""
    import torch

    from receraser.data.interactions import Histories
    from receraser.engine import Engine
    from receraser.models.folded import FoldedScorer
    from receraser.models.gram import Gram
    from receraser.models.graphfilter import GraphFilter
    from receraser.models.wmf import WMF

    torch.set_num_threads(CORES)
    engines = {
        "gram, rank 128": Engine(model=Gram(rank=128), executor=executor),
        "spectral, WMF, rank 64": Engine(model=WMF(), method="spectral", shards=32, executor=executor),
        "graphfilter": Engine(model=GraphFilter(), executor=executor),
    }
    liked = data.train.items.ids[:: len(data.train.items) // HISTORY][:HISTORY]
    found: dict[str, Any] = {}
    for name, engine in engines.items():
        engine.fit(data.train)
        engine.recommend(items=liked, k=10)
        runs = [timed(lambda: engine.recommend(items=liked, k=10)) for _ in range(repeats)]  # noqa: B023
        found[name] = {"list": runs}
        scorer: object = engine.state.scorer
        if isinstance(scorer, Gram):
            weights = scorer.fold_in_settings(data.train.density)
            scorer = FoldedScorer(scorer.items_, scorer.item_vectors_, *weights)
        if isinstance(scorer, FoldedScorer):  # a graphfilter has no vectors of people
            history = Histories.from_lists([""], [scorer.items_.indices(liked)])
            found[name]["vector"] = [timed(lambda: scorer.people(history)) for _ in range(repeats)]  # noqa: B023
    return found
