"""A GPU that is none: torch's CPU says that it is one, kernels run in Triton's interpreter, graphs are played by hand.

So whatever runs on a GPU runs where there is none, from a model's `fit` to its last kernel. Within `a_gpu()` a plain
tensor lies on the GPU; what comes from numpy, or from `cpu()`, is `OnHost`. As on a real one, the two do not mix, a
tensor of the GPU is no numpy array, and nothing waits for the GPU while a graph is recorded. What it cannot show: bits
that get lost between warps, memory that was given back, a graph that was recorded with a table that is another one by
now, and seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

from tests.training.kernels import interpreter

__all__ = ["OnHost", "a_gpu"]

GPU, HOST = torch.device("cuda", 0), torch.device("cpu")
FACTORIES = ("arange", "empty", "eye", "full", "ones", "randn", "tensor", "zeros")
# What takes tensors of both places: a copy, and a look into a table of the GPU by places that the host has.
MIXING = ("copy_", "__getitem__", "__setitem__")
# What a graph cannot record: the host would have to wait for the GPU, to know a number or how many there are.
WAITING = ("__bool__", "__float__", "__index__", "__int__", "item", "nonzero", "tolist", "unique", "masked_select")


class OnHost(torch.Tensor):
    """A tensor in the memory of the host."""

    is_cuda = False
    device = HOST

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Compute on the host; refuse what lies on the GPU, but for a single number of the host's among its tensors."""
        given = list(tensors((args, kwargs)))
        there = [one for one in given if not isinstance(one, OnHost)]
        name = getattr(func, "__name__", "")
        if there and any(one.ndim for one in given if isinstance(one, OnHost)) and name not in MIXING:
            raise RuntimeError(f"{name}: expected all tensors on one device, found some on the GPU, some on the host")
        if there and isinstance(args[0], OnHost) and name in ("__getitem__", "__setitem__"):
            raise RuntimeError(f"{name}: a tensor of the host is not indexed by one of the GPU")
        if there and any(one.ndim for one in given if isinstance(one, OnHost)):
            Recording.refuse(f"{name} with a tensor of the host")
        with torch._C.DisableTorchFunctionSubclass():
            found = func(*args, **(kwargs or {}))
        return found if there else on_host(found)


def tensors(values: Any) -> Iterator[torch.Tensor]:
    """Give every tensor among arguments."""
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, dict):
        yield from tensors(tuple(values.values()))
    elif isinstance(values, tuple | list):
        for one in values:
            yield from tensors(one)


def on_host(found: Any) -> Any:
    """Return what was computed as the host's."""
    if isinstance(found, torch.Tensor):
        return found if isinstance(found, OnHost) else found.as_subclass(OnHost)
    if isinstance(found, tuple | list):
        return type(found)([on_host(one) for one in found])
    return found


class Recording:
    """Whether a graph is recorded at the moment."""

    now = False

    @classmethod
    def refuse(cls, what: str) -> None:
        """Refuse what makes the host wait for the GPU meanwhile."""
        if cls.now:
            raise RuntimeError(f"{what} is not permitted while a graph is recorded")


class Graph:
    """A graph: its steps were taken while they were recorded, so the first replay has nothing left to do."""

    def __init__(self) -> None:
        self.steps: Callable[[], None] | None = None
        self.taken = False

    def replay(self) -> None:
        """Take the recorded steps."""
        assert self.steps is not None, "nothing was recorded"
        if self.taken:
            self.taken = False
            return
        with recorded(self):
            self.steps()
        self.taken = False


@contextmanager
def recorded(graph: Graph) -> Iterator[None]:
    """Record what is done within: a step of `Descent`, or all steps of `OnCUDA`."""
    owner = sys._getframe(2).f_locals.get("self")
    if graph.steps is None:
        graph.steps = getattr(owner, "_once", None) or getattr(owner, "_all_steps", None)
    Recording.now = True
    try:
        yield
    finally:
        Recording.now = False
    graph.taken = True


def moved(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a tensor where it is wanted: a copy, if it is not there."""
    if (device.type == "cpu") == isinstance(tensor, OnHost):
        return tensor
    Recording.refuse("a copy between host and GPU")
    with torch._C.DisableTorchFunctionSubclass():
        copied = tensor.as_subclass(torch.Tensor).clone()
    return on_host(copied) if device.type == "cpu" else copied


def _constant(value: object) -> property:
    return property(lambda _: value)


def _to(original: Any) -> Any:
    def to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        device = kwargs.pop("device", None)
        if args and isinstance(args[0], torch.Tensor):
            device, args = args[0].device, (args[0].dtype, *args[1:])
        elif args and isinstance(args[0], str | torch.device):
            device, args = args[0], args[1:]
        found: torch.Tensor = original(self, *args, **kwargs) if args or kwargs else self
        return found if device is None else moved(found, torch.device(device))

    return to


def _made(original: Any) -> Any:
    def make(*args: Any, device: Any = None, **kwargs: Any) -> torch.Tensor:
        where = HOST if device is None else torch.device(device)
        if where.type == "cuda" and original is torch.tensor:
            Recording.refuse("a copy between host and GPU")
        found: torch.Tensor = original(*args, **kwargs)
        return found if where.type == "cuda" else on_host(found)

    return make


def _waiting(original: Any, name: str) -> Any:
    def wait(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(self, OnHost):
            Recording.refuse(name)
        return original(self, *args, **kwargs)

    return wait


def _as_numpy(original: Any) -> Any:
    def numpy(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(self, OnHost):
            raise TypeError("can't convert a tensor of the GPU to numpy: copy it to the host first")
        return original(self, *args, **kwargs)

    return numpy


@contextmanager
def a_gpu() -> Iterator[None]:
    """Let torch have a GPU: the one that there is, or one that is pretended, where Triton's interpreter is."""
    if torch.cuda.is_available():
        yield
        return
    interpreter.prepare()
    with pytest.MonkeyPatch.context() as patch, np.errstate(over="ignore"):  # integers wrap around there without a word
        for name, value in {"is_cuda": True, "device": GPU}.items():
            patch.setattr(torch.Tensor, name, _constant(value))
        patch.setattr(torch.Tensor, "to", _to(torch.Tensor.to))
        patch.setattr(torch.Tensor, "cpu", lambda self: moved(self, HOST))
        for name in ("numpy", "__array__"):
            patch.setattr(torch.Tensor, name, _as_numpy(getattr(torch.Tensor, name)))
        for name in WAITING:
            patch.setattr(torch.Tensor, name, _waiting(getattr(torch.Tensor, name), name))
        for name in FACTORIES:
            patch.setattr(torch, name, _made(getattr(torch, name)))
        from_numpy = torch.from_numpy
        patch.setattr(torch, "from_numpy", lambda array: on_host(from_numpy(array)))
        repeat_interleave = torch.repeat_interleave
        patch.setattr(torch, "repeat_interleave", _waiting(repeat_interleave, "repeat_interleave"))
        patch.setattr(torch.cuda, "is_available", lambda: True)
        patch.setattr(torch.cuda, "synchronize", lambda *_: None)
        patch.setattr(torch.cuda, "get_device_name", lambda *_: "a GPU that is pretended")
        patch.setattr(torch.cuda, "CUDAGraph", Graph)
        patch.setattr(torch.cuda, "graph", recorded)
        yield
