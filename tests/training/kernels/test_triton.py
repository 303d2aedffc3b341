"""What can be said of CUDA kernels where there is no GPU: how they are written."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from receraser.training import kernels

FOLDER = Path(kernels.__file__).parent
# Of conjugate gradients: what is stored has gone through sums over all warps since it was loaded.
EXCEPT = ["kernel: solution"]


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
        loads, stores = called(kernel, "load"), called(kernel, "store")
        both = {table for table, _ in loads} & {table for table, _ in stores}
        last = max((line for table, line in loads if table in both), default=0)
        first = min((line for table, line in stores if table in both), default=0)
        if both and not any(last < line < first for _, line in called(kernel, "debug_barrier")):
            found.append(f"{kernel.name}: {', '.join(sorted(both))}")
    return found


@pytest.mark.parametrize("name", ["cuda.py", "pairs_cuda.py"])
def test_all_loads_come_before_a_barrier_and_all_stores_after(name: str) -> None:
    source = (FOLDER / name).read_text(encoding="utf-8")
    assert len(list(kernels_of(source))) >= 2
    assert [one for one in hasty(source) if one not in EXCEPT] == []


def test_without_the_barrier_it_would_be_found() -> None:
    lines = (FOLDER / "pairs_cuda.py").read_text(encoding="utf-8").splitlines()
    careless = "\n".join(line for line in lines if "debug_barrier" not in line)
    assert [one.split(":")[0] for one in hasty(careless)] == ["settle", "adagrad", "adam"]
