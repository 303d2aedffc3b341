"""The losses of the base models as objectives for the training loop: pairwise (BPR, LightGCN) and non-sampling (WMF).

An objective knows which rows it learns from and how batches are drawn; what is learned, and how user and item vectors
come from it, is the caller's: the vectors themselves (BPR), vectors propagated over a graph (LightGCN), or frozen
submodels put together by attention. So an aggregation is trained by its base model's own loss, not by a copy of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import ModuleType
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from receraser.data.interactions import Interactions
from receraser.seeds import derive, draw_torch, signed
from receraser.training.batches import Triples, UserBatches, UserRows, UserTables, UserTriples
from receraser.training.kernels import attention_cuda, non_sampling_on_cpu, pairs_on_cpu, threads
from receraser.training.losses import bpr, l2, non_sampling
from receraser.training.sparse import gather, times_dense

__all__ = ["NonSampling", "Pairwise", "Vectors"]

Drawn = tuple[np.uint64, int, int, np.float32]  # key, first counter, the lowest draw that is kept, and as what
Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]  # user, item, negatives, weight


class Vectors(Protocol):
    """What is learned, as vectors."""

    def __call__(self, users: torch.Tensor | None = None, /) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the vectors, at the moment, of these users (by default of everybody), and of all items."""
        ...


class Pairwise:
    """BPR-Opt over triples: every row once per epoch, against the hardest of a few drawn items.

    Parameters
    ----------
    rows, batch_size, n_negatives, seed
        What the triples are drawn from, and how (`training.batches.Triples`).
    parameters, vectors
        What is learned, and the (n_users, dim), (n_items, dim) vectors it stands for at the moment.
    weight_decay, penalised
        L2 on the batch's rows of these two tables; None for the vectors that are scored.
    dropout
        Share of the coordinates of a row's user vector that is dropped, drawn anew for every row.
    user_parts
        Let a batch have rows of few users, by dealing a user's rows into so many parts (`training.batches.UserTriples`;
        0: rows at random): on the CPU the vectors of nobody else are computed then.
    """

    fixed_shape = True

    def __init__(
        self,
        rows: Interactions,
        *,
        batch_size: int,
        n_negatives: int,
        seed: int,
        parameters: Sequence[torch.Tensor],
        vectors: Vectors,
        weight_decay: float = 0.0,
        penalised: tuple[torch.Tensor, torch.Tensor] | None = None,
        dropout: float = 0.0,
        user_parts: int = 0,
    ) -> None:
        self.parameters = tuple(parameters)
        self._vectors = vectors
        self._weight_decay = weight_decay
        self._penalised = penalised
        self._dropout = dropout
        self._seed = seed
        device = self.parameters[0].device
        self._key = torch.zeros((), dtype=torch.int64, device=device)
        assert not (user_parts and penalised), "the tables that are penalised are those of everybody"
        kind = partial(UserTriples, parts=user_parts) if user_parts else Triples
        self._batches: Triples = kind(rows, batch_size=batch_size, seed=seed, device=device, n_negatives=n_negatives)
        few = isinstance(self._batches, UserTriples) and device.type == "cpu"  # a GPU has time for everybody
        self._few = cast("UserTriples", self._batches) if few else None  # whose users alone are computed
        self.n_batches = self._batches.n_batches

    def prepare(self, epoch: int) -> None:
        """Draw the epoch's order and negatives."""
        self._batches.prepare(epoch)
        self._key.fill_(signed(derive(self._seed, "dropout", epoch)))

    def loss(self, number: torch.Tensor) -> torch.Tensor:
        """Return the loss of a batch of triples."""
        batch = self._batches.batch(number)
        if self._few is not None:
            users, places = self._few.users(int(number))
            p, q = self._vectors(users)
            batch = places, *batch[1:]
        else:
            p, q = self._vectors()
        shape = len(batch[0]), p.shape[1]
        if p.is_cuda or self._weight_decay:
            kept = _kept(self._key, number, shape, self._dropout) if self._dropout else None
            return self._recorded(p, q, batch, kept)
        drawn = _draws(int(self._key), int(number), shape, self._dropout)
        loss: torch.Tensor = _WrittenOut.apply(p, q, batch, self._few is not None, drawn)  # type: ignore[no-untyped-call]
        return loss

    def _recorded(self, p: torch.Tensor, q: torch.Tensor, batch: Batch, kept: torch.Tensor | None) -> torch.Tensor:
        """Return the loss with torch's own gradient: what the one that is written out is held to."""
        user, item, negatives, weight = batch
        size = len(user)
        u = gather(p, user)  # (batch, dim)
        u = u if kept is None else u * kept
        negative = _hardest(u.detach(), q.detach(), negatives)
        both = gather(q, torch.cat([item, negative]))  # (2 batch, dim)
        loss = bpr((u * both[:size]).sum(dim=1), (u * both[size:]).sum(dim=1), weight)
        if not self._weight_decay:
            return loss
        if self._penalised is not None:  # the penalty is on the parameters, not on what was made of them
            u, both = gather(self._penalised[0], user), gather(self._penalised[1], torch.cat([item, negative]))
        return loss + self._weight_decay * l2((u, both[:size], both[size:]), weight)


class _WrittenOut(torch.autograd.Function):
    """The pairwise loss on the CPU, in one pass over the batch that computes the gradient too."""

    @staticmethod
    def forward(ctx: Any, p: torch.Tensor, q: torch.Tensor, batch: Batch, by_user: bool, drawn: Drawn) -> torch.Tensor:
        p, q = p.contiguous(), q.contiguous()
        weight = batch[3]
        of_users, of_items, behind = torch.zeros_like(p), torch.zeros_like(q), torch.empty(len(weight))
        rows = (one.numpy() for one in batch)
        tables, made = ((one.numpy() for one in some) for some in ((p, q), (of_users, of_items, behind)))
        pairs_on_cpu().dropped_gradients(*rows, by_user, *drawn, *tables, _owners(), *made)
        ctx.save_for_backward(of_users, of_items)
        return bpr(torch.zeros_like(behind), behind, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        of_users, of_items = ctx.saved_tensors
        return gradient * of_users, gradient * of_items, None, None, None


def _owners() -> int:
    """Return in how many parts kernels share out users and items among threads: a power of two."""
    return 1 << (threads() - 1).bit_length()


def _hardest(users: torch.Tensor, items: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Return, of each user's candidates (batch, n), the one that scores highest now; the first one of equals."""
    if users.is_cuda:
        return attention_cuda.hardest(users, items, candidates)
    scores = (items[candidates] * users[:, None, :]).sum(dim=2)  # (batch, n)
    return candidates.gather(1, scores.argmax(dim=1, keepdim=True))[:, 0]


def _kept(key: int | torch.Tensor, number: int | torch.Tensor, shape: tuple[int, int], dropout: float) -> torch.Tensor:
    """Return a table of 0 for the cells that are dropped and what makes up for them for the others.

    Cells are drawn by counting them: table number 1 goes on where table number 0 ended.
    """
    if isinstance(key, torch.Tensor) and key.is_cuda:
        lowest, value, size = int(dropout * 2**32), 1.0 / (1.0 - dropout), shape[0] * shape[1]
        high = (draw_torch(key, torch.arange(size, device=key.device) + number * size) >> 32) & 0xFFFFFFFF
        return ((high >= lowest).to(torch.float32) * value).reshape(shape)
    made = torch.empty(shape, dtype=torch.float32)
    pairs_on_cpu().kept_cells(*_draws(int(key), int(number), shape, dropout), made.numpy().reshape(-1))
    return made


def _draws(key: int, number: int, shape: tuple[int, int], dropout: float) -> Drawn:
    """Return what the kernels for the CPU draw such a table from."""
    first = number * shape[0] * shape[1]
    return np.uint64(key % 2**64), first, int(dropout * 2**32), np.float32(1.0 / (1.0 - dropout))


class NonSampling:
    """Squared loss over all pairs, by batches of users, with dropout on the users' vectors (Chen et al. 2020).

    Parameters
    ----------
    rows, batch_size, seed
        `batch_size` counts users (`training.batches.UserBatches`).
    missing_weight, dropout
        The weight of a pair that is not among the rows; the share of coordinates dropped.
    parameters, vectors
        What is learned, and the vectors it stands for at the moment.
    kind
        How a batch's rows come: as they are, or in one fixed shape, as a table of users by items or in slots of which
        some stay empty: more to compute, and one captured graph instead of a hundred launches. By default what suits
        the device and the rows (`_kind`).
    """

    def __init__(
        self,
        rows: Interactions,
        *,
        batch_size: int,
        seed: int,
        missing_weight: float,
        dropout: float,
        dim: int,
        parameters: Sequence[torch.Tensor],
        vectors: Vectors,
        kind: type[UserBatches | UserTables | UserRows] | None = None,
    ) -> None:
        self.parameters = tuple(parameters)
        self._vectors = vectors
        self._seed = seed
        self._missing_weight = missing_weight
        self._dropout = dropout
        device = self.parameters[0].device
        kind = _kind(rows, batch_size, device) if kind is None else kind
        self._batches = kind(rows, batch_size=batch_size, seed=seed, device=device)
        self.fixed_shape = not isinstance(self._batches, UserBatches)
        self.n_batches = self._batches.n_batches
        self._kernels = non_sampling_on_cpu() if device.type == "cpu" else None
        self._n_items = len(rows.items)
        self._key = torch.zeros((), dtype=torch.int64, device=device)
        self._mask = torch.ones((len(rows.users), dim), device=device) if dropout else None  # of everybody, in place

    def prepare(self, epoch: int) -> None:
        """Shuffle the users and draw which coordinates of their vectors are dropped."""
        self._batches.prepare(epoch)
        if self._mask is not None:
            self._key.fill_(signed(derive(self._seed, "dropout", epoch)))
            self._mask.copy_(_kept(self._key, 0, (self._mask.shape[0], self._mask.shape[1]), self._dropout))

    def loss(self, number: torch.Tensor) -> torch.Tensor:
        """Return the loss of a batch of users."""
        if isinstance(self._batches, UserTables):
            user, real, held = self._batches.batch(number)
            vectors, q = self._of(user)
            vectors = vectors * real[:, None]  # (b, dim): of nobody, zeros
            scores = (vectors @ q.T) * held  # (b, n_items): a score of 0 adds nothing
        elif isinstance(self._batches, UserRows):
            user, real, *slots = self._batches.batch(number)
            vectors, q = self._of(user)
            vectors = vectors * real[:, None]
            scores = _SlotScores.apply(vectors, q, *slots)  # type: ignore[no-untyped-call]  # (n_slots,)
        else:
            return self._recorded(int(number)) if self._kernels is None else self._written_out(int(number))
        return non_sampling(scores, vectors, q, self._missing_weight)

    def _written_out(self, number: int) -> torch.Tensor:
        """Return the loss with the gradient of a kernel, which cannot look whether it is given what it expects."""
        assert isinstance(self._batches, UserBatches), "the others are of one shape"
        user = self._batches.users(number)
        p, q = self._of(user)
        expected = (len(user), q.shape[1]), (self._n_items, p.shape[1])
        if (tuple(p.shape), tuple(q.shape)) != expected:
            raise ValueError(f"the vectors have shapes {tuple(p.shape)} and {tuple(q.shape)}; expected {expected}")
        rows = user, *self._batches.rows
        result: torch.Tensor = _AllPairs.apply(p, q, rows, self._missing_weight, self._kernels)  # type: ignore[no-untyped-call]
        return result

    def _recorded(self, number: int) -> torch.Tensor:
        """Return the loss with torch's own gradient: what the one that is written out is held to."""
        assert isinstance(self._batches, UserBatches), "the others are of one shape"
        user, place, item = self._batches.batch(number)
        vectors, q = self._of(user)
        scores = (gather(vectors, place) * gather(q, item)).sum(dim=1)  # (n_rows,)
        return non_sampling(scores, vectors, q, self._missing_weight)

    def _of(self, user: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the vectors of a batch's users, less what is dropped of them, and of all items."""
        p, q = self._vectors(user)
        return (p if self._mask is None else p * self._mask[user]), q


class _AllPairs(torch.autograd.Function):
    """The loss over all pairs on the CPU, in one pass over the batch that computes the gradient too."""

    @staticmethod
    def forward(
        ctx: Any,
        p: torch.Tensor,
        q: torch.Tensor,
        rows: Sequence[torch.Tensor],
        missing_weight: float,
        kernel: ModuleType,
    ) -> torch.Tensor:
        p, q = p.contiguous(), q.contiguous()
        of_users, of_items, losses = torch.empty_like(p), torch.empty_like(q), torch.empty(len(p), dtype=torch.float64)
        given, made = ((one.numpy() for one in some) for some in ((*rows, p, q), (of_users, of_items, losses)))
        kernel.gradients(*given, missing_weight, _owners(), *made)
        ctx.save_for_backward(of_users, of_items)
        return losses.sum().to(torch.float32)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        of_users, of_items = ctx.saved_tensors
        return gradient * of_users, gradient * of_items, None, None, None


def _kind(rows: Interactions, batch_size: int, device: torch.device) -> type[UserBatches | UserTables | UserRows]:
    """Return how the rows of a batch are best given to `NonSampling`."""
    if device.type == "cuda":
        if UserRows.pays(rows, batch_size):
            return UserRows
        if UserTables.fits(rows, batch_size):
            return UserTables
    return UserBatches


class _SlotScores(torch.autograd.Function):
    """The scores of the rows in a batch's slots (`training.batches.UserRows`), 0 where there is none.

    The gradients are a sparse matrix of users by items times vectors, either way round. Empty slots are no part of it:
    there may be four for every row, and in the gradient of a `gather` one program would add them all up.
    """

    @staticmethod
    def forward(
        ctx: Any, p: torch.Tensor, q: torch.Tensor, place: torch.Tensor, item: torch.Tensor, taken: torch.Tensor
    ) -> torch.Tensor:
        ctx.save_for_backward(p, q, place, item, taken)
        return (p.index_select(0, place) * q.index_select(0, item)).sum(dim=1) * taken

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        p, q, place, item, taken = ctx.saved_tensors
        empty, gradient = ~taken, gradient.contiguous()
        of_users = times_dense(_edges(place.masked_fill(empty, len(p)), len(p)), item, gradient, q)
        # Half as many bits, half as long to sort.
        ordered, slot = torch.sort(item.masked_fill(empty, len(q)).to(torch.int32), stable=True)
        of_items = times_dense(_edges(ordered, len(q)), place[slot], gradient[slot], p)
        return of_users, of_items, None, None, None


def _edges(ordered: torch.Tensor, n: int) -> torch.Tensor:
    """Return where each of range(n) begins in an ordered list, and where the last one ends."""
    return torch.searchsorted(ordered, torch.arange(n + 1, dtype=ordered.dtype, device=ordered.device))
