"""Counts the calls of TraceForge that may block, where an event loop runs in the same thread.

Only the standard library, so that a program in another process can use it, too. What a module took from `os` by name
before is not seen.
"""

from __future__ import annotations

import asyncio
import builtins
import os
import socket
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

PACKAGE = f"{os.sep}traceforge{os.sep}"
LIBRARY = os.path.dirname(os.__file__)
FILE_FUNCTIONS = ("getcwd", "stat", "lstat", "readlink", "listdir", "scandir", "open", "replace", "mkdir", "unlink")
PATH_FUNCTIONS = ("abspath", "realpath", "islink", "exists", "isfile", "isdir")
SOCKET_METHODS = ("connect", "connect_ex", "send", "sendall", "recv", "recv_into")


@contextmanager
def blocking_calls() -> Iterator[list[str]]:
    """The names of the functions that TraceForge called in a running loop, each as often as it was called."""
    names: list[str] = []
    places: list[tuple[Any, str]] = [(os, name) for name in FILE_FUNCTIONS]
    places += [(os.path, name) for name in PATH_FUNCTIONS]
    places += [(builtins, "open"), (time, "sleep"), (sqlite3, "connect")]
    with _patched(places, names, lambda *_: True), _patched(_socket_places(), names, _is_blocking):
        yield names


def _socket_places() -> list[tuple[Any, str]]:
    return [(socket.socket, name) for name in SOCKET_METHODS]


def _is_blocking(connection: Any, *_: object) -> bool:
    return bool(connection.gettimeout() != 0)


@contextmanager
def _patched(places: list[tuple[Any, str]], names: list[str], counts: Callable[..., bool]) -> Iterator[None]:
    patches = [mock.patch.object(owner, name, _counting(owner, name, names, counts)) for owner, name in places]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in reversed(patches):
            patch.stop()


def _counting(owner: Any, name: str, names: list[str], counts: Callable[..., bool]) -> Any:
    function = getattr(owner, name)

    def counted(*args: Any, **options: Any) -> Any:
        if asyncio._get_running_loop() is not None and _is_called_by_traceforge() and counts(*args):
            names.append(name)
        return function(*args, **options)

    return counted


def _is_called_by_traceforge() -> bool:
    """Whether the innermost frame outside of the standard library is TraceForge's."""
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((LIBRARY, "<frozen")) or "site-packages" in file:
            return PACKAGE in file
        frame = frame.f_back  # type: ignore[assignment]
    return False
