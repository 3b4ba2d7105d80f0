"""Projects with the tool servers of `tests/apps/tools`, and such servers over HTTP."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from support.command import traceforge
from support.corpus import PROJECT

START_S = 60.0  # until a server listens; on a busy machine, its imports alone take ten seconds


def copy_tool_servers(folder: Path) -> None:
    """Make `folder` a project with the servers and their clients."""
    os.mkdir(folder / ".git")
    for file in (PROJECT / "tests" / "apps" / "tools").glob("*.py"):
        shutil.copy(file, folder)


def approve_all(folder: Path) -> None:
    """Approve what waits for it."""
    approved = traceforge("approve", "--all", "--reason", "as it is", cwd=folder)
    assert 0 == approved.code, approved


def read_server_log(folder: Path) -> list[str]:
    """What the server did since this was last asked."""
    log = folder / "server.log"
    lines = log.read_text().splitlines() if log.exists() else []
    log.write_text("")
    return lines


@contextmanager
def serve_over_http(command: Sequence[str], folder: Path, path: str = "/mcp") -> Iterator[str]:
    """Run a command that takes a port as its last argument; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([*command, str(port)], cwd=folder)
    try:
        until = time.monotonic() + START_S
        while time.monotonic() < until and process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}{path}"
    finally:
        process.kill()
        process.wait()
