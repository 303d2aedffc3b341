"""Write docs/cli.md from the commands' own help and the models' own defaults.

Run `.venv/bin/python tools/cli_docs.py` after changing an option, a help text or a default; a test fails until then.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import typer
from typer.core import TyperGroup

from receraser.cli.main import app
from receraser.config import EngineConfig, load_config, preset_names
from receraser.models.registry import MODELS

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"
WIDTH = 100

HEAD = """\
# The command line

<!-- Written by tools/cli_docs.py from the commands' own help. Do not edit: run .venv/bin/python tools/cli_docs.py -->

Data goes to standard output, one JSON document with `--json`; messages and progress go to standard error. Bars appear
on a terminal only. `receraser --install-completion` sets up the shell's completion.

| exit | meaning |
|---|---|
| 0 | done |
| 1 | a check failed, was refused, or the store is damaged |
| 2 | wrong usage, bad input, or no such store |
| 130 | interrupted |
"""

SETTINGS = """\
## Settings

`fit --config FILE` reads a TOML file:

```toml
{example}
```

What is not named has its default. `--model`, `--method`, `--seed`, `--device`, `--dim` and `--set KEY=VALUE` change
single values; with another `--model` than the file's, the file's hyperparameters are left out. Presets that come with
the package go by name: {presets}.
"""


def commands(group: TyperGroup, context: typer.Context) -> Iterator[tuple[str, str]]:
    """Yield the path of every command, the group's own first, and its help."""
    yield context.command_path, group.get_help(context)
    for name, command in group.commands.items():
        below = typer.Context(
            command, info_name=name, parent=context, terminal_width=WIDTH, help_option_names=["-h", "--help"]
        )
        if isinstance(command, TyperGroup):
            yield from commands(command, below)
        else:
            yield below.command_path, command.get_help(below)


def settings() -> Iterator[str]:
    """Yield the part about configurations: an example, the presets, every model's hyperparameters."""
    example = 'method = "retrain"\nmodel = "bpr"\nseed = 7\ndevice = "cpu"\n\n[hyperparameters]\ndim = 64'
    presets = ", ".join(f"`{name}` ({load_config(name).model})" for name in preset_names())
    yield SETTINGS.format(example=example, presets=presets)
    for name, model in sorted(MODELS.items()):
        default = " (the default)" if name == EngineConfig().model else ""
        yield f"`{name}`{default}:\n\n| hyperparameter | default |\n|---|---|"
        fields = [spec for spec in dataclasses.fields(model) if spec.init and spec.name != "device"]
        yield "\n".join(f"| `{spec.name}` | {spec.default} |" for spec in fields) + "\n"


def render() -> str:
    """Return the page."""
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    context = typer.Context(root, info_name="receraser", terminal_width=WIDTH, help_option_names=["-h", "--help"])
    parts = [HEAD]
    for path, text in commands(root, context):
        lines = "\n".join(line.rstrip() for line in text.strip().splitlines())
        parts.append(f"## {path}\n\n```text\n{lines}\n```\n")
    return "\n".join([*parts, *settings()])


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
