"""Recorders: sinks that turn exchanges into traces, without making the call wait.

In: exchanges, from any thread. Out: traces. Never: waits in `take`: an exchange that does not fit is counted as lost,
because an application must not slow down for being recorded.

`ThreadRecorder` works in a thread of this process, for hooks: a call costs its thread the `take` alone, and the few
calls a second of an application leave the interpreter time for the rest. `ProcessRecorder` hands exchanges to a
process of its own (`recorder_process.py`), for a proxy: redacting and writing a trace takes more CPU time than
relaying its call. They travel over a pair of sockets, never over a disk, because they still hold every secret.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Protocol
from weakref import WeakSet

from traceforge.capture.backlog import Backlog
from traceforge.capture.recording_counts import RecordingCounts
from traceforge.capture.trace_writer import RecorderSettings, TraceWriter
from traceforge.config import LoadedConfig
from traceforge.conversion import decode_msgpack, encode_msgpack
from traceforge.exchange import Exchange

BACKLOG_BYTES_MAX = 256 << 20  # Of exchanges that wait; beyond this, calls are counted as lost.
SENDING_BYTES_MAX = 32 << 20  # Of those, what may wait to be sent to the process: lost if this process is killed.
BATCH_BYTES_MAX = 256 << 10  # Sent to the process at once; the proxy waits while it is encoded.
CLOSE_SECONDS = 5.0  # How long closing makes files; the rest is safe in the spool, and the next command goes on.
FORK_SECONDS_MAX = 5.0  # A disk that stalls for longer must not stop a program that forks.
WRITE_SECONDS_MAX = (
    30.0  # How long closing writes what is only in memory: enough for a full backlog. The rest is lost.
)
BEHIND_BYTES = 2 << 20  # When more waits to be sent, four times as much is sent at once, and without a pause.
PAUSE_SECONDS = 0.02  # The sender gathers for this long, so that a busy proxy is not interrupted for every call.
STILL_AT_WORK = "the recorder had not finished in time, and goes on"

# What a thread brings upon itself. Blocked, it would end the process without a word of faulthandler.
THREAD_SIGNALS = {
    getattr(signal, name)
    for name in ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS", "SIGABRT")
    if hasattr(signal, name)
}

LENGTH = struct.Struct("<I")
_NO_LENGTH = bytes(LENGTH.size)
END_FRAME = struct.Struct("<Id")  # A length of 0, and for how many seconds to make files.


class Recorder(Protocol):
    """A sink that counts what it took, and can be closed."""

    def take(self, exchange: Exchange) -> None:
        """Accept an exchange at once, or count it as lost."""
        ...

    @property
    def counts(self) -> RecordingCounts:
        """The counts of all exchanges so far."""
        ...

    def close(self, seconds: float = CLOSE_SECONDS) -> RecordingCounts:
        """Write the accepted exchanges and turn them into files, for at most `seconds`; safe to call twice.

        What is `waiting` afterwards is written by another process, which goes on; everything else is `lost`.
        """
        ...


def exchange_size(exchange: Exchange) -> int:
    """About how many bytes of memory an exchange needs."""
    return 2_000 + len(exchange.request_body) + sum([len(chunk.data) + 100 for chunk in exchange.chunks])


class MemoryRecorder:
    """Keeps exchanges in memory, with all their secrets, for tests that want to see them."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.closed = False

    def take(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)

    @property
    def counts(self) -> RecordingCounts:
        return RecordingCounts(accepted=len(self.exchanges), recorded=len(self.exchanges))

    def close(self, seconds: float = CLOSE_SECONDS) -> RecordingCounts:
        self.closed = True
        return self.counts


class IdCollectingRecorder:
    """Wraps a recorder and collects the ids of its calls, in the order in which they ended."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.ids: list[str] = []

    def take(self, exchange: Exchange) -> None:
        self.ids.append(exchange.id)
        self._recorder.take(exchange)

    @property
    def counts(self) -> RecordingCounts:
        return self._recorder.counts

    def close(self, seconds: float = CLOSE_SECONDS) -> RecordingCounts:
        return self._recorder.close(seconds)


class ThreadRecorder:
    """Writes traces in a thread of this process. Files are made when it is closed, at the latest at exit.

    A forked child has no such thread, and may end without cleaning up (`os._exit`): there, `take` writes at once. A
    fork waits until no trace is being written: the redaction's expressions have locks, and one that is held during
    the fork would never be released in the child.
    """

    def __init__(self, settings: RecorderSettings) -> None:
        self._writer = TraceWriter(settings)
        self._backlog: Backlog[Exchange] = Backlog(BACKLOG_BYTES_MAX)
        self._closing = threading.Event()
        self._stopped = False
        self._owner_pid = os.getpid()
        self._write_lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="traceforge-recorder", daemon=True)
        _start_without_signals(self._thread)
        atexit.register(self.close)
        _thread_recorders.add(self)

    def take(self, exchange: Exchange) -> None:
        if os.getpid() == self._owner_pid:
            self._backlog.put(exchange, exchange_size(exchange))
            return
        with self._write_lock:
            self._writer.write(exchange)

    def pause_for_fork(self) -> bool:
        """Before a fork: write nothing from now on. False: a trace is still being written, and takes too long."""
        return self._write_lock.acquire(timeout=FORK_SECONDS_MAX)

    def resume_after_fork(self) -> None:
        self._write_lock.release()

    def reset_lock_in_child(self) -> None:
        """The thread that held the lock does not exist in a forked child."""
        self._write_lock = threading.Lock()

    @property
    def counts(self) -> RecordingCounts:
        counts = self._writer.counts
        counts.accepted, counts.lost = self._backlog.accepted, self._backlog.lost
        return counts

    def close(self, seconds: float = CLOSE_SECONDS) -> RecordingCounts:
        """Write the accepted exchanges, and make files for at most `seconds`: this process may be about to end."""
        if not self._stopped and os.getpid() == self._owner_pid:
            self._stopped = True
            atexit.unregister(self.close)
            self._closing.set()
            self._backlog.wake()
            self._thread.join(max(seconds, WRITE_SECONDS_MAX))
            if self._thread.is_alive():
                self._backlog.discard_all()
                self._thread.join(seconds)  # It is still at work on a batch.
            if not self._thread.is_alive():
                self._writer.write_files(seconds)
                self._writer.prune()
        return self.counts

    def _run(self) -> None:
        while True:
            batch = self._backlog.get(0.2, BATCH_BYTES_MAX)
            for exchange in batch:
                with self._write_lock:
                    self._writer.write(exchange)
            if not batch:
                self._writer.sync()
                if self._closing.is_set():
                    return


def _start_without_signals(thread: threading.Thread) -> None:
    """Start a thread that takes no signal of the process, because another thread may be waiting for it.

    `traceforge run` waits for the end of its command and for signals to pass on: one that came here instead ended
    `run` without its command, or was noticed half a second later.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        thread.start()
        return
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())  # Changes nothing: a handler that runs here may raise.
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - THREAD_SIGNALS)
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


_thread_recorders: WeakSet[ThreadRecorder] = WeakSet()
_paused = threading.local()  # recorders that a fork has paused; it begins and ends in one thread


def _pause_all() -> None:
    _paused.recorders = [recorder for recorder in list(_thread_recorders) if recorder.pause_for_fork()]


def _resume_all() -> None:
    for recorder in _paused.recorders:
        recorder.resume_after_fork()


def _reset_locks_in_child() -> None:
    for recorder in _thread_recorders:
        recorder.reset_lock_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_pause_all, after_in_parent=_resume_all, after_in_child=_reset_locks_in_child)


class ProcessRecorder:
    """Hands exchanges to a process of its own, which outlives this one until everything is written."""

    def __init__(self, settings: RecorderSettings) -> None:
        self._settings = settings
        self._backlog: Backlog[Exchange] = Backlog(min(SENDING_BYTES_MAX, BACKLOG_BYTES_MAX))
        self._closing = threading.Event()
        self._stopped = False
        self._deadline = 0.0  # when making files ends, once this is closing
        self._sent = 0
        self._finished_counts = RecordingCounts()  # of processes that died
        self._counts = RecordingCounts()
        self.is_starting = True  # Until the process reads: what it is sent before is lost if this one is killed.
        self._start_process()
        self._sender = threading.Thread(target=self._send_batches, name="traceforge-sender", daemon=True)
        self._sender.start()

    def take(self, exchange: Exchange) -> None:
        self._backlog.put(exchange, exchange_size(exchange))

    @property
    def counts(self) -> RecordingCounts:
        counts = self._finished_counts + self._counts
        counts.accepted = self._backlog.accepted
        counts.lost += self._backlog.lost
        return counts

    def close(self, seconds: float = CLOSE_SECONDS) -> RecordingCounts:
        if not self._stopped:
            self._stopped = True
            self._deadline = time.monotonic() + seconds
            self._closing.set()
            self._backlog.wake()
            self._sender.join(seconds)
            if self._sender.is_alive():
                self._backlog.discard_all()  # The other process does not read, and this one is about to end.
            self._reader.join(max(0.0, self._deadline - time.monotonic()) + 1)  # The last counts come when it ends.
            if self._reader.is_alive():
                self._finished_counts.troubles[STILL_AT_WORK] = 1
            else:
                self._finished_counts.lost += self._count_unreported()
            self._wait_for_process(0.1)
        return self.counts

    def _wait_for_process(self, seconds: float) -> None:
        """Wait for the process, but not for long: it ends by itself."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.returncode = 0  # Python would complain about a child that it has not waited for.
        if not self._reader.is_alive():
            self._socket.close()

    def _start_process(self) -> None:
        ours, theirs = socket.socketpair()
        # -P: modules in the current folder, which is a checkout, must not replace ours or those of the library.
        command = [sys.executable, "-P", "-m", "traceforge.capture.recorder_process", str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 (our own interpreter and module)
                command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, start_new_session=True
            )
        send_frame(ours, encode_msgpack(self._settings))
        self._socket = ours
        self._reader = threading.Thread(target=self._read_counts, args=(ours,), name="traceforge-counts", daemon=True)
        self._reader.start()

    def _send_batches(self) -> None:
        """In a thread of its own, the only one that writes to the socket, so that frames do not mix."""
        while True:
            is_behind = self._backlog.bytes > BEHIND_BYTES  # Each turn waits for the interpreter twice.
            batch = self._backlog.get(0.2, 4 * BATCH_BYTES_MAX if is_behind else BATCH_BYTES_MAX)
            if batch:
                self._send_batch(batch)
                if not is_behind:
                    self._closing.wait(PAUSE_SECONDS)
            elif self._closing.is_set():
                break
        with suppress(OSError):
            self._socket.sendall(END_FRAME.pack(0, max(0.0, self._deadline - time.monotonic())))
            self._socket.shutdown(socket.SHUT_WR)

    def _send_batch(self, batch: list[Exchange]) -> None:
        data = bytearray()
        for exchange in batch:
            at = len(data)
            data += _NO_LENGTH
            exchange.write_to(data)
            LENGTH.pack_into(data, at, len(data) - at - LENGTH.size)
        try:
            self._socket.sendall(data)
        except OSError:
            self._restart_process()
            try:
                self._socket.sendall(
                    data
                )  # A trace that both processes have written becomes one file: its id is its name.
            except OSError:
                self._finished_counts.lost += len(batch)
                return
        self._sent += len(batch)

    def _restart_process(self) -> None:
        """The process died. What it had written is on the disk; the rest is counted as lost."""
        self._reader.join(1)
        self._wait_for_process(1)
        self._finished_counts += self._counts
        self._finished_counts.lost += self._count_unreported()
        self._counts, self._sent = RecordingCounts(), 0
        self._start_process()

    def _count_unreported(self) -> int:
        return max(0, self._sent - self._counts.recorded - self._counts.lost - self._counts.failures)

    def _read_counts(self, connection: socket.socket) -> None:
        with suppress(OSError):
            while (data := receive_frame(connection)) is not None:
                self._counts = decode_msgpack(data, RecordingCounts)
                self.is_starting = False
        self.is_starting = False  # It has ended.


def send_frame(connection: socket.socket, data: bytes) -> None:
    connection.sendall(LENGTH.pack(len(data)) + data)


def receive_frame(connection: socket.socket) -> bytes | None:
    """The next frame; None at the end."""
    head = _receive_exactly(connection, LENGTH.size)
    return None if head is None else _receive_exactly(connection, LENGTH.unpack(head)[0])


def _receive_exactly(connection: socket.socket, size: int) -> bytes | None:
    parts: list[bytes] = []
    while size:
        data = connection.recv(min(size, 1 << 20))
        if not data:
            return None
        parts.append(data)
        size -= len(data)
    return b"".join(parts)


def open_thread_recorder(loaded: LoadedConfig) -> ThreadRecorder:
    """A recorder in a thread of this process, with the settings of a project."""
    return ThreadRecorder(RecorderSettings.from_project(loaded))
