"""Forks of the recorder process: more cores, for as long as traces come faster than one can write them.

In: frames that are to be written, or a spool that is to become files. Out: counts, as they grow. Never: outlives the
recorder for longer than one segment takes: a fork ends when its socket does.

What they gain: 20,000 traces of a proxy under load, until the last is a file, took the busiest process 5.0 s of CPU
time with forks and 7.6 s without. The goal is 5,000 traces a second (`benchmarks/bench_proxy.py`).
"""

from __future__ import annotations

import ctypes
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
DRAIN_SECONDS = 0.2  # How long the drainer makes files before it looks whether it has to end.


def can_fork() -> bool:
    """Whether this process may use another core for a fork, and the system can fork."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores > 1 and hasattr(os, "fork")


class _Fork:
    """A forked process that does some work and reports its counts."""

    def __init__(self, work: Callable[[socket.socket], None], inherited: socket.socket) -> None:
        """`inherited` is closed in the fork: else the proxy would not notice that the recorder died."""
        self.counts = RecordingCounts()  # as reported so far
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
        """No more counts will come."""

    def wait(self) -> None:
        """Wait until it has ended."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        self._listener.join()
        os.waitpid(self._process, 0)
        self._socket.close()


class WriterFork(_Fork):
    """At the end, when the proxy no longer needs the other core: writes a share of what is left, then makes files."""

    def __init__(self, writer: TraceWriter, inherited: socket.socket, frames: list[bytes], deadline: float) -> None:
        self._count = len(frames)

        def work(reports: socket.socket) -> None:
            before = writer.counts
            for number, frame in enumerate(frames, 1):
                writer.write(frame)
                if number % REPORT_EVERY == 0 or number == len(frames):
                    _send_counts(reports, writer.counts - before)
            reports.shutdown(socket.SHUT_WR)
            writer.write_files(max(0.0, deadline - time.monotonic()))

        super().__init__(work, inherited)

    def _finish_counts(self) -> None:
        missing = self._count - self.counts.recorded - self.counts.failures
        self.counts += RecordingCounts(lost=missing)  # None, unless it died.

    def is_finished(self, seconds: float) -> bool:
        """Whether it has written everything, or died; waits for at most `seconds`."""
        self._listener.join(seconds)
        return not self._listener.is_alive()


class DrainerFork(_Fork):
    """Makes files of each segment that is finished, while the recorder goes on writing."""

    def __init__(self, writer: TraceWriter, inherited: socket.socket) -> None:
        def work(reports: socket.socket) -> None:
            before = writer.counts
            while reports.recv(1024):
                while writer.drain_spool(DRAIN_SECONDS).traces and not _has_input(reports):
                    pass
                _send_counts(reports, writer.counts - before)
                trim_memory()  # A segment is read whole.

        super().__init__(work, inherited)

    def wake(self) -> None:
        """Tell the drainer that a segment is finished; never waits."""
        with suppress(OSError):  # It died: the recorder makes the files at the end.
            self._socket.send(b".", getattr(socket, "MSG_DONTWAIT", 0))


def _send_counts(reports: socket.socket, counts: RecordingCounts) -> None:
    with suppress(OSError):  # The recorder died; what it has sent is still written.
        send_frame(reports, encode_msgpack(counts))


def _has_input(reports: socket.socket) -> bool:
    return bool(select.select([reports], [], [], 0)[0])


def trim_memory() -> None:
    """Give free memory back to the system, where the C library can do that (glibc)."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
