"""Several workers on one port, and the process that supervises them.

Linux spreads connections over sockets that share a port; on other systems there is one worker. A worker reports over
a pipe that it is ready and, at its end, its totals. A second pipe, to which nothing is written, closes when the
supervisor is gone.

Never: serves a call itself, leaves a worker behind, or gives up the port because one worker died.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from traceforge.capture.proxy.call_recording import report_to_stderr
from traceforge.capture.proxy.worker import OpenRecorder, ProxySettings, run_worker
from traceforge.conversion import decode_json, encode_json
from traceforge.http.bound_socket import bind_socket

RESTART_SECONDS_MIN = 0.5  # Between two starts of a worker, so that one that dies at once keeps no core busy.
READY = b"r"


class WorkerSupervisor:
    """Starts the workers, and restarts those that die."""

    def __init__(self, settings: ProxySettings, sock: socket.socket, open_recorder: OpenRecorder) -> None:
        """`sock` reserves the address and never listens: each worker binds a socket of its own."""
        self._settings = settings
        self._sock = sock
        self._open_recorder = open_recorder
        self._pipes: dict[int, tuple[int, int]] = {}  # By process id: the worker's number, and its pipe.
        self._lifeline, self._lifeline_end = os.pipe()
        self._signals = 0
        self._restarted = 0

    def run(self, ready: Callable[[], None]) -> dict[str, int]:
        """Run the workers until a signal stops them. Returns the sum of their totals."""
        for stop_signal in (signal.SIGTERM, signal.SIGINT):
            signal.signal(stop_signal, self._forward_signal)
        for reading_end in [self._start(number) for number in range(self._settings.workers)]:
            os.read(reading_end, 1)  # READY, or nothing if it died first.
        if not self._signals:
            ready()
        totals: Counter[str] = Counter()
        while self._pipes:
            totals.update(self._wait_for_worker())
        return {**totals, "restarted": self._restarted}

    def _forward_signal(self, number: int, _frame: object) -> None:
        self._signals += 1
        for process in list(self._pipes):
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def _start(self, number: int) -> int:
        """Fork a worker. Returns the pipe that it reports to."""
        reading_end, writing_end = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
        process = os.fork()
        if not process:
            os.close(reading_end)
            os.close(self._lifeline_end)
            _run_child(self._settings, self._sock, self._open_recorder, number, self._lifeline, writing_end)
        os.close(writing_end)
        self._pipes[process] = (number, reading_end)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))
        return reading_end

    def _wait_for_worker(self) -> dict[str, int]:
        """Wait until a worker ends, and start it again if no signal stopped it. Returns its totals."""
        process, status = os.waitpid(-1, 0)
        if process not in self._pipes:
            return {}
        number, reading_end = self._pipes.pop(process)
        with os.fdopen(reading_end, "rb") as pipe:
            totals = pipe.read().removeprefix(READY)  # Nobody waited for a worker that was started again.
        if not self._signals:
            self._restarted += 1
            report_to_stderr(f"worker {number} ended ({os.waitstatus_to_exitcode(status)}) and is started again")
            time.sleep(RESTART_SECONDS_MIN)
            if not self._signals:
                self._start(number)
        return decode_json(totals, dict[str, int]) if totals else {}


def _run_child(
    settings: ProxySettings,
    reserved: socket.socket,
    open_recorder: OpenRecorder,
    number: int,
    lifeline: int,
    writing_end: int,
) -> None:
    """Run as a worker; never returns."""
    code = 1
    try:
        os.setpgid(0, 0)  # Ctrl-C goes to the supervisor, which forwards it once.
        for stop_signal in (signal.SIGTERM, signal.SIGINT):
            signal.signal(stop_signal, signal.SIG_DFL)
        sock = bind_socket(settings.host, reserved.getsockname()[1], shared=True)
        totals = run_worker(
            settings, sock, open_recorder, lambda: _report_ready(writing_end), number=number, lifeline=lifeline
        )
        os.write(writing_end, encode_json(totals))
        code = 0
    except BaseException as exc:  # noqa: BLE001 (a forked process must not run on as its parent)
        report_to_stderr(f"worker {number} failed: {type(exc).__name__}: {exc}")
    finally:
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)


def _report_ready(writing_end: int) -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))
    os.write(writing_end, READY)
