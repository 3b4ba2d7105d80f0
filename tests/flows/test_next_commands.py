"""Every message leads somewhere: the commands that an output names can be run in the state that it describes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from flows.test_read_only_commands import COMMANDS, READERS, command_words, list_files
from support.command import COMMAND, CommandResult, traceforge
from support.model_servers import ModelServer, model_server

APP = """
import os

import httpx


def ask(question):
    body = {"model": "gpt-4.1", "messages": [{"role": "user", "content": question}]}
    headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    reply = httpx.post(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", json=body, headers=headers, timeout=30)
    return reply.raise_for_status().json()["choices"][0]["message"]["content"]


ask("What is the capital of France?")
"""
SCRIPT = [sys.executable, "app.py"]
STATES = ("empty", "init", "recorded", "approved", "red")
# What people run from the first day on; the tests below them try every other command too.
FIRST_COMMANDS = (
    ["init"], ["record"], ["record", "--", "true"], ["record", "--", *SCRIPT], ["status"], ["diff"], ["review"],
    ["approve"], ["approve", "--all"], ["approve", "--all", "--reason", "wanted"], ["reject"], ["test"],
    ["test", "--", "true"], ["test", "--", *SCRIPT], ["verify"], ["base"], ["snapshot", "manifest"],
    ["snapshot", "list"], ["trace", "list"], ["trace", "compress"], ["session", "list"], ["check-live"],
    ["import", "vcr", "."], ["run", "--", "true"],
)  # fmt: skip
# Of every command, in every state. The others wait for a client, or for ever.
OTHERS = [command_words(name) for name in COMMANDS if name not in ("chat serve", "proxy", "serve", "ui")]

INDEX = ".ai-tests/traces/index/"  # a cache, which Git ignores
# A command of ours in a text: up to the end of the sentence, or to what follows it there.
_NAMED = re.compile(r"(?<![\w/.'-])traceforge ([a-z](?:\"[^\"]*\"|[^\n`\";,()])*)")
_USAGE = re.compile(r"^(?:Usage: |Try ').*$", re.MULTILINE)
_END = re.compile(r"\. |\.?$| or | and |: | says\b| lists\b")
_PLACEHOLDERS = {"REF": ["HEAD"], "ID": ["nothing-there"], "…": ["wanted"]}


class Site(NamedTuple):
    """A project in some state, and the provider that its tests ask."""

    folder: Path
    variables: dict[str, str]

    def copy_to(self, folder: Path) -> Site:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder, folder, symlinks=True)
        return self._replace(folder=folder)

    def run(self, *words: str, **variables: str) -> CommandResult:
        return traceforge(*words, cwd=self.folder, **self.variables, **variables)


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with model_server() as server:
        yield server


@pytest.fixture(scope="module")
def sites(server: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Site]:
    """A project in each of its states: each one is a step further than the one before."""
    folder = tmp_path_factory.mktemp("sites")
    home = tmp_path_factory.mktemp("home")
    variables = {
        "OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "none", "HOME": str(home),
        "XDG_CONFIG_HOME": str(home), "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.com",
        "GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.com", "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    site = Site(folder / "empty", variables)
    site.folder.mkdir()
    (site.folder / "app.py").write_text(APP)
    sites = {"empty": site}
    site = site.copy_to(folder / "init")
    subprocess.run(["git", "init", "-q"], cwd=site.folder, check=True)
    assert 0 == site.run("init").code
    sites["init"] = site
    site = site.copy_to(folder / "recorded")
    ran = site.run("record", "--", *SCRIPT)
    assert 0 == ran.code, ran
    sites["recorded"] = site
    site = site.copy_to(folder / "approved")
    assert 0 == site.run("approve", "--all", "--reason", "The first behaviour").code
    sites["approved"] = site
    site = site.copy_to(folder / "red")
    (site.folder / "app.py").write_text(APP.replace('"content": question', '"content": question.upper()'))
    ran = site.run("test", "--", *SCRIPT)
    assert 1 == ran.code, ran
    sites["red"] = site
    return sites


def list_named_commands(output: str) -> list[list[str]]:
    """The commands that a text names, with something for each placeholder."""
    commands = []
    for match in _NAMED.finditer(_USAGE.sub("", output)):
        text = _END.split(match[1].strip())[0]
        words = shlex.split(text.replace('"…"', "wanted"))
        named = [word for name in words for word in _PLACEHOLDERS.get(name, [name])]
        if named[-1:] == ["COMMAND"]:
            named[-1:] = SCRIPT
        commands.append(named)
    return commands


def is_command(words: list[str]) -> bool:
    return words[0] in {name.split()[0] for name in COMMANDS}


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("next: traceforge record -- COMMAND, such as pytest", [["record", "--", *SCRIPT]]),
        (
            'next: traceforge diff, then traceforge approve --all --reason "…", or traceforge review',
            [["diff"], ["approve", "--all", "--reason", "wanted"], ["review"]],
        ),
        ("    hint: See: traceforge status\ntraceforge: RED: 1 finding", [["status"]]),
        ("to compare with one: traceforge verify --base REF", [["verify", "--base", "HEAD"]]),
        ("pip install traceforge-gate", []),
    ],
)
def test_named_commands_are_found(text: str, commands: list[list[str]]) -> None:
    assert commands == [words for words in list_named_commands(text) if is_command(words)]


def check_lead(site: Site, words: list[str], folder: Path, **variables: str) -> list[list[str]]:
    """Run a command, and then in order the commands that its output names; none of them may be a usage error."""
    place = site.copy_to(folder)
    ran = place.run(*words, **variables)
    output = ran.out + ran.err
    assert ran.code in (0, 1, 2, 3), (words, ran)
    assert "TF999" not in output, (words, ran)
    assert "Traceback" not in ran.err or words[-1] == SCRIPT[-1], (words, ran)
    if ran.code in (1, 2, 3):
        assert "hint: " in output or "traceforge " in output, (words, ran)
    named = [command for command in list_named_commands(output) if is_command(command)]
    for command in named:
        if command == words[: len(command)]:
            continue  # The refusal of a command names it.
        followed = place.run(*command, **variables)
        is_refused_in_ci = "Run it on your machine and commit the result." in followed.err and "CI" in variables
        needs_terminal = command == ["review"]
        assert followed.code != 2 or is_refused_in_ci or needs_terminal, (words, output, command, followed)
        assert "TF999" not in followed.err, (words, command, followed)
    return named


@pytest.mark.parametrize(
    "state", [pytest.param(state, marks=[] if state == "recorded" else [pytest.mark.slow]) for state in STATES]
)
@pytest.mark.parametrize("is_ci", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["terminal", "CI"])
def test_the_commands_that_a_message_names_can_be_run(
    sites: dict[str, Site], state: str, is_ci: bool, tmp_path: Path
) -> None:
    variables = {"CI": "true"} if is_ci else {}
    for words in FIRST_COMMANDS:
        check_lead(sites[state], words, tmp_path / "copy", **variables)


@pytest.mark.parametrize(
    "words", [["snapshot", "list"], ["snapshot", "verify"], ["check-live"], ["test", "--", "true"]]
)
def test_while_a_change_is_pending_the_next_command_is_approve(sites: dict[str, Site], words: list[str]) -> None:
    """To record once more would lead to the same change."""
    ran = sites["recorded"].run(*words)
    output = ran.out + ran.err

    assert ["approve", "--all", "--reason", "wanted"] in list_named_commands(output)
    assert "traceforge record" not in output


def test_a_review_that_accepts_nothing_names_the_next_command(sites: dict[str, Site], tmp_path: Path) -> None:
    """On a terminal: the changes stay pending, and `status` lists them."""
    site = sites["recorded"].copy_to(tmp_path / "copy")
    ran = subprocess.run(
        ["script", "-qec", f"{COMMAND} review", "/dev/null"], cwd=site.folder, input=b"q\n", capture_output=True,
        timeout=60, check=False, env={"PATH": os.environ["PATH"], **site.variables, "TERM": "dumb"},
    )  # fmt: skip

    assert ran.stdout.replace(b"\r", b"").endswith(
        b"nothing was accepted; what is still pending: traceforge status\n"
    )
    assert "\nnew: 1\n" in site.run("status").out


def test_a_red_run_names_the_changes_that_are_pending(sites: dict[str, Site]) -> None:
    """Somebody who recorded, and forgot to approve, need not ask the provider again; a build knows none."""
    ran = sites["recorded"].run("test", "--", *SCRIPT)
    in_ci = sites["recorded"].run("test", "--", *SCRIPT, CI="true")
    unrecorded = sites["init"].run("test", "--", *SCRIPT)

    note = "1 change is pending already; look, and approve what is right, before you record again: traceforge diff"
    assert [(1, True), (1, False), (1, False)] == [
        (tested.code, note in tested.err) for tested in (ran, in_ci, unrecorded)
    ]
    assert note in ran.err.partition("to approve the changes")[0]


@pytest.mark.slow
@pytest.mark.parametrize(("state", "is_ci"), [("recorded", False), ("red", False), ("approved", True)])
def test_the_commands_that_any_message_names_can_be_run(
    sites: dict[str, Site], state: str, is_ci: bool, tmp_path: Path
) -> None:
    """Every command, in the states in which most of them have something to say: in all, it takes minutes."""
    variables = {"CI": "true"} if is_ci else {}
    for words in OTHERS:
        check_lead(sites[state], words, tmp_path / "copy", **variables)


@pytest.mark.slow
@pytest.mark.parametrize("state", ["recorded", "red"])
def test_commands_that_read_write_nothing_after_a_recording(
    sites: dict[str, Site], state: str, tmp_path: Path
) -> None:
    """Except the index of traces: the first search adds the words of new traces to it."""
    site = sites[state].copy_to(tmp_path / "copy")
    for name in READERS:
        before = list_files(site.folder)
        site.run(*command_words(name))
        after = list_files(site.folder)
        changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
        assert set() == {path for path in changed if not path.startswith(INDEX)}, name
