"""A command that only reads writes nothing: no index, no database, no folder, wherever it is run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest

from support.command import COMMAND, traceforge
from support.sample_files import write_tree
from traceforge.cli.main import cli

# Commands that write, listen, call a model, or run another command; every other one is tried.
WRITERS = {
    "approve": "snapshots and approvals",
    "chat serve": "listens",
    "check-live": "calls a model",
    "import vcr": "traces and pending changes",
    "init": "the configuration",
    "modelio from-traces": "a recording",
    "modelio record": "runs a command",
    "modelio recover": "a recording",
    "pack create": "a pack",
    "pack export": "an archive",
    "proxy": "listens",
    "record": "runs a command",
    "reject": "removes pending changes",
    "review": "snapshots and approvals",
    "run": "runs a command",
    "serve": "listens",
    "snapshot manifest": "the manifest",
    "snapshot migrate": "snapshots",
    "snapshot rm": "removes snapshots",
    "trace compress": "archives",
    "trace migrate": "traces",
    "trace prune": "removes traces",
    "trace reindex": "the index",
    "trust": "the list of trusted projects",
    "ui": "listens",
}
# The commands of the context store that change it, by their last word.
STORE_VERBS = {
    "append", "cancel", "create", "delete", "expired", "fork", "merge", "release", "resume", "run", "update",
}  # fmt: skip
# Root may write into every folder, unless it gives up that privilege.
UNPRIVILEGED = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []
LISTS = ["trace list", "session list", "snapshot list", "context session list"]
ARGUMENTS = {"trace tail": ["--no-follow"], "test": [], "completion": ["bash"], "schema": ["trace"]}


def _walk(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield context.command_path.removeprefix("traceforge "), command
        return
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None
        yield from _walk(child, click.Context(child, parent=context, info_name=name))


COMMANDS = dict(_walk(cli, click.Context(cli, info_name="traceforge")))
READERS = [
    name
    for name in COMMANDS
    if name not in WRITERS and not (name.startswith("context ") and name.split()[-1] in STORE_VERBS)
]


def command_words(name: str) -> list[str]:
    """A command with something for each argument that it needs; most of it does not exist."""
    arguments = ARGUMENTS.get(name)
    if arguments is None:
        required = [param for param in COMMANDS[name].params if isinstance(param, click.Argument) and param.required]
        arguments = ["nothing-there"] * sum(abs(param.nargs) for param in required)
    return [*name.split(), *arguments]


def list_files(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file and folder below, with its mode and content."""
    return {
        os.fspath(path.relative_to(folder)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    }


def run_all(folder: Path, home: Path, names: Sequence[str]) -> dict[str, list[str]]:
    """Run each command once, and list the files that it has created or changed."""
    changed = {}
    for name in names:
        before = list_files(folder) | {f"~/{file}": state for file, state in list_files(home).items()}
        ran = traceforge(*command_words(name), cwd=folder, HOME=str(home), XDG_CONFIG_HOME=str(home / "config"))
        after = list_files(folder) | {f"~/{file}": state for file, state in list_files(home).items()}
        assert ran.code in (0, 1, 2, 3), (name, ran)
        assert "TF999" not in ran.err, (name, ran)
        if before != after:
            changed[name] = sorted(file for file, _ in set(after.items()) ^ set(before.items()))
    return changed


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    (tmp_path / "empty").mkdir()
    return tmp_path / "empty"


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A project after `traceforge init`, with two snapshots."""
    folder = tmp_path / "fresh"
    folder.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    assert 0 == traceforge("init", cwd=folder).code
    write_tree(folder / ".ai-snapshots", 2)
    return folder


def test_the_exceptions_are_commands() -> None:
    assert set() == WRITERS.keys() - COMMANDS.keys()
    assert set(LISTS) < set(READERS)


def test_in_an_empty_folder_lists_write_nothing(empty: Path, home: Path) -> None:
    """No index of traces, and no database."""
    assert {} == run_all(empty, home, LISTS)


@pytest.mark.slow
def test_in_an_empty_folder_commands_that_read_write_nothing(empty: Path, home: Path) -> None:
    assert {} == run_all(empty, home, READERS)


@pytest.mark.slow
def test_in_a_fresh_project_commands_that_read_write_nothing(fresh: Path, home: Path) -> None:
    assert {} == run_all(fresh, home, READERS)


@pytest.mark.slow
def test_in_a_folder_that_cannot_be_written_commands_that_read_work_the_same(fresh: Path) -> None:
    """As in one that can: nothing fails because it wants to write."""
    expected = {name: run_without_privilege(name, fresh) for name in READERS}
    files = list_files(fresh).keys()
    folders = [fresh, *(path for path in fresh.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        assert (
            0 != subprocess.run([*UNPRIVILEGED, "touch", "x"], cwd=fresh, capture_output=True, check=False).returncode
        )
        actual = {name: run_without_privilege(name, fresh) for name in READERS}
    finally:
        for folder in folders:
            folder.chmod(0o755)

    assert expected == actual
    assert files == list_files(fresh).keys()


def run_without_privilege(name: str, folder: Path) -> tuple[int, str]:
    """The exit code and the output of a command."""
    ran = subprocess.run(
        [*UNPRIVILEGED, COMMAND, *command_words(name)], cwd=folder, stdin=subprocess.DEVNULL, text=True,
        capture_output=True, check=False,
    )  # fmt: skip
    assert "TF999" not in ran.stderr, (name, ran.stderr)
    return ran.returncode, ran.stdout


def test_in_an_empty_folder_a_refused_command_writes_nothing(empty: Path, home: Path) -> None:
    """Neither a match key nor a lock, and no state folder around them."""
    (empty / "broken.yaml").write_text("interactions: [")
    environ = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "CI": ""}
    before = list_files(empty)

    for words in (
        ["import", "vcr", "nowhere"],
        ["import", "vcr", "."],
        ["snapshot", "rm", "nothing", "--reason", "gone"],
    ):
        ran = traceforge(*words, cwd=empty, **environ)
        assert ran.code in (2, 3), (words, ran)
        assert before == list_files(empty), (words, ran)
