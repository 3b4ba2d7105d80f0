"""Run a Python program in a sealed run, with a supervisor and without a project."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection

import pytest

from traceforge.capture.hook.tripwire import Tripwire
from traceforge.capture.run.connection_supervisor import ConnectionSupervisor
from traceforge.capture.run.socket_addresses import Destination
from traceforge.capture.run.spawn import blocked_signals, run_process
from traceforge.capture.run.syscall_filter import find_architecture

Refusal = tuple[str, str]


class SupervisedRun:
    """One Python program in a sealed run with a supervisor."""

    def __init__(
        self,
        on_refusal: Callable[[int, str, str], object] | None = None,
        before_connect: Callable[[], object] = lambda: None,
    ) -> None:
        self.refusals: list[Refusal] = []
        self.allowed: list[int] = []
        self.failure = ""
        self._before_connect = before_connect
        self._on_refusal = on_refusal or (lambda _, address, why: self.refusals.append((address, why)))

    def run(self, program: str, *ports: int, own_ports: Collection[int] = ()) -> int:
        """The exit code of the program; `ports` are open on loopback, `own_ports` at 127.0.0.1."""
        supervisors: list[ConnectionSupervisor] = []
        calls = find_architecture()
        assert calls is not None

        def start(listener: int, why: str) -> None:
            if listener < 0:
                pytest.skip(why)
            allowed = ",".join(f"{port}-{port}" for port in ports)
            rules = Tripwire(f"{allowed}|||{','.join(map(str, own_ports))}", "", "")
            supervisors.append(
                ConnectionSupervisor(
                    listener,
                    calls,
                    rules,
                    on_refusal=self._on_refusal,
                    on_allowed=self._note_allowed,
                    on_unread=lambda _: None,
                )
            )

        with blocked_signals() as mask:
            code = run_process([sys.executable, "-ISc", program], os.environ, mask, {*ports, *own_ports}, start)
        supervisors[0].close()
        self.failure = supervisors[0].failure
        return code

    def _note_allowed(self, _thread: int, _file: int, destination: Destination) -> None:
        self.allowed.append(destination.port)
        self._before_connect()
