"""The other end of a `ProcessRecorder`: a process that keeps what it is sent.

In: a setting, then exchanges, over a socket. Out: traces, and now and then the counts. Never: ends before everything
it was sent is kept, not even where the process that sent it has died; and never for a signal that was meant for a
proxy: its end is the end of the socket.
"""

from __future__ import annotations

import select
import signal
import socket
import struct
import time

import msgspec

from traceforge.capture.keeper import Keeper, Setting
from traceforge.capture.recorder import CLOSE_SECONDS, LENGTH, receive_frame
from traceforge.exchange import Exchange

READ_BYTES = 1 << 20
COUNTS_SECONDS = 0.5


def serve(connection: socket.socket) -> None:
    """Keep exchanges until the socket ends, then turn everything into files."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    first = receive_frame(connection)
    if first is None:
        return
    keeper = Keeper(msgspec.msgpack.decode(first, type=Setting))
    keeper.prune()
    seconds = _Receiver(connection, keeper).run()
    keeper.to_files(seconds)
    _tell(connection, keeper)


class _Receiver:
    """Reads frames as they come; while none come, turns the spool into files."""

    def __init__(self, connection: socket.socket, keeper: Keeper) -> None:
        self._connection = connection
        self._keeper = keeper
        self._data = bytearray()
        self._told = time.monotonic()

    def run(self) -> float:
        """Until the end; how long to work on files afterwards."""
        while True:
            readable, _, _ = select.select([self._connection], [], [], 0.2)
            if not readable:
                self._rest()
                continue
            data = self._connection.recv(READ_BYTES)
            if not data:
                return CLOSE_SECONDS  # It died without a word.
            self._data += data
            seconds = self._take_frames()
            if seconds is not None:
                return seconds
            if self._keeper.is_due():
                self._keeper.to_files()
            self._tell_when_due()

    def _take_frames(self) -> float | None:
        """Keep every whole frame; the last word is a frame without length, and how long to go on."""
        place = 0
        view = bytes(self._data)
        while len(view) - place >= LENGTH.size:
            (size,) = LENGTH.unpack_from(view, place)
            start = place + LENGTH.size
            if size == 0 and len(view) >= start + 8:
                return float(struct.unpack_from("<d", view, start)[0])
            if size == 0 or len(view) < start + size:
                break
            self._keeper.keep(Exchange.from_bytes(view[start : start + size]))
            place = start + size
        del self._data[:place]
        return None

    def _rest(self) -> None:
        self._keeper.sync()
        if self._keeper.is_due():
            self._keeper.to_files()
        self._tell_when_due()

    def _tell_when_due(self) -> None:
        now = time.monotonic()
        if now - self._told >= COUNTS_SECONDS:
            self._told = now
            _tell(self._connection, self._keeper)


def _tell(connection: socket.socket, keeper: Keeper) -> None:
    data = msgspec.msgpack.encode(keeper.counts)
    try:
        connection.sendall(LENGTH.pack(len(data)) + data)
    except OSError:
        return  # Nobody listens any more.
