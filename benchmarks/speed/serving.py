"""The ten best items for a thousand users, warm, beside `implicit`'s recommend."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from benchmarks.harness import alternately
from benchmarks.peers import CORES, implicit_als, matrix_of
from benchmarks.speed.fits import engine_for
from receraser.reproduce.datasets import Dataset

if TYPE_CHECKING:
    from receraser.execution.local import LocalExecutor

__all__ = ["top_ten"]


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
