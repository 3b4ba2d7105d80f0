"""A project that calls four providers, and the TraceForge commands run in it, for tests of the CI gate."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.command import NO_CERTIFICATES, PLAIN_PYTEST, CommandResult, traceforge
from support.corpus import PROJECT
from support.environments import build_once
from support.model_servers import ModelServer, model_server

APP = PROJECT / "tests" / "apps" / "four_providers.py"
CONFIG = {"models": {"claude-*": {"temperature": 1, "gate": "request"}}}
TEST_COUNT = 11
CHAT, CHAT_CALL_COUNT = "test_chat", 5  # Most of what the gate does can be seen with these four tests, and no SDK.
CALL_COUNT = 16  # `test_chat_again` asks twice, `test_many_at_once` five times


@contextmanager
def approved_site(folder: Path, python: Path) -> Iterator[Site]:
    """A project with recorded and approved calls, built by the first process that needs it, and its provider."""
    with model_server() as server:
        site = Site(folder, python, server)
        with build_once(folder) as absent:
            if absent:
                folder.mkdir()
                make_project(folder)
                ran = site.record()
                message = f"{CALL_COUNT} model calls: 0 answered from snapshots, {CALL_COUNT} live"
                assert (0, True) == (ran.code, message in ran.err), ran.err
                assert 0 == site.approve().code
        yield site


class Site:
    """A project, its interpreter, and a provider."""

    def __init__(self, folder: Path, python: Path, server: ModelServer, tests: str = "four_providers.py") -> None:
        self.folder = folder
        self.tests = tests
        self.python = python
        self.server = server

    def at(self, folder: Path, server: ModelServer | None = None) -> Site:
        """A copy of the committed project in another folder, optionally with another provider."""
        keep = shutil.ignore_patterns(".ai-tests", "__pycache__", ".pytest_cache")
        shutil.copytree(self.folder, folder, ignore=keep)
        return Site(folder, self.python, server or self.server, self.tests)

    @property
    def port(self) -> int:
        """The provider's port."""
        return int(self.server.url.rpartition(":")[2])

    def environ(self, **variables: str) -> dict[str, str]:
        """The environment variables with the providers' URLs and keys."""
        url = self.server.url
        return {
            "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "sk-nothing-of-value", "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "nothing", "GOOGLE_GEMINI_BASE_URL": url, "OLLAMA_HOST": url,
            "PYTHONDONTWRITEBYTECODE": "1", **variables,
        }  # fmt: skip

    def run(self, *words: str, **variables: str) -> CommandResult:
        """Run one `traceforge` command."""
        return traceforge(*words, cwd=self.folder, **self.environ(**variables))

    def plugin(self, *words: str, without: Collection[str] = (), **variables: str) -> CommandResult:
        """Run pytest itself with the plugin of the test environment; `without` some of the variables."""
        environ = {name: value for name, value in self.environ(**variables).items() if name not in without}
        base_environ = (
            {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
            | PLAIN_PYTEST
            | NO_CERTIFICATES
        )
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words, self.tests], cwd=self.folder,
            env={**base_environ, **environ}, capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
        return CommandResult(ran.returncode, ran.stdout, ran.stderr)

    def add(self, text: str) -> None:
        """Append a test to the application's test file."""
        with (self.folder / "four_providers.py").open("a") as file:
            file.write(f"\n\n{text}\n")

    def pytest(self, *words: str) -> list[str]:
        """The command line that runs the application's tests."""
        return ["--", str(self.python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]

    def test(self, *words: str, options: tuple[str, ...] = (), **variables: str) -> CommandResult:
        """`traceforge test` of the application's tests."""
        return self.run("test", *options, *self.pytest(*words, "four_providers.py"), **variables)

    def record(self, *words: str, options: tuple[str, ...] = (), **variables: str) -> CommandResult:
        """`traceforge record` of the application's tests."""
        return self.run("record", *options, *self.pytest(*words, "four_providers.py"), **variables)

    def approve(self) -> CommandResult:
        """Approve all pending changes, and the settings."""
        return self.run("approve", "--all", "--policy", "--reason", "it is right")

    def configure(self, config: Mapping[str, object]) -> None:
        """Write the configuration and approve it."""
        (self.folder / "traceforge.config.json").write_text(json.dumps(config))
        approved = self.run("approve", "--policy", "--reason", "it is right")
        assert 0 == approved.code, approved

    def edit(self, before: str, after: str, name: str = "four_providers.py") -> None:
        """Replace a text in a file of the application."""
        file = self.folder / name
        text = file.read_text()
        assert before in text
        file.write_text(text.replace(before, after))


def make_project(folder: Path) -> None:
    """Write the application and its configuration; nothing is recorded yet."""
    shutil.copy(APP, folder)
    (folder / "traceforge.config.json").write_text(json.dumps(CONFIG))
