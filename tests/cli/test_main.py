from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.core import TyperGroup, TyperOption
from typer.main import get_command

from receraser.cli import console, options
from receraser.cli.console import Bar, say
from receraser.cli.main import app
from receraser.config import MODEL_NAMES
from receraser.methods import METHODS
from tests.cli.conftest import Cli, Files
from tests.tools import ROOT, tool

COMMANDS = [
    ["demo"], ["fit"], ["tune"], ["recommend"], ["evaluate"], ["forget"], ["add"], ["export"], ["rebuild"], ["inspect"],
    ["data"], ["check-purity"], ["verify"], ["reproduce"],
    ["data", "list"], ["data", "make"], ["data", "fetch"], ["data", "split"],
    ["certificate"], ["certificate", "show"], ["certificate", "list"], ["certificate", "give"],
    ["ledger"], ["ledger", "show"], ["ledger", "checkpoint"], ["ledger", "prove"],
    ["pending"], ["pending", "show"], ["pending", "finish"], ["pending", "withdraw"],
    ["keys"], ["keys", "show"], ["keys", "make"], ["keys", "rotate"], ["keys", "shred"],
]  # fmt: skip
GROUPS = [[name] for name in ("data", "certificate", "ledger", "pending", "keys")]


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    command = [sys.executable, "-m", "receraser", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)


# ---------------------------------------------------------------------- help


def test_help_is_quick_and_imports_nothing_heavy() -> None:
    started = time.perf_counter()
    assert run("--help").returncode == 0
    assert time.perf_counter() - started < 1.5  # half a second, on a machine that is not busy
    script = (
        "import sys; from receraser.cli.main import main\n"
        "try: main(['fit', '--help'])\n"
        "except SystemExit: print(*sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert "typer" in loaded
    assert not loaded & {"torch", "numpy", "scipy", "numba", "pyarrow", "safetensors", "matplotlib"}


def options_of(command: list[str]) -> dict[str, str]:
    """The options of a command, and their help."""
    found = get_command(app)
    for name in command:
        assert isinstance(found, TyperGroup)
        found = found.commands[name]
    return {one.opts[0]: one.help or "" for one in found.params if isinstance(one, TyperOption)}


WRITES = {"--out", "--html", "--receipts", "--replace", "--yes", "--to"}


@pytest.mark.parametrize("command", [one for one in COMMANDS if one not in GROUPS], ids=" ".join)
def test_options_are_the_same_everywhere(command: list[str]) -> None:
    """Whatever is about a store takes its keys; whatever writes can be tried; everything speaks JSON."""
    found = options_of(command)
    assert found["--json"] == "Print one JSON document on standard output."
    assert "--store" not in found or "--keys" in found
    assert not WRITES & found.keys() or "--dry-run" in found
    assert found.get("--dry-run") in (None, "Say what would be done, and change nothing.")
    assert found.get("--yes") in (None, "Do not ask whether it is meant.")


@pytest.mark.parametrize("command", [[], *COMMANDS], ids=" ".join)
def test_every_command_has_help(cli: Cli, command: list[str]) -> None:
    for option in ("-h", "--help"):
        done = cli(*command, option)
        assert (done.code, done.err) == (0, "")
        assert done.out.startswith(f"Usage: {' '.join(['receraser', *command])} ")
        assert "..." not in done.out.partition("Commands:")[2]  # short enough to be shown whole


@pytest.mark.parametrize("command", [one for one in COMMANDS if one not in GROUPS], ids=" ".join)
def test_every_command_has_json(cli: Cli, command: list[str]) -> None:
    assert "--json" in cli(*command, "--help").out


def test_no_command_is_left_out() -> None:
    names = [command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands]
    groups = [str(group.name) for group in app.registered_groups]
    assert sorted(groups) == sorted(name for (name,) in GROUPS)
    assert {*names, *groups} == {command[0] for command in COMMANDS}
    for group in app.registered_groups:
        assert group.typer_instance is not None
        inner = {str(command.name) for command in group.typer_instance.registered_commands}
        assert inner == {command[1] for command in COMMANDS if command[0] == group.name and len(command) > 1}


CHANGING = [
    *(["fit"], ["forget"], ["add"], ["export"], ["rebuild"]),
    *(["data", "make"], ["data", "fetch"], ["data", "split"]),
    *(["certificate", "give"], ["pending", "finish"], ["pending", "withdraw"]),
    *(["keys", "make"], ["keys", "rotate"], ["keys", "shred"]),
]


@pytest.mark.parametrize("command", CHANGING, ids=" ".join)
def test_every_command_that_changes_something_can_be_tried(cli: Cli, command: list[str]) -> None:
    assert "--dry-run" in cli(*command, "--help").out


def test_version(cli: Cli) -> None:
    assert cli("--version").out == f"receraser {version('receraser')}\n"


def test_the_page_is_what_the_commands_say() -> None:
    page = ROOT / "docs" / "cli.md"
    assert page.read_text(encoding="utf-8") == tool("cli_docs").render(), (
        "docs/cli.md is not what the commands say; write it again with: .venv/bin/python tools/cli_docs.py"
    )


def test_shell_completion() -> None:
    done = run("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert done.returncode == 0
    assert "_RECERASER_COMPLETE" in done.stdout

    def completed(line: str) -> list[str]:
        words = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
        script = "import sys; from receraser.cli.main import main; sys.argv = ['receraser']; main()"
        environment = os.environ | {"_RECERASER_COMPLETE": "complete_bash", **words}
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=environment
        )
        return done.stdout.split()

    assert completed("receraser in") == ["inspect"]
    assert completed("receraser fit --rep") == ["--replace"]
    assert sorted(completed("receraser fit --model ")) == sorted(MODEL_NAMES)


# ---------------------------------------------------------------------- exit codes


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["--nonsense"], "No such option: --nonsense"),
        (["fit"], "Missing option '--store'"),
        (["fit", "--store", "s"], "name a file of interactions, or an export with --from-export"),
        (["fit", "x.csv"], "Missing option '--store'"),
        (["fit", "x.csv", "--store", "s", "--shards", "many"], "Invalid value for '--shards'"),
        (["forget"], "Missing option '--store'"),
        (["forget", "u1", "--store", "s"], "unexpected extra argument"),
        (["add", "--store", "s"], "Missing argument 'DATA'"),
        (["export", "--store", "s"], "Missing option '--out'"),
        (["rebuild"], "Missing option '--store'"),
        (["fit", "x.csv", "--store", "s", "--stroe"], "No such option: --stroe"),
        (["fit", "x.csv", "--store", "s", "--seed", "abc"], "Invalid value for '--seed'"),
        (["recommend", "--store", "s", "-k", "many"], "Invalid value for '-k'"),
        (["evaluate", "--store", "s"], "Missing option '--test'"),
        (["data", "make", "worlds", "--out", "x"], "'worlds' is not one of 'films', 'large'"),
        (["data", "split", "x.csv", "--out", "x", "--by", "magic"], "'magic' is not one of"),
    ],
)
def test_wrong_usage_is_two(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = cli(*arguments)
    assert done.code == 2
    assert done.out == ""
    assert text in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_refusal_is_one_and_bad_input_two(cli: Cli, files: Files) -> None:
    assert cli("fit", files.train, "--store", files.store).code == 1
    assert cli("fit", "nothing.csv", "--store", files.store.parent / "new").code == 2


def test_no_arguments_show_the_help(cli: Cli) -> None:
    done = cli()
    assert done.code == 2
    assert "Commands:" in done.out + done.err


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (MemoryError(), 1, "there is not enough memory for this"),
        (PermissionError(13, "Permission denied", "/some/file"), 1, "/some/file: Permission denied"),
        (OSError(28, "No space left on device"), 1, "the output: No space left on device"),
    ],
)
def test_what_the_system_refuses_is_one_line(
    cli: Cli, files: Files, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, message: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("receraser.cli.inspect.print_json", fail)
    done = cli("inspect", "--store", files.store, "--json")
    assert (done.code, done.message) == (code, message)


# ---------------------------------------------------------------------- where output goes


def test_a_real_process(files: Files) -> None:
    done = run("inspect", "--store", files.store, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["level"] == "L3"
    done = run("inspect", "--store", files.store.parent / ("nowhere " * 30), COLUMNS="20")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: there is no store in ")
    assert done.stderr.count("\n") == 1  # not wrapped, however narrow
    assert "Traceback" not in done.stderr


def test_whoever_reads_may_leave_early() -> None:
    script = f"{sys.executable} -m receraser data list --json | head -n 1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("{\n", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_output_that_cannot_be_written() -> None:
    for extra in ([], ["--json"]):
        command = [sys.executable, "-m", "receraser", "data", "list", *extra]
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert (done.returncode, done.stderr) == (1, "error: the output: No space left on device\n")


def test_closed_streams(files: Files) -> None:
    command = f"{sys.executable} -m receraser"
    nobody = f"{command} recommend --store '{files.store}' --user nobody --json 2>&-"
    done = subprocess.run(["bash", "-c", nobody], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert json.loads(done.stdout) == {"recommendations": {"nobody": []}}
    done = subprocess.run(["bash", "-c", f"{command} data list >&-"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_messages_go_nowhere_when_nobody_listens(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    say("hello")
    assert capsys.readouterr().out == ""


# ---------------------------------------------------------------------- progress


def terminal(work: str) -> str:
    """Return what a terminal shows of a piece of work."""
    try:
        reader, writer = pty.openpty()
    except OSError:
        pytest.skip("this machine has no pseudo-terminals")
    script = f"import time; from receraser.cli import console; console._BAR_AFTER = 0.05\n{work}"
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "60"}
    process = subprocess.Popen([sys.executable, "-c", script], stderr=writer, stdout=writer, env=environment)
    os.close(writer)
    shown = b""
    while True:
        try:
            data = os.read(reader, 4096)
        except OSError:  # how Linux says that the other side has gone
            break
        if not data:
            break
        shown += data
    os.close(reader)
    assert process.wait() == 0, shown
    return shown.decode()


def test_a_bar_on_a_terminal() -> None:
    work = (
        "with console.Bar('starting') as bar:\n"
        "    time.sleep(0.3)\n"
        "    for n in range(1, 6):\n"
        "        bar.update('epochs', n, 10)\n"
        "        time.sleep(0.15)\n"
        "console.say('done')"
    )
    shown = terminal(work)
    assert "starting" in shown
    assert "epochs" in shown
    assert "5/10" in shown
    assert "/s" in shown
    assert "left" in shown
    assert shown.rstrip().endswith("done")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_one_thing_at_a_time_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was said before the first update makes room for it; later updates do no harm."""
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    monkeypatch.setattr(console, "_BAR_AFTER", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    with Bar("starting") as bar:
        time.sleep(0.2)
        assert "starting" in stream.getvalue()
        bar.update("epochs", 0, 10)
        before = len(stream.getvalue())
        for n in range(1, 4):
            bar.update("epochs", n, 10)
            time.sleep(0.1)
        shown = stream.getvalue()[before:]
        assert "starting" not in shown
        assert "3/10" in shown
    bar.update("epochs", 5, 10)
    assert "5/10" not in stream.getvalue()


def test_what_a_bar_is_called_can_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    monkeypatch.setattr(console, "_BAR_AFTER", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    with Bar("starting") as bar:
        time.sleep(0.1)
        bar.update("search", 1, 10)
        bar.retitle("search", "trials (best 0.1234)")
        bar.retitle("something else", "not there")
        time.sleep(0.2)
    assert "trials (best 0.1234)" in stream.getvalue()
    assert "not there" not in stream.getvalue()


def test_what_stands_beside_a_bar() -> None:
    assert console.progress_text(5, 10, None, 1.0) == "5/10"
    assert console.progress_text(1000, 100_000, 1500.0, 1.0) == "1,000/100,000  1,500.0/s  1:06 left"


def test_an_interrupt_is_said(cli: Cli, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("receraser.cli.inspect.print_json", interrupt)
    done = cli("inspect", "--store", files.store, "--json")
    assert (done.code, done.out, done.err) == (130, "", "interrupted\n")


def test_tables_go_nowhere_when_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    console.print_table(["a"], [["1"]])
    console.print_lines(["a"])
    console.print_json({})


def test_the_names_that_completion_offers() -> None:
    assert options.model_names() == list(MODEL_NAMES)
    assert options.method_names() == list(METHODS)


def test_no_bar_for_what_is_quick() -> None:
    work = "console._BAR_AFTER = 30\nwith console.Bar('starting') as bar: bar.update('epochs', 1, 10)"
    assert "epochs" not in terminal(work)


def test_no_bar_without_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(console, "_BAR_AFTER", 0.0)
    with Bar("starting") as bar:
        bar.update("epochs", 1, 10)
        time.sleep(0.05)
    bar.update("epochs", 2, 10)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""
