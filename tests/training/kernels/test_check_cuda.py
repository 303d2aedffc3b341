"""The checks that are run by hand where there is a GPU, in small, on one that is pretended.

They go from a model's `fit` and from a forget down to the kernels, along the paths that a GPU takes: a change that
would end there with an error ends here. What they say of bits and of seconds is worth something on a real one alone.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Self

import pytest

from receraser.data.interactions import Interactions
from receraser.execution.task import Result, Task, run_task
from receraser.protocols import Progress
from receraser.training import batches
from tests.training.kernels import interpreter
from tests.training.kernels.pretended import a_gpu

pytestmark = interpreter.by_the_interpreter
TOOL = Path(__file__).parents[3] / "tools" / "check_cuda.py"
SHAPE = 60, 50, 400  # users, items, rows: instead of ML-1M's and Yelp2018's
QUICK: dict[str, object] = {"n_epochs": 2, "batch_size": 64}
MANY_ITEMS = "attention over wmf, many items"


class Here:
    """An executor without workers: what is pretended is pretended in this process."""

    environment: Mapping[str, object] = {"probe": "here"}

    def __init__(self, n_workers: int) -> None:
        """Take any number of workers for this one."""

    def prepare(self, toys: Sequence[Task], n_tasks: int = 1) -> None:
        """Nothing is to be started."""

    def run(self, tasks: Iterable[Task], *, progress: Progress | None = None) -> list[Result]:
        return [run_task(task, progress=progress) for task in tasks]

    def close(self) -> None:
        """Nothing was started."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The checks, of small worlds, without workers."""
    spec = importlib.util.spec_from_file_location("check_cuda", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    world: Callable[..., Interactions] = module.world
    monkeypatch.setattr(module, "world", lambda *_: world(30, 24))
    monkeypatch.setattr(module, "LocalExecutor", Here)
    monkeypatch.setattr(module, "ML_1M", SHAPE)
    monkeypatch.setattr(module, "YELP2018", SHAPE)
    with a_gpu():
        yield module


def _as_it_is(name: str, tool: ModuleType) -> Callable[[], str]:
    return tool.CHECKS[name]  # type: ignore[no-any-return]


WHOLE = ("draws", "batches", "tables", "pairs", "sparse product", "gather", "least squares", "ranking", "evaluation")
SMALLER: Mapping[str, Callable[[ModuleType], Callable[[], str]]] = {
    **{name: partial(_as_it_is, name) for name in (*WHOLE, "weighted sum", "wmf")},
    "slots": lambda tool: partial(tool.check_slots, SHAPE, 16, 2),
    "moves": lambda tool: partial(tool.check_moves, 100, 2),
    "hardest": lambda tool: partial(tool.check_hardest, 40),
    "merge": lambda tool: partial(tool.check_merge, SHAPE, 2),
    "network": lambda tool: partial(tool.check_network, 70),
    "wmf, adagrad": lambda tool: partial(tool.check_model, "wmf", solver="adagrad", **QUICK),
    "bpr": lambda tool: partial(tool.check_model, "bpr", **QUICK),
    "bpr, validated at once": lambda tool: partial(tool.check_model, "bpr", validate_every=1, **QUICK),
    "lightgcn": lambda tool: partial(tool.check_model, "lightgcn", **QUICK),
    "forget wmf": lambda tool: partial(tool.check_forget, "wmf"),
    "forget bpr": lambda tool: partial(tool.check_forget, "bpr", validate_every=1, **QUICK),
    "forget lightgcn": lambda tool: partial(tool.check_forget, "lightgcn", **QUICK),
    "wmf at scale": lambda tool: partial(tool.check_at_scale, "wmf"),
    "bpr at scale": lambda tool: partial(tool.check_at_scale, "bpr", **QUICK),
    "lightgcn at scale": lambda tool: partial(tool.check_at_scale, "lightgcn", **QUICK),
    "attention over wmf at scale": lambda tool: partial(tool.check_attended, "wmf", SHAPE, 16),
    MANY_ITEMS: lambda tool: partial(tool.check_attended, "wmf", SHAPE, 16, slots=True),
    "attention over bpr at scale": lambda tool: partial(tool.check_attended, "bpr", SHAPE, 16, **QUICK),
}


@pytest.mark.parametrize("name", SMALLER)
def test_what_is_checked_on_a_gpu(tool: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert name in tool.CHECKS
    if name == MANY_ITEMS:  # few as they are, let their slots pay
        monkeypatch.setattr(batches, "CELLS_FOR_A_SLOT", 1)
    assert SMALLER[name](tool)()


def test_every_check_is_here(tool: ModuleType) -> None:
    """But for the one that a real graph is wanted for."""
    assert set(tool.CHECKS) - set(SMALLER) == {"network, repeated"}
