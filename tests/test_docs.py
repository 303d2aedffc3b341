"""The documentation is tested: Python code runs (unless marked illustrative), commands work, links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from receraser.cli.main import app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=lambda p: str(p.relative_to(ROOT)))
def test_python_code_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), names)


def test_the_readme_recommends_five_films(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = blocks(ROOT / "README.md", "python")
    exec(block, {})
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_the_commands_of_the_readme_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = [
        shlex.split(line, comments=True)
        for block in blocks(ROOT / "README.md", "sh")
        for line in block.splitlines()
        if line.startswith("receraser ")
    ]
    assert [command[1] for command in commands] == ["data", "fit", "recommend", "evaluate", "inspect"]
    for command in commands:
        result = CliRunner().invoke(app, command[1:])
        assert result.exit_code == 0, (command, result.output)


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
