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
from receraser.training.kernels import attention_cuda, attention_on_cpu

__all__ = ["Dense", "Fused", "Parameters", "Present", "Side", "side_of"]

Parameters = Mapping[str, torch.Tensor]
Float32 = NDArray[np.float32]

_ROWS, _BLOCKS, _LEAST = 192, 8, 32  # of a product, of all people, people of a block


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
        vectors = lined_up.vectors[there].numpy()  # (n_there, dim)
        self._rows = np.concatenate([vectors, np.ones((len(vectors), 1), dtype=np.float32)], axis=1)
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
        there = at >= 0
        return _Table(self._rows.take(at[there], axis=0), there, self._width)


class _Table:
    """A table X of vectors that shards hold; a product with it one way, one the other.

    X has a column of ones, so that a matrix W and a bias are one matrix W' of one more row. Then, in a shard,

        moved = X W'                 hidden = relu(X (W' H + (0 ... 0, b)))
        of W' = X^T A + X^T B l H^T  of H = W'^T X^T B l   of b = (the last row of X^T B) l

    where l makes a number of the hidden layer; A = w g is the gradient g of the sums, each times its weight; and B is
    the gradient of that number where the hidden layer is above zero, 0 elsewhere. What is beside each other is one
    product, of a block of people at a time (`kernels.attention_cpu`).
    """

    def __init__(self, table: Float32, there: NDArray[np.bool_], width: int) -> None:
        kernels = attention_on_cpu()
        assert kernels is not None, "without them there is no table"
        self._kernels = kernels
        n_people, self._dim = there.shape[1], table.shape[1] - 1
        self._rows = table
        places = np.argsort(np.nonzero(there)[1], kind="stable")  # in the table, person by person
        indptr = np.concatenate([[0], np.cumsum(there.sum(axis=0))]).astype(np.int64)
        size = _block(len(there), n_people, len(table))
        bounds = np.minimum(np.arange(-(-n_people // size) + 1) * size, n_people)  # of the blocks
        counted = np.zeros((len(there), n_people + 1), dtype=np.int64)
        np.cumsum(there, axis=1, out=counted[:, 1:])
        before = np.cumsum([0, *counted[:-1, -1]])  # rows of the shards before
        self._layout = np.ascontiguousarray(before[:, None] + counted[:, bounds]), indptr, places, size
        self._both = np.empty((len(table), self._dim + width), dtype=np.float32)  # moved, hidden
        self._weights = np.empty(len(table), dtype=np.float32)
        self.turn = 0  # how often it was called: the way back must be that of the last call

    def forward(self, learned: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the aggregated vectors; what the way back needs stays in the buffers."""
        to_both = np.concatenate([one.numpy() for one in _matrices(learned)], axis=2)
        to_logit = np.zeros((1, self._both.shape[1]), dtype=np.float32)
        to_logit[0, self._dim :] = learned[-1].detach().numpy()
        out = np.empty((len(self._layout[1]) - 1, self._dim), dtype=np.float32)
        self._kernels.forward(self._rows, *self._layout, to_both, to_logit, self._both, self._weights, out)
        return torch.from_numpy(out)

    def backward(self, learned: Sequence[torch.Tensor], of_out: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the gradients of what was learned; forward has run just before."""
        n_shards, n_blocks = self._layout[0].shape[0], self._layout[0].shape[1] - 1
        stretches = min(self._kernels.STRETCHES, n_blocks)
        found = np.zeros((stretches, n_shards, self._dim + 1, self._both.shape[1]), dtype=np.float32)
        given = of_out.contiguous().numpy()
        self._kernels.backward(self._rows, *self._layout, self._both, self._weights, given, found)
        return _gradients(learned, torch.from_numpy(found.sum(axis=0)))


def _block(n_shards: int, n_people: int, n_rows: int) -> int:
    """Return how many people the kernels take at a time.

    So many that a product has some two hundred rows, if that leaves blocks for eight threads; thirty-two at least.
    """
    rows_each = max(1, n_rows) / max(1, n_people * n_shards)  # in a shard, of a person
    return max(_LEAST, min(int(_ROWS / rows_each), -(-n_people // _BLOCKS)))


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
