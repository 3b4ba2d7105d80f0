"""The connection on which a child process reports to `traceforge run`.

In: frames. Out: the same bytes, in order, in a local socket. Never: makes the application wait: what the socket does
not take at once waits in memory, and a thread sends it; so does what comes before the parent has taken the
connection. Beyond a limit, frames are dropped and counted.

The thread exists only while something waits, so that a process that forks has no thread because of us. What the
socket took is safe even where the process ends without cleaning up (`os._exit`).
"""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from collections import deque
from typing import Any

from .bootstrap import is_own_peer
from .frames import write_frame
from .worker_thread import running_loop

WAITING_BYTES_MAX = 64 << 20  # What may wait in memory; beyond it, calls are counted as lost.
CONNECT_S = 1.0  # How long a process waits for a connection; the system queues, so it hardly ever does.
STALLED_S = 5.0  # How long the thread waits for a parent that has stopped reading, or does not take the connection.
_CONNECTING = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.EINPROGRESS, errno.EALREADY})
_CONNECTED = frozenset({0, errno.EISCONN})


class FrameSender:
    """Sends frames. Safe to use from several threads, and across a fork."""

    def __init__(self, address: str, token: str) -> None:
        self._address = address
        self._token = token
        self.lost = 0  # frames of calls that could not be sent
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.RLock()
        self._socket: socket.socket | None = None
        self._inode = 0
        self._is_connected = False
        self._waiting: deque[memoryview] = deque()  # views, so that a large frame is not copied for each piece of it
        self._waiting_bytes = 0
        self._is_sending = False  # the thread, or `flush`, is at work
        self._is_closed = False

    def after_fork(self) -> None:
        """In a forked child: leave the parent's connection alone, and open another one when it is needed."""
        old, inode = self._socket, self._inode
        self._reset()
        self.lost = 0
        if old is not None and inode_of(old) == inode:
            old.close()  # our copy of it: the parent's stays open

    def send(self, frame: bytes) -> None:
        """Send a frame, or keep it to be sent, or count it as lost."""
        with self._lock:
            if self._is_closed or self._waiting_bytes + len(frame) > WAITING_BYTES_MAX:
                self.lost += 1
                return
            if self._waiting or not self._connect():
                self._enqueue(memoryview(frame))
                return
            sent = self._send_nowait(memoryview(frame))
            if sent < len(frame):
                self._enqueue(memoryview(frame)[sent:])

    def flush(self, stalled_s: float) -> None:
        """Send the waiting frames at the end of the process, unless the parent takes nothing for `stalled_s`."""
        waiting_bytes, deadline = self._waiting_bytes, time.monotonic() + stalled_s
        while self._waiting and time.monotonic() < deadline:
            if not self._is_sending:
                self._send_waiting(stalled_s, at_exit=True)
            else:
                time.sleep(0.005)
            if self._waiting_bytes < waiting_bytes:
                waiting_bytes, deadline = self._waiting_bytes, time.monotonic() + stalled_s

    def close(self) -> None:
        with self._lock:
            self._give_up()

    def _connect(self) -> bool:
        """Whether frames can be sent. Opens a connection where there is none; in an event loop, without waiting."""
        if self._is_closed:
            return False
        try:
            if self._socket is None or inode_of(self._socket) != self._inode:
                self._open_socket()
        except OSError:  # The application has no descriptor left, for now.
            return False
        assert self._socket is not None
        if not self._is_connected:
            self._socket.settimeout(CONNECT_S if running_loop() is None else 0)
            error = self._socket.connect_ex(self._target)
            self._socket.setblocking(False)
            if error in _CONNECTING:
                return False
            is_ours = error in _CONNECTED and is_own_peer(self._socket, self._address)
            self._is_connected = is_ours and self._send_hello()
            if not self._is_connected:
                self._give_up()
        return self._is_connected

    def _open_socket(self) -> None:
        if self._socket is not None:
            self._socket.detach()  # The application closed it, and may have its number again.
            self._socket = None
        self._socket, self._target = make_socket(self._address)
        self._inode = inode_of(self._socket)
        self._is_connected = False

    def _send_hello(self) -> bool:
        """A new connection has room for it."""
        hello = write_frame({"kind": "hello", "pid": os.getpid(), "token": self._token})
        return self._send_nowait(memoryview(hello)) == len(hello)

    def _send_nowait(self, data: memoryview) -> int:
        """How many bytes the socket takes at once."""
        assert self._socket is not None
        sent = 0
        try:
            while sent < len(data):
                sent += self._socket.send(data[sent:])
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._give_up()
        return sent

    def _enqueue(self, data: memoryview) -> None:
        if self._is_closed:
            self.lost += 1
            return
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if not self._is_sending:
            self._is_sending = True
            try:
                threading.Thread(target=self._send_waiting, name="traceforge", daemon=True).start()
            except RuntimeError:  # The interpreter is shutting down: `flush` sends it.
                self._is_sending = False

    def _send_waiting(self, stalled_s: float = STALLED_S, *, at_exit: bool = False) -> None:
        """Send until nothing waits, or the parent takes nothing for `stalled_s`; then give up, unless at exit."""
        stalled_at = time.monotonic() + stalled_s
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_sending = False
                    return
                first = self._waiting[0]  # It stays there until all of it is sent: `flush` waits for an empty queue.
                sent = self._send_nowait(first) if self._connect() else 0
                if self._is_closed:
                    continue
                self._waiting_bytes -= sent
                if sent < len(first):
                    self._waiting[0] = first[sent:]
                else:
                    self._waiting.popleft()
            if sent:
                stalled_at = time.monotonic() + stalled_s
            elif time.monotonic() > stalled_at:
                with self._lock:
                    self._is_sending = False
                    if not at_exit:
                        self._give_up()
                return
            if sent < len(first):
                time.sleep(0.001)

    def _give_up(self) -> None:
        """The parent is gone: what waits is lost, and all that follows."""
        self._is_closed = True
        self.lost += len(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        if self._socket is not None and inode_of(self._socket) == self._inode:
            self._socket.close()
        self._socket = None


def make_socket(address: str) -> tuple[socket.socket, Any]:
    """A socket for `unix:path` or `tcp:host:port`, and where to connect it to."""
    kind, _, path = address.partition(":")
    if kind == "unix":
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), path
    host, _, port = path.rpartition(":")
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM), (host, int(port))


def connect(address: str) -> socket.socket:
    """A connection to an address. Blocks until it is open: call it in a worker thread, not in an event loop.

    Raises:
        OSError: the run has ended, or belongs to another user.
    """
    connection, target = make_socket(address)
    try:
        connection.settimeout(CONNECT_S)
        connection.connect(target)
        if not is_own_peer(connection, address):
            raise ConnectionRefusedError("the run has ended")
    except OSError:
        connection.close()
        raise
    return connection


def inode_of(connection: socket.socket) -> int:
    """The inode, which identifies a socket although its descriptor may be reused; -1 where it is closed."""
    try:
        return os.fstat(connection.fileno()).st_ino
    except OSError:
        return -1
