"""The documentation is tested: Python code runs (unless marked illustrative), commands work, links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from receraser.cli.main import app
from receraser.engine import Engine
from receraser.execution.local import LocalExecutor
from tests.cli.conftest import KeptWorkers

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)


@pytest.fixture(autouse=True)
def workers_that_are_there(monkeypatch: pytest.MonkeyPatch, worker: LocalExecutor) -> None:
    """Code and commands use one worker for all: starting new ones takes seconds each time."""
    monkeypatch.setattr("receraser.fitting.LocalExecutor", lambda *_: KeptWorkers(worker))


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=lambda p: str(p.relative_to(ROOT)))
def test_python_code_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        file = re.match(r"# (\w+\.py)\n", block)
        if file:  # what begins with the name of a file is one, too
            (tmp_path / file[1]).write_text(block)
        exec(compile(block, str(page), "exec"), names)


def test_the_readme_recommends_and_forgets(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = blocks(ROOT / "README.md", "python")
    assert len(block.splitlines()) <= 7
    exec(block, {})
    films, report = capsys.readouterr().out.splitlines()
    assert films.count("The ") == 3
    assert report.startswith("ForgetReport(rows_removed=")


def test_the_commands_of_the_readme_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a film world of fewer people."""
    monkeypatch.setattr("receraser.data.films.N_USERS", 200)
    monkeypatch.chdir(tmp_path)
    commands = [
        shlex.split(line, comments=True)
        for block in blocks(ROOT / "README.md", "sh")
        for line in block.splitlines()
        if line.startswith("receraser ")
    ]
    assert [command[1] for command in commands] == [
        *("data", "fit", "recommend", "evaluate", "forget", "certificate", "verify", "export", "fit")
    ]
    for command in commands:
        result = CliRunner().invoke(app, command[1:])
        assert result.exit_code == 0, (command, result.output)
    digests = [Engine.load(folder).digest for folder in ("my-store", "fresh")]
    assert digests[0] == digests[1], "a fresh fit of the export"


def test_the_readme_names_the_two_commands_and_the_makefile_has_them() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in ("demo", "test"):
        assert f"make {target}" in (ROOT / "README.md").read_text()
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_what_is_pinned_is_what_the_package_needs() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[<>=\[]", one)[0] for one in project["dependencies"]} - {"torch"}
    pinned = {line.strip() for line in (ROOT / "requirements" / "dev.in").read_text().splitlines()}
    assert needed <= pinned
    locked = (ROOT / "requirements" / "dev.txt").read_text()
    assert all(re.search(rf"^{name}==", locked, flags=re.MULTILINE) for name in needed)
    assert "torch==" not in locked, "torch is installed first and alone"
    assert "http" not in locked, "a lock file names no registry"
