"""Several workers on one port, and the process that minds them.

In: settings and how many. Out: the sum of what they counted. Never: serves a call itself, leaves a worker behind, or
gives up on a port because one worker died. Linux spreads connections over sockets that share a port; elsewhere there
is one worker.

A worker tells us over a pipe that it is ready, and at its end what it counted; a second pipe, which we never write
to, tells a worker that we are gone.
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

import msgspec

from traceforge.capture.proxy.call_recording import say
from traceforge.capture.proxy.worker import OpenSink, Settings, run_worker
from traceforge.conversion import decode_json
from traceforge.http.serving import bind_socket

RESTART_SECONDS_MIN = 0.5  # Between two starts of one worker: one that dies at once must not keep a core busy.
READY = b"r"


class Workers:
    """The parent of the workers."""

    def __init__(self, settings: Settings, sock: socket.socket, open_sink: OpenSink) -> None:
        """`sock` holds the address and never listens: each worker binds one of its own beside it."""
        self._settings = settings
        self._sock = sock
        self._open_sink = open_sink
        self._pipes: dict[int, tuple[int, int]] = {}  # by process: its number, and where it speaks
        self._lifeline, self._held = os.pipe()
        self._signals = 0
        self._restarted = 0

    def run(self, ready: Callable[[], None]) -> dict[str, int]:
        """Start all, mind them until they were told to stop; what they counted."""
        for one in (signal.SIGTERM, signal.SIGINT):
            signal.signal(one, self._pass_on)
        for number in range(self._settings.workers):
            self._start(number)
        if not self._signals:
            ready()
        counted: Counter[str] = Counter()
        while self._pipes:
            counted.update(self._mind())
        return {**counted, "restarted": self._restarted}

    def _pass_on(self, number: int, _frame: object) -> None:
        self._signals += 1
        for process in list(self._pipes):
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def _start(self, number: int) -> None:
        """Fork a worker, and wait until it listens."""
        hear, speak = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
        process = os.fork()
        if not process:
            os.close(hear)
            os.close(self._held)
            _work(self._settings, self._sock, self._open_sink, number, self._lifeline, speak)
        os.close(speak)
        self._pipes[process] = (number, hear)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))
        os.read(hear, 1)  # READY, or nothing, where it died first.

    def _mind(self) -> dict[str, int]:
        """Wait for the end of a worker; one that nobody stopped is started again."""
        process, status = os.waitpid(-1, 0)
        if process not in self._pipes:
            return {}
        number, hear = self._pipes.pop(process)
        with os.fdopen(hear, "rb") as pipe:
            told = pipe.read()
        if not self._signals:
            self._restarted += 1
            say(f"worker {number} ended ({os.waitstatus_to_exitcode(status)}) and is started again")
            time.sleep(RESTART_SECONDS_MIN)
            if not self._signals:
                self._start(number)
        return decode_json(told, dict[str, int]) if told else {}


def _work(
    settings: Settings, held: socket.socket, open_sink: OpenSink, number: int, lifeline: int, speak: int
) -> None:
    """The life of a worker; it never returns."""
    code = 1
    try:
        os.setpgid(0, 0)  # Ctrl-C is for the parent, which passes it on once.
        for one in (signal.SIGTERM, signal.SIGINT):
            signal.signal(one, signal.SIG_DFL)
        sock = bind_socket(settings.host, held.getsockname()[1], shared=True)
        counted = run_worker(settings, sock, open_sink, lambda: _ready(speak), number=number, lifeline=lifeline)
        os.write(speak, msgspec.json.encode(counted))
        code = 0
    except BaseException as exc:  # noqa: BLE001 (a forked process must not run on as its parent)
        say(f"worker {number} failed: {type(exc).__name__}: {exc}")
    finally:
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)


def _ready(speak: int) -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))
    os.write(speak, READY)
