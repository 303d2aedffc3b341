"""`top_k`: the only ranking code. Seen items are left out; ties go to the item whose id comes first.

Each score becomes a 64-bit integer: the score's order-preserving bits above, the item's position below. The keys of a
row are all different, so their order is unique and the same on every device, whatever algorithm sorts them. On the CPU
a few best are found in one pass over the scores, which is many times as quick and gives the same; where that kernel
cannot be compiled, a GPU sorts, if there is one.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from receraser.training.kernels import compiles, on_cpu

__all__ = ["top_k"]

_LOWEST = -(2**63)
_FEW = 200  # so many are kept in order one by one; for more it is quicker to sort

Cells = tuple[torch.Tensor, torch.Tensor]


def top_k(scores: torch.Tensor, k: int, *, exclude: Cells | None = None) -> torch.Tensor:
    """Return the indices of the k best items of every row, best first; -1 where fewer than k are left.

    Parameters
    ----------
    scores
        (n, n_items) float32, without NaN.
    k
        How many; may exceed the number of items.
    exclude
        (rows, columns) of the cells that must not appear: the items a user has already.

    Examples
    --------
    >>> top_k(torch.tensor([[1.0, 3.0, 3.0, 2.0]]), 3, exclude=(torch.tensor([0]), torch.tensor([2]))).tolist()
    [[1, 3, 0]]
    """
    if scores.device.type != "cpu":
        return _by_key(scores, k, exclude)
    if compiles() and 0 < k <= _FEW:
        return _one_by_one(scores, k, exclude)
    there = torch.device("cuda" if torch.cuda.is_available() and not compiles() else "cpu")
    left_out = None if exclude is None else (exclude[0].to(there), exclude[1].to(there))
    return _by_key(scores.to(there), k, left_out).cpu()


def _one_by_one(scores: torch.Tensor, k: int, exclude: Cells | None) -> torch.Tensor:
    n = scores.shape[0]
    best: NDArray[np.int64] = np.empty((n, k), dtype=np.int64)
    rows, columns = (np.zeros(0, dtype=np.int64),) * 2 if exclude is None else (one.numpy() for one in exclude)
    indptr = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=n), out=indptr[1:])
    left_out = columns[np.argsort(rows, kind="stable")]
    on_cpu().best_of_rows(scores.contiguous().numpy(), indptr, left_out.astype(np.int64), best)
    return torch.from_numpy(best)


def _by_key(scores: torch.Tensor, k: int, exclude: Cells | None) -> torch.Tensor:
    n, n_items = scores.shape
    bits = (scores + 0.0).contiguous().view(torch.int32).to(torch.int64)  # + 0.0 makes -0.0 and 0.0 one value
    ordered = torch.where(bits >= 0, bits, bits ^ 0x7FFFFFFF)  # negative floats sort backwards by their bits
    position = torch.arange(n_items, device=scores.device, dtype=torch.int64)
    keys = (ordered << 32) | (0xFFFFFFFF - position)  # (n, n_items)
    if exclude is not None:
        keys[exclude[0], exclude[1]] = _LOWEST
    values, index = torch.topk(keys, min(k, n_items), dim=1)
    index = torch.where(values == _LOWEST, -1, index)
    if k > n_items:
        index = torch.cat([index, index.new_full((n, k - n_items), -1)], dim=1)
    return index
