"""The kernels of the attention for CUDA (Triton): forward, the way back, and the hardest of a row's negatives.

A person's vectors are moved, weighed and added up in one pass over the shards, which writes nothing but the sum and a
logit for each shard. With a matrix W' of one more row (the bias) and a vector x with a 1 behind it,

    moved = x W'     hidden = relu(x V')     logit = hidden . l

where V' = W' H + (0 ... 0, b) is made once a step. The way back computes them again and adds up X^T [A | B]: A = w g is
the gradient g of the sum times the weight w of the shard; B is the gradient of the logit, w g . (moved - sum), where
the hidden layer is above zero, and 0 elsewhere. All gradients follow from these products (`aggregation.network`).

No atomics: a program adds up the people of one chunk in one shard, block after block, and what the programs found is
added up in the order of the chunks. Chunks depend on the number of people alone, so the bits are the same every time.
No table is both loaded and stored in one kernel.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch

__all__ = ["Kept", "backward", "fits", "forward", "hardest"]

PRECISION = "ieee"  # of the products: "ieee", or "tf32x3", which uses the tensor cores three times for the same digits
MOST = 128  # numbers in a vector, and in the hidden layer: the sums of more do not fit into registers
CHUNKS = 96  # at most, of the people of a shard
_ROWS = 8  # rows of a batch that one program of `hardest` takes


class Launch(NamedTuple):
    """How a kernel is run: people in a block, numbers of a vector that are multiplied at once, warps, stages."""

    block: int
    slice: int
    warps: int
    stages: int


FORWARD = Launch(64, 32, 8, 1)  # these two need no more registers than there are, at 64 numbers
BACKWARD = Launch(64, 32, 8, 1)


class Kept(NamedTuple):
    """What forward leaves for the way back.

    Attributes
    ----------
    out
        (n, dim): the aggregated vectors.
    logits
        (n_shards, n): -inf where somebody is absent.
    scale
        (2, n): the largest logit of everybody, and the sum of e^(logit - largest).
    """

    out: torch.Tensor
    logits: torch.Tensor
    scale: torch.Tensor


@cache
def _kernels() -> SimpleNamespace:
    """Compile on first use: importing this module must work where Triton is missing."""
    import triton
    import triton.language as tl

    # Numbers that differ from table to table are not compiled in: another size would be another compilation.
    def jit(*varying: str) -> Any:
        return triton.jit(do_not_specialize=list(varying))

    @jit()  # type: ignore[untyped-decorator]
    def moved_and_ahead(  # type: ignore[no-untyped-def]
        x_at, moves, hides, inside,
        DIM: tl.constexpr, WIDTH: tl.constexpr, D: tl.constexpr, W: tl.constexpr, BLOCK: tl.constexpr,
        SLICE: tl.constexpr, PRECISION: tl.constexpr,
    ):  # fmt: skip
        column, unit, line = tl.arange(0, D), tl.arange(0, W), tl.arange(0, SLICE)
        moved, ahead = tl.zeros((BLOCK, D), tl.float32), tl.zeros((BLOCK, W), tl.float32)
        for first in range(0, DIM, SLICE):
            own = first + line
            x = tl.load(x_at[:, None] + own[None, :], mask=inside[:, None] & (own < DIM)[None, :], other=0.0)
            move_at, hide_at = own[:, None] * DIM + column[None, :], own[:, None] * WIDTH + unit[None, :]
            move = tl.load(moves + move_at, mask=(own < DIM)[:, None] & (column < DIM)[None, :], other=0.0)
            hide = tl.load(hides + hide_at, mask=(own < DIM)[:, None] & (unit < WIDTH)[None, :], other=0.0)
            moved = tl.dot(x, move, moved, input_precision=PRECISION)
            ahead = tl.dot(x, hide, ahead, input_precision=PRECISION)
        move_bias = tl.load(moves + DIM * DIM + column, mask=column < DIM, other=0.0)
        hide_bias = tl.load(hides + DIM * WIDTH + unit, mask=unit < WIDTH, other=0.0)
        return moved + move_bias[None, :], ahead + hide_bias[None, :]

    @jit("n", "n_all", "n_shards")  # type: ignore[untyped-decorator]
    def forward(  # type: ignore[no-untyped-def]
        vectors, absent, some, moves, hides, to_logit, out, logits, scale, n, n_all, n_shards,
        DIM: tl.constexpr, WIDTH: tl.constexpr, D: tl.constexpr, W: tl.constexpr, BLOCK: tl.constexpr,
        CHOSEN: tl.constexpr, SLICE: tl.constexpr, PRECISION: tl.constexpr,
    ):  # fmt: skip
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = at < n
        row = tl.load(some + at, mask=inside, other=0) if CHOSEN else at.to(tl.int64)
        column, unit = tl.arange(0, D), tl.arange(0, W)
        to_one = tl.load(to_logit + unit, mask=unit < WIDTH, other=0.0)
        most = tl.full((BLOCK,), float("-inf"), tl.float32)
        total = tl.zeros((BLOCK,), tl.float32)
        added = tl.zeros((BLOCK, D), tl.float32)
        for k in range(n_shards):
            shard = tl.cast(k, tl.int64)
            gone = tl.load(absent + shard * n_all + row, mask=inside, other=1)
            x_at = vectors + (shard * n_all + row) * DIM
            own_moves, own_hides = moves + shard * (DIM + 1) * DIM, hides + shard * (DIM + 1) * WIDTH
            moved, ahead = moved_and_ahead(
                x_at, own_moves, own_hides, inside, DIM, WIDTH, D, W, BLOCK, SLICE, PRECISION
            )
            hidden = tl.maximum(ahead, 0.0)
            logit = tl.where(gone != 0, float("-inf"), tl.sum(hidden * to_one[None, :], axis=1))
            tl.store(logits + shard * n + at, logit, mask=inside)
            higher = tl.maximum(most, logit)
            level = tl.where(higher == float("-inf"), 0.0, higher)  # nobody yet: no difference of infinities
            before, loud = tl.exp(most - level), tl.exp(logit - level)
            total = total * before + loud
            added = added * before[:, None] + loud[:, None] * moved
            most = higher
        tl.store(scale + at, tl.where(most == float("-inf"), 0.0, most), mask=inside)
        total = tl.where(total > 0.0, total, 1.0)
        tl.store(scale + n + at, total, mask=inside)
        out_at = out + at.to(tl.int64)[:, None] * DIM + column[None, :]
        tl.store(out_at, added / total[:, None], mask=inside[:, None] & (column < DIM)[None, :])

    @jit("n", "n_all", "n_blocks")  # type: ignore[untyped-decorator]
    def backward(  # type: ignore[no-untyped-def]
        vectors, some, moves, hides, out, logits, scale, of_out, found, n, n_all, n_blocks,
        DIM: tl.constexpr, WIDTH: tl.constexpr, D: tl.constexpr, W: tl.constexpr, BLOCK: tl.constexpr,
        CHOSEN: tl.constexpr, SLICE: tl.constexpr, PRECISION: tl.constexpr,
    ):  # fmt: skip
        chunk, shard = tl.program_id(0), tl.program_id(1).to(tl.int64)
        column, unit, line = tl.arange(0, D), tl.arange(0, W), tl.arange(0, D)
        move_there = (line < DIM)[:, None] & (column < DIM)[None, :]
        hide_there = (line < DIM)[:, None] & (unit < WIDTH)[None, :]
        moves += shard * (DIM + 1) * DIM
        hides += shard * (DIM + 1) * WIDTH
        from_moved, moved_sum = tl.zeros((D, D), tl.float32), tl.zeros((D,), tl.float32)
        from_hidden, hidden_sum = tl.zeros((D, W), tl.float32), tl.zeros((W,), tl.float32)
        for block in range(n_blocks):
            at = (chunk * n_blocks + block) * BLOCK + tl.arange(0, BLOCK)
            inside = at < n
            row = tl.load(some + at, mask=inside, other=0) if CHOSEN else at.to(tl.int64)
            there = inside[:, None] & (column < DIM)[None, :]
            x_at = vectors + (shard * n_all + row) * DIM
            own = at.to(tl.int64)[:, None] * DIM + column[None, :]
            g = tl.load(of_out + own, mask=there, other=0.0)
            summed = tl.load(out + own, mask=there, other=0.0)
            logit = tl.load(logits + shard * n + at, mask=inside, other=float("-inf"))
            most = tl.load(scale + at, mask=inside, other=0.0)
            total = tl.load(scale + n + at, mask=inside, other=1.0)
            weight = tl.exp(logit - most) / total  # 0 for who is absent
            moved, ahead = moved_and_ahead(x_at, moves, hides, inside, DIM, WIDTH, D, W, BLOCK, SLICE, PRECISION)
            slope = weight * tl.sum(g * (moved - summed), axis=1)  # of the logit
            of_moved = weight[:, None] * g
            of_hidden = tl.where(ahead > 0.0, slope[:, None], 0.0)
            turned = tl.trans(tl.load(x_at[:, None] + column[None, :], mask=there, other=0.0))
            from_moved = tl.dot(turned, of_moved, from_moved, input_precision=PRECISION)
            from_hidden = tl.dot(turned, of_hidden, from_hidden, input_precision=PRECISION)
            moved_sum += tl.sum(of_moved, axis=0)
            hidden_sum += tl.sum(of_hidden, axis=0)
        # (chunks, n_shards, dim + 1, dim + width): the last row is that of the bias
        both: tl.constexpr = DIM + WIDTH
        found += (chunk * tl.num_programs(1) + shard) * (DIM + 1) * both
        tl.store(found + line[:, None] * both + column[None, :], from_moved, mask=move_there)
        tl.store(found + line[:, None] * both + DIM + unit[None, :], from_hidden, mask=hide_there)
        tl.store(found + DIM * both + column, moved_sum, mask=column < DIM)
        tl.store(found + DIM * both + DIM + unit, hidden_sum, mask=unit < WIDTH)

    @jit("n", "n_candidates")  # type: ignore[untyped-decorator]
    def hardest(users, items, candidates, out, n, n_candidates, DIM: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
        row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
        there = row < n
        column = tl.arange(0, D)[None, :]
        whole = there[:, None] & (column < DIM)
        u = tl.load(users + row[:, None] * DIM + column, mask=whole, other=0.0)
        first = candidates + row * n_candidates
        chosen = tl.load(first, mask=there, other=0)
        best = tl.full((ROWS,), float("-inf"), tl.float32)
        for number in range(n_candidates):
            candidate = tl.load(first + number, mask=there, other=0)
            score = tl.sum(u * tl.load(items + candidate[:, None] * DIM + column, mask=whole, other=0.0), axis=1)
            chosen = tl.where(score > best, candidate, chosen)
            best = tl.maximum(score, best)
        tl.store(out + row, chosen, mask=there)

    return SimpleNamespace(moved_and_ahead=moved_and_ahead, forward=forward, backward=backward, hardest=hardest)


def fits(dim: int, width: int) -> bool:
    """Say whether vectors and a hidden layer of so many numbers fit into a program."""
    return max(dim, width) <= MOST


def forward(
    vectors: torch.Tensor,
    absent: torch.Tensor,
    some: torch.Tensor | None,
    moves: torch.Tensor,
    hides: torch.Tensor,
    to_logit: torch.Tensor,
) -> Kept:
    """Return the aggregated vectors, and what the way back needs.

    Parameters
    ----------
    vectors, absent
        (n_shards, n_all, dim), (n_shards, n_all).
    some
        The places of those who are asked for; None: everybody.
    moves, hides
        (n_shards, dim + 1, dim), (n_shards, dim + 1, width): W' and V' of each shard.
    to_logit
        (width,): what makes one number of the hidden layer.
    """
    n_shards, n_all, dim = vectors.shape
    n = n_all if some is None else len(some)
    kept = Kept(*(vectors.new_empty(shape) for shape in ((n, dim), (n_shards, n), (2, n))))
    if n:
        settings = _settings(FORWARD, n, dim, hides.shape[2])
        _kernels().forward[(-(-n // settings["BLOCK"]),)](
            vectors, absent.view(torch.uint8), vectors if some is None else some, moves, hides, to_logit, *kept,
            n, n_all, n_shards, CHOSEN=some is not None, **settings,
        )  # fmt: skip
    return kept


def backward(
    vectors: torch.Tensor,
    some: torch.Tensor | None,
    moves: torch.Tensor,
    hides: torch.Tensor,
    kept: Kept,
    of_out: torch.Tensor,
) -> torch.Tensor:
    """Return X^T [A | B] of every shard, (n_shards, dim + 1, dim + width), from the gradient of the sums."""
    n_shards, n_all, dim = vectors.shape
    n, width = len(of_out), hides.shape[2]
    settings = _settings(BACKWARD, n, dim, width)
    n_blocks = -(-n // (settings["BLOCK"] * CHUNKS))  # of a chunk
    n_chunks = -(-n // (settings["BLOCK"] * n_blocks)) if n else 0
    found = vectors.new_empty((n_chunks, n_shards, dim + 1, dim + width))
    if n:
        _kernels().backward[(n_chunks, n_shards)](
            vectors, vectors if some is None else some, moves, hides, *kept, of_out, found, n, n_all, n_blocks,
            CHOSEN=some is not None, **settings,
        )  # fmt: skip
    return found.sum(dim=0)


def hardest(users: torch.Tensor, items: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Return, of each user's candidates (batch, n), the one that scores highest; the first one of equals."""
    users, items, candidates = users.contiguous(), items.contiguous(), candidates.contiguous()
    n, dim = users.shape
    out = torch.empty(n, dtype=torch.int64, device=users.device)
    if n:
        _kernels().hardest[(-(-n // _ROWS),)](
            users, items, candidates, out, n, candidates.shape[1], DIM=dim, D=_padded(dim, 1), ROWS=_ROWS, num_warps=4
        )
    return out


def _settings(best: Launch, n: int, dim: int, width: int) -> dict[str, Any]:
    """Return the sizes of a program and how it is launched, by the shapes of the tables alone."""
    d, w = _padded(dim, 16), _padded(width, 16)
    few = n <= 4096 or max(d, w) > 64  # smaller blocks: for more programs, or for more registers
    return {
        "DIM": dim, "WIDTH": width, "D": d, "W": w, "BLOCK": min(best.block, 32) if few else best.block,
        "SLICE": min(best.slice, d), "PRECISION": PRECISION, "num_warps": best.warps, "num_stages": best.stages,
    }  # fmt: skip


def _padded(n: int, least: int) -> int:
    """Return the power of two that is at least n, and at least `least`."""
    return max(least, 1 << max(n - 1, 0).bit_length())
