"""Who made a connection: the program, and the test that it belongs to.

In: processes and threads of the command, and what its Pythons report about their tests. Out: a test and a program in
words. Never: guesses: without a test that is known, the scope is "".

A process belongs to the test that pytest had in the environment when the process was started; else, for pytest itself
and its forks, to the test that the nearest pytest among its ancestors began last.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from traceforge.capture.run.process_files import (
    describe_program,
    find_process,
    list_ancestors,
    list_pids,
    read_test,
)
from traceforge.capture.run.process_reports import ProcessReports

_TCP_FILES = ("/proc/net/tcp", "/proc/net/tcp6")


class ConnectionOrigin(NamedTuple):
    """The test and the program that made a connection."""

    scope: str = ""  # the test
    program: str = ""


class ProcessOrigins:
    """The origins of one run; `reports` are those of its Pythons."""

    def __init__(self, reports: ProcessReports) -> None:
        self._reports = reports

    def find(self, thread: int) -> ConnectionOrigin:
        """The origin of a connection that this process or thread makes."""
        pid = find_process(thread)
        return ConnectionOrigin(self._find_test(pid), describe_program(pid))

    def find_client(self, port: int, server_port: int, candidates: list[int]) -> ConnectionOrigin:
        """The process that has the connection from `port` of loopback to `server_port`; probably a candidate."""
        socket_name = _find_socket(port, server_port)
        for pid in dict.fromkeys([*candidates, *list_pids()]) if socket_name else ():
            with suppress(OSError):
                files = [f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd")]
                if any(_read_link(file) == socket_name for file in files):
                    return self.find(pid)
        return ConnectionOrigin()

    def _find_test(self, pid: int) -> str:
        current_tests = self._reports.current_tests
        if pid in current_tests:
            return current_tests[pid]
        started_in = read_test(pid)
        if started_in:
            return started_in
        return next((current_tests[ancestor] for ancestor in list_ancestors(pid) if ancestor in current_tests), "")


def _find_socket(port: int, server_port: int) -> str:
    """The name of a socket in `/proc/PID/fd`, by its own port and that of its server; "" where there is none."""
    for path in _TCP_FILES:
        with suppress(OSError, ValueError, IndexError), open(path, encoding="ascii") as file:
            for line in file.readlines()[1:]:
                fields = line.split()
                local, remote = (int(fields[place].rpartition(":")[2], 16) for place in (1, 2))
                if (local, remote) == (port, server_port):
                    return f"socket:[{fields[9]}]"
    return ""


def _read_link(path: str) -> str:
    with suppress(OSError):
        return os.readlink(path)
    return ""
