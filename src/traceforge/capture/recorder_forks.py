"""Forks of the recorder: other cores that work for it, when there is much to do.

In: what is to be kept, or a spool that is to become files. Out: the counts, as they go. Never: outlives the recorder
for longer than the segment that is in hand: the end of its socket is its end.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from traceforge.capture.recorder import receive_frame, send_frame
from traceforge.capture.recording_counts import RecordingCounts
from traceforge.capture.trace_writer import TraceWriter
from traceforge.conversion import decode_msgpack, encode_msgpack

REPORT_EVERY = 100
DRAIN_SECONDS = 0.2  # Beyond this no other segment is begun before the drainer has looked whether it shall end.


def can_fork() -> bool:
    """Is there a core for a fork, and are there forks?"""
    return (os.cpu_count() or 1) > 1 and hasattr(os, "fork")


class _Fork:
    """A process that does some work and tells its counts."""

    def __init__(self, work: Callable[[socket.socket], None], inherited: socket.socket) -> None:
        """`inherited` is not for the fork: whoever is at its other end must see that the recorder died."""
        self.counts = RecordingCounts()  # as it has told them
        self._socket, theirs = socket.socketpair()
        self._process = os.fork()
        if not self._process:
            try:
                self._socket.close()
                inherited.close()
                work(theirs)
            finally:
                os._exit(0)
        theirs.close()
        self._listener = threading.Thread(target=self._listen, name="traceforge-fork", daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        with suppress(OSError):
            while (data := receive_frame(self._socket)) is not None:
                self.counts = decode_msgpack(data, RecordingCounts)
        self._finish_counts()

    def _finish_counts(self) -> None:
        """It tells nothing more."""

    def wait(self) -> None:
        """Until it has ended."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        self._listener.join()
        os.waitpid(self._process, 0)
        self._socket.close()


class WriterFork(_Fork):
    """Keeps some of what is left at the end, when nobody else needs the other cores; then makes files."""

    def __init__(self, writer: TraceWriter, inherited: socket.socket, frames: list[bytes], until: float) -> None:
        self._count = len(frames)

        def work(speak: socket.socket) -> None:
            before = writer.counts
            for place, frame in enumerate(frames, 1):
                writer.write(frame)
                if place % REPORT_EVERY == 0 or place == len(frames):
                    _send_counts(speak, writer.counts - before)
            speak.shutdown(socket.SHUT_WR)
            writer.write_files(max(0.0, until - time.monotonic()))

        super().__init__(work, inherited)

    def _finish_counts(self) -> None:
        missing = self._count - self.counts.kept - self.counts.failures
        self.counts += RecordingCounts(lost=missing)  # None, unless it died.

    def is_finished(self, seconds: float) -> bool:
        """Has it kept everything, or died? Waits for so long."""
        self._listener.join(seconds)
        return not self._listener.is_alive()


class DrainerFork(_Fork):
    """Makes files whenever it is told that there is a segment, for a recorder that has no time for it."""

    def __init__(self, writer: TraceWriter, inherited: socket.socket) -> None:
        def work(speak: socket.socket) -> None:
            before = writer.counts
            while speak.recv(1024):
                while writer.drain_spool(DRAIN_SECONDS).traces and not _has_input(speak):
                    pass
                _send_counts(speak, writer.counts - before)
                trim_memory()  # A segment is read whole.

        super().__init__(work, inherited)

    def wake(self) -> None:
        """There is a segment."""
        with suppress(OSError):  # It died: files are made at the end.
            self._socket.send(b".", getattr(socket, "MSG_DONTWAIT", 0))


def _send_counts(speak: socket.socket, counts: RecordingCounts) -> None:
    with suppress(OSError):  # The recorder died; what it has sent us is kept all the same.
        send_frame(speak, encode_msgpack(counts))


def _has_input(speak: socket.socket) -> bool:
    return bool(select.select([speak], [], [], 0)[0])


def trim_memory() -> None:
    """Give free memory back, where the C library can be asked to (glibc)."""
    import ctypes

    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
