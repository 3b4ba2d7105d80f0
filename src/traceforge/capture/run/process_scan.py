"""The programs that a command started, and those that no hook watched.

In: `/proc`, scanned repeatedly while the command runs; later, which processes reported to us. Out: Pythons that were
not instrumented, and other programs by name. Never: slows a process down, or is complete: a program that ends between
two scans is missed. On other systems than Linux, nothing is known.

A fork runs the same program as its parent. The kernel puts the stack of a program at a random address when it starts
it, and forks keep that: so the address tells programs apart, and not their process ids.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Collection
from contextlib import suppress

from traceforge.capture.run.process_files import (
    StartedProgram,
    has_tcp_socket,
    list_pids,
    read_program,
    read_status,
)

SCAN_INTERVAL_S = 0.01
CLOSE_S = 30.0  # How long the end of a run waits for a scan; it takes milliseconds, unless the system stalls.
FIRST_STACK_BYTES_MAX = (
    64 << 10
)  # pointers to the words and variables of a program; far less than two stacks differ by
WORDLESS_SCANS_MAX = 50  # half a second at least: no program is being started for so long
INFORMATION_OPTIONS = frozenset(("-V", "-VV", "--version", "-h", "--help", "-?", "--help-all", "--help-env"))


class ProcessScan:
    """Scans the descendants of this process until it is closed."""

    def __init__(self) -> None:
        self._root = os.getpid()
        self._own_program: tuple[str, str] = "", ""  # also that of a child that has not started its program yet
        self._descendants: set[int] = set()
        self._unrelated: set[int] = set()
        self._programs: dict[tuple[str, str], StartedProgram] = {}
        self._known_starts: set[tuple[str, str]] = set()  # as they were seen: where a stack begins, and a file
        self._latest: dict[int, StartedProgram] = {}  # by process
        self._wordless_scans: Counter[int] = Counter()  # by process
        self._hiding: set[int] = set()  # processes whose file could not be read
        self._connecting: Counter[str] = Counter()
        self.looks_for_sockets = False  # where nobody else tells which programs try to connect
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if sys.platform.startswith("linux") and os.path.exists("/proc/self/stat"):
            self._own_program = read_status("self").stack_start, os.readlink("/proc/self/exe")
            self._unrelated = set(list_pids())  # processes that were there before us
            self._thread = threading.Thread(target=self._scan_repeatedly, name="traceforge scan", daemon=True)
            self._thread.start()

    def close(self) -> bool:
        """End the scan. False: it did not end, because the system keeps it waiting for a file of a process."""
        self._stop.set()
        if self._thread is None:
            return True
        self._thread.join(CLOSE_S)
        return not self._thread.is_alive()

    @property
    def descendants(self) -> list[int]:
        """Every process of the command that was seen."""
        return list(self._descendants)

    def add_process(self, pid: int) -> StartedProgram | None:
        """Add the program of a process that is certainly one of the command; None where it has ended."""
        with suppress(OSError, ValueError, IndexError):
            program = read_program(pid)
            self._programs.setdefault((program.stack_start, program.name), program)
            return program
        return None

    def uninstrumented_pythons(self, stack_starts: Collection[str]) -> Counter[str]:
        """Pythons of which no process reported to us."""
        return Counter(
            program.command_line
            for program in self._programs.values()
            if program.is_python
            and program.stack_start not in stack_starts
            and not INFORMATION_OPTIONS.intersection(program.words[1:2])
        )

    def hidden_programs(self) -> Counter[str]:
        """Programs of which the system does not tell us what they are."""
        return Counter(program.name for program in self._programs.values() if program.is_hidden)

    def connecting_programs(self) -> Counter[str]:
        """Programs that are not Python and had a TCP socket, with `looks_for_sockets`."""
        return Counter(self._connecting)

    def other_programs(self, watched: Collection[int]) -> Counter[str]:
        """Programs that are not Python, except those in `watched`."""
        return Counter(
            program.name
            for program in self._programs.values()
            if program.name and not program.is_python and program.pid not in watched
        )

    def _scan_repeatedly(self) -> None:
        while not self._stop.wait(SCAN_INTERVAL_S):
            with suppress(OSError):
                self._scan()

    def _scan(self) -> None:
        alive = list_pids()
        for pid in alive:
            if pid in self._unrelated:
                continue
            try:
                status = read_status(pid)
            except (OSError, ValueError, IndexError):
                continue
            if status.parent == self._root or status.parent in self._descendants:
                self._descendants.add(pid)
            if pid not in self._descendants:
                self._unrelated.add(pid)
            else:
                self._add_program(pid, status.stack_start)
                if self.looks_for_sockets and has_tcp_socket(pid):
                    self._add_connecting(pid)
        self._unrelated.intersection_update(alive)

    def _add_connecting(self, pid: int) -> None:
        program = self.add_process(pid)
        if program is not None and not program.is_python:
            self._connecting[program.name] += 1

    def _add_program(self, pid: int, start: str) -> None:
        with suppress(OSError, ValueError, IndexError):
            try:
                path = os.readlink(f"/proc/{pid}/exe")
            except PermissionError:
                if pid in self._hiding:  # Once may be a program that is just being started.
                    self.add_process(pid)
                self._hiding.add(pid)
                return
            if (start, path) in self._known_starts or (start, path) == self._own_program:
                return
            program = read_program(pid)
            if not program.words:  # The kernel is about to lay out the stack, or the program has hidden its words.
                self._wordless_scans[pid] += 1
                if self._wordless_scans[pid] < WORDLESS_SCANS_MAX:
                    return
            if read_status(pid).stack_start == start:  # it did not start another program meanwhile
                self._forget_first_layout(program)
                self._known_starts.add((start, path))
                self._programs[start, program.name] = program
                self._latest[pid] = program

    def _forget_first_layout(self, program: StartedProgram) -> None:
        """While the kernel starts a program, it moves the beginning of its stack down by what it puts there."""
        previous = self._latest.get(program.pid)
        if previous is not None and previous.name == program.name:
            distance = int(previous.stack_start) - int(program.stack_start)
            if 0 < distance < FIRST_STACK_BYTES_MAX:
                self._programs.pop((previous.stack_start, previous.name), None)
