"""The local socket on which children of a pytest process report: served by one thread, which a fork can wait for.

In: connections of our own children. Out: their frames, handed to the reports, and replies to queries. Never: has a
thread while this process forks: Python warns of that, and a suite may turn warnings into errors. Never: waits without
an end for a child, a thread or a fork: what could not be waited for is a fault of the run. The thread is none of
`threading`'s, so that a test that counts threads does not see it.
"""

from __future__ import annotations

import _thread
import os
import selectors
import shutil
import signal
import socket
import time
from contextlib import suppress

from traceforge.capture.hook.frames import read_frame
from traceforge.capture.run.listener import bind_local_socket
from traceforge.capture.run.process_reports import ProcessConnection, ProcessReports

FRAME_S = 10.0  # How long a child may take to send one frame, or to take a reply.
QUIET_S = 0.05  # At the end, reports that come later than this after the last one are not waited for.
DRAIN_S = 10.0  # How long reports are taken at the end from children that do not stop.
PAUSE_S = 60.0  # How long a fork, or the end, waits for the thread, and for forks of other threads.
NO_THREAD = "the reports of child processes could not be read: no thread could be started"
STILL_READING = "the reports of child processes could not be read to their end: their thread did not end"
STILL_SENDING = "the reports of child processes could not be read to their end: they do not stop"


class PausableListener:
    """Receives the reports of every child of one process."""

    def __init__(self, reports: ProcessReports) -> None:
        self._reports = reports
        self._listener, self.address, self._folder = bind_local_socket()
        self._wakeup, self._waker = socket.socketpair()
        self._connections: dict[socket.socket, ProcessConnection] = {}
        self._selector = selectors.SelectSelector() if os.name == "nt" else selectors.PollSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wakeup, selectors.EVENT_READ)
        self._forking = _thread.allocate_lock()  # held from `pause` to `resume`: threads may fork at the same time
        self._running = _thread.allocate_lock()  # held by the thread
        self._is_closed = False
        self._forking.acquire()
        self.resume()

    def resume(self) -> None:
        """Serve in a thread again."""
        self._running.acquire()
        try:
            _thread.start_new_thread(self._serve, ())
        except RuntimeError:  # The system allows no further thread: children get no reply.
            self._reports.faults[NO_THREAD] += 1
            self._running.release()
        self._forking.release()

    def pause(self) -> bool:
        """End the thread, after the frame that it reads. Children wait for their replies meanwhile.

        False: it is closed, or did not end in time; then there is nothing to resume.
        """
        if not self._forking.acquire(timeout=PAUSE_S):
            self._reports.faults[STILL_READING] += 1
            return False
        if not self._is_closed:
            self._waker.send(b".")
            if self._running.acquire(timeout=PAUSE_S):
                self._running.release()
                self._take_wakeups()
                return True
            self._reports.faults[STILL_READING] += 1
        self._forking.release()
        return False

    def _take_wakeups(self) -> None:
        """Take what a thread that had ended before did not: the next one would end at once."""
        self._wakeup.setblocking(False)
        with suppress(BlockingIOError):
            self._wakeup.recv(16)

    def drain(self) -> None:
        """Take the reports that children have sent so far."""
        if self.pause():
            self._take_reports()
            self.resume()

    def _take_reports(self) -> None:
        until = time.monotonic() + DRAIN_S
        while self._serve_ready(QUIET_S):
            if time.monotonic() > until:
                self._reports.faults[STILL_SENDING] += 1
                return

    def close(self) -> None:
        """Take the reports that children have sent so far, and stop for good."""
        if not self.pause():
            return
        self._take_reports()
        for connection in list(self._connections):
            self._drop(connection)
        self.forget()
        self._is_closed = True
        self._forking.release()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def forget(self) -> None:
        """Close our copies of all sockets, also in a forked child: its parent keeps its own."""
        for connection in (*self._connections, self._listener, self._wakeup, self._waker):
            with suppress(OSError):
                connection.close()

    def _serve(self) -> None:
        try:
            if hasattr(signal, "pthread_sigmask"):  # The application's signals are for its own threads.
                signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            while self._serve_ready(None):
                pass
        finally:
            self._running.release()

    def _serve_ready(self, timeout_s: float | None) -> bool:
        """Serve the connections that are ready. False: nothing came in time, or the thread is to end."""
        goes_on = False
        for key, _ in self._selector.select(timeout_s):
            if key.fileobj is self._wakeup:
                self._take_wakeups()
                return False
            goes_on = True
            if key.fileobj is self._listener:
                self._accept()
            else:
                assert isinstance(key.fileobj, socket.socket)
                self._read_frame(key.fileobj)
        return goes_on

    def _accept(self) -> None:
        with suppress(OSError):
            connection, _ = self._listener.accept()
            connection.settimeout(FRAME_S)
            self._connections[connection] = ProcessConnection(self._reports, connection.sendall)
            self._selector.register(connection, selectors.EVENT_READ)

    def _read_frame(self, connection: socket.socket) -> None:
        """Read one frame. Nothing is read ahead: the selector would not know of it."""
        try:
            frame = read_frame(lambda size: _receive(connection, size))
            if frame is not None and self._connections[connection].handle_frame(*frame):
                return
        except (OSError, ValueError):
            self._reports.malformed += 1
        self._drop(connection)

    def _drop(self, connection: socket.socket) -> None:
        self._connections.pop(connection).close()
        self._selector.unregister(connection)
        connection.close()


def _receive(connection: socket.socket, size: int) -> bytes:
    """As many bytes as were asked for; fewer at the end of the stream."""
    data = bytearray()
    while len(data) < size:
        more = connection.recv(min(size - len(data), 1 << 20))
        if not more:
            break
        data += more
    return bytes(data)
