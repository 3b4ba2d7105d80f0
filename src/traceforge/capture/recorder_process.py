"""The process of a `ProcessRecorder`: writes the exchanges that it is sent.

In: settings, then exchanges, over a socket. Out: traces, and counts: as soon as it reads, and every half second.
Never: ends before everything it was sent is written, not even where the process that sent it has died; and never
because of a signal that was meant for the proxy: it ends when the socket does.

One thread reads from the socket into memory; the other writes traces and turns the spool into files, or has a fork do
so where more comes than it can follow. So what was sent is safe from the death of the sender, however long the work
on it takes.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress

from traceforge.capture.backlog import Backlog
from traceforge.capture.recorder import (
    BACKLOG_BYTES_MAX,
    CLOSE_SECONDS,
    END_FRAME,
    LENGTH,
    SENDING_BYTES_MAX,
    receive_frame,
    send_frame,
)
from traceforge.capture.recorder_forks import REPORT_EVERY, DrainerFork, WriterFork, can_fork, trim_memory
from traceforge.capture.trace_writer import RecorderSettings, TraceWriter
from traceforge.conversion import decode_msgpack, encode_msgpack

READ_BYTES = 1 << 20
ROOM_BYTES_MIN = 4 * READ_BYTES  # With less room in the backlog, nothing is read.
ROOM_SECONDS = 0.01  # How long to wait before looking for room again.
TRIM_BYTES = 16 << 20  # When more has waited, memory is given back to the system afterwards.
BATCH_BYTES = 64 << 10  # Written at once; in between, counts and files may be due.
COUNTS_SECONDS = 0.5
FORK_FRAMES_MIN = 2000  # Frames left at the end that are worth a fork: about a third of a second of work.
FRAME_BYTES = 100  # The memory of a frame besides its bytes.
BEHIND_BYTES = 8 << 20  # When more waits, files are made by a fork.
# In a burst, pause for this multiple of the working time: the proxy and its clients share the cores. A backlog
# that is larger, or older, is not a burst, and a pause would not shrink it.
BURST_REST_FACTOR = 3
BURST_BACKLOG_BYTES_MAX = 64 << 20
BURST_SECONDS_MAX = 3.0


def serve(connection: socket.socket) -> None:
    """Write exchanges until the socket ends, then turn everything into files."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    first = receive_frame(connection)
    if first is None:
        return
    _RecorderProcess(connection, TraceWriter(decode_msgpack(first, RecorderSettings), keeps_index=True)).run()


class _FrameReader:
    """Reads frames as they come, in a thread of its own, into a backlog."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._partial_frame = b""  # the beginning of a frame
        self._bytes_max = BACKLOG_BYTES_MAX - SENDING_BYTES_MAX
        self.backlog: Backlog[bytes] = Backlog(self._bytes_max)
        self.deadline = 0.0  # when making files ends; 0 while more frames may come
        threading.Thread(target=self._read, name="traceforge-frames", daemon=True).start()

    def _read(self) -> None:
        seconds = None
        with suppress(OSError):
            while seconds is None and (data := self._receive()):
                seconds = self._split_frames(self._partial_frame + data if self._partial_frame else data)
                self._wait_for_room()
        self.deadline = time.monotonic() + (CLOSE_SECONDS if seconds is None else seconds)  # None: the sender died.
        self.backlog.wake()

    def _wait_for_room(self) -> None:
        """While the backlog is full, read nothing. The sender then counts new calls as lost before it encodes them;
        sent and read first, they would take time from those that can be written.
        """
        while self.backlog.bytes > self._bytes_max - ROOM_BYTES_MIN:
            time.sleep(ROOM_SECONDS)

    def _receive(self) -> bytes:
        try:
            return self._connection.recv(READ_BYTES)
        except ConnectionResetError:  # Raised once, where the sender died before it read our counts;
            return self._connection.recv(READ_BYTES)  # what it had sent is still here.

    def _split_frames(self, data: bytes) -> float | None:
        """Put every complete frame into the backlog; returns the seconds of the end frame, or None."""
        place, end = 0, len(data)
        while end - place >= LENGTH.size:
            (size,) = LENGTH.unpack_from(data, place)
            start = place + LENGTH.size
            if size == 0 and end - place >= END_FRAME.size:
                return float(END_FRAME.unpack_from(data, place)[1])
            if size == 0 or end < start + size:
                break
            self.backlog.put(data[start : start + size], size + FRAME_BYTES)
            place = start + size
        self._partial_frame = data[place:]
        return None


class _RecorderProcess:
    """Writes the frames of the backlog; after a while, turns the spool into files."""

    def __init__(self, connection: socket.socket, writer: TraceWriter) -> None:
        self._connection = connection
        self._writer = writer
        self._frames = _FrameReader(connection)
        self._reported_at = time.monotonic()
        self._behind_since = 0.0  # since when something waits; 0 where nothing does
        self._waiting_bytes_max = 0  # bytes, at most, since memory was last given back
        self._writer_fork: WriterFork | None = None
        self._drainer: DrainerFork | None = None

    def run(self) -> None:
        """Until the end: first everything is written, and reported; then files are made, as long as there is time."""
        self._report_counts()  # The proxy waits for it: from now on it is read.
        self._writer.prune()
        while not self._frames.deadline:
            self._write_batch(0.2)
        frames = self._frames.backlog.get(0, BACKLOG_BYTES_MAX)
        if len(frames) >= FORK_FRAMES_MIN and can_fork():
            self._writer_fork = WriterFork(self._writer, self._connection, frames[1::2], self._frames.deadline)
            frames = frames[::2]
        for number, frame in enumerate(frames):
            self._writer.write(frame)
            if number % REPORT_EVERY == 0:
                self._report_when_due()
        while self._writer_fork is not None and not self._writer_fork.is_finished(COUNTS_SECONDS):
            self._report_counts()
        self._report_counts()
        self._write_files()
        for fork in (self._drainer, self._writer_fork):
            if fork is not None:
                fork.wait()
        self._write_files()  # What the forks have left.
        self._report_counts()
        self._writer.confirm_index(self._seconds_left())

    def _write_files(self) -> None:
        self._writer.write_files(self._seconds_left())

    def _seconds_left(self) -> float:
        return max(0.0, self._frames.deadline - time.monotonic())

    def _write_batch(self, timeout: float) -> None:
        """Write a part of what waits."""
        batch = self._frames.backlog.get(timeout, BATCH_BYTES)
        began = time.monotonic()
        for frame in batch:
            self._writer.write(frame)
        if not batch:
            self._writer.sync()
            self._release_memory()
        if self._writer.has_due_segment():
            self._drain_segments()
        self._report_when_due()
        if self._is_burst(began):
            time.sleep(BURST_REST_FACTOR * (time.monotonic() - began))

    def _release_memory(self) -> None:
        """After a burst, give memory back to the system: the C library would keep it."""
        if self._waiting_bytes_max > TRIM_BYTES:
            self._waiting_bytes_max = 0
            trim_memory()

    def _is_burst(self, now: float) -> bool:
        """Whether something waits, and not for long: then the proxy needs the cores more than we do."""
        waiting = self._frames.backlog.bytes
        self._waiting_bytes_max = max(self._waiting_bytes_max, waiting)
        self._behind_since = (self._behind_since or now) if waiting else 0.0
        is_short = now - self._behind_since < BURST_SECONDS_MAX
        return 0 < waiting < BURST_BACKLOG_BYTES_MAX and is_short and not self._frames.deadline

    def _drain_segments(self) -> None:
        """Turn segments into files: here, or in a fork once too much waits."""
        if self._drainer is None and self._frames.backlog.bytes >= BEHIND_BYTES and can_fork():
            self._drainer = DrainerFork(self._writer, self._connection)
        if self._drainer is None:
            self._writer.write_files()
        else:
            self._writer.seal()
            self._drainer.wake()

    def _report_when_due(self) -> None:
        if time.monotonic() - self._reported_at >= COUNTS_SECONDS:
            self._report_counts()

    def _report_counts(self) -> None:
        self._reported_at = time.monotonic()
        counts = self._writer.counts
        for fork in (self._drainer, self._writer_fork):
            if fork is not None:
                counts += fork.counts
        counts.lost += self._frames.backlog.lost
        with suppress(OSError):  # The sender is gone.
            send_frame(self._connection, encode_msgpack(counts))


def main() -> None:
    """The process of a `ProcessRecorder`: the descriptor of its socket is the only argument."""
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        os.set_inheritable(connection.fileno(), False)
        serve(connection)


if __name__ == "__main__":
    main()
