"""Shuffled batches and negatives, drawn from the shard alone by counters: the same integers on every device.

Every batch has the same shape; the last one is filled up with rows of weight 0. An epoch lies in buffers that are
refilled in place, so that a captured CUDA graph can be replayed over it.
"""

from __future__ import annotations

import torch

from receraser.data.interactions import Interactions
from receraser.seeds import derive, draw_torch

__all__ = ["Triples", "UserBatches", "shuffled"]


def shuffled(key: int, n: int, device: torch.device) -> torch.Tensor:
    """Return a random order of range(n): the integers of `seeds.permutation`, made on the device."""
    draws = draw_torch(key, torch.arange(n, device=device))
    return torch.argsort((draws >> 1) & (2**63 - 1), stable=True)


class Triples:
    """Batches of (user, item, negatives): every row once per epoch, with items the user does not have in the shard.

    A negative is uniform over the shard's items that are not among the user's rows in this shard. It takes a single
    draw, without rejection: the r-th missing item is found by binary search over the user's sorted items. A user who
    has every item has no negative; their rows have weight 0.
    """

    def __init__(
        self, rows: Interactions, *, batch_size: int, seed: int, device: torch.device, n_negatives: int = 1
    ) -> None:
        self.n_rows = len(rows)
        self.batch_size = min(batch_size, max(self.n_rows, 1))
        self.n_batches = -(-self.n_rows // self.batch_size)
        self._seed = seed
        self._n_items = len(rows.items)
        self._user = torch.from_numpy(rows.user_index.astype("int64")).to(device)
        self._item = torch.from_numpy(rows.item_index.astype("int64")).to(device)
        self._indptr = torch.from_numpy(rows.indptr).to(device)
        rank = torch.arange(self.n_rows, device=device) - self._indptr[self._user]
        self._missing_before = self._user * (self._n_items + 1) + (self._item - rank)  # ascending
        self._n_missing = self._n_items - self._indptr.diff()
        size = self.n_batches * self.batch_size
        self.user, self.item = (torch.zeros(size, dtype=torch.int64, device=device) for _ in range(2))
        self.negatives = torch.zeros((size, n_negatives), dtype=torch.int64, device=device)
        self.weight = torch.zeros(size, dtype=torch.float32, device=device)
        self._offset = torch.arange(self.batch_size, device=device)

    def prepare(self, epoch: int) -> None:
        """Fill the buffers for an epoch."""
        order = shuffled(derive(self._seed, "shuffle", epoch), self.n_rows, self._user.device)
        user = self._user[order]
        n_missing = self._n_missing[user]
        self.user[: self.n_rows] = user
        self.item[: self.n_rows] = self._item[order]
        self.weight[: self.n_rows] = (n_missing > 0).to(torch.float32)
        for column in range(self.negatives.shape[1]):
            high = (draw_torch(derive(self._seed, "negative", epoch, column), order) >> 32) & 0xFFFFFFFF
            r = (high * n_missing) >> 32
            below = torch.searchsorted(self._missing_before, user * (self._n_items + 1) + r, right=True)
            negative = r + below - self._indptr[user]
            self.negatives[: self.n_rows, column] = torch.where(n_missing > 0, negative, 0)

    def batch(self, number: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return (user, item, negatives, weight) of a batch; its number is a tensor so that a graph can count it up."""
        at = number * self.batch_size + self._offset
        return self.user[at], self.item[at], self.negatives[at], self.weight[at]


class UserBatches:
    """Batches of users, each with all of its rows; the users are shuffled every epoch."""

    def __init__(self, rows: Interactions, *, batch_size: int, seed: int, device: torch.device) -> None:
        self.n_users = len(rows.users)
        self.batch_size = min(batch_size, max(self.n_users, 1))
        self.n_batches = -(-self.n_users // self.batch_size)
        self._seed = seed
        self._indptr = torch.from_numpy(rows.indptr).to(device)
        self._item = torch.from_numpy(rows.item_index.astype("int64")).to(device)
        self._order = torch.arange(self.n_users, device=device)

    def prepare(self, epoch: int) -> None:
        """Shuffle the users for an epoch."""
        self._order = shuffled(derive(self._seed, "shuffle", epoch), self.n_users, self._order.device)

    def batch(self, number: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the users (b,) of a batch, and for each of their rows the user's place in it and the item (n,)."""
        user = self._order[number * self.batch_size : (number + 1) * self.batch_size]
        length = self._indptr[user + 1] - self._indptr[user]
        place = torch.repeat_interleave(torch.arange(user.shape[0], device=user.device), length)
        before = length.cumsum(0) - length  # rows of the users before this one
        entry = torch.arange(place.shape[0], device=user.device) - before[place] + self._indptr[user][place]
        return user, place, self._item[entry]
