"""The context store's server, in a thread of this process or as the command `traceforge serve`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import httpx

from support.command import COMMAND
from support.operation_store import Store
from traceforge.context.api.operation_types import Scope
from traceforge.context.model.inputs import NewApiKey
from traceforge.http.bound_socket import bind_socket, socket_url
from traceforge.web.request_log import RequestLog
from traceforge.web.store_application import StoreApplication
from traceforge.web.store_service import StoreService
from traceforge.web.uvicorn_server import UvicornServer

SECONDS_MAX = 30.0


class RunningServer:
    """A running server: its URL, its log, and a client for it."""

    def __init__(self, url: str, log: list[str], site: StoreApplication) -> None:
        self.url = url
        self.site = site
        self.log = log
        # No certificates: to read them takes longer than most of the tests that ask here.
        self.http = httpx.Client(base_url=url, timeout=SECONDS_MAX, trust_env=False, verify=False)

    def wait_for_log(self, count: int) -> list[dict[str, Any]]:
        """Wait for this many log lines; a line may be written after its response was sent."""
        end = time.monotonic() + SECONDS_MAX
        while len(self.log) < count and time.monotonic() < end:
            time.sleep(0.01)
        log_entries = [json.loads(line) for line in self.log]
        assert count == len(log_entries)
        return log_entries


@contextmanager
def run_server(
    store: Store, *, required: bool = False, service: StoreService | None = None, **options: Any
) -> Iterator[RunningServer]:
    """Serve this store in a thread; `options` are those of the application."""
    log: list[str] = []
    service = service or StoreService(store, requires_key=required)
    site = StoreApplication(service, "127.0.0.1", RequestLog(log.append), **options)
    sock = bind_socket("127.0.0.1", 0)
    ready = threading.Event()
    server = UvicornServer(site, ready.set)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[sock])), daemon=True)
    thread.start()
    assert ready.wait(SECONDS_MAX)
    running = RunningServer(socket_url(sock), log, site)
    try:
        yield running
    finally:
        running.http.close()
        server.should_exit = True
        thread.join(SECONDS_MAX)
        site.close()
        sock.close()


def new_api_key(store: Store, *scopes: Scope) -> str:
    """Create an API key for the project of this store."""
    key = store.create_api_key(NewApiKey(scopes=list(scopes))).key
    assert key is not None
    return key


def auth_header(key: str) -> dict[str, str]:
    """The header that carries an API key."""
    return {"Authorization": f"Bearer {key}"}


class ServerProcess:
    """A running `traceforge serve`."""

    def __init__(self, process: subprocess.Popen[bytes], ready: dict[str, Any], log: IO[bytes]) -> None:
        self.process = process
        self.ready = ready
        self.url = str(ready["url"])
        self._log = log

    def stop(self, sign: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal and wait; returns the exit code and the log."""
        self.process.send_signal(sign)
        self.process.communicate(timeout=SECONDS_MAX)
        return self.process.returncode, self.read_log()

    def read_log(self) -> str:
        """The log so far."""
        self._log.seek(0)
        return self._log.read().decode()


@contextmanager
def server_process(*arguments: str, cwd: Path, **variables: str) -> Iterator[ServerProcess]:
    """Run the command. Its log goes to a file, because a pipe would fill up."""
    environ = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [str(COMMAND), "serve", "--port", "0", "--json", *arguments],
            cwd=cwd, env={**environ, **variables}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
        )  # fmt: skip
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line:
                process.wait(SECONDS_MAX)
                log.seek(0)
                raise AssertionError(log.read().decode())
            yield ServerProcess(process, json.loads(line), log)
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=SECONDS_MAX)
