"""What can be said of CUDA kernels where there is no GPU: how they are written."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import receraser

PACKAGE = Path(receraser.__file__).parent
SOURCES = {
    path.relative_to(PACKAGE).as_posix(): source
    for path in sorted(PACKAGE.rglob("*.py"))
    if "triton.jit" in (source := path.read_text("utf-8"))
}
ATOMICS = ("add", "and", "cas", "max", "min", "or", "xchg", "xor")
WRITES = ("store", *(f"atomic_{name}" for name in ATOMICS))


def kernels_of(source: str) -> Iterator[ast.FunctionDef]:
    """The functions that Triton compiles."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(one) for one in node.decorator_list):
            yield node


def called(kernel: ast.FunctionDef, name: str) -> list[tuple[str, int]]:
    """The table of every `tl.NAME`, and the line of the call."""
    found = []
    for node in ast.walk(kernel):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"tl.{name}":
            place = node.args[0] if node.args else None
            while isinstance(place, ast.BinOp):
                place = place.left
            found.append((ast.unparse(place) if place else "", node.lineno))
    return found


def hasty(source: str) -> list[str]:
    """Kernels that may store into a table before every warp has loaded from it."""
    found = []
    for kernel in kernels_of(source):
        loads = called(kernel, "load")
        stores = [one for name in WRITES for one in called(kernel, name)]
        both = {table for table, _ in loads} & {table for table, _ in stores}
        last = max((line for table, line in loads if table in both), default=0)
        first = min((line for table, line in stores if table in both), default=0)
        if both and not any(last < line < first for _, line in called(kernel, "debug_barrier")):
            found.append(f"{kernel.name}: {', '.join(sorted(both))}")
    return found


def test_all_kernels_are_looked_at() -> None:
    assert {name: len(list(kernels_of(source))) for name, source in SOURCES.items()} == {
        "training/kernels/attention_cuda.py": 4,
        "training/kernels/cuda.py": 2,
        "training/kernels/pairs_cuda.py": 8,
    }


@pytest.mark.parametrize("name", SOURCES)
def test_all_loads_come_before_a_barrier_and_all_stores_after(name: str) -> None:
    assert hasty(SOURCES[name]) == []


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("training/kernels/cuda.py", ["kernel"]),
        ("training/kernels/pairs_cuda.py", ["settle", "adagrad", "adam"]),
    ],
)
def test_without_the_barrier_it_would_be_found(name: str, found: list[str]) -> None:
    careless = "\n".join(line for line in SOURCES[name].splitlines() if "debug_barrier" not in line)
    assert [one.split(":")[0] for one in hasty(careless)] == found


def test_an_atomic_is_a_store() -> None:
    source = """
@triton.jit
def add(table, n):
    x = tl.load(table + n)
    tl.atomic_add(table + n, x)
"""
    assert hasty(source) == ["add: table"]
