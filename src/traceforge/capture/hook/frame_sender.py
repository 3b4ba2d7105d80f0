"""The line from a process that was entered to `traceforge run`.

In: frames. Out: the same bytes, in order, in a local socket. Never: makes the application wait: what the socket does
not take at once waits in memory, and a thread, for as long as there is something, brings it away. Beyond a limit it
is dropped and counted.

No thread is there while nothing waits, so that a process that forks is not one with threads on our account. What the
socket took is safe even where the process ends without a word (`os._exit`).
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import deque

from .frames import write_frame

WAITING_BYTES_MAX = 64 << 20  # What may wait in memory; beyond it, calls are counted as lost.
CONNECT_S = 1.0  # How long a process waits to be heard the first time; the system queues, so it hardly ever does.
PATIENCE_S = 5.0  # How long the thread waits for a reader that has stopped reading.


class Sender:
    """Sends frames. Safe to use from several threads, and across a fork."""

    def __init__(self, address: str, token: str) -> None:
        self._address = address
        self._token = token
        self.lost = 0  # frames of calls that could not be sent
        self._reset()

    def _reset(self) -> None:
        """As it was at the beginning: also in a child that was forked, whose parent keeps the connection."""
        self._lock = threading.RLock()
        self._socket: socket.socket | None = None
        self._inode = 0
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._bringing = False
        self._gone = False

    def after_fork(self) -> None:
        """Leave the parent's connection alone and begin anew when there is something to say."""
        old, inode = self._socket, self._inode
        self._reset()
        self.lost = 0
        if old is not None and inode_of(old) == inode:
            old.close()  # our copy of it: the parent's stays open

    def send(self, frame: bytes) -> None:
        """Send it, or keep it to be sent, or count it as lost."""
        with self._lock:
            if self._gone or self._waiting_bytes + len(frame) > WAITING_BYTES_MAX:
                self.lost += 1
                return
            if self._waiting or not self._connected():
                self._wait(frame)
                return
            taken = self._try(frame)
            if taken < len(frame):
                self._wait(frame[taken:])

    def flush(self, timeout_s: float) -> None:
        """Bring away what waits, for at most so long: at the end of the process."""
        until = time.monotonic() + timeout_s
        while self._waiting and time.monotonic() < until:
            if not self._bringing:
                self._bring(until)
            else:
                time.sleep(0.005)

    def close(self) -> None:
        """Say no more."""
        with self._lock:
            self._give_up()

    def _connected(self) -> bool:
        if self._gone:
            return False
        if self._socket is not None and inode_of(self._socket) == self._inode:
            return True
        if self._socket is not None:
            self._socket.detach()  # an application that closes everything closed it, and may have the number again
        try:
            self._socket = connect(self._address)
            self._inode = inode_of(self._socket)
            self._socket.sendall(write_frame({"kind": "hello", "pid": os.getpid(), "token": self._token}))
            self._socket.setblocking(False)
        except OSError:
            self._give_up()
        return self._socket is not None

    def _try(self, data: bytes) -> int:
        """How much of it the socket takes at once."""
        assert self._socket is not None
        taken = 0
        view = memoryview(data)
        try:
            while taken < len(data):
                taken += self._socket.send(view[taken:])
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._give_up()
        return taken

    def _wait(self, rest: bytes) -> None:
        if self._gone:
            self.lost += 1
            return
        self._waiting.append(rest)
        self._waiting_bytes += len(rest)
        if not self._bringing:
            self._bringing = True
            try:
                threading.Thread(target=self._bring, name="traceforge", daemon=True).start()
            except RuntimeError:  # the interpreter is on its way out: `flush` will do it
                self._bringing = False

    def _bring(self, until: float = 0.0) -> None:
        """Send what waits until nothing does."""
        patience = time.monotonic() + PATIENCE_S
        while True:
            with self._lock:
                if not self._waiting or not self._connected():
                    self._bringing = False
                    return
                first = self._waiting.popleft()
                taken = self._try(first)
                self._waiting_bytes -= taken
                if taken < len(first):
                    self._waiting.appendleft(first[taken:])
            if taken:
                patience = time.monotonic() + PATIENCE_S
            elif time.monotonic() > (until or patience):
                with self._lock:
                    self._bringing = False
                    if not until:
                        self._give_up()
                return
            if taken < len(first):
                time.sleep(0.001)

    def _give_up(self) -> None:
        """Nobody is there any more: what waits is lost, and all that comes."""
        self._gone = True
        self.lost += len(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        if self._socket is not None and inode_of(self._socket) == self._inode:
            self._socket.close()
        self._socket = None


def connect(address: str) -> socket.socket:
    """A connection to `unix:path` or `tcp:host:port`."""
    kind, _, place = address.partition(":")
    if kind == "unix":
        one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        target: object = place
    else:
        host, _, port = place.rpartition(":")
        one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        target = (host, int(port))
    try:
        one.settimeout(CONNECT_S)
        one.connect(target)  # type: ignore[arg-type]
    except OSError:
        one.close()
        raise
    return one


def inode_of(one: socket.socket) -> int:
    """What a socket is, whatever number it has; -1 where it is closed."""
    try:
        return os.fstat(one.fileno()).st_ino
    except OSError:
        return -1
