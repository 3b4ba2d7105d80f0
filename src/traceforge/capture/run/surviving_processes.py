"""Processes that outlive the command.

In: the command, before it starts and after it has ended. Out: the processes of it that are still there. Never: ends
one, or waits long. Linux alone knows them; elsewhere nothing is reported.

Linux gives a process whose parent has ended to the nearest ancestor that asked for such orphans. We ask, so that a
daemon stays our descendant; and we take note of the end of those that we were given, as `init` would.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from contextlib import suppress

from traceforge.capture.run.process_files import describe_program, list_pids, read_status

SURVIVAL_S = 2.0  # What is on its way out has this long; pytest's helpers need some milliseconds.
POLL_S = 0.005
_SET_CHILD_SUBREAPER, _GET_CHILD_SUBREAPER = 36, 37
_IS_LINUX = sys.platform.startswith("linux")


class CommandDescendants:
    """The processes of one command, from before its start to after its end."""

    def __init__(self) -> None:
        self._is_known = _IS_LINUX and os.path.exists("/proc/self/stat")
        self._others = {*_list_children(os.getpid())} if self._is_known else set()  # of this process itself
        self._was_subreaper = _adopt_orphans(True)

    def close(self) -> None:
        """Orphans go to `init` again."""
        if not self._was_subreaper:
            _adopt_orphans(False)

    def reap_orphans(self, *waited_for: int) -> None:
        """Take the exit codes of processes whose parents have ended; those of `waited_for` are left to the caller."""
        if self._is_known:
            for pid in _list_children(os.getpid()):
                if pid not in waited_for and pid not in self._others:
                    with suppress(ChildProcessError):
                        os.waitpid(pid, os.WNOHANG)

    def list_survivors(self) -> list[str]:
        """The programs of processes that are still there after a little time, by name."""
        until = time.monotonic() + SURVIVAL_S
        while survivors := self._find_alive():
            if time.monotonic() > until:
                return sorted(filter(None, map(_describe_running, survivors)))
            time.sleep(POLL_S)
        return []

    def _find_alive(self) -> list[int]:
        if not self._is_known:
            return []
        self.reap_orphans()
        alive = [pid for pid in _list_children(os.getpid()) if pid not in self._others]
        for pid in alive:
            alive += _list_children(pid)
        return alive


def _adopt_orphans(is_on: bool) -> bool:
    """Whether orphans came to this process before."""
    if not _IS_LINUX:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    zero, before = ctypes.c_ulong(0), ctypes.c_int(0)
    libc.prctl(_GET_CHILD_SUBREAPER, ctypes.byref(before), zero, zero, zero)
    libc.prctl(_SET_CHILD_SUBREAPER, ctypes.c_ulong(is_on), zero, zero, zero)
    return bool(before.value)


def _list_children(pid: int) -> list[int]:
    """The processes that a process is the parent of; none where it has ended."""
    children: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                children += map(int, file.read().split())
        return children
    return [child for child in list_pids() if _find_parent(child) == pid]  # a kernel without these lists


def _find_parent(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError):
        return read_status(pid).parent
    return 0


def _describe_running(pid: int) -> str:
    """The program of a process; "" for one that has ended, and whose parent has not taken note of it."""
    with suppress(OSError, ValueError, IndexError):
        return describe_program(pid) if read_status(pid).state != "Z" else ""
    return ""
