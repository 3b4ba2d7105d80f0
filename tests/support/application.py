"""The application `tests/apps/sdk_calls.py` in a project of its own, recorded in each possible way or not at all.

`Application.run` starts it as a real process and returns the results of its SDK calls, the requests that the provider
received, and the traces that are on disk at the end.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from support.command import COMMAND
from support.corpus import PROJECT
from support.environments import SITE_PACKAGES
from support.provider_answers import Answers, read_request
from support.upstream import ReceivedRequest, ScriptedResponse, Upstream
from traceforge.traces.trace_store import TraceStore

APPS = PROJECT / "tests" / "apps"
PROVIDERS = ("openai", "anthropic", "gemini", "ollama")
WAYS = ("proxy", "inprocess", "run")
BARE, INSTALLED = "bare", "installed"  # nobody watches; in the second, TraceForge could be imported
TRACES = Path(".ai-tests") / "traces"
SECONDS_MAX = 240


class ModelResult(NamedTuple):
    """The application's results for one model."""

    model: str
    result: Any
    sites: list[dict[str, Any]]  # in the shape in which a trace has them

    def site(self, number: int) -> dict[str, Any]:
        """The call site of the model's call with this number."""
        return self.sites[min(number, len(self.sites) - 1)]


class TraceOnDisk(NamedTuple):
    """A stored trace and its chunks."""

    trace: dict[str, Any]
    chunks: list[bytes]

    @property
    def model(self) -> str:
        """The model's name in the application."""
        if "/models/" in self.trace["wire"]["url"]:
            return str(self.trace["wire"]["url"].rpartition("/models/")[2].partition(":")[0])
        return str(self.trace["provider_request"]["model"])


class ApplicationRun(NamedTuple):
    """One run of the application."""

    results: dict[str, ModelResult]
    received: dict[str, list[ReceivedRequest]]  # by model, in order
    traces: list[TraceOnDisk]
    folder: Path


def read_traces(project: Path, without: Collection[str] = ()) -> list[TraceOnDisk]:
    """Every trace of a project, oldest first; `without` these ids."""
    store = TraceStore(str(project / TRACES))
    try:
        store.update_index()
        rows = [row for row in store.list_rows() if row.summary.id not in without]
        rows.sort(key=lambda row: (row.summary.timestamp, row.summary.step_index or 0))  # Two may begin in one ms.
        return [
            TraceOnDisk(json.loads(store.read_stored(row).trace), [chunk.data for chunk in store.load_chunks(row)])
            for row in rows
        ]
    finally:
        store.close()


def find_files_with(folder: Path, secret: bytes) -> list[Path]:
    """The files that contain these bytes."""
    return [file for file in folder.rglob("*") if file.is_file() and secret in file.read_bytes()]


def clean_environment(**variables: str) -> dict[str, str]:
    """The environment of an application's process: nothing of the test run's."""
    environ = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**environ, "PYTHONDONTWRITEBYTECODE": "1", **variables}


@contextmanager
def proxy_process(project: Path, upstreams: Mapping[str, str], *arguments: str) -> Iterator[tuple[str, Any]]:
    """`traceforge proxy`, ready; it is stopped with SIGTERM, after which every trace is a file."""
    words = [str(COMMAND), "proxy", "--port", "0", "--json"]
    for name, url in upstreams.items():
        words += ["--upstream", f"{name}={url}"]
    process = subprocess.Popen(
        [*words, *arguments], cwd=project, env=clean_environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["url"], process
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    finally:
        process.kill()  # Nothing happens to a process that has ended; its pipes are closed in any case.
        process.communicate()


class Application:
    """`sdk_calls.py` with an interpreter, and a provider that answers it."""

    def __init__(
        self, python: Path, server: Upstream, answers: Answers, ways: dict[str, str], more: str = ""
    ) -> None:
        self._python = python
        self._server = server
        self._answers = answers
        self._more = more
        self.models = answers.models(ways)

    def run(self, way: str, folder: Path) -> ApplicationRun:
        """Run it in one of `WAYS`, or without recording."""
        app = folder / "app"
        shutil.copytree(APPS, app, ignore=shutil.ignore_patterns("node", "__pycache__"))
        (folder / ".git").mkdir()
        self._server.respond_with(ScriptedResponse([b"{}"]))
        self._server.choose = self._answers.answer
        program = str(app / "sdk_calls.py")
        url = self._server.url
        if way == "proxy":
            with proxy_process(folder, dict.fromkeys(PROVIDERS, url)) as (base, _):
                results = self._start(
                    [str(self._python), program], folder, {provider: f"{base}/{provider}" for provider in PROVIDERS}
                )
        else:
            words = {
                BARE: [str(self._python)],
                INSTALLED: [str(self._python), str(app / "inprocess.py")],
                "inprocess": [str(self._python), str(app / "inprocess.py")],
                "run": [str(COMMAND), "run", "--", str(self._python)],
            }[way]
            capture = "no" if way == INSTALLED else "yes"
            results = self._start([*words, program], folder, dict.fromkeys(PROVIDERS, url), CAPTURE=capture)
        received: dict[str, list[ReceivedRequest]] = {}
        for request in self._server.received:
            received.setdefault(read_request(request).model, []).append(request)
        return ApplicationRun(results, received, read_traces(folder) if way in WAYS else [], folder)

    def replay(self, way: str, folder: Path) -> dict[str, ModelResult]:
        """Run it again, in process or under `run`, with its recordings; the provider only returns errors."""
        self._server.respond_with(ScriptedResponse([b'{"error": "nobody should have asked"}'], 500))
        self._server.choose = None
        program, inside = str(folder / "app" / "sdk_calls.py"), str(folder / "app" / "inprocess.py")
        words = {
            "inprocess": [str(self._python), inside],
            "run": [sys.executable, "-m", "support.replay_run", str(self._python)],
        }[way]
        urls = dict.fromkeys(PROVIDERS, self._server.url)
        tests = str(PROJECT / "tests")
        return self._start(
            [*words, program], folder, urls, CAPTURE="replay", PYTHONPATH=tests if way == "run" else ""
        )

    @property
    def received(self) -> int:
        """How many requests the provider received in the last run."""
        return len(self._server.received)

    def _start(self, words: list[str], folder: Path, urls: dict[str, str], **more: str) -> dict[str, ModelResult]:
        environ = clean_environment(
            **more,
            **{f"{name.upper()}_URL": url for name, url in urls.items()},
            MODELS=json.dumps(self.models),
            MORE_CASES=self._more,
            PATHS=os.pathsep.join([str(PROJECT / "src"), str(SITE_PACKAGES)]),
        )
        ran = subprocess.run(
            words,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr.decode()[-4000:]
        return {result.model: result for result in map(_read_result, ran.stdout.splitlines())}


def _read_result(line: bytes) -> ModelResult:
    value = json.loads(line)
    file = f"app/{value['file']}"
    sites = [{"file": file, "line": number, "function": function} for number, function in value["sites"]]
    return ModelResult(value["model"], value["result"], sites)
