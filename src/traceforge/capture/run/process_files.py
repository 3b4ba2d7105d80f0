"""What `/proc` tells about a process: its program, its parent, and the test that started it.

In: the id of a process or thread. Out: plain values. Never: slows the process down, or believes its name: a Python is
recognised by its file. Linux alone has these files.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from typing import NamedTuple

from msgspec import Struct

from traceforge.capture.hook.callsite import CURRENT_TEST_VARIABLE, parse_test
from traceforge.capture.hook.child_processes import looks_like_python
from traceforge.capture.run.python_files import is_loader, is_python_file

WORDS_MAX = 4
YAMA_FILE = "/proc/sys/kernel/yama/ptrace_scope"
YAMA_FORBIDS = 2  # to read the memory of one's own children, too
ANCESTORS_MAX = 100
ENVIRONMENT_BYTES_MAX = 4 << 20
MULTI_CALL_PROGRAMS = frozenset({"busybox", "coreutils", "toybox"})  # one file, many programs


class StartedProgram(NamedTuple):
    """One program that was started."""

    pid: int
    stack_start: str  # the address at which its stack begins
    name: str
    words: tuple[str, ...]
    is_python: bool
    is_hidden: bool = False  # the system does not tell us what it is

    @property
    def command_line(self) -> str:
        """For a report: the program and its script. Other words could be secrets, and build logs are public."""
        words = [os.path.basename(self.words[0]) if self.words else self.name]
        if not self.is_python:
            return " ".join([self.name, *filter(os.path.isfile, self.words[1:2])])
        for word in self.words[1:WORDS_MAX]:
            words.append(word if len(word) < 60 and word.isprintable() else "…")
            if word == "-c" or (word[:1] == "-" and word[1:2] != "-" and word.endswith("c")):
                words.append("…")
                break
            if not word.startswith("-"):
                break
        return " ".join(words)


class ProcessStatus(Struct, frozen=True):
    """The fields of `/proc/PID/stat` that we use."""

    state: str
    parent: int
    stack_start: str  # "0" where the process hides it


def list_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def read_status(pid: int | str) -> ProcessStatus:
    """
    Raises:
        OSError, ValueError, IndexError: the process has ended.
    """
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return ProcessStatus(fields[0].decode(), int(fields[1]), fields[25].decode())


def read_program(pid: int) -> StartedProgram:
    """The program that a process runs.

    Raises:
        OSError, ValueError, IndexError: the process has ended.
    """
    start = read_status(pid).stack_start
    try:
        path = os.fsencode(os.readlink(f"/proc/{pid}/exe")).decode(errors="replace")
        name = os.path.basename(path).removesuffix(" (deleted)")
    except PermissionError:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return StartedProgram(pid, f"{pid}", file.read().decode(errors="replace").strip(), (), False, True)
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        words = tuple(word.decode(errors="replace") for word in file.read().split(b"\0")[:-1])
    is_python = looks_like_python(name) or is_python_file(f"/proc/{pid}/exe")
    if is_loader(name):
        loaded = [word for word in words[1:] if not word.startswith("-") and os.path.isfile(word)]
        is_python = is_python or any(map(is_python_file, loaded))
    if name in MULTI_CALL_PROGRAMS and words:
        name = os.path.basename(words[0]) or name
    return StartedProgram(pid, start, name, words, is_python)


def find_process(thread: int) -> int:
    """The process of a thread; the thread itself where it has ended."""
    with suppress(OSError, ValueError, IndexError), open(f"/proc/{thread}/status", "rb") as file:
        return int(file.read().partition(b"\nTgid:")[2].split(None, 1)[0])
    return thread


def list_ancestors(pid: int) -> list[int]:
    """The process, its parent, and so on."""
    ancestors: list[int] = []
    with suppress(OSError, ValueError, IndexError):
        while pid > 1 and len(ancestors) < ANCESTORS_MAX:
            ancestors.append(pid)
            pid = read_status(pid).parent
    return ancestors


def is_own_process(pid: int) -> bool:
    """Whether a process runs as our user, and the system lets others of that user look into it."""
    with suppress(OSError):
        return os.stat(f"/proc/{pid}").st_uid == os.geteuid()
    return False


def read_environment(pid: int, names: Collection[str]) -> dict[str, str]:
    """Those of the variables with which a program was started; none where the system does not tell."""
    values: dict[str, str] = {}
    with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        for entry in file.read(ENVIRONMENT_BYTES_MAX).split(b"\0"):
            name, _, value = os.fsdecode(entry).partition("=")
            if name in names:
                values[name] = value
    return values


def read_test(pid: int) -> str:
    """The test that was running when the program was started, which pytest leaves in the environment; "" for none."""
    return parse_test(read_environment(pid, (CURRENT_TEST_VARIABLE,)).get(CURRENT_TEST_VARIABLE, ""))


def describe_program(pid: int) -> str:
    """The program of a process, for a report; "" where it has ended, or this is another system than Linux."""
    with suppress(OSError, ValueError, IndexError):
        return read_program(pid).command_line
    return ""


def reason_memory_is_hidden() -> str:
    """Why the addresses of connections cannot be read from the processes that make them; "" where they can."""
    with suppress(OSError, ValueError), open(YAMA_FILE, encoding="ascii") as file:
        if int(file.read()) >= YAMA_FORBIDS and os.geteuid() != 0:
            return "kernel.yama.ptrace_scope hides the addresses of connections"
    return ""


def find_protocol(pid: int, file: int) -> str:
    """The protocol of a socket, as the kernel calls it: `TCP`, `UDPv6`, `UNIX-STREAM`; "" where it is not known."""
    with suppress(OSError):
        name = os.getxattr(f"/proc/{pid}/fd/{file & 0xFFFFFFFF}", "system.sockprotoname")
        return name.rstrip(b"\0").decode("latin-1")
    return ""


def has_tcp_socket(pid: int) -> bool:
    """Whether a process has a TCP socket open, connected or not."""
    with suppress(OSError):
        return any(find_protocol(pid, int(file)).startswith("TCP") for file in os.listdir(f"/proc/{pid}/fd"))
    return False
