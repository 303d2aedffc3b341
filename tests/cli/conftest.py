from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

from receraser.cli.main import main
from receraser.data.readers import write_csv
from receraser.engine import Engine
from receraser.execution.local import LocalExecutor
from receraser.models.wmf import WMF
from tests.cli.signed import Signed
from tests.contracts.worlds import checkerboard

TITLES = {f"i{n:02}": f"The film of the number {n}" for n in range(19)}  # the last one has none


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, object]:
        """The one document on standard output."""
        document = json.loads(self.out)
        assert isinstance(document, dict)
        return document

    @property
    def message(self) -> str:
        """The one line of an error."""
        assert self.out == ""
        lines = self.err.splitlines()
        assert lines[-1].startswith("error: "), self.err
        assert "Traceback" not in self.err
        return lines[-1].removeprefix("error: ")


Cli = Callable[..., Outcome]


class KeptWorkers:
    """Stands for `LocalExecutor()` in the commands: the one worker of all tests, which is not ended by them."""

    def __init__(self, executor: LocalExecutor) -> None:
        self._executor = executor
        self.prepare = executor.prepare
        self.run = executor.run

    @property
    def environment(self) -> Mapping[str, object]:
        return self._executor.environment

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, worker: LocalExecutor) -> Cli:
    """Run a command in this process."""
    for place in ("receraser.fitting.LocalExecutor", "receraser.execution.local.LocalExecutor"):
        monkeypatch.setattr(place, lambda *_: KeptWorkers(worker))

    def run(*arguments: object) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return Outcome(end.value.code, captured.out, captured.err)

    return run


@dataclass(frozen=True)
class Files:
    """A small world on disk."""

    train: Path
    valid: Path
    test: Path
    items: Path
    store: Path
    """Fitted on `train` with seed 7, four dimensions, exact solves (as many steps as dimensions) and titles."""


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory, worker: LocalExecutor) -> Files:
    folder = tmp_path_factory.mktemp("world")
    world = checkerboard()
    names = ("train.csv", "valid.csv", "test.csv", "items.csv", "store")
    found = Files(*(folder / name for name in names))
    write_csv(found.train, world.train)
    write_csv(found.valid, world.held_out)
    write_csv(found.test, world.held_out)
    found.items.write_text("item,title\n" + "".join(f"{item},{title}\n" for item, title in TITLES.items()))
    engine = Engine(model=WMF(dim=4, n_sweeps=3, cg_steps=4), seed=7, executor=worker)
    engine.titles = TITLES
    engine.fit(world.train).save(found.store)
    return found


@pytest.fixture(scope="session")
def signed_once(tmp_path_factory: pytest.TempPathFactory, worker: LocalExecutor) -> Signed:
    return Signed.made(tmp_path_factory.mktemp("signed"), worker)


@pytest.fixture
def signed(signed_once: Signed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Signed:
    """A store with certificates and its keys, to be changed at will; nobody has keys of their own."""
    monkeypatch.setenv("RECERASER_KEYS", str(tmp_path / "own"))
    return signed_once.copied(tmp_path)
