"""Operations on rows of float32 tables (sums also of float64), spelled out in vector instructions for numba.

A compiler may not reorder a sum, so it adds the 64 products of a dot product one after the other, which takes five
times as long as the products themselves. Here the order is given: 16 partial sums, added up in a fixed tree. What
comes out has the same bits on every machine that rounds as IEEE says. A width that is a multiple of `LANES` is the
quickest; columns that are left over come one by one.

numba keeps machine code by the date of the file that a function is in, not of this one: so the modules of kernels
name this file's SHA-256, a test compares it, and a change here changes them.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

__all__ = ["LANES", "add_row", "compiled", "dot_rows", "fetch", "fetch_to_write", "parallel", "sum_rows"]

LANES = 16  # two vectors of eight: the sums of one do not wait for those of the other
_EIGHT = ir.VectorType(ir.FloatType(), 8)
_INDEX = ir.IntType(32)
_LINE = 64  # bytes that come from memory at once


def compiled(function: Any, *, parallel: bool = False, inlined: bool = False, error_model: str = "python") -> Any:
    """Compile on first use; keep the machine code for the next process where there is a place for it.

    With the error model "numpy" a division by zero is no error: a loop with divisions becomes vector instructions. What
    is called for every row and takes several tables is better inlined: each is handed over as nine numbers.
    """
    options: dict[str, Any] = {"nogil": True, "parallel": parallel, "forceinline": inlined, "error_model": error_model}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder that numba may write to
        return numba.njit(**options)(function)


def parallel(function: Any) -> Any:
    """Compile a function whose `prange` loops may run on several threads."""
    return compiled(function, parallel=True)


def _intrinsic(function: Any) -> Any:
    """Let numba call a function for the instructions instead of the value; for type checkers it may take anything."""
    return intrinsic(function)


def _require_table(kind: Any, number: Any = types.float32) -> None:
    """Refuse what does not lie row by row: its addresses would be others."""
    if kind.layout != "C" or kind.ndim != 2 or kind.dtype != number:
        raise TypingError(f"{kind}: expected a C-contiguous {number} table")


def _row(context: Any, builder: Any, kind: Any, table: Any, row: Any, number: Any = types.float32) -> tuple[Any, Any]:
    """Return the address of a row's first number, and the width."""
    _require_table(kind, number)
    array = context.make_array(kind)(context, builder, table)
    width = builder.extract_value(array.shape, 1)
    return builder.gep(array.data, [builder.mul(row, width)]), width


def _eight(builder: Any, start: Any, offset: Any) -> Any:
    """Return the address of eight numbers from an offset on."""
    return builder.bitcast(builder.gep(start, [offset]), _EIGHT.as_pointer())


def _whole(builder: Any, width: Any, step: int) -> Any:
    """Return the largest multiple of a power of two that is within the width."""
    return builder.and_(width, ir.Constant(width.type, -step))


def _kept(builder: Any, value: Any) -> Any:
    """Return a place in memory that holds a value to begin with; the compiler makes a register of it."""
    return cgutils.alloca_once_value(builder, value)  # type: ignore[no-untyped-call]


def _every(builder: Any, first: Any, last: Any, step: int) -> Any:
    """Loop from first to last, so many at a time."""
    return cgutils.for_range_slice(builder, first, last, ir.Constant(first.type, step), intp=first.type, inc=True)


def _steps(builder: Any, width: Any) -> tuple[Any, Any]:
    """Return two loops over a row: LANES numbers at a time, and one by one over what is left."""
    whole = _whole(builder, width, LANES)
    return _every(builder, ir.Constant(width.type, 0), whole, LANES), _every(builder, whole, width, 1)


@_intrinsic
def dot_rows(typing: Any, a: Any, i: Any, b: Any, j: Any) -> Any:  # noqa: ARG001 - numba names what it hands over
    """Return a[i] . b[j] for two C-contiguous float32 tables; of b[j] as many columns as a has."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, width = _row(context, builder, signature.args[0], arguments[0], arguments[1])
        right, _ = _row(context, builder, signature.args[2], arguments[2], arguments[3])
        zero = ir.Constant(_EIGHT, [0.0] * 8)
        sums = [_kept(builder, zero) for _ in range(2)]
        by_lanes, left_over = _steps(builder, width)
        with by_lanes as (at, _):
            for half, total in enumerate(sums):
                offset = builder.add(at, ir.Constant(width.type, 8 * half))
                x, y = (builder.load(_eight(builder, row, offset), align=4) for row in (left, right))
                builder.store(builder.fadd(builder.load(total), builder.fmul(x, y)), total)
        found, n = builder.fadd(builder.load(sums[0]), builder.load(sums[1])), 8
        while n > 1:
            n //= 2
            halves = [
                builder.shuffle_vector(
                    found, found, ir.Constant(ir.VectorType(_INDEX, n), list(range(first, first + n)))
                )
                for first in (0, n)
            ]
            found = builder.fadd(*halves)
        result = _kept(builder, builder.extract_element(found, ir.Constant(_INDEX, 0)))
        with left_over as (at, _):
            x, y = (builder.load(builder.gep(row, [at])) for row in (left, right))
            builder.store(builder.fadd(builder.load(result), builder.fmul(x, y)), result)
        return builder.load(result)

    return types.float32(a, types.intp, b, types.intp), generate


@_intrinsic
def add_row(typing: Any, scale: Any, a: Any, i: Any, b: Any, j: Any) -> Any:  # noqa: ARG001
    """Add scale * a[i] to b[j], for two C-contiguous float32 tables of one width."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, width = _row(context, builder, signature.args[1], arguments[1], arguments[2])
        target, _ = _row(context, builder, signature.args[3], arguments[3], arguments[4])
        lane = builder.insert_element(ir.Constant(_EIGHT, ir.Undefined), arguments[0], ir.Constant(_INDEX, 0))
        factor = builder.shuffle_vector(lane, lane, ir.Constant(ir.VectorType(_INDEX, 8), [0] * 8))
        by_lanes, left_over = _steps(builder, width)
        with by_lanes as (at, _):
            for half in range(2):
                offset = builder.add(at, ir.Constant(width.type, 8 * half))
                term = builder.fmul(factor, builder.load(_eight(builder, source, offset), align=4))
                place = _eight(builder, target, offset)
                builder.store(builder.fadd(builder.load(place, align=4), term), place, align=4)
        with left_over as (at, _):
            term = builder.fmul(arguments[0], builder.load(builder.gep(source, [at])))
            place = builder.gep(target, [at])
            builder.store(builder.fadd(builder.load(place), term), place)
        return context.get_dummy_value()

    return types.void(types.float32, a, types.intp, b, types.intp), generate


@_intrinsic
def sum_rows(typing: Any, indices: Any, first: Any, last: Any, a: Any, b: Any, j: Any) -> Any:  # noqa: ARG001
    """Write the sum of a[indices[e]] over e in [first, last), in this order, into b[j]; float32 or float64.

    Up to 64 columns at a time, of float64 32: their sums stay in registers while the rows go by.
    """
    wide = getattr(a, "dtype", None) == types.float64

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        own = types.float64 if wide else types.float32
        one = ir.DoubleType() if wide else ir.FloatType()
        eight, most = ir.VectorType(one, 8), 32 if wide else 64
        chosen = context.make_array(signature.args[0])(context, builder, arguments[0])
        _require_table(signature.args[3], own)
        table = context.make_array(signature.args[3])(context, builder, arguments[3])
        target, width = _row(context, builder, signature.args[4], arguments[4], arguments[5], own)
        number = width.type

        def columns(start: Any, kind: Any, n: int) -> None:
            zero = ir.Constant(kind, 0.0 if kind == one else [0.0] * 8)
            size = 1 if kind == one else 8
            sums = [_kept(builder, zero) for _ in range(n)]

            def at(row: Any, place: int) -> Any:
                return builder.bitcast(builder.gep(row, [ir.Constant(number, size * place)]), kind.as_pointer())

            with _every(builder, arguments[1], arguments[2], 1) as (entry, _):
                index = builder.load(builder.gep(chosen.data, [entry]))
                if index.type.width < number.width:
                    index = builder.sext(index, number)
                source = builder.gep(table.data, [builder.add(builder.mul(index, width), start)])
                for place, total in enumerate(sums):
                    term = builder.load(at(source, place), align=4)
                    builder.store(builder.fadd(builder.load(total), term), total)
            first = builder.gep(target, [start])
            for place, total in enumerate(sums):
                builder.store(builder.load(total), at(first, place), align=4)

        edges = [ir.Constant(number, 0), _whole(builder, width, most), _whole(builder, width, LANES), width]
        pieces = [(most, eight, most // 8), (LANES, eight, LANES // 8), (1, one, 1)]
        for first, last, (step, kind, n) in zip(edges[:-1], edges[1:], pieces, strict=True):
            with _every(builder, first, last, step) as (start, _):
                columns(start, kind, n)
        return context.get_dummy_value()

    return types.void(indices, types.intp, types.intp, a, b, types.intp), generate


def _fetching(*, to_write: bool) -> Any:
    def fetched(typing: Any, a: Any, i: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            byte, kind = ir.IntType(8).as_pointer(), signature.args[0]
            if kind.ndim == 1:
                array = context.make_array(kind)(context, builder, arguments[0])
                start, width = builder.gep(array.data, [arguments[1]]), ir.Constant(arguments[1].type, 1)
            else:
                start, width = _row(context, builder, kind, arguments[0], arguments[1])
            size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
            shape = ir.FunctionType(ir.VoidType(), [byte, _INDEX, _INDEX, _INDEX])
            hint = builder.module.declare_intrinsic("llvm.prefetch", [byte], shape)
            how = [ir.Constant(_INDEX, number) for number in (int(to_write), 3, 1)]  # into all caches, of data
            with _every(builder, ir.Constant(width.type, 0), width, _LINE // size) as (at, _):
                builder.call(hint, [builder.bitcast(builder.gep(start, [at]), byte), *how])
            return context.get_dummy_value()

        return types.void(a, types.intp), generate

    return _intrinsic(fetched)


fetch = _fetching(to_write=False)  # a[i], a number or a row of a table, is asked for: it will be read soon
fetch_to_write = _fetching(to_write=True)  # likewise, and it will be written: other cores' copies are called in
