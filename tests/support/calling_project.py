"""A project with a program that calls a model, and the run of a command in it."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest

from support.upstream import ScriptedResponse, Upstream
from traceforge.capture.recorder import MemoryRecorder
from traceforge.capture.run.command_runner import CommandRun, run_command
from traceforge.config import load_config
from traceforge.exchange import Exchange

PATH = "/v1/chat/completions"
ASK = "import httpx, os, sys\ndef ask(text='x'):\n    return httpx.post(os.environ['URL'], content=text.encode())\n"


def make_calling_project(folder: Path, provider: Upstream, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a program that calls a model into a folder, and work there."""
    provider.respond_with(ScriptedResponse([b"{}"]))
    monkeypatch.setenv("URL", provider.url + PATH)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    (folder / ".git").mkdir()
    (folder / "asking.py").write_text(ASK)
    return folder


def run(
    project: Path, *words: str | Path, start_proxy: object = None, **variables: str
) -> tuple[CommandRun, list[Exchange]]:
    """Run a command as `traceforge run` does; the run and its exchanges."""
    sink = MemoryRecorder()
    environ = {**os.environ, **variables}
    environ.pop("PYTEST_CURRENT_TEST", None)
    outcome = run_command([str(word) for word in words], load_config(str(project)), sink, environ, start_proxy)  # type: ignore[arg-type]
    return outcome, list(sink.exchanges)


def program(project: Path, text: str, name: str = "app.py") -> Path:
    file = project / name
    file.write_text(textwrap.dedent(text))
    return file


def bodies(exchanges: list[Exchange]) -> list[bytes]:
    """The request bodies, sorted."""
    return sorted(exchange.request_body for exchange in exchanges)
