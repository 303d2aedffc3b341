"""CUDA kernels: sparse times dense in a fixed order (Triton), and batched least-squares solves (torch).

Triton comes with every CUDA build of torch. No atomics: each output row is summed by one program, entry by entry in
blocks of a fixed size, so the bits are the same on every run.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

__all__ = ["csr_times_dense", "solve_batched"]

_PADDED_CELLS = 1 << 27  # float32 cells gathered at once in `solve_batched`: half a gigabyte


@cache
def _csr_kernel() -> Any:
    """Compile on first use: importing this module must work where Triton is missing."""
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator]
    def kernel(indptr, indices, values, dense, out, n_columns, COLUMNS: tl.constexpr, ENTRIES: tl.constexpr):  # type: ignore[no-untyped-def]
        row = tl.program_id(0)
        columns = tl.arange(0, COLUMNS)
        inside = columns < n_columns
        first = tl.load(indptr + row)
        last = tl.load(indptr + row + 1)
        total = tl.zeros((COLUMNS,), dtype=tl.float32)
        for start in range(first, last, ENTRIES):
            entry = start + tl.arange(0, ENTRIES)
            there = entry < last
            source = tl.load(indices + entry, mask=there, other=0)
            value = tl.load(values + entry, mask=there, other=0.0)
            block = tl.load(
                dense + source[:, None] * n_columns + columns[None, :], mask=there[:, None] & inside[None, :], other=0.0
            )
            total += tl.sum(value[:, None] * block, axis=0)
        tl.store(out + row * n_columns + columns, total, mask=inside)

    return kernel


def csr_times_dense(
    indptr: torch.Tensor, indices: torch.Tensor, values: torch.Tensor, dense: torch.Tensor
) -> torch.Tensor:
    """Return the product of a CSR matrix and a dense float32 one."""
    dense = dense.contiguous()
    n_columns = dense.shape[1]
    out = torch.empty((indptr.shape[0] - 1, n_columns), dtype=torch.float32, device=dense.device)
    columns = 1 << max(n_columns - 1, 0).bit_length()
    # 64 entries a block and two warps were the fastest of those tried on an H200 (73 us for ML-1M's graph at width 64).
    launch = _csr_kernel()[(out.shape[0],)]
    launch(indptr, indices, values, dense, out, n_columns, COLUMNS=columns, ENTRIES=64, num_warps=2)
    return out


def solve_batched(
    indptr: torch.Tensor,
    indices: torch.Tensor,
    others: torch.Tensor,
    gram: torch.Tensor,
    penalty: torch.Tensor,
) -> torch.Tensor:
    """Solve the normal equations of every row exactly, rows of like length together.

    A row is padded to the next power of two of its own length, so its arithmetic does not depend on its neighbours.
    """
    dim = others.shape[1]
    lengths = indptr.diff()
    solution = torch.zeros((lengths.shape[0], dim), dtype=others.dtype, device=others.device)
    padded = torch.cat([others, others.new_zeros((1, dim))])  # the last row stands for "no entry"
    exponent = torch.ceil(torch.log2(lengths.clamp(min=1).to(torch.float64))).to(torch.int64)
    eye = torch.eye(dim, dtype=others.dtype, device=others.device)
    for power in range(int(exponent.max()) + 1 if len(lengths) else 0):
        width = 1 << power
        of_this_width = ((exponent == power) & (lengths > 0)).nonzero().squeeze(1)
        for rows in torch.split(of_this_width, max(1, _PADDED_CELLS // (width * dim))):
            offset = torch.arange(width, device=others.device)
            entry = (indptr[rows, None] + offset).clamp(max=max(indices.shape[0] - 1, 0))
            source = torch.where(offset < lengths[rows, None], indices[entry], others.shape[0])  # (rows, width)
            q = padded[source]  # (rows, width, dim)
            a = gram + q.transpose(1, 2) @ q + penalty[rows, None, None] * eye
            factor = torch.linalg.cholesky(a)
            solution[rows] = torch.cholesky_solve(q.sum(dim=1).unsqueeze(2), factor).squeeze(2)
    return solution
