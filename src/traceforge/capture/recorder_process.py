"""The other end of a `ProcessRecorder`: a process that keeps what it is sent.

In: a setting, then exchanges, over a socket. Out: traces, and now and then the counts. Never: ends before everything
it was sent is kept, not even where the process that sent it has died; and never for a signal that was meant for a
proxy: its end is the end of the socket.

One thread reads, and holds what has come; another keeps it, and turns the spool into files, or has a fork do so where
more comes than it can follow. So what was sent is here, and safe from the death of the sender, however long the work
on it takes.
"""

from __future__ import annotations

import signal
import socket
import threading
import time
from contextlib import suppress

import msgspec

from traceforge.capture.backlog import Backlog
from traceforge.capture.recorder import (
    BACKLOG_BYTES_MAX,
    CLOSE_SECONDS,
    LAST_WORD,
    LENGTH,
    SENDING_BYTES_MAX,
    receive_frame,
    send_frame,
)
from traceforge.capture.recorder_forks import TELL_EVERY, Drainer, Helper, can_help, trim_memory
from traceforge.capture.trace_writer import Keeper, Setting
from traceforge.conversion import decode_msgpack

READ_BYTES = 1 << 20
BURST_BYTES = 16 << 20  # What waited at most, beyond which memory is given back afterwards.
SLICE_BYTES = 64 << 10  # Worked on at once; in between we look at the clock.
COUNTS_SECONDS = 0.5
HELP_MIN = 2000  # Frames left at the end that are worth a fork: about a third of a second of work.
FRAME_BYTES = 100  # What a frame costs beside its bytes.
BEHIND_BYTES = 8 << 20  # When so much waits, files are made by another process.
EASY_BYTES_MAX = 64 << 20  # As long as less waits, and more comes, we leave most of our time to others:
EASY_REST = 3  # so many times as long as we worked, we rest, because the proxy and its clients share our cores.
EASY_SECONDS_MAX = 3.0  # What waits for longer than this is no burst, and will not become less by resting.


def serve(connection: socket.socket) -> None:
    """Keep exchanges until the socket ends, then turn everything into files."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    first = receive_frame(connection)
    if first is None:
        return
    keeper = Keeper(decode_msgpack(first, Setting))
    keeper.prune()
    _Receiver(connection, keeper).run()


class _Inbox:
    """Reads frames as they come, in a thread of its own."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""  # the beginning of a frame
        self.backlog: Backlog[bytes] = Backlog(BACKLOG_BYTES_MAX - SENDING_BYTES_MAX)
        self.until = 0.0  # when the work on files ends; 0 while more may come
        threading.Thread(target=self._read, name="traceforge-inbox", daemon=True).start()

    def _read(self) -> None:
        seconds = None
        with suppress(OSError):
            while seconds is None and (data := self._receive()):
                seconds = self._take_frames(self._rest + data if self._rest else data)
        self.until = time.monotonic() + (CLOSE_SECONDS if seconds is None else seconds)  # None: without a word.
        self.backlog.wake()

    def _receive(self) -> bytes:
        try:
            return self._connection.recv(READ_BYTES)
        except ConnectionResetError:  # Said once, where the sender died before it read our counts;
            return self._connection.recv(READ_BYTES)  # what it had sent is still here.

    def _take_frames(self, data: bytes) -> float | None:
        """Take every whole frame; the last word is one without length, and how long to go on."""
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
        self._rest = data[place:]
        return None


class _Receiver:
    """Keeps what the inbox holds; after a while, turns the spool into files."""

    def __init__(self, connection: socket.socket, keeper: Keeper) -> None:
        self._connection = connection
        self._keeper = keeper
        self._inbox = _Inbox(connection)
        self._told = time.monotonic()
        self._behind_since = 0.0  # since when something waits; 0 where nothing does
        self._has_waited = 0  # bytes, at most, since memory was last given back
        self._helper: Helper | None = None
        self._drainer: Drainer | None = None

    def run(self) -> None:
        """Until the end: first everything is kept, and said to be; then there is time for files."""
        while not self._inbox.until:
            self._work(0.2)
        frames = self._inbox.backlog.get(0, BACKLOG_BYTES_MAX)
        if len(frames) >= HELP_MIN and can_help():
            self._helper = Helper(self._keeper, self._connection, frames[1::2], self._inbox.until)
            frames = frames[::2]
        for place, frame in enumerate(frames):
            self._keeper.keep(frame)
            if place % TELL_EVERY == 0:
                self._tell_when_due()
        while self._helper is not None and not self._helper.has_kept(COUNTS_SECONDS):
            self._tell()
        self._tell()
        self._to_files()
        for fork in (self._drainer, self._helper):
            if fork is not None:
                fork.wait()
        self._to_files()  # What a fork has left.
        self._tell()

    def _to_files(self) -> None:
        self._keeper.to_files(max(0.0, self._inbox.until - time.monotonic()))

    def _work(self, timeout: float) -> None:
        """Keep a slice of what waits."""
        batch = self._inbox.backlog.get(timeout, SLICE_BYTES)
        began = time.monotonic()
        for frame in batch:
            self._keeper.keep(frame)
        if not batch:
            self._keeper.sync()
            self._give_back()
        if self._keeper.is_due():
            self._make_files()
        self._tell_when_due()
        if self._is_burst(began):
            time.sleep(EASY_REST * (time.monotonic() - began))

    def _give_back(self) -> None:
        """After a burst, memory goes back to the system: the C library would keep it for the next one."""
        if self._has_waited > BURST_BYTES:
            self._has_waited = 0
            trim_memory()

    def _is_burst(self, now: float) -> bool:
        """Is there more than we have done, and not for long?"""
        waiting = self._inbox.backlog.bytes
        self._has_waited = max(self._has_waited, waiting)
        self._behind_since = (self._behind_since or now) if waiting else 0.0
        is_short = now - self._behind_since < EASY_SECONDS_MAX
        return 0 < waiting < EASY_BYTES_MAX and is_short and not self._inbox.until

    def _make_files(self) -> None:
        """Here, as long as nothing waits for us; else beside us, from then on."""
        if self._drainer is None and self._inbox.backlog.bytes >= BEHIND_BYTES and can_help():
            self._drainer = Drainer(self._keeper, self._connection)
        if self._drainer is None:
            self._keeper.to_files()
        else:
            self._keeper.seal()
            self._drainer.wake()

    def _tell_when_due(self) -> None:
        if time.monotonic() - self._told >= COUNTS_SECONDS:
            self._tell()

    def _tell(self) -> None:
        self._told = time.monotonic()
        counts = self._keeper.counts
        for fork in (self._drainer, self._helper):
            if fork is not None:
                counts = counts.and_then(fork.counts)
        counts.lost += self._inbox.backlog.lost
        with suppress(OSError):  # Nobody listens any more.
            send_frame(self._connection, msgspec.msgpack.encode(counts))
