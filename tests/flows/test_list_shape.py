"""With `--json`, every list has one shape: {"object": "list", "data": […], "has_more": …}."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from support.command import traceforge
from support.sample_files import write_tree
from support.stored_traces import call, store_calls
from traceforge.cli.main import cli
from traceforge.exchange import Caller

KEYS = ["object", "data", "has_more"]
LISTING = ("list", "search")  # Names of commands that list.


def _walk(command: click.Command, context: click.Context) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield (), command
        return
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None
        for words, leaf in _walk(child, click.Context(child, parent=context, info_name=name)):
            yield (name, *words), leaf


COMMANDS = dict(_walk(cli, click.Context(cli, info_name="traceforge")))
LISTS = [words for words in COMMANDS if words[-1] in LISTING]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with traces, snapshots and a context store."""
    folder = tmp_path_factory.mktemp("project")
    (folder / ".git").mkdir()
    (folder / "traceforge.config.json").write_text("{}")
    write_tree(folder / ".ai-snapshots", 2)
    store_calls(folder, *(call(number, caller=Caller(session_id=f"s-{number}")) for number in range(3)))
    created = traceforge("context", "session", "create", "--json", cwd=folder)
    assert 0 == created.code, created.err
    return folder


def list_objects(project: Path, words: tuple[str, ...], *options: str) -> Any:
    arguments: list[str] = []
    for parameter in COMMANDS[words].params:
        if isinstance(parameter, click.Argument) and parameter.required:
            is_session = parameter.name == "session_id"
            arguments.append(_find_session(project) if is_session else "capital")
    ran = traceforge(*words, *arguments, *options, "--json", cwd=project)
    assert 0 == ran.code, (words, ran.err)
    return json.loads(ran.out)


def _find_session(project: Path) -> str:
    session_id: str = json.loads(traceforge("context", "session", "list", "--json", cwd=project).out)["data"][0]["id"]
    return session_id


def test_every_list_can_be_printed_as_json() -> None:
    assert len(LISTS) >= 15
    assert [] == [words for words in LISTS if not any("--json" in option.opts for option in COMMANDS[words].params)]


@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_every_list_has_the_same_shape(project: Path, words: tuple[str, ...]) -> None:
    listed = list_objects(project, words)

    assert KEYS == list(listed)
    assert ("list", False) == (listed["object"], listed["has_more"])
    assert isinstance(listed["data"], list)
    assert all(isinstance(item, dict) for item in listed["data"])


@pytest.mark.parametrize("words", [("trace", "list"), ("trace", "search"), ("session", "list")], ids=" ".join)
def test_a_list_that_the_limit_cut_says_so(project: Path, words: tuple[str, ...]) -> None:
    """And the one that it fits does not."""
    cut, whole = list_objects(project, words, "--limit", "2"), list_objects(project, words, "--limit", "3")

    assert (2, True) == (len(cut["data"]), cut["has_more"])
    assert (3, False) == (len(whole["data"]), whole["has_more"])
