"""How many workers of pytest-xdist run a suite decides nothing: neither what `record` writes nor what the gate says.

A suite with a cache makes a call once in each process. It is recorded by one number of workers, and judged with
others.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

from support.command import NO_CERTIFICATES, PLAIN_PYTEST, CommandResult, traceforge
from support.environments import build_once
from support.model_servers import model_server

KITCHEN = """
import os
from functools import lru_cache

import httpx

EXACT = {"model": "gpt-4.1-mini", "temperature": 0, "seed": 7, "max_tokens": 20}
VARIED = {"model": "gpt-4.1", "max_tokens": 20}


def ask(question, settings=EXACT):
    url, key = os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"]
    body = {**settings, "messages": [{"role": "user", "content": question}]}
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.post(f"{url}/chat/completions", json=body, headers=headers, timeout=30).raise_for_status().json()


@lru_cache
def cached(question):
    return ask(question)


@lru_cache
def voted():
    return [ask("Vote.", VARIED), ask("Vote.", VARIED)]
"""
CONFTEST = """
import pytest

from kitchen import ask, cached

ask("Open the kitchen.")


@pytest.fixture(scope="session")
def menu():
    return ask("Name the menu.")
"""
# With up to four tests, pytest-xdist gives each of two workers every second one.
SOUPS = """
from kitchen import VARIED, ask, cached, voted


def test_first(menu):
    assert cached("What is cold?") and voted() and ask("Name a soup.")


def test_second(menu):
    assert cached("What is cold?") and voted() and ask("Name a bread.")


def test_third():
    assert cached("What is cold?") and ask("Name a herb.", VARIED) and ask("Name a herb.", VARIED)


def test_fourth():
    assert ask("Name a soup.")
"""
CONFIG = '{"models": {"gpt-4.1": {"gate": "request", "temperature": 1}}}'
FILES = {"kitchen.py": KITCHEN, "conftest.py": CONFTEST, "test_soups.py": SOUPS, "traceforge.config.json": CONFIG}
PLUGIN, COMMAND = "plugin", "command"


class Suite:
    """A copy of the suite, and the provider that it calls."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self._environ = {
            "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "none", "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip

    def run(self, *words: str) -> CommandResult:
        return traceforge(*words, cwd=self.folder, **self._environ)

    def judge(self, way: str, *arguments: str) -> CommandResult:
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
        if way == COMMAND:
            return self.run("test", "--", *words)
        return self._run_pytest(words)

    def record(self, way: str, *arguments: str) -> None:
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
        if way == COMMAND:
            ran = self.run("record", "--", *words)
        else:
            ran = self._run_pytest([*words, "--traceforge=record"])
        assert 0 == ran.code, ran
        ran = self.run("approve", "--all", "--reason", "it is right")
        assert 0 == ran.code, ran

    def edit(self, before: str, after: str) -> None:
        path = self.folder / "test_soups.py"
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after))

    def _run_pytest(self, words: list[str]) -> CommandResult:
        inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        ran = subprocess.run(
            words, cwd=self.folder, capture_output=True, text=True,
            env={**inherited, **PLAIN_PYTEST, **NO_CERTIFICATES, **self._environ}, timeout=240, check=False,
        )  # fmt: skip
        return CommandResult(ran.returncode, ran.stdout, ran.stderr)


EACH = ("-n", "2", "--dist", "each")
RECORDED = {
    "one process": (COMMAND, ()),
    "two workers": (PLUGIN, ("-n", "2")),
    "two workers of the command": (COMMAND, ("-n", "2")),
    "each of two workers": (COMMAND, EACH),
}
RUNS = {
    "one process": (),
    "one worker": ("-n", "1"),
    "two workers": ("-n", "2"),
    "four workers": ("-n", "4"),
    "each of two workers": EACH,
    "the other order in two workers": ("-p", "reverse", "-n", "2"),
    "a part": ("-k", "second or third"),
}
REVERSE = "def pytest_collection_modifyitems(items):\n    items.reverse()\n"


@pytest.fixture
def suite(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> Iterator[Suite]:
    """A checkout of the suite as it was recorded in one of the ways."""
    way, arguments = RECORDED[request.param]
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / f"soups {request.param}"
    with build_once(folder) as absent:
        if absent:
            folder.mkdir()
            for name, text in {**FILES, "reverse.py": REVERSE}.items():
                (folder / name).write_text(text)
            with model_server() as server:
                Suite(folder, server.url).record(way, *arguments)
    copytree(folder, tmp_path / "checkout", ignore=ignore_patterns(".ai-tests", "__pycache__"))
    with model_server(salt="another") as server:
        yield Suite(tmp_path / "checkout", server.url)
        assert 0 == server.served


def _list_params() -> Iterator[object]:
    """Every way to record with every way to run, in turn by the command and the plugin."""
    ways = cycle((COMMAND, PLUGIN, PLUGIN, COMMAND))
    for recorded in RECORDED:
        for run in RUNS:
            yield pytest.param(recorded, run, way := next(ways), id=f"{recorded}: {run}, {way}")


@pytest.mark.slow
@pytest.mark.parametrize(("suite", "run", "way"), list(_list_params()), indirect=["suite"])
def test_the_number_of_workers_is_no_change(suite: Suite, run: str, way: str) -> None:
    """Neither that of the recording nor that of the run; nor is the order of the tests."""
    ran = suite.judge(way, *RUNS[run])

    assert (0, False) == (ran.code, "GT" in ran.out + ran.err), ran.out + ran.err


CHANGES = {
    "a call more": ('ask("Name a bread.")', 'ask("Name a bread.") and ask("Name a bread.")'),
    "a call more of a request that two tests make": (
        'assert ask("Name a soup.")', 'assert ask("Name a soup.") and ask("Name a soup.")'
    ),
    "a call less": ('and ask("Name a herb.", VARIED)\n', "\n"),
    "a test that is gone": ('def test_fourth():\n    assert ask("Name a soup.")\n', ""),
    "no call": (' and ask("Name a bread.")', ""),
    "a cached call that nobody makes": ('cached("What is cold?") and ', ""),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "way"), [("one process", PLUGIN), ("two workers", COMMAND), ("each of two workers", COMMAND)]
)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("suite", ["two workers"], indirect=True)
def test_another_number_of_calls_is_red_with_any_number_of_workers(
    suite: Suite, change: str, run: str, way: str
) -> None:
    suite.edit(*CHANGES[change])

    ran = suite.judge(way, *RUNS[run])

    assert 1 == ran.code, ran.out + ran.err
