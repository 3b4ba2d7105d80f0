"""The other end of a `ProcessRecorder`: a process that keeps what it is sent.

In: a setting, then exchanges, over a socket. Out: traces, and now and then the counts. Never: ends before everything
it was sent is kept, not even where the process that sent it has died; and never for a signal that was meant for a
proxy: its end is the end of the socket.

One thread reads, and holds what has come; another keeps it, and turns the spool into files. So what was sent is here,
and safe from the death of the sender, however long the work on it takes.
"""

from __future__ import annotations

import signal
import socket
import threading
import time
from contextlib import suppress

import msgspec

from traceforge.capture.backlog import Backlog
from traceforge.capture.keeper import Counts, Keeper, Setting
from traceforge.capture.recorder import (
    BACKLOG_BYTES_MAX,
    CLOSE_SECONDS,
    LAST_WORD,
    LENGTH,
    SENDING_BYTES_MAX,
    receive_frame,
)

READ_BYTES = 1 << 20
SLICE_BYTES = 64 << 10  # Worked on at once; in between we look at the clock.
COUNTS_SECONDS = 0.5
FRAME_BYTES = 100  # What a frame costs beside its bytes.
EASY_BYTES_MAX = 64 << 20  # As long as less waits, and more comes, we leave half of our time to the proxy.


def serve(connection: socket.socket) -> None:
    """Keep exchanges until the socket ends, then turn everything into files."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    first = receive_frame(connection)
    if first is None:
        return
    keeper = Keeper(msgspec.msgpack.decode(first, type=Setting))
    keeper.prune()
    _Receiver(connection, keeper).run()


class _Inbox:
    """Reads frames as they come, in a thread of its own."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._data = bytearray()
        self.backlog: Backlog[bytes] = Backlog(BACKLOG_BYTES_MAX - SENDING_BYTES_MAX)
        self.until = 0.0  # when the work on files ends; 0 while more may come
        threading.Thread(target=self._read, name="traceforge-inbox", daemon=True).start()

    def _read(self) -> None:
        seconds = None
        with suppress(OSError):
            while seconds is None and (data := self._connection.recv(READ_BYTES)):
                self._data += data
                seconds = self._take_frames()
        self.until = time.monotonic() + (CLOSE_SECONDS if seconds is None else seconds)  # None: without a word.
        self.backlog.wake()

    def _take_frames(self) -> float | None:
        """Take every whole frame; the last word is one without length, and how long to go on."""
        data, self._data = bytes(self._data), bytearray()
        place, end = 0, len(data)
        while end - place >= LENGTH.size:
            (size,) = LENGTH.unpack_from(data, place)
            start = place + LENGTH.size
            if size == 0 and end - place >= LAST_WORD.size:
                return float(LAST_WORD.unpack_from(data, place)[1])
            if size == 0 or end < start + size:
                break
            self.backlog.put(data[start : start + size], size + FRAME_BYTES)
            place = start + size
        self._data += data[place:]
        return None


class _Receiver:
    """Keeps what the inbox holds; after a while, turns the spool into files."""

    def __init__(self, connection: socket.socket, keeper: Keeper) -> None:
        self._connection = connection
        self._keeper = keeper
        self._inbox = _Inbox(connection)
        self._told = time.monotonic()

    def run(self) -> None:
        """Until the end."""
        while not self._inbox.until:
            self._work(0.2)
        while self._work(0):
            pass
        self._keeper.to_files(max(0.0, self._inbox.until - time.monotonic()))
        self._tell()

    def _work(self, timeout: float) -> bool:
        """Keep a slice of what waits; was there any?"""
        batch = self._inbox.backlog.get(timeout, SLICE_BYTES)
        began = time.monotonic()
        for frame in batch:
            self._keeper.keep(frame)
        if not batch:
            self._keeper.sync()
        if self._keeper.is_due():
            self._keeper.to_files()
        now = time.monotonic()
        if now - self._told >= COUNTS_SECONDS:
            self._tell()
        if batch and 0 < self._inbox.backlog.bytes < EASY_BYTES_MAX and not self._inbox.until:
            time.sleep(now - began)
        return bool(batch)

    def _tell(self) -> None:
        self._told = time.monotonic()
        counts: Counts = self._keeper.counts
        counts.lost = self._inbox.backlog.lost
        data = msgspec.msgpack.encode(counts)
        with suppress(OSError):  # Nobody listens any more.
            self._connection.sendall(LENGTH.pack(len(data)) + data)
