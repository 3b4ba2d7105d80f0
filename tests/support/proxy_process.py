"""Run `traceforge proxy` as a process for the duration of a test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from support.command import COMMAND

SECONDS_MAX = 20.0


class ExitResult(NamedTuple):
    """The exit code and the stderr of a process."""

    code: int
    err: str


class ProxyProcess:
    """A running proxy that accepts connections."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._process = process
        line = process.stdout.readline()
        if not line:
            _, err = process.communicate(timeout=SECONDS_MAX)
            raise AssertionError(err.decode())
        self.url: str = json.loads(line)["url"]

    def stop(self) -> ExitResult:
        """Send SIGTERM and wait for its end."""
        self._process.send_signal(signal.SIGTERM)
        _, err = self._process.communicate(timeout=SECONDS_MAX)
        return ExitResult(self._process.returncode, err.decode())


@contextmanager
def start_proxy(folder: Path, *arguments: str, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start the proxy in a folder, on a free port; it is killed at the end."""
    environ = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    process = subprocess.Popen(
        [str(COMMAND), "proxy", "--port", "0", "--json", *arguments],
        cwd=folder,
        env={**environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()  # Nothing happens to a process that has ended; its pipes are closed in any case.
        process.communicate()


@contextmanager
def proxy(folder: Path, *arguments: str, **variables: str) -> Iterator[ProxyProcess]:
    """Run the proxy in a folder, on a free port."""
    with start_proxy(folder, *arguments, **variables) as process:
        yield ProxyProcess(process)
