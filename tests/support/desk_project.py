"""The support desk of `tests/apps/desk`, approved once, and its copies, which the matrix of the gate changes."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.command import NO_CERTIFICATES, PLAIN_PYTEST, CommandResult, traceforge
from support.corpus import PROJECT
from support.environments import build_once
from support.example_counts import RunLength
from support.gate_case import PROXY, PYTEST, TEST, XDIST, Case
from support.model_servers import BadRequest, ModelServer, Reply, serve_in_thread
from support.proxy_process import proxy

DESK = PROJECT / "tests" / "apps" / "desk"
# What a short run records: the tests of the sampled cases, which need no SDK.
SHORT_TESTS = ("chat_tests.py", "tools_tests.py", "places_tests.py", "redacted_tests.py", "children_tests.py",
               "edge_tests.py")  # fmt: skip
SECONDS_MAX = 120
NO_GIT_SETTINGS = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


class DeskServer(ModelServer):
    """A model server that is busy at every other request to `/busy429/…`."""

    def __init__(self, salt: str = "") -> None:
        super().__init__(salt=salt)
        self._busy_attempts = 0

    def reply(self, path: str, query: str, data: bytes) -> Reply:
        """Refuse it or reply."""
        if busy := re.search(r"/busy([0-9]+)/", path):
            self._busy_attempts += 1
            if self._busy_attempts % 2:
                raise BadRequest("come again", int(busy[1]))
        return super().reply(path, query, data)


class Desk:
    """A copy of the desk, and a provider that must not be called."""

    def __init__(self, folder: Path, server: DeskServer, variables: dict[str, str]) -> None:
        self.folder = folder
        self.server = server
        self.variables = variables

    def at(self, folder: Path) -> Desk:
        """Another copy: what is committed, with its history."""
        shutil.copytree(self.folder, folder, ignore=shutil.ignore_patterns(".ai-tests", "__pycache__"), symlinks=True)
        return Desk(folder, self.server, dict(self.variables))

    def environ(self, url: str = "", **variables: str) -> dict[str, str]:
        """The addresses of the providers, and what a case sets or removes."""
        root = url or self.server.url
        addresses = {
            "OPENAI_BASE_URL": f"{root}/openai/v1" if url else f"{root}/v1",
            "ANTHROPIC_BASE_URL": f"{root}/anthropic" if url else root,
            "GOOGLE_GEMINI_BASE_URL": f"{root}/gemini" if url else root,
            "OLLAMA_HOST": f"{root}/ollama" if url else root,
            "OPENAI_API_KEY": "none",
            "ANTHROPIC_API_KEY": "none",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return {**addresses, **NO_CERTIFICATES, **NO_GIT_SETTINGS, **self.variables, **variables}

    def read_committed(self) -> dict[str, bytes]:
        """The files that only a person changes: snapshots, pending changes and configuration."""
        folders = (self.folder / ".ai-snapshots", self.folder / ".ai-tests" / "pending")
        files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
        files += [file for file in self.folder.glob("*.[jt]*") if file.suffix in (".json", ".toml")]
        return {str(file): file.read_bytes() for file in files}

    def git(self, *words: str) -> str:
        """Run Git."""
        environ = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **NO_GIT_SETTINGS}
        ran = subprocess.run(
            ["git", *words], cwd=self.folder, env=environ, capture_output=True, text=True, check=True
        )
        return ran.stdout.strip()

    def run(self, *words: str, **variables: str) -> CommandResult:
        """Run one `traceforge` command."""
        return traceforge(*words, cwd=self.folder, **self.environ(**variables))

    def start(self, words: list[str], environ: dict[str, str], cwd: Path | None = None) -> CommandResult:
        """Run any command."""
        inherited = {
            name: os.environ[name] for name in ("PATH", "HOME", "LANG", "XDG_STATE_HOME") if name in os.environ
        }
        ran = subprocess.run(
            words, cwd=cwd or self.folder, env={**inherited, **PLAIN_PYTEST, **environ}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
        )  # fmt: skip
        return CommandResult(ran.returncode, ran.stdout, ran.stderr)

    def judge(self, way: str, case: Case, *, edited: bool = True) -> CommandResult:
        """Run the tests of a case in one way."""
        more = shlex.split(case.more) if edited else []
        above = case.above and edited
        tests = [f"{self.folder.name}/{test}" if above else test for test in shlex.split(case.tests)]
        python = [sys.executable, *shlex.split(case.python if edited else "")]
        words = [*python, "-m", "pytest", "-q", *more, *tests]
        if case.command:
            words = [*python, *shlex.split(case.command), *shlex.split(case.more_command if edited else "")]
        environ = self.environ(**(case.variables if edited else {}))
        for name in case.unset if edited else ():
            environ.pop(name, None)
        served = self.server.served
        if way == TEST:
            ran = traceforge("test", *(case.options if edited else ()), "--", *words, cwd=self.folder, **environ)
        elif way in (PYTEST, XDIST):
            cwd = self.folder.parent if above else self.folder
            ran = self.start([*words, "-n", "2"] if way == XDIST else words, environ, cwd)
        else:
            ran = self.judge_in_proxy(words, environ)
        assert case.asks or served == self.server.served, f"the provider was asked: {ran}"
        return ran

    def judge_in_proxy(self, words: list[str], environ: dict[str, str]) -> CommandResult:
        """Run them without the plugin, against a proxy that answers from the snapshots."""
        names = ("openai", "anthropic", "gemini", "ollama")
        upstreams = [word for name in names for word in ("--upstream", f"{name}={self.server.url}")]
        with proxy(self.folder, "--mode", "replay", "--from", "snapshots", *upstreams, **environ) as running:
            ran = self.start([*words, "-p", "no:traceforge"], {**environ, **_addresses(self.environ(running.url))})
            stopped = running.stop()
        return CommandResult(stopped.code, ran.out, f"{ran.err}\n{stopped.err}")


def _addresses(environ: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name.endswith(("_BASE_URL", "_HOST"))}


@contextmanager
def approved_desk(folder: Path) -> Iterator[Desk]:
    """The desk with recorded and approved calls, built by the first process that needs it, and its provider."""
    with build_once(folder) as absent:
        if absent:
            with serve_in_thread(DeskServer()) as server:
                _approve_desk(Desk(folder, server, {}))
    with serve_in_thread(DeskServer("another")) as server:
        key = (folder / ".ai-tests" / "match.key").read_text(encoding="utf-8").strip()
        yield Desk(folder, server, {"TRACEFORGE_MATCH_KEY": key})


def _approve_desk(desk: Desk) -> None:
    shutil.copytree(DESK, desk.folder, ignore=shutil.ignore_patterns("__pycache__"))
    (desk.folder / "fixtures.py").rename(desk.folder / "conftest.py")  # Our own pytest would import it.
    desk.git("init", "-q", "-b", "main", "--template=")
    for name, value in (("user.name", "Ada"), ("user.email", "ada@example.com")):
        desk.git("config", name, value)
    python = [sys.executable]
    tests = SHORT_TESTS if RunLength.is_short else ()
    for words in (
        ["init"],
        ["record", "--", *python, "-m", "pytest", "-q", *tests],
        ["record", "--", *python, "child.py"],
        ["approve", "--all", "--reason", "The first behaviour"],
    ):
        ran = desk.run(*words)
        assert 0 == ran.code, ran
        assert "refused" not in ran.err, ran
    desk.git("add", "-A")
    desk.git("commit", "-qm", "Approve the desk")


REPLAYED = {
    TEST: r"GREEN: [1-9][0-9]* calls? replayed",
    PYTEST: r"[1-9][0-9]* calls? replayed",
    XDIST: r"[1-9][0-9]* calls? replayed",
    PROXY: "",
}
CODES = {
    ("green", TEST): (0,), ("green", PYTEST): (0,), ("green", XDIST): (0,), ("green", PROXY): (0,),
    ("red", TEST): (1,), ("red", PYTEST): (1, 4), ("red", XDIST): (1, 4), ("red", PROXY): (1,),
    # The plugin reports what was not compared as failed.
    ("unchecked", TEST): (3,), ("unchecked", PYTEST): (1, 4), ("unchecked", XDIST): (1, 4),
    ("unchecked", PROXY): (3,),
    ("not green", TEST): (1, 3), ("not green", PYTEST): (1, 4), ("not green", XDIST): (1, 4),
}  # fmt: skip


def check_verdict(case: Case, way: str, ran: CommandResult) -> None:
    """The exit code is that of the verdict, and the output names its cause."""
    text = f"{ran.out}\n{ran.err}"
    assert ran.code in CODES[case.verdict, way], f"{case.name}: exit {ran.code}\n{text}"
    expected = REPLAYED[way] if case.verdict == "green" else case.says
    assert re.search(expected, text), f"{case.name}: nothing matches {expected!r}\n{text}"


def check_unedited(desk: Desk, folder: Path, way: str, case: Case) -> None:
    """Without its edit, the case is green: only the edit can be what turns it red. Once in a run, for all workers."""
    judged = hashlib.sha256(repr((way, case.tests, case.command)).encode()).hexdigest()
    with build_once(desk.folder.with_name(f"unedited-{judged}")) as absent:
        if absent:
            unedited = Case(case.name, "green", tests=case.tests, command=case.command)
            check_verdict(unedited, way, desk.at(folder).judge(way, case, edited=False))
