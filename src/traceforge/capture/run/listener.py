"""The local socket on which child processes report.

In: connections of our own children. Out: their frames, handed to the reports of the run, and replies to queries.
Never: listens beyond this machine: a Unix socket in a folder that only this user can read, or, where there are none,
loopback; both ask for the token of this run.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
import time
from contextlib import suppress

from traceforge.capture.hook.frame_sender import connect
from traceforge.capture.hook.frames import read_frame
from traceforge.capture.run.process_reports import ProcessConnection, ProcessReports

QUIET_S = 0.3  # After the command, do not wait for a process that reports nothing for this long.


def bind_local_socket() -> tuple[socket.socket, str, str]:
    """A socket that listens, its address for children, and the folder to remove later; "" where there is none."""
    if hasattr(socket, "AF_UNIX"):
        folder = tempfile.mkdtemp(prefix="traceforge-")  # readable by its owner alone
        path = os.path.join(folder, "run")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(path)
            listener.listen(128)
        except OSError:  # The path may have about 100 bytes, and TMPDIR is longer, or on a disk without sockets.
            listener.close()
            shutil.rmtree(folder, ignore_errors=True)
        else:
            return listener, f"unix:{path}", folder
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    return listener, f"tcp:127.0.0.1:{listener.getsockname()[1]}", ""


class ProcessListener:
    """Receives the reports of every process of one run."""

    def __init__(self, reports: ProcessReports) -> None:
        self._reports = reports
        self._listener, self.address, self._folder = bind_local_socket()
        self._connections: set[socket.socket] = set()
        self._last_frame_at = time.monotonic()
        self._closing = False
        self._accepting = threading.Thread(target=self._accept, name="traceforge listener", daemon=True)
        self._accepting.start()

    def close(self, timeout_s: float) -> None:
        """Read the last reports after the command has ended, for at most `timeout_s`."""
        until = time.monotonic() + timeout_s
        self._closing = True
        with suppress(OSError):
            connect(self.address).close()  # wakes the thread, which accepts the connections that still wait
        self._accepting.join(timeout_s)
        while self._connections and time.monotonic() < until:
            if time.monotonic() - self._last_frame_at > QUIET_S:
                break
            time.sleep(0.005)
        for connection in list(self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        while self._connections and time.monotonic() < until + QUIET_S:
            time.sleep(0.005)
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                self._listener.setblocking(not self._closing)
                connection, _ = self._listener.accept()
                connection.setblocking(True)
                self._last_frame_at = time.monotonic()
                self._connections.add(connection)
                threading.Thread(target=self._read_frames, args=(connection,), daemon=True).start()

    def _read_frames(self, connection: socket.socket) -> None:
        process = ProcessConnection(self._reports, connection.sendall)
        try:
            with connection, connection.makefile("rb", 1 << 16) as stream:
                while (frame := read_frame(stream.read)) is not None and process.handle_frame(*frame):
                    self._last_frame_at = time.monotonic()
        except (OSError, ValueError):
            self._reports.malformed += 1
        finally:
            process.close()
            self._connections.discard(connection)
