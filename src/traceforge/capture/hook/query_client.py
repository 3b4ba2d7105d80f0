"""The connections on which a child process asks `traceforge run` something, and waits for the reply.

In: a frame. Out: the frame that replies to it. Never: shares a connection between two queries at the same time, be
they of threads, greenlets or processes; or takes a late reply for that to another query.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from contextlib import suppress
from typing import Any

from .frame_sender import connect, inode_of
from .frames import read_frame, write_frame

REPLY_S = 30.0  # How long a reply may take: beyond it, the parent is taken for gone.


class QueryClient:
    """Safe to use from several threads, and across a fork."""

    def __init__(self, address: str, token: str) -> None:
        self._address = address
        self._token = token
        self._idle: deque[_QueryConnection] = deque()

    def query(self, frame: bytes) -> tuple[dict[str, Any], list[bytes]]:
        """The head and the chunks of the reply.

        Raises:
            OSError, ValueError: no reply came, or it cannot be read.
        """
        connection = self._take()
        try:
            reply = connection.query(frame)
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return reply

    def close(self) -> None:
        """Close the idle connections; also in a forked child, whose parent keeps its own."""
        while True:
            try:
                self._idle.pop().close()
            except IndexError:
                return

    def _take(self) -> _QueryConnection:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return self._open()
            if connection.is_usable:
                return connection
            connection.close()

    def _open(self) -> _QueryConnection:
        connection = _QueryConnection(connect(self._address))
        connection.send(write_frame({"kind": "hello", "pid": os.getpid(), "token": self._token}))
        return connection


class _QueryConnection:
    """Closes itself when it is garbage-collected."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._inode = inode_of(connected)
        self._socket.settimeout(REPLY_S)
        self._stream = self._socket.makefile("rb")

    @property
    def is_usable(self) -> bool:
        """Whether it is still ours: the application may have closed it, and have its descriptor again."""
        return inode_of(self._socket) == self._inode

    def send(self, frame: bytes) -> None:
        self._socket.sendall(frame)

    def query(self, frame: bytes) -> tuple[dict[str, Any], list[bytes]]:
        self.send(frame)
        reply = read_frame(self._stream.read)
        if reply is None:
            raise ConnectionError("TraceForge, which runs this command, is gone")
        return reply

    def close(self) -> None:
        """Close it, but not a descriptor that is another's by now."""
        is_usable = self.is_usable
        with suppress(OSError):
            self._stream.close()
        if is_usable:
            self._socket.close()
        else:
            self._socket.detach()

    def __del__(self) -> None:
        self.close()
