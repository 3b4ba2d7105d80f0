"""`traceforge ui` as a process: its address, its options, its end."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from support.command import COMMAND, traceforge
from support.trace_project import make_trace_project
from traceforge.ui import ui_server

SECONDS_MAX = 60.0


@contextmanager
def running(project: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and the address that it prints."""
    process = subprocess.Popen(
        [str(COMMAND), "ui", "--port", "0", "--json", *options], cwd=project, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process, json.loads(process.stdout.readline())["url"]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_the_printed_address_opens_the_project(tmp_path: Path) -> None:
    """With a token that is new at each start."""
    project = make_trace_project(tmp_path)
    with running(project) as (_, first), running(project) as (_, second), httpx.Client(trust_env=False) as client:
        page = client.get(first, follow_redirects=True)

    assert (200, "/") == (page.status_code, page.url.path)
    assert first.partition("token=")[2] != second.partition("token=")[2]
    assert "127.0.0.1" == page.url.host


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_0_while_a_page_listens(tmp_path: Path, sign: signal.Signals) -> None:
    """A stream of events would go on for as long as the server runs."""
    with running(make_trace_project(tmp_path)) as (process, url), httpx.Client(trust_env=False, timeout=60) as client:
        client.get(url)
        with client.stream("GET", f"{url.partition('?')[0]}events") as response:
            lines = response.iter_lines()
            assert "retry: 2000" == next(lines)
            process.send_signal(sign)
            assert 0 == process.wait(SECONDS_MAX)
            assert [] == [line for line in lines if line]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--host", "0.0.0.0"), "needs a token"),
        (("--token", "short"), "at least 16 characters"),
        (("--allow-host", "http://a.example/"), "is not a host"),
        (("--editor", "javascript:{path}"), "vscode://file/{path}:{line}"),
    ],
)
def test_what_would_be_unsafe_is_wrong_usage(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    """Nothing listens."""
    refused = traceforge("ui", "--port", "0", *options, cwd=tmp_path)

    assert (2, True) == (refused.code, message in " ".join(refused.err.split())), refused


@pytest.mark.parametrize(
    ("variables", "has_terminal", "opens"),
    [
        ({"DISPLAY": ":0"}, True, True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, True, True),
        ({}, True, False),
        ({"DISPLAY": ":0"}, False, False),
        ({"DISPLAY": ":0", "CI": "true"}, True, False),
        ({"DISPLAY": ":10", "SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}, True, False),
    ],
)
def test_a_browser_is_opened_only_where_somebody_sits(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], has_terminal: bool, opens: bool
) -> None:
    """On a terminal with a display, and never in CI."""
    monkeypatch.setattr(ui_server.sys, "platform", "linux")
    monkeypatch.setattr(ui_server.sys, "stdout", _Stream(has_terminal))
    for name in ("CI", "DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert opens == ui_server.can_open_browser(ui_server.os.environ)


class _Stream:
    def __init__(self, has_terminal: bool) -> None:
        self._has_terminal = has_terminal

    def isatty(self) -> bool:
        return self._has_terminal
