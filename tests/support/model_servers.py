"""The bundled model server, in a thread of this process or as the command that users start."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from traceforge.model_server.http_server import BadRequest, ModelServer
from traceforge.model_server.http_server import _Handler as Handler
from traceforge.model_server.provider_io import ApiReply as Reply

EXAMPLES = Path(__file__).parents[2] / "examples"

__all__ = [
    "EXAMPLES",
    "BadRequest",
    "Handler",
    "ModelServer",
    "Reply",
    "ServerProcess",
    "model_server",
    "serve_in_thread",
]


ServerT = TypeVar("ServerT", bound=ModelServer)


@contextlib.contextmanager
def serve_in_thread(server: ServerT) -> Iterator[ServerT]:
    """Serve in a thread of this process."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def model_server(salt: str = "") -> Iterator[ModelServer]:
    """Run a model server in a thread of this process."""
    with serve_in_thread(ModelServer(salt=salt)) as server:
        yield server


class ServerProcess(NamedTuple):
    """A server in a process of its own."""

    url: str
    process: subprocess.Popen[str]

    def count_served(self) -> int:
        """How many generation calls it has answered."""
        with urllib.request.urlopen(f"{self.url}/requests") as response:
            return int(json.load(response)["requests"])


@contextlib.contextmanager
def model_server_process(*arguments: str) -> Iterator[ServerProcess]:
    """Run the command on a free port."""
    command = [sys.executable, str(EXAMPLES / "model_server"), "--port", "0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield ServerProcess(process.stdout.readline().strip(), process)
        finally:
            process.terminate()
