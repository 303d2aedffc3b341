"""Nearly normal numbers for ids: `receraser.seeds`, with kernels for many ids; the same bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from receraser import seeds
from receraser.data.ids import IdMap
from receraser.training.kernels import draws_on_cpu

__all__ = ["normal_for"]


def normal_for(ids: IdMap, key: int, dim: int) -> NDArray[np.float32]:
    """Return (len(ids), dim) numbers of mean 0 and variance 1; an id's numbers do not depend on the other ids.

    Examples
    --------
    >>> ids = IdMap(["a", "b"])
    >>> normal_for(ids, 7, 3).tolist() == seeds.normal(7, seeds.id_counters(ids), 3).tolist()
    True
    """
    kernels = draws_on_cpu()
    if kernels is None:
        return seeds.normal(key, seeds.id_counters(ids), dim)
    rows = np.empty(len(ids), dtype=np.uint64)
    kernels.counters(np.frombuffer(ids.text, dtype=np.uint8), *ids.bounds, rows)
    columns = seeds.draw(key, np.arange(dim, dtype=np.uint64))
    made = np.empty((len(ids), dim), dtype=np.float32)
    kernels.normals(np.uint64(key ^ seeds.MIX_1), rows, columns, made)
    return made
