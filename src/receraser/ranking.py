"""`top_k`: the only ranking code. Seen items are left out; ties go to the item whose id comes first.

Each score becomes a 64-bit integer: the score's order-preserving bits above, the item's position below. The keys of a
row are all different, so their order is unique and the same on every device, whatever algorithm sorts them. On the CPU
the scores themselves are sorted, which is several times as quick and gives the same, and only rows with a tie at the
border go by their keys.
"""

from __future__ import annotations

import torch

__all__ = ["top_k"]

_LOWEST = -(2**63)

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
    if scores.device.type == "cpu" and 0 < k < scores.shape[1]:
        return _by_score(scores, k, exclude)
    return _by_key(scores, k, exclude)


def _by_score(scores: torch.Tensor, k: int, exclude: Cells | None) -> torch.Tensor:
    masked = scores.clone()
    if exclude is not None:
        masked[exclude[0], exclude[1]] = -torch.inf
    values, index = torch.topk(masked, k + 1, dim=1)
    index = index[:, :k].sort(dim=1).values  # by position, then stably by score: of equals the first one comes first
    order = masked.gather(1, index).argsort(dim=1, descending=True, stable=True)
    index = index.gather(1, order)
    tied = torch.nonzero(values[:, k - 1] <= values[:, k])[:, 0]  # or fewer than k are left, and both are -inf
    if len(tied):
        number = torch.full((len(scores),), -1, dtype=torch.int64)
        number[tied] = torch.arange(len(tied))
        if exclude is not None:
            concerned = number[exclude[0]] >= 0
            exclude = (number[exclude[0][concerned]], exclude[1][concerned])
        index[tied] = _by_key(scores[tied], k, exclude)
    return index


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
