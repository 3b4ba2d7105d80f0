"""`traceforge test -- pytest`, plain pytest and pytest with two workers give the same verdict about the same suite.

One project, recorded once and approved. Each row edits one of its suites and runs it in the three ways.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.command import CommandResult
from support.gate_project import Site
from support.model_servers import model_server

APP = """import os
import sys

import httpx


def ask(question):
    response = httpx.post(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json={"model": "gpt-4.1-mini", "temperature": 0, "seed": 7, "max_tokens": 60,
              "messages": [{"role": "user", "content": question}]},
    )
    return response.json().get("choices")


if __name__ == "__main__":
    ask(sys.argv[1])
"""
HEAD = """import multiprocessing
import os
import subprocess
import sys
import threading

import pytest

from app import ask

APP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "app.py")
"""
SUITES = {
    "plain": "def test_it():\n    ask('Name a soup.')\n",
    "subprocess": "def test_it():\n    subprocess.run([sys.executable, APP, 'Name a law.'], check=True)\n",
    "own_environment": (
        "def test_it():\n    environ = {**os.environ, 'X': '1'}\n"
        "    subprocess.run([sys.executable, APP, 'Name a lake.'], env=environ, check=True)\n"
    ),
    "shell": "def test_it():\n    os.system(f'{sys.executable} {APP} \"Name a hill.\"')\n",
    "fork": (
        "def test_it():\n    child = os.fork()\n    if not child:\n        ask('Name a tree.')\n        os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
    ),
    "fork_context": (
        "def test_it():\n"
        "    child = multiprocessing.get_context('fork').Process(target=ask, args=('Name a bird.',))\n"
        "    child.start()\n    child.join()\n"
    ),
    "spawn": (
        "def test_it():\n"
        "    child = multiprocessing.get_context('spawn').Process(target=ask, args=('Name a fish.',))\n"
        "    child.start()\n    child.join()\n"
    ),
    "forkserver": (
        "def test_it():\n"
        "    child = multiprocessing.get_context('forkserver').Process(target=ask, args=('Name a road.',))\n"
        "    child.start()\n    child.join()\n"
    ),
    "thread": (
        "thread = threading.Thread(target=ask, args=('Name a moon.',))\nthread.start()\nthread.join()\n\n\n"
        "def test_it():\n    pass\n"
    ),
    "import": "ask('Name a star.')\n\n\ndef test_it():\n    pass\n",
    "session_fixture": (
        "@pytest.fixture(scope='session')\ndef river():\n    return ask('Name a river.')\n\n\n"
        "def test_it(river):\n    pass\n"
    ),
}
LATE = {
    "late": "from app import ask\n\n\ndef pytest_sessionfinish():\n    ask('Name a dog.')\n",
    "later": "from app import ask\n\n\ndef pytest_unconfigure():\n    ask('Name a cat.')\n",
    "last": "import atexit\n\nfrom app import ask\n\natexit.register(ask, 'Name a goat.')\n",
}
GREEN, RED, UNCHECKED = "green", "red", "unchecked"
Edit = Callable[[Site, str], None]


def leave(site: Site, name: str) -> None:
    """The suite as it was recorded."""


def change(site: Site, name: str) -> None:
    """Another prompt."""
    site.edit("Name a ", "Name the ", name)


def replace(before: str, after: str) -> Edit:
    return lambda site, name: site.edit(before, after, name)


def file_of(suite: str) -> str:
    return f"{suite}/conftest.py" if suite in LATE else f"test_{suite}.py"


ROWS: list[tuple[str, Edit, str]] = [
    ("subprocess", change, RED),
    ("plain", replace("def test_it", "@pytest.mark.skip\ndef test_it"), UNCHECKED),
    *((suite, leave, GREEN) for suite in (*SUITES, *LATE)),
    *((suite, change, RED) for suite in (*SUITES, *LATE) if suite != "subprocess"),
    ("plain", replace("ask('Name a soup.')", "pass"), RED),
    ("plain", replace("    ask", "    pytest.xfail('x')\n    ask"), UNCHECKED),
    ("subprocess", replace("sys.executable, APP", "sys.executable, '-I', APP"), UNCHECKED),
    ("subprocess", replace("sys.executable, APP", "'env', sys.executable, APP"), GREEN),
]


@pytest.fixture(scope="module")
def approved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """All suites, recorded and approved."""
    folder = tmp_path_factory.mktemp("suites")
    names = {*SUITES, *LATE}
    (folder / "app.py").write_text(APP)
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    for suite in names & {*SUITES}:
        (folder / file_of(suite)).write_text(f"{HEAD}\n\n{SUITES[suite]}")
    for suite in names & {*LATE}:
        (folder / suite).mkdir()
        (folder / file_of(suite)).write_text(LATE[suite])
        (folder / suite / f"test_{suite}.py").write_text("def test_it():\n    pass\n")
    with model_server() as server:
        site = Site(folder, Path(sys.executable), server, ".")
        ran = site.run("record", *site.pytest("."))
        assert (0, True) == (ran.code, f"new: {len(names)}" in ran.err), ran
        assert 0 == site.approve().code
        yield site


@pytest.fixture
def site(approved: Site, tmp_path: Path) -> Iterator[Site]:
    """A fresh checkout, and a provider with other answers that must see no request."""
    with model_server(salt="another") as other:
        yield approved.at(tmp_path / "checkout", other)


def judge(ran: CommandResult) -> str:
    """The verdict of plain pytest."""
    if not ran.code:
        return GREEN
    text = ran.out + ran.err
    return UNCHECKED if "unchecked: " in text else RED if re.search(r"\bGT\d\b", text) else text


@pytest.mark.slow
@pytest.mark.parametrize(("suite", "edit", "verdict"), ROWS)
def test_every_way_to_run_a_suite_gives_the_same_verdict(site: Site, suite: str, edit: Edit, verdict: str) -> None:
    edit(site, file_of(suite))
    site.tests = suite if suite in LATE else file_of(suite)

    tested = site.run("test", *site.pytest(site.tests))
    alone, in_workers = site.plugin(), site.plugin("-n", "2")

    by_command = {0: GREEN, 1: RED, 3: UNCHECKED}.get(tested.code, tested.err)
    assert [verdict] * 3 == [by_command, judge(alone), judge(in_workers)], (tested, alone, in_workers)
    assert verdict == UNCHECKED or 0 == site.server.served  # plain pytest does not seal
