"""The network of `Attention`, Equations 5 to 7: from the vectors of all shards to one vector for everybody.

`Dense` says it in a few lines of torch, with its gradient recorded; it runs where there is no numba, and on a GPU
where vectors are too long for the kernels.
`Present` is what runs on the CPU: it computes only the vectors that a shard holds (in interaction-balanced shards about
half of them), and of those who are asked for, and writes its gradient out. `Fused` is what runs on a GPU: one kernel
forward and one back, over everybody or those who are asked for. Tests hold both to the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from receraser.aggregation.learning import LinedUp
from receraser.training.kernels import attention_cuda, attention_on_cpu, threads
from receraser.training.pool import spread

__all__ = ["Dense", "Fused", "Parameters", "Present", "Side", "side_of"]

Parameters = Mapping[str, torch.Tensor]
Shard = tuple[torch.Tensor, ...]  # its rows of the tables


class Side(Protocol):
    """The users, or the items, of all submodels."""

    def aggregated(self, parameters: Parameters, some: torch.Tensor | None = None) -> torch.Tensor:
        """Return the aggregated vectors, (n, dim), of these places; by default of everybody."""
        ...


def side_of(lined_up: LinedUp, name: str, width: int) -> Side:
    """Return users (or items) in the form that is the quickest here.

    Parameters
    ----------
    name
        "user" or "item": whose network it is.
    width
        Of the network's hidden layer.
    """
    if lined_up.vectors.is_cuda:
        fused = attention_cuda.fits(lined_up.vectors.shape[2], width)
        return Fused(lined_up, name) if fused else Dense(lined_up, name)
    return Dense(lined_up, name) if attention_on_cpu() is None else Present(lined_up, name, width)


class Dense:
    """Every shard has a place for everybody; absent ones weigh nothing."""

    def __init__(self, lined_up: LinedUp, name: str) -> None:
        self._vectors, self._absent = lined_up.vectors, lined_up.absent
        self._name = name

    def aggregated(self, parameters: Parameters, some: torch.Tensor | None = None) -> torch.Tensor:
        """Return the aggregated vectors, (n, dim), of these places; by default of everybody."""
        w, name, vectors, absent = parameters, self._name, self._vectors, self._absent
        if some is not None:
            vectors, absent = vectors[:, some], absent[:, some]
        moved = torch.baddbmm(w["bias"], vectors, w["transfer"])  # (n_shards, n, dim), Eq. 5
        hidden = torch.relu(moved @ w[f"{name}_hidden"] + w[f"{name}_hidden_bias"])  # (n_shards, n, width)
        weights = (hidden @ w[f"{name}_weights"]).masked_fill(absent, -torch.inf)  # (n_shards, n)
        return (torch.softmax(weights, dim=0)[..., None] * moved).sum(dim=0)  # (n, dim), Eq. 6 and 7


class Present:
    """The vectors that there are, shard after shard in one table; of those who are asked for, no others are moved."""

    def __init__(self, lined_up: LinedUp, name: str, width: int) -> None:
        there = ~lined_up.absent
        vectors = lined_up.vectors[there]  # (n_there, dim)
        self._rows = torch.cat([vectors, torch.ones(len(vectors), 1)], dim=1)
        self._at = np.full(tuple(there.shape), -1, dtype=np.int64)  # (n_shards, n): where in it; -1: nowhere
        self._at[there.numpy()] = np.arange(len(vectors))
        self._keys = _keys(name)
        self._width = width
        self._everybody = _Table(self._rows, there.numpy(), width)

    def aggregated(self, parameters: Parameters, some: torch.Tensor | None = None) -> torch.Tensor:
        """Return the aggregated vectors, (n, dim), of these places; by default of everybody."""
        asked = self._everybody if some is None else self._table_of(some)
        result: torch.Tensor = _Aggregated.apply(asked, *(parameters[key] for key in self._keys))  # type: ignore[no-untyped-call]
        return result

    def _table_of(self, some: torch.Tensor) -> _Table:
        at = self._at[:, some.numpy()]
        return _Table(self._rows.index_select(0, torch.from_numpy(at[at >= 0])), at >= 0, self._width)


class _Table:
    """A table X of vectors that shards hold; two products with it one way, one the other.

    X has a column of ones, so that a matrix W and a bias are one matrix W' of one more row. Then, in a shard,

        moved = X W'                 hidden = relu(X (W' H + (0 ... 0, b)))
        of W' = X^T A + X^T B l H^T  of H = W'^T X^T B l   of b = (the last row of X^T B) l

    where l makes a number of the hidden layer; A = w g is the gradient g of the sums, each times its weight; and B is
    the gradient of that number where the hidden layer is above zero, 0 elsewhere. Shards are computed side by side,
    each by one thread: how many there are changes nothing.
    """

    def __init__(self, table: torch.Tensor, there: NDArray[np.bool_], width: int) -> None:
        n, dim = len(table), table.shape[1] - 1
        self._places = np.argsort(np.nonzero(there)[1], kind="stable")  # in the table, person by person
        self._indptr = np.concatenate([[0], np.cumsum(there.sum(axis=0))]).astype(np.int64)
        self._moved, self._hidden = torch.empty((n, dim)), torch.empty((n, width))
        self._of_both = torch.empty((n, dim + width))  # A and B, beside each other
        self._weights = torch.empty(n)
        tables = (table, self._moved, self._hidden, self._of_both)
        sizes = there.sum(axis=1).tolist()
        self._shards = list(zip(*(torch.split(one, sizes) for one in tables), strict=True))
        kernels = attention_on_cpu()
        assert kernels is not None, "without them there is no table"
        self._kernels = kernels
        self.turn = 0  # how often it was called: the way back must be that of the last call

    def forward(self, learned: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the aggregated vectors; what the way back needs stays in the buffers."""
        moves, hides = _matrices(learned)
        to_logit = learned[-1].detach()

        def move(number: int) -> None:
            table, moved, hidden, _ = self._shards[number]
            torch.mm(table, moves[number], out=moved)
            torch.mm(table, hides[number], out=hidden)

        spread(move, range(len(self._shards)), threads())
        out = torch.empty((len(self._indptr) - 1, self._moved.shape[1]))
        tables = (self._moved, self._hidden, to_logit[None], self._weights, out)
        self._kernels.weighted(self._indptr, self._places, *(one.numpy() for one in tables))
        return out

    def backward(self, learned: Sequence[torch.Tensor], of_out: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the gradients of what was learned; forward has run just before."""
        given = (self._moved, self._hidden, self._weights, of_out.contiguous(), self._of_both)
        self._kernels.weights_back(self._indptr, self._places, *(one.numpy() for one in given))

        def back(shard: Shard) -> torch.Tensor:
            table, _, _, of_both = shard
            return table.T @ of_both

        return _gradients(learned, torch.stack(spread(back, self._shards, threads())))


class _Aggregated(torch.autograd.Function):
    """`_Table` as an operation of torch."""

    @staticmethod
    def forward(ctx: Any, side: _Table, *learned: torch.Tensor) -> torch.Tensor:
        ctx.side = side
        side.turn += 1
        ctx.turn = side.turn
        ctx.save_for_backward(*learned)
        return side.forward(learned)

    @staticmethod
    def backward(ctx: Any, of_out: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        assert ctx.turn == ctx.side.turn, "the buffers hold what a later call made"
        return None, *ctx.side.backward(ctx.saved_tensors, of_out)


class Fused:
    """Like `Dense`, in two kernels: what is between the vectors and their sums is never written."""

    def __init__(self, lined_up: LinedUp, name: str) -> None:
        self._vectors, self._absent = lined_up.vectors, lined_up.absent
        self._keys = _keys(name)

    def aggregated(self, parameters: Parameters, some: torch.Tensor | None = None) -> torch.Tensor:
        """Return the aggregated vectors, (n, dim), of these places; by default of everybody."""
        learned = (parameters[key] for key in self._keys)
        some = None if some is None else some.contiguous()
        result: torch.Tensor = _InKernels.apply(self._vectors, self._absent, some, *learned)  # type: ignore[no-untyped-call]
        return result


class _InKernels(torch.autograd.Function):
    """The kernels for CUDA as an operation of torch."""

    @staticmethod
    def forward(
        ctx: Any, vectors: torch.Tensor, absent: torch.Tensor, some: torch.Tensor | None, *learned: torch.Tensor
    ) -> torch.Tensor:
        moves, hides = _matrices(learned)
        kept = attention_cuda.forward(vectors, absent, some, moves, hides, learned[-1].detach().contiguous())
        ctx.save_for_backward(vectors, some, moves, hides, *kept, *learned)
        return kept.out

    @staticmethod
    def backward(ctx: Any, of_out: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        vectors, some, moves, hides, out, logits, scale, *learned = ctx.saved_tensors
        kept = attention_cuda.Kept(out, logits, scale)
        from_both = attention_cuda.backward(vectors, some, moves, hides, kept, of_out.contiguous())
        return None, None, None, *_gradients(learned, from_both)


# ---------------------------------------------------------------------- what the two that are written out share


def _keys(name: str) -> list[str]:
    """Return the names of what this side's network has learned: W, b, H, the hidden layer's bias, l."""
    return ["transfer", "bias", f"{name}_hidden", f"{name}_hidden_bias", f"{name}_weights"]


def _matrices(learned: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return W', (n_shards, dim + 1, dim), and what makes the hidden layer of a vector with a 1 behind it."""
    transfer, bias, to_hidden, hidden_bias, _ = (one.detach() for one in learned)
    moves = torch.cat([transfer, bias], dim=1)
    hides = moves @ to_hidden  # (n_shards, dim + 1, width)
    hides[:, -1] += hidden_bias
    return moves, hides


def _gradients(learned: Sequence[torch.Tensor], from_both: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the gradients of what was learned from X^T [A | B], (n_shards, dim + 1, dim + width)."""
    transfer, bias, to_hidden, hidden_bias, to_logit = (one.detach() for one in learned)
    dim = transfer.shape[1]
    from_moved, from_hidden = from_both[..., :dim], from_both[..., dim:]
    of_moves = from_moved + (from_hidden * to_logit) @ to_hidden.T  # (n_shards, dim + 1, dim)
    moves = torch.cat([transfer, bias], dim=1)
    inner = (moves.transpose(1, 2) @ from_hidden).sum(dim=0)  # (dim, width): moved^T B
    last = from_hidden[:, -1].sum(dim=0)
    of_to_logit = (to_hidden * inner).sum(dim=0) + hidden_bias * last
    return of_moves[:, :-1], of_moves[:, -1:], inner * to_logit, last * to_logit, of_to_logit
