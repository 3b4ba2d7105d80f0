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
from typing import NamedTuple

from traceforge.capture.hook.child_processes import looks_like_python

SCAN_INTERVAL_S = 0.01
WORDS_MAX = 4
INFORMATION_OPTIONS = frozenset(("-V", "-VV", "--version", "-h", "--help", "-?", "--help-all", "--help-env"))


class StartedProgram(NamedTuple):
    """One program that was started."""

    pid: int
    stack_start: str  # the address at which its stack begins
    name: str
    words: tuple[str, ...]

    @property
    def command_line(self) -> str:
        """For a report: the code behind -c is left out."""
        words = [os.path.basename(self.words[0]) if self.words else self.name]
        for word in self.words[1:WORDS_MAX]:
            words.append(word if len(word) < 60 and word.isprintable() else "…")
            if word == "-c" or (word[:1] == "-" and word[1:2] != "-" and word.endswith("c")):
                words.append("…")
                break
        return " ".join(words)


class ProcessScan:
    """Scans the descendants of this process until it is closed."""

    def __init__(self) -> None:
        self._root = os.getpid()
        self._own_stack_start = ""  # also that of a child that has not started its program yet
        self._descendants: set[int] = set()
        self._unrelated: set[int] = set()
        self._programs: dict[tuple[str, str], StartedProgram] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if sys.platform.startswith("linux") and os.path.exists("/proc/self/stat"):
            self._own_stack_start = _stat("self")[1]
            self._unrelated = set(_pids())  # processes that were there before us
            self._thread = threading.Thread(target=self._scan_repeatedly, name="traceforge scan", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def uninstrumented_pythons(self, stack_starts: Collection[str], pids: Collection[int]) -> Counter[str]:
        """Pythons of which no process reported to us."""
        return Counter(
            program.command_line
            for program in self._programs.values()
            if looks_like_python(program.name)
            and program.stack_start not in stack_starts
            and program.pid not in pids
            and not INFORMATION_OPTIONS.intersection(program.words[1:2])
        )

    def other_programs(self, watched: Collection[int]) -> Counter[str]:
        """Programs that are not Python, except those in `watched`."""
        return Counter(
            program.name
            for program in self._programs.values()
            if program.name and not looks_like_python(program.name) and program.pid not in watched
        )

    def _scan_repeatedly(self) -> None:
        while not self._stop.wait(SCAN_INTERVAL_S):
            with suppress(OSError):
                self._scan()

    def _scan(self) -> None:
        alive = _pids()
        for pid in alive:
            if pid in self._unrelated:
                continue
            try:
                parent, start = _stat(pid)
            except (OSError, ValueError, IndexError):
                continue
            if parent == self._root or parent in self._descendants:
                self._descendants.add(pid)
            if pid not in self._descendants:
                self._unrelated.add(pid)
            else:
                self._add_program(pid, start)
        self._unrelated.intersection_update(alive)

    def _add_program(self, pid: int, start: str) -> None:
        with suppress(OSError):
            name = os.path.basename(os.readlink(f"/proc/{pid}/exe")).removesuffix(" (deleted)")
            if (start, name) in self._programs or start == self._own_stack_start:
                return
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = tuple(word.decode(errors="replace") for word in file.read().split(b"\0")[:-1])
            if _stat(pid)[1] == start:  # it did not start another program meanwhile
                self._programs[start, name] = StartedProgram(pid, start, name, words)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _stat(pid: int | str) -> tuple[int, str]:
    """The parent of a process, and the address at which its stack begins."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return int(fields[1]), fields[25].decode()
