"""The kernels of the pairwise loss for CUDA (Triton): drawing, gradients, and the moves of Adagrad and Adam.

Gradients are added up as whole numbers: a float is multiplied by 2^40 and cut off, and what comes of adding whole
numbers does not depend on the order. So thousands of programs may add to one table at once (atomics), and the bits are
the same on every run. 2^40 leaves 23 bits above the point: more than any sum of a batch.

A program is several warps, each at its own pace, and the compiler may let one warp load what another one stores: where
a table is read and written in the same kernel, all loads come first, then a barrier, then the stores. Without it, a
fast warp's zeros were now and then a slow warp's gradient.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["adagrad", "adam", "device_keys", "gradients", "lacking", "places", "settle"]

Keys = NDArray[np.uint64]

_ROWS = 8  # rows of a batch, or of a table, that one program takes
_BLOCK = 256  # rows that one program draws for


@cache
def _kernels() -> SimpleNamespace:  # noqa: C901 - one after the other, they have to be defined in here
    """Compile on first use: importing this module must work where Triton is missing."""
    import triton
    import triton.language as tl

    # Numbers that differ from shard to shard are not compiled in: another size would be another compilation.
    def jit(*varying: str) -> Any:
        return triton.jit(do_not_specialize=list(varying))

    @jit()
    def draw(key, counter):  # type: ignore[no-untyped-def]
        x = (counter + 1) * 0x9E3779B97F4A7C15 + key
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB
        return x ^ (x >> 31)

    @jit("n", "low", "high")  # type: ignore[untyped-decorator]
    def places(keys, out, n, low, high, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.minimum(row, n - 1).to(tl.uint64)
        outside = tl.full((BLOCK,), 1, tl.int32)
        first, second = tl.load(keys), tl.load(keys + 1)
        third, fourth = tl.load(keys + 2), tl.load(keys + 3)
        while tl.max(outside) > 0:
            left, right = x >> low, x & ((1 << low) - 1)
            left = (left ^ draw(first, right)) & ((1 << high) - 1)
            right = (right ^ draw(second, left)) & ((1 << low) - 1)
            left = (left ^ draw(third, right)) & ((1 << high) - 1)
            right = (right ^ draw(fourth, left)) & ((1 << low) - 1)
            x = tl.where(outside > 0, (left << low) | right, x)
            outside = (x >= n).to(tl.int32)
        tl.store(out + row, x.to(tl.int64), mask=row < n)

    @jit()
    def one_lacking(key, row, user, wanted, held, n_words, n_items):  # type: ignore[no-untyped-def]
        x = row.to(tl.uint64) * 0 + key
        item = row * 0
        left = wanted.to(tl.int32)
        while tl.max(left) > 0:
            x = tl.where(left > 0, draw(x, row.to(tl.uint64)), x)
            item = (((x >> 32) * n_items) >> 32).to(tl.int64)
            word = tl.load(held + user * n_words + (item >> 5), mask=left > 0, other=0)
            left = tl.where(left > 0, (word >> (item & 31).to(tl.int32)) & 1, 0)
        return item

    @jit("n", "n_words", "n_items")  # type: ignore[untyped-decorator]
    def lacking(  # type: ignore[no-untyped-def]
        keys, users, weights, held, out, n, n_words, n_items, N_KEYS: tl.constexpr, BLOCK: tl.constexpr
    ):
        row = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
        there = row < n
        user = tl.load(users + row, mask=there, other=0)
        wanted = there & (tl.load(weights + row, mask=there, other=0.0) > 0.0)
        for column in range(N_KEYS):
            item = one_lacking(tl.load(keys + column), row, user, wanted, held, n_words, n_items)
            tl.store(out + row * N_KEYS + column, tl.where(wanted, item, 0), mask=there)

    @jit("size", "n_words", "n_items")  # type: ignore[untyped-decorator]
    def gradients(  # type: ignore[no-untyped-def]
        rows, size, keys, users, items, everything, held, n_words, n_items,
        p, q, of_users, of_items, user_counts, item_counts,
        WIDTH: tl.constexpr, N_KEYS: tl.constexpr, ROWS: tl.constexpr,
    ):  # fmt: skip
        at = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        row = tl.load(rows + at, mask=at < size, other=-1).to(tl.int64)
        there = row >= 0
        user = tl.load(users + row, mask=there, other=0)
        item = tl.load(items + row, mask=there, other=0)
        there = there & (tl.load(everything + user) == 0)
        column = tl.arange(0, WIDTH)[None, :]
        whole = there[:, None] & (column >= 0)
        u = tl.load(p + user[:, None] * WIDTH + column, mask=whole, other=0.0)
        other = item * 0
        best = tl.full((ROWS,), float("-inf"), tl.float32)
        for number in tl.static_range(N_KEYS):
            candidate = one_lacking(tl.load(keys + number), row, user, there, held, n_words, n_items)
            candidate = tl.where(there, candidate, 0)
            score = tl.sum(u * tl.load(q + candidate[:, None] * WIDTH + column, mask=whole, other=0.0), axis=1)
            better = score > best
            best = tl.where(better, score, best)
            other = tl.where(better, candidate, other)
        i = tl.load(q + item[:, None] * WIDTH + column, mask=whole, other=0.0)
        j = tl.load(q + other[:, None] * WIDTH + column, mask=whole, other=0.0)
        slope = 1.0 / (1.0 + tl.exp(tl.sum(u * i, axis=1) - best))
        towards = ((slope[:, None] * u) * 1099511627776.0).to(tl.int64)
        between = ((slope[:, None] * (j - i)) * 1099511627776.0).to(tl.int64)
        tl.atomic_add(of_users + user[:, None] * WIDTH + column, between, mask=whole, sem="relaxed")
        tl.atomic_add(of_items + item[:, None] * WIDTH + column, -towards, mask=whole, sem="relaxed")
        tl.atomic_add(of_items + other[:, None] * WIDTH + column, towards, mask=whole, sem="relaxed")
        tl.atomic_add(user_counts + user, 1, mask=there, sem="relaxed")
        tl.atomic_add(item_counts + item, 1, mask=there, sem="relaxed")
        tl.atomic_add(item_counts + other, 1, mask=there, sem="relaxed")

    @jit("n")  # type: ignore[untyped-decorator]
    def settle(whole, out, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(whole + at, mask=at < n, other=0)
        tl.debug_barrier()
        tl.store(out + at, value.to(tl.float64) * 9.094947017729282e-13, mask=at < n)
        tl.store(whole + at, value * 0, mask=at < n)

    @jit("n")  # type: ignore[untyped-decorator]
    def adagrad(table, gradient, counts, squares, n, rate, decay, share, WIDTH: tl.constexpr, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
        row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
        count = tl.load(counts + row, mask=row < n, other=0)
        if tl.max(count) > 0:
            at = row[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
            moved = (count > 0)[:, None] & (at >= 0)
            x = tl.load(table + at, mask=moved, other=0.0)
            whole = tl.load(gradient + at, mask=moved, other=0)
            g = share * (whole.to(tl.float64) * 9.094947017729282e-13).to(tl.float32)
            g += (decay * share * count.to(tl.float32))[:, None] * x
            square = tl.load(squares + at, mask=moved, other=0.0) + g * g
            tl.debug_barrier()
            tl.store(squares + at, square, mask=moved)
            tl.store(table + at, x - rate * g / (tl.sqrt_rn(square) + 1e-10), mask=moved)
            tl.store(gradient + at, whole * 0, mask=moved)
            tl.store(counts + row, count * 0, mask=count > 0)

    @jit("n")  # type: ignore[untyped-decorator]
    def adam(  # type: ignore[no-untyped-def]
        table, gradient, counts, means, squares, n, rate, decay, share, WIDTH: tl.constexpr, ROWS: tl.constexpr
    ):
        row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
        count = tl.load(counts + row, mask=row < n, other=0)
        at = row[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
        there = (row < n)[:, None] & (at >= 0)
        x = tl.load(table + at, mask=there, other=0.0)
        g = share * tl.load(gradient + at, mask=there, other=0.0)
        g += (decay * share * count.to(tl.float32))[:, None] * x
        mean = 0.9 * tl.load(means + at, mask=there, other=0.0) + 0.1 * g
        square = 0.999 * tl.load(squares + at, mask=there, other=0.0) + 0.001 * (g * g)
        step = tl.load(rate)
        tl.debug_barrier()
        tl.store(means + at, mean, mask=there)
        tl.store(squares + at, square, mask=there)
        tl.store(table + at, x - step * (mean / (tl.sqrt_rn(square) + 1e-8)), mask=there)
        tl.store(counts + row, count * 0, mask=row < n)

    shared = {"draw": draw, "one_lacking": one_lacking}
    moves = {"settle": settle, "adagrad": adagrad, "adam": adam}
    return SimpleNamespace(places=places, lacking=lacking, gradients=gradients, **moves, **shared)


def device_keys(keys: Keys, device: torch.device) -> torch.Tensor:
    """Return keys as Triton reads them: 64 bits without a sign."""
    return torch.from_numpy(keys.view(np.int64).copy()).to(device).view(torch.uint64)


def places(keys: Keys, n: int, bits: int, device: torch.device) -> torch.Tensor:
    """Return the place of every row (`seeds.places`)."""
    out = torch.empty(n, dtype=torch.int64, device=device)
    if n:
        low = bits // 2
        grid = (-(-n // _BLOCK),)
        _kernels().places[grid](device_keys(keys, device), out, n, low, bits - low, BLOCK=_BLOCK)
    return out


def lacking(keys: Keys, users: torch.Tensor, weights: torch.Tensor, held: torch.Tensor, n_items: int) -> torch.Tensor:
    """Return, for every row of weight, an item that its user lacks, once for each key; 0 for other rows."""
    n = users.shape[0]
    out = torch.zeros((n, len(keys)), dtype=torch.int64, device=users.device)
    if n:
        drawn = device_keys(keys, users.device)
        grid = (-(-n // _BLOCK),)
        _kernels().lacking[grid](
            drawn, users, weights, held, out, n, held.shape[1], n_items, N_KEYS=len(keys), BLOCK=_BLOCK
        )
    return out


def gradients(
    rows: torch.Tensor,
    keys: torch.Tensor,
    users: torch.Tensor,
    items: torch.Tensor,
    everything: torch.Tensor,
    held: torch.Tensor,
    p: torch.Tensor,
    q: torch.Tensor,
    of_users: torch.Tensor,
    of_items: torch.Tensor,
    user_counts: torch.Tensor,
    item_counts: torch.Tensor,
) -> None:
    """Add up the gradients of a batch's pairwise loss, not yet averaged, as whole numbers; count its triples."""
    size, width = rows.shape[0], p.shape[1]
    _kernels().gradients[(-(-size // _ROWS),)](
        rows, size, keys, users, items, everything, held, held.shape[1], q.shape[0],
        p, q, of_users, of_items, user_counts, item_counts,
        WIDTH=width, N_KEYS=keys.shape[0], ROWS=_ROWS, num_warps=4,
    )  # fmt: skip


def settle(whole: torch.Tensor, out: torch.Tensor) -> None:
    """Write whole numbers as floats, and leave zeros behind."""
    _kernels().settle[(-(-whole.numel() // 1024),)](whole, out, whole.numel(), BLOCK=1024)


def adagrad(
    table: torch.Tensor,
    gradient: torch.Tensor,
    counts: torch.Tensor,
    squares: torch.Tensor,
    rate: float,
    decay: float,
    batch_size: int,
) -> None:
    """Move the rows that are in the batch, by a gradient in whole numbers; leave gradient and counts at zero."""
    n, width = table.shape
    _kernels().adagrad[(-(-n // _ROWS),)](
        table, gradient, counts, squares, n, rate, decay, 1.0 / batch_size, WIDTH=width, ROWS=_ROWS
    )


def adam(
    table: torch.Tensor,
    gradient: torch.Tensor,
    counts: torch.Tensor,
    means: torch.Tensor,
    squares: torch.Tensor,
    rate: torch.Tensor,
    decay: float,
    batch_size: int,
) -> None:
    """Move every row by Adam's rule, by a gradient in floats; `rate` is a number on the device."""
    n, width = table.shape
    _kernels().adam[(-(-n // _ROWS),)](
        table, gradient, counts, means, squares, n, rate, decay, 1.0 / batch_size, WIDTH=width, ROWS=_ROWS
    )
