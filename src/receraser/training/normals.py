"""Numbers drawn for ids, nearly normal or uniform: `receraser.seeds`, with kernels for many ids; the same bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from receraser import seeds
from receraser.data.ids import IdMap
from receraser.training.kernels import draws_on_cpu

__all__ = ["normal_for", "uniform_for"]


def normal_for(ids: IdMap, key: int, dim: int) -> NDArray[np.float32]:
    """Return (len(ids), dim) numbers of mean 0 and variance 1; an id's numbers do not depend on the other ids.

    Examples
    --------
    >>> ids = IdMap(["a", "b"])
    >>> normal_for(ids, 7, 3).tolist() == seeds.normal(7, seeds.id_counters(ids), 3).tolist()
    True
    """
    kernels, rows = draws_on_cpu(), _counters(ids)
    if kernels is None:
        return seeds.normal(key, rows, dim)
    columns = seeds.draw(key, np.arange(dim, dtype=np.uint64))
    made = np.empty((len(ids), dim), dtype=np.float32)
    kernels.normals(np.uint64(key ^ seeds.MIX_1), rows, columns, made)
    return made


def uniform_for(ids: IdMap, key: int) -> NDArray[np.float64]:
    """Return a number in [0, 1) for each id, which does not depend on the other ids.

    Examples
    --------
    >>> ids = IdMap(["a", "b"])
    >>> uniform_for(ids, 7).tolist() == seeds.uniform(7, seeds.id_counters(ids)).tolist()
    True
    """
    return seeds.uniform(key, _counters(ids))


def _counters(ids: IdMap) -> seeds.Counters:
    kernels = draws_on_cpu()
    if kernels is None:
        return seeds.id_counters(ids)
    rows = np.empty(len(ids), dtype=np.uint64)
    kernels.counters(np.frombuffer(ids.text, dtype=np.uint8), *ids.bounds, rows)
    return rows
