"""Recorders: sinks that keep what they take, beside the call.

In: exchanges, from any thread. Out: traces. Never: waits in `take`: what does not fit any more is counted as lost,
because an application must not slow down for being watched.

`ThreadRecorder` works in a thread of this process, for hooks. `ProcessRecorder` hands exchanges to a process of its
own, for a proxy that must not share its core; they travel over a pair of sockets, never over a disk, because they
still hold every secret.
"""

from __future__ import annotations

import atexit
import os
import socket
import struct
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from typing import Protocol
from weakref import WeakSet

import msgspec
from msgspec import Struct, field

from traceforge.capture.keeper import Counts, Keeper, Setting
from traceforge.exchange import Exchange

BACKLOG_BYTES_MAX = 256 << 20  # Of exchanges that wait; beyond this, calls are counted as lost.
BATCH_BYTES_MAX = 1 << 20  # Sent at once to another process.
CLOSE_SECONDS = 5.0  # How long a stop works on what is left; the rest is safe, and the next command goes on.
NAP_SECONDS = 0.005  # A sender gathers for this long, so that a busy proxy is not woken for every call.

LENGTH = struct.Struct("<I")


class Recorded(Struct):
    """What became of the exchanges that a recorder took."""

    taken: int = 0
    lost: int = 0  # the backlog was full, or the process that keeps them died
    kept: int = 0
    failed: dict[str, int] = field(default_factory=dict)

    def by_result(self) -> dict[str, int]:
        """How many ended how; what is taken and not counted here is still on its way."""
        return {"recorded": self.kept, "lost": self.lost, "failed": sum(self.failed.values())}


class Recorder(Protocol):
    """A sink that can be asked and closed."""

    def take(self, exchange: Exchange) -> None:
        """Accept an exchange at once, or count it as lost."""
        ...

    @property
    def counts(self) -> Recorded:
        """What became of everything so far."""
        ...

    def close(self, seconds: float = CLOSE_SECONDS) -> Recorded:
        """Keep what was taken and turn it into files, for so long at most; safe to call twice."""
        ...


def size_of(exchange: Exchange) -> int:
    """About how much memory an exchange needs."""
    return 2_000 + len(exchange.request_body) + sum(len(chunk.data) + 100 for chunk in exchange.chunks)


class _Backlog:
    """Exchanges that wait, up to a size."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Exchange]] = deque()
        self._bytes = 0
        self._lock = threading.Lock()
        self._some = threading.Event()
        self.taken = 0
        self.lost = 0

    def put(self, exchange: Exchange) -> None:
        size = size_of(exchange)
        with self._lock:
            self.taken += 1
            if self._bytes + size > BACKLOG_BYTES_MAX:
                self.lost += 1
                return
            self._bytes += size
            self._waiting.append((size, exchange))
        if not self._some.is_set():
            self._some.set()

    def get(self, timeout: float | None, bytes_max: int) -> list[Exchange]:
        """Some that wait, oldest first; none where none came in time."""
        self._some.wait(timeout)
        batch: list[Exchange] = []
        room = bytes_max
        with self._lock:
            while self._waiting and room > 0:
                size, exchange = self._waiting.popleft()
                room -= size
                self._bytes -= size
                batch.append(exchange)
            if not self._waiting:
                self._some.clear()
        return batch

    def wake(self) -> None:
        self._some.set()


class MemoryRecorder:
    """Keeps exchanges in memory, with all their secrets, for tests that want to see them."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.closed = False

    def take(self, exchange: Exchange) -> None:
        """Keep it."""
        self.exchanges.append(exchange)

    @property
    def counts(self) -> Recorded:
        """Nothing is lost."""
        return Recorded(taken=len(self.exchanges), kept=len(self.exchanges))

    def close(self, seconds: float = CLOSE_SECONDS) -> Recorded:
        """Memory is where they stay."""
        self.closed = True
        return self.counts


class ThreadRecorder:
    """Keeps exchanges in a thread of this process. Files are made when it is closed, at the latest at exit.

    A forked child has no such thread, and may end without a word (`os._exit`): there, `take` keeps at once.
    """

    def __init__(self, setting: Setting) -> None:
        self._keeper = Keeper(setting)
        self._backlog = _Backlog()
        self._closing = threading.Event()
        self._stopped = False
        self._owner = os.getpid()
        self._child_lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="traceforge-recorder", daemon=True)
        self._thread.start()
        atexit.register(self.close)
        _thread_recorders.add(self)

    def take(self, exchange: Exchange) -> None:
        """Accept an exchange at once, or count it as lost."""
        if os.getpid() == self._owner:
            self._backlog.put(exchange)
            return
        with self._child_lock:
            self._keeper.keep(exchange)

    def renew_lock(self) -> None:
        """In a forked child: whoever held the lock is not here."""
        self._child_lock = threading.Lock()

    @property
    def counts(self) -> Recorded:
        """What became of everything so far."""
        kept = self._keeper.counts
        return Recorded(self._backlog.taken, self._backlog.lost, kept.kept, kept.failed)

    def close(self, seconds: float = CLOSE_SECONDS) -> Recorded:
        """Keep what was taken and turn it into files."""
        if not self._stopped and os.getpid() == self._owner:
            self._stopped = True
            atexit.unregister(self.close)
            self._closing.set()
            self._backlog.wake()
            self._thread.join(seconds)
            if not self._thread.is_alive():
                self._keeper.to_files(seconds)
                self._keeper.prune()
        return self.counts

    def _work(self) -> None:
        while True:
            batch = self._backlog.get(0.2, BATCH_BYTES_MAX)
            for exchange in batch:
                self._keeper.keep(exchange)
            if not batch:
                self._keeper.sync()
                if self._closing.is_set():
                    return


_thread_recorders: WeakSet[ThreadRecorder] = WeakSet()


def _renew_locks() -> None:
    for recorder in _thread_recorders:
        recorder.renew_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


class ProcessRecorder:
    """Keeps exchanges in a process of its own, which outlives this one until everything is kept."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._backlog = _Backlog()
        self._closing = threading.Event()
        self._stopped = False
        self._sent = 0
        self._before = Recorded()  # of processes that died
        self._counts = Counts()
        self._start()
        self._sender = threading.Thread(target=self._send, name="traceforge-sender", daemon=True)
        self._sender.start()

    def take(self, exchange: Exchange) -> None:
        """Accept an exchange at once, or count it as lost."""
        self._backlog.put(exchange)

    @property
    def counts(self) -> Recorded:
        """What became of everything so far."""
        failed = dict(self._before.failed)
        for reason, times in self._counts.failed.items():
            failed[reason] = failed.get(reason, 0) + times
        return Recorded(
            self._backlog.taken, self._backlog.lost + self._before.lost, self._before.kept + self._counts.kept, failed
        )

    def close(self, seconds: float = CLOSE_SECONDS) -> Recorded:
        """Keep what was taken and turn it into files."""
        if not self._stopped:
            self._stopped = True
            self._closing.set()
            self._backlog.wake()
            self._sender.join(seconds)
            with suppress(OSError):
                self._socket.sendall(LENGTH.pack(0) + struct.pack("<d", seconds))
                self._socket.shutdown(socket.SHUT_WR)
            self._reader.join(seconds + 1)  # The last counts come when everything is done.
            self._let_go(1)
        return self.counts

    def _let_go(self, seconds: float) -> None:
        """Wait for the process, not for ever: it goes on by itself."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.returncode = 0  # Python would complain about a child that it has not waited for.
        if not self._reader.is_alive():
            self._socket.close()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "traceforge.capture.recorder", str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 (our own interpreter and module)
                command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, start_new_session=True
            )
        setting = msgspec.msgpack.encode(self._setting)
        ours.sendall(LENGTH.pack(len(setting)) + setting)
        self._socket = ours
        self._reader = threading.Thread(target=self._read, args=(ours,), name="traceforge-counts", daemon=True)
        self._reader.start()

    def _send(self) -> None:
        while True:
            batch = self._backlog.get(0.2, BATCH_BYTES_MAX)
            if batch:
                self._send_batch(batch)
                self._closing.wait(NAP_SECONDS)
            elif self._closing.is_set():
                return

    def _send_batch(self, batch: list[Exchange]) -> None:
        frames = [exchange.to_bytes() for exchange in batch]
        data = b"".join(part for frame in frames for part in (LENGTH.pack(len(frame)), frame))
        try:
            self._socket.sendall(data)
        except OSError:
            self._restart()
            try:
                self._socket.sendall(data)  # A trace that both have kept is one file: its name says so.
            except OSError:
                self._before.lost += len(batch)
                return
        self._sent += len(batch)

    def _restart(self) -> None:
        """The other process died. What it had kept is on the disk; what was on its way is lost, and counted."""
        self._reader.join(1)
        self._let_go(1)
        self._before = self.counts
        self._before.lost = self._before.lost - self._backlog.lost + self._unknown()
        self._counts, self._sent = Counts(), 0
        self._start()

    def _unknown(self) -> int:
        return max(0, self._sent - self._counts.kept - self._counts.failures)

    def _read(self, connection: socket.socket) -> None:
        """Counts, as they come."""
        with suppress(OSError):
            while (data := receive_frame(connection)) is not None:
                self._counts = msgspec.msgpack.decode(data, type=Counts)


def receive_frame(connection: socket.socket) -> bytes | None:
    """One frame; None at the end."""
    head = _receive(connection, LENGTH.size)
    return None if head is None else _receive(connection, LENGTH.unpack(head)[0])


def _receive(connection: socket.socket, size: int) -> bytes | None:
    parts: list[bytes] = []
    while size:
        data = connection.recv(min(size, 1 << 20))
        if not data:
            return None
        parts.append(data)
        size -= len(data)
    return b"".join(parts)


def main() -> None:
    """The process of a `ProcessRecorder`: its descriptor is the only argument."""
    from traceforge.capture.receiver import serve

    with socket.socket(fileno=int(sys.argv[1])) as connection:
        os.set_inheritable(connection.fileno(), False)
        serve(connection)


if __name__ == "__main__":
    main()
