"""The line on which a process that was entered asks `traceforge run`, and waits for the answer.

In: a frame. Out: the frame that answers it. Never: shares a line between two who ask at the same time, be they
threads, greenlets or processes; or takes a late answer for that to another question.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from contextlib import suppress
from typing import Any

from .frame_sender import connect, inode_of
from .frames import read_frame, write_frame

ANSWER_S = 30.0  # How long an answer may take: beyond it, nobody is there.


class Asker:
    """Asks. Safe to use from several threads, and across a fork."""

    def __init__(self, address: str, token: str) -> None:
        self._address = address
        self._token = token
        self._free: deque[_Line] = deque()

    def ask(self, frame: bytes) -> tuple[dict[str, Any], list[bytes]]:
        """The answer.

        Raises:
            OSError, ValueError: there is none, or it is none.
        """
        line = self._take()
        try:
            answer = line.ask(frame)
        except BaseException:
            line.close()
            raise
        self._free.append(line)
        return answer

    def close(self) -> None:
        """Close the lines that are free; also in a child that was forked, whose parent keeps its own."""
        while True:
            try:
                self._free.pop().close()
            except IndexError:
                return

    def _take(self) -> _Line:
        while True:
            try:
                line = self._free.pop()
            except IndexError:
                return self._open()
            if line.usable:
                return line
            line.close()

    def _open(self) -> _Line:
        line = _Line(connect(self._address))
        line.say(write_frame({"kind": "hello", "pid": os.getpid(), "token": self._token}))
        return line


class _Line:
    """One connection, which closes itself when nobody has it any more."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._inode = inode_of(connection)
        self._socket.settimeout(ANSWER_S)
        self._stream = self._socket.makefile("rb")

    @property
    def usable(self) -> bool:
        """Is it still ours? An application that closes everything closed it, and may have the number again."""
        return inode_of(self._socket) == self._inode

    def say(self, frame: bytes) -> None:
        """Without an answer."""
        self._socket.sendall(frame)

    def ask(self, frame: bytes) -> tuple[dict[str, Any], list[bytes]]:
        """One question, one answer."""
        self.say(frame)
        answer = read_frame(self._stream.read)
        if answer is None:
            raise ConnectionError("TraceForge, which runs this command, is gone")
        return answer

    def close(self) -> None:
        """Once; a number that another has now is left alone."""
        usable = self.usable
        with suppress(OSError):
            self._stream.close()
        if usable:
            self._socket.close()
        else:
            self._socket.detach()

    def __del__(self) -> None:
        self.close()
