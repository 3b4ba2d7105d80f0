"""A Python program as the command of a sealed run, and servers that count whether it reached them."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from support.closed_listener import close_listener
from support.supervised_run import SupervisedRun

TRY = """
import ctypes, errno, json, os, signal, socket, struct, threading
results = {}
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, work):
    try:
        work()
        results[name] = "open"
    except OSError as exc:
        results[name] = errno.errorcode.get(exc.errno, str(exc.errno))
def call(number, *arguments):
    converted = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    if libc.syscall(ctypes.c_long(number), *converted) < 0:
        raise OSError(ctypes.get_errno(), "")
def connect(number, data, size):
    if libc.connect(number, data, size) < 0:
        raise OSError(ctypes.get_errno(), "")
def address(host, port, family=2):
    return struct.pack("=HH4s8x", family, socket.htons(port), socket.inet_aton(host))
"""


def run_program(run: SupervisedRun, folder: Path, program: str, *ports: int, own_ports: tuple[int, ...] = ()) -> Any:
    """What the program put into `results`."""
    path = folder / "results.json"
    text = f"{TRY}\n{program}\nwith open({str(path)!r}, 'w') as file: json.dump(results, file)"
    assert 0 == run.run(text, *ports, own_ports=own_ports)
    assert "" == run.failure
    return json.loads(path.read_text())


class ReachedServer:
    """A server that counts who reaches it."""

    def __init__(self, host: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._server = socket.create_server((host, port), family=family, backlog=100)
        self.port: int = self._server.getsockname()[1]
        self.connections = 0
        self._counting = threading.Thread(target=self._count, daemon=True)
        self._counting.start()

    def _count(self) -> None:
        with suppress(OSError):
            while True:
                self._server.accept()[0].close()
                self.connections += 1

    def close(self) -> None:
        close_listener(self._server, self._counting)
