"""Shuffled batches and negatives, drawn from the shard alone by counters: the same integers on every device.

Every batch has the same shape; what is not filled of one has weight 0. An epoch lies in buffers that are refilled in
place, so that a captured CUDA graph can be replayed over it.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from receraser import seeds
from receraser.data.interactions import Interactions
from receraser.errors import TrainingError
from receraser.seeds import derive
from receraser.training.kernels import pairs_on_cpu

__all__ = ["Held", "Triples", "UserBatches", "UserRows", "UserTables", "UserTriples", "draw_keys", "shuffled"]

MOST_BYTES = 8 * 2**30  # of the table of bits
_LEAST_NEAR = 512  # bits of a user: a line of memory
MOST_CELLS = 2**27  # of a batch of users by all items: half a gigabyte, a few times
MOST_SLOTS = 2**21  # of a batch of rows: with vectors of 64 numbers as much
CELLS_FOR_A_SLOT = 16  # what a slot of `UserRows` costs more than a cell of `UserTables`, roughly
_CPU = torch.device("cpu")


def shuffled(key: int, n: int, device: torch.device) -> torch.Tensor:
    """Return a random order of range(n), as the place of each: the integers of `seeds.places`."""
    keys, bits = seeds.rounds(key), seeds.domain_bits(n)
    if device.type == "cuda":
        from receraser.training.kernels import pairs_cuda

        return pairs_cuda.places(keys, n, bits, device)
    out = np.empty(n, dtype=np.int64)
    pairs_on_cpu().places(keys, n, bits, out)
    return torch.from_numpy(out)


def draw_keys(seed: int, epoch: int, n: int) -> NDArray[np.uint64]:
    """Return the keys by which the candidates of an epoch are drawn, n for every row."""
    return np.array([derive(seed, "negative", epoch, column) for column in range(n)], dtype=np.uint64)


class Held:
    """Which items each user has in the shard, as a table of bits; answers in one look, for any number of pairs.

    A bit for every pair of a user and an item is not much: 2.5 MB for MovieLens 1M, 150 MB for Yelp2018. For very many
    of both it is; shards of users have fewer.

    A table that large is in no cache: every look waits for memory. `near` has a few bits for each user instead (512,
    or eight times and more as many as a user has items in the mean), in which items fall by a hash. Where the bit of an
    item is not set, its user lacks it; where it is, the large table knows. It has no column where it would not be much
    smaller than that.

    Examples
    --------
    >>> held = Held(Interactions.from_pairs([("u", "a"), ("u", "c"), ("v", "b")]))
    >>> [f"{word:03b}" for word in held.words[:, 0]], held.near.shape
    (['101', '010'], (2, 0))
    """

    def __init__(self, rows: Interactions) -> None:
        users, items = rows.user_index.astype(np.int64), rows.item_index.astype(np.int64)
        self.n_items = len(rows.items)
        words = -(-self.n_items // 32)
        if 4 * words * len(rows.users) > MOST_BYTES:
            raise TrainingError(
                f"{len(rows.users):,} users and {self.n_items:,} items: which user has which item would take "
                f"{4e-9 * words * len(rows.users):.1f} GB, expected at most {1e-9 * MOST_BYTES:.1f}; use more shards "
                "(method spectral or sisa), or model wmf, which needs no negatives"
            )
        # The rows are sorted by user and item: all bits of a word lie together.
        word, first = np.unique(users * words + (items >> 5), return_index=True)
        bits = np.left_shift(np.uint32(1), (items & 31).astype(np.uint32))
        self.words = np.zeros((len(rows.users), words), dtype=np.uint32)
        if len(first):
            self.words.reshape(-1)[word] = np.bitwise_or.reduceat(bits, first)
        self.everything = np.diff(rows.indptr) == self.n_items  # who has every item
        self._rows = rows

    @cached_property
    def near(self) -> NDArray[np.uint64]:
        """64 bits a column, of each user: those in which their items fall. The kernels for the CPU look there first."""
        n_rows, n_users = len(self._rows), len(self._rows.users)
        bits = max(_LEAST_NEAR, 1 << (8 * n_rows // max(n_users, 1)).bit_length())
        if 4 * bits > self.n_items:
            return np.zeros((n_users, 0), dtype=np.uint64)
        number = (self._rows.item_index.astype(np.uint64) * np.uint64(seeds.GOLDEN)) >> np.uint64(
            65 - bits.bit_length()
        )
        place = self._rows.user_index.astype(np.int64) * (bits // 64) + (number >> np.uint64(6)).astype(np.int64)
        found = np.zeros(n_users * (bits // 64), dtype=np.uint64)
        np.bitwise_or.at(found, place, np.left_shift(np.uint64(1), number & np.uint64(63)))
        return found.reshape(n_users, -1)


class Triples:
    """Batches of (user, item, negatives): every row once per epoch, with items the user does not have in the shard.

    A negative is uniform over the shard's items that are not among the user's rows in this shard. A user who has every
    item has no negative; their rows have weight 0.
    """

    def __init__(
        self, rows: Interactions, *, batch_size: int, seed: int, device: torch.device, n_negatives: int = 1
    ) -> None:
        self.n_rows = len(rows)
        self.batch_size, self.n_batches = self._shape(rows, batch_size)
        self._seed = seed
        held = Held(rows)
        self._words = torch.from_numpy(held.words.view(np.int32)).to(device)
        self._near = held.near if device.type == "cpu" else None
        self._n_items = held.n_items
        self._user = torch.from_numpy(rows.user_index.astype("int64")).to(device)
        self._item = torch.from_numpy(rows.item_index.astype("int64")).to(device)
        self._weight = torch.from_numpy(~held.everything[rows.user_index]).to(device).to(torch.float32)
        size = self.n_batches * self.batch_size
        self.user, self.item = (torch.zeros(size, dtype=torch.int64, device=device) for _ in range(2))
        self.negatives = torch.zeros((size, n_negatives), dtype=torch.int64, device=device)
        self.weight = torch.zeros(size, dtype=torch.float32, device=device)
        self._offset = torch.arange(self.batch_size, device=device)

    def prepare(self, epoch: int) -> None:
        """Fill the buffers for an epoch."""
        place = self._places(epoch)
        keys = draw_keys(self._seed, epoch, self.negatives.shape[1])
        if not self._user.is_cuda:
            words = self._words.numpy().view(np.uint32)
            rows = (one.numpy() for one in (self._user, self._item, self._weight))
            filled = (one.numpy() for one in (self.user, self.item, self.negatives, self.weight))
            pairs_on_cpu().triples(keys, *rows, self._near, words, self._n_items, place.numpy(), *filled)
            return
        from receraser.training.kernels import pairs_cuda

        self.user[place] = self._user
        self.item[place] = self._item
        self.weight[place] = self._weight
        self.negatives[place] = pairs_cuda.lacking(keys, self._user, self._weight, self._words, self._n_items)

    def _shape(self, rows: Interactions, batch_size: int) -> tuple[int, int]:
        """Return how many rows a batch has, and how many batches there are."""
        size = min(batch_size, max(len(rows), 1))
        return size, -(-len(rows) // size)

    def _places(self, epoch: int) -> torch.Tensor:
        """Return where in the buffers every row goes."""
        return shuffled(derive(self._seed, "shuffle", epoch), self.n_rows, self._user.device)

    def batch(self, number: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return (user, item, negatives, weight) of a batch; its number is a tensor so that a graph can count it up.

        On the CPU they are views of the buffers: good until the next epoch is prepared.
        """
        at: slice | torch.Tensor
        if self._user.is_cuda:
            at = number * self.batch_size + self._offset
        else:
            at = slice(int(number) * self.batch_size, (int(number) + 1) * self.batch_size)
        return self.user[at], self.item[at], self.negatives[at], self.weight[at]


class UserTriples(Triples):
    """Triples in batches of few users: a user's rows are dealt at random into parts, and a part is in one batch.

    An epoch goes through the users once for each part, every time in another order. There are as many batches as the
    worst order needs, in every epoch; parts are taken as they come until a batch has its share of all rows.

    Parameters
    ----------
    parts
        Of a user's rows, as equal as can be. One: whole users. With more, the rows of a batch are of more users, and
        more like rows drawn at random, which teach more; n rows are of about parts * n / (mean rows of a user) users.
    batch_size
        Rows that a batch has room for; twice the largest part at least.
    """

    def __init__(
        self, rows: Interactions, *, parts: int, batch_size: int, seed: int, device: torch.device, n_negatives: int = 1
    ) -> None:
        most = int(np.diff(rows.indptr).max(initial=0))
        self._parts = max(1, min(parts, most))
        self._most = -(-most // self._parts)  # rows of a part
        super().__init__(rows, batch_size=batch_size, seed=seed, device=device, n_negatives=n_negatives)
        self._n_users = len(rows.users)
        self._indptr = rows.indptr
        self._bits = np.array([seeds.domain_bits(int(n)) for n in np.diff(rows.indptr)], dtype=np.int64)
        self._users: NDArray[np.int64] = np.zeros(0, dtype=np.int64)  # whose a part is, in the order of the epoch
        self._counts: NDArray[np.int64] = np.zeros(0, dtype=np.int64)  # its rows
        self._edges: NDArray[np.int64] = np.zeros(self.n_batches + 1, dtype=np.int64)  # of the batches, in that order

    def _shape(self, rows: Interactions, batch_size: int) -> tuple[int, int]:
        size = min(max(batch_size, 2 * self._most), max(len(rows), 1))
        # With its share of all rows and one part more a batch is not fuller than it may be (`_begins`).
        return size, -(-len(rows) // (size - self._most + 1 if size < len(rows) else size))

    def _places(self, epoch: int) -> torch.Tensor:
        kernels, n = pairs_on_cpu(), self._n_users
        turns = [shuffled(derive(self._seed, "shuffle", epoch, one), n, _CPU).numpy() for one in range(self._parts)]
        numbers = np.stack([place + one * n for one, place in enumerate(turns)])  # of the parts, in the epoch's order
        users = np.concatenate([np.argsort(place) for place in turns])
        counts = np.zeros(numbers.size, dtype=np.int64)
        part, place = np.empty((2, self.n_rows), dtype=np.int64)
        keys = seeds.rounds(derive(self._seed, "parts", epoch))
        kernels.deal_parts(keys, self._indptr, self._bits, numbers, part, counts)
        there = counts > 0
        self._users, self._counts = users[there], counts[there]
        free = np.zeros(numbers.size, dtype=np.int64)
        free[there] = self._begins()
        kernels.lay_out(part, free, place)
        # Places that stay empty: somebody's who is in the batch, without weight.
        somebody = self._users[np.minimum(self._edges[:-1], len(self._users) - 1)]
        self.user.copy_(torch.from_numpy(np.repeat(somebody, self.batch_size)))
        for buffer in (self.item, self.negatives, self.weight):
            buffer.zero_()
        return torch.from_numpy(place).to(self._user.device)

    def _begins(self) -> NDArray[np.int64]:
        """Return where in the buffers the rows of every part begin; note where batches do."""
        before = np.concatenate([[0], np.cumsum(self._counts)])
        begins = np.zeros(len(self._counts), dtype=np.int64)
        share = -(-self.n_rows // max(1, self.n_batches))
        edge = 0
        for number in range(self.n_batches):
            end = min(int(np.searchsorted(before, before[edge] + share)), len(self._counts))
            begins[edge:end] = number * self.batch_size + before[edge:end] - before[edge]
            self._edges[number + 1] = edge = end
        assert edge == len(self._counts), "there are as many batches as the worst order needs"
        return begins

    def users(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the users of a batch (one at least), and for each of its rows the place of its user among them.

        Whoever has two parts in a batch is there twice.
        """
        edge, end = self._edges[number : number + 2]
        place = np.zeros(self.batch_size, dtype=np.int64)
        if edge == end:  # an empty one
            return torch.from_numpy(self._users[-1:]), torch.from_numpy(place)
        own = np.repeat(np.arange(end - edge), self._counts[edge:end])
        place[: len(own)] = own
        return torch.from_numpy(self._users[edge:end]), torch.from_numpy(place)


class _Users:
    """What batches of users have in common: the users are shuffled every epoch."""

    def __init__(self, rows: Interactions, batch_size: int, seed: int) -> None:
        self.n_users = len(rows.users)
        self.batch_size = min(batch_size, max(self.n_users, 1))
        self.n_batches = -(-self.n_users // self.batch_size)
        self._seed = seed

    def _places(self, epoch: int, device: torch.device) -> torch.Tensor:
        """Return the place of every user in an epoch."""
        return shuffled(derive(self._seed, "shuffle", epoch), self.n_users, device)


class UserBatches(_Users):
    """Batches of users, each with all of its rows."""

    def __init__(self, rows: Interactions, *, batch_size: int, seed: int, device: torch.device) -> None:
        super().__init__(rows, batch_size, seed)
        self._indptr = torch.from_numpy(rows.indptr).to(device)
        self._item = torch.from_numpy(rows.item_index.astype("int64")).to(device)
        self._order = torch.arange(self.n_users, device=device)

    def prepare(self, epoch: int) -> None:
        """Shuffle the users for an epoch."""
        self._order = torch.argsort(self._places(epoch, self._order.device))

    @property
    def rows(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Where the rows of every user begin, (n_users + 1,), and the items of all rows."""
        return self._indptr, self._item

    def users(self, number: int) -> torch.Tensor:
        """Return the users (b,) of a batch."""
        return self._order[number * self.batch_size : (number + 1) * self.batch_size]

    def batch(self, number: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the users (b,) of a batch, and for each of their rows the user's place in it and the item (n,)."""
        user = self.users(number)
        length = self._indptr[user + 1] - self._indptr[user]
        place = torch.repeat_interleave(torch.arange(user.shape[0], device=user.device), length)
        before = length.cumsum(0) - length  # rows of the users before this one
        entry = torch.arange(place.shape[0], device=user.device) - before[place] + self._indptr[user][place]
        return user, place, self._item[entry]


class _FixedUsers(_Users):
    """The same batches of users in the same order, all of one fixed shape, for a captured step.

    The last one is filled up with somebody who is not real.
    """

    def __init__(self, rows: Interactions, batch_size: int, seed: int, device: torch.device) -> None:
        super().__init__(rows, batch_size, seed)
        self._user = torch.zeros(self.n_batches * self.batch_size, dtype=torch.int64, device=device)
        self._real = torch.zeros(len(self._user), dtype=torch.float32, device=device)
        self._real[: self.n_users] = 1.0
        self._offset = torch.arange(self.batch_size, device=device)

    def _shuffle(self, epoch: int) -> torch.Tensor:
        """Shuffle the users for an epoch; return their places in it."""
        place = self._places(epoch, self._user.device)
        self._user[place] = torch.arange(self.n_users, device=self._user.device)
        return place

    def _users(self, number: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the users (b,) of a batch, and 1 for each of them who is real."""
        at = number * self.batch_size + self._offset
        return self._user[at], self._real[at]


class UserTables(_FixedUsers):
    """Batches of users with their rows as a table.

    A place for every item in every row: for a GPU, and for catalogues where that is not too much (`fits`).
    """

    def __init__(self, rows: Interactions, *, batch_size: int, seed: int, device: torch.device) -> None:
        super().__init__(rows, batch_size, seed, device)
        held = Held(rows)
        self._n_items = held.n_items
        self._words = torch.from_numpy(held.words.view(np.int32)).to(device)
        self._bits = torch.arange(32, dtype=torch.int32, device=device)

    @staticmethod
    def fits(rows: Interactions, batch_size: int) -> bool:
        """Say whether the table of a batch, and that of the bits of everybody, are small enough."""
        bits = 4 * len(rows.users) * -(-len(rows.items) // 32)  # bytes, as in `Held`
        return _cells(rows, batch_size) <= MOST_CELLS and bits <= MOST_BYTES

    def prepare(self, epoch: int) -> None:
        """Shuffle the users for an epoch."""
        self._shuffle(epoch)

    def batch(self, number: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the users (b,) of a batch, 1 for each of them, and which items each has (b, n_items).

        The last batch is filled up with somebody who has a 0 instead.
        """
        user, real = self._users(number)
        held = (self._words[user][:, :, None] >> self._bits) & 1  # (b, words, 32)
        return user, real, held.reshape(len(user), -1)[:, : self._n_items]


class UserRows(_FixedUsers):
    """Batches of users with their rows one by one, in as many slots as the rows of any so many users can fill.

    For a GPU, and for large catalogues, of which a user has little (`pays`). An epoch's rows lie in the order of their
    users, so that a batch is a piece of them.
    """

    def __init__(self, rows: Interactions, *, batch_size: int, seed: int, device: torch.device) -> None:
        super().__init__(rows, batch_size, seed, device)
        self.n_slots = self.slots(rows, batch_size)
        self._owners = torch.from_numpy(rows.user_index.astype("int64")).to(device)
        self._items = torch.from_numpy(rows.item_index.astype("int64")).to(device)
        # Of an epoch, and at the end a row that is none: what an empty slot holds.
        self._place, self._item = (torch.zeros(len(rows) + 1, dtype=torch.int64, device=device) for _ in range(2))
        self._edges = torch.zeros(self.n_batches + 1, dtype=torch.int64, device=device)  # of the batches, among them
        self._first_places = torch.arange(self.n_batches + 1, device=device) * self.batch_size
        self._slot = torch.arange(self.n_slots, device=device)

    @staticmethod
    def slots(rows: Interactions, batch_size: int) -> int:
        """Return how many rows a batch has room for: those of the users who have most of them; a multiple of 128."""
        most = np.sort(np.diff(rows.indptr))[::-1][:batch_size].sum()
        return 128 * max(1, -(-int(most) // 128))

    @classmethod
    def pays(cls, rows: Interactions, batch_size: int) -> bool:
        """Say whether the slots are few, and much fewer than the cells of a table."""
        n_slots = cls.slots(rows, batch_size)
        return n_slots <= MOST_SLOTS and CELLS_FOR_A_SLOT * n_slots < _cells(rows, batch_size)

    def prepare(self, epoch: int) -> None:
        """Shuffle the users for an epoch, and put the rows into their order."""
        ordered, row = torch.sort(self._shuffle(epoch)[self._owners], stable=True)
        self._place[:-1] = ordered % self.batch_size
        self._item[:-1] = self._items[row]
        self._edges.copy_(torch.searchsorted(ordered, self._first_places))

    def batch(
        self, number: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the users (b,) of a batch, 1 for each; and of each slot (m,) a user's place, an item, if it is taken.

        The last batch is filled up with somebody who has a 0 instead. Rows come first, by the place of their users;
        slots that stay empty are the last ones, and hold zeros.
        """
        edges = self._edges[number + self._slot[:2]]
        taken = self._slot < edges[1] - edges[0]
        at = (self._slot + edges[0]).masked_fill(~taken, len(self._items))
        return *self._users(number), self._place[at], self._item[at], taken


def _cells(rows: Interactions, batch_size: int) -> int:
    """Return how many pairs of a user of a batch and an item there are."""
    return min(batch_size, len(rows.users)) * len(rows.items)
