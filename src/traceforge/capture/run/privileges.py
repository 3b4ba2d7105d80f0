"""What a sealed command must not inherit: capabilities of root, network sockets, and access to our memory.

In: the thread that starts the command. Out: the same, with less. Never: changes anything for an ordinary user: only
root has these capabilities.

Landlock and the filter of system calls do not bind root where a capability is enough: to read the environment of a
process outside (`CAP_PERFMON`), to build packets, to change routes, to load a module. A container has none of these
capabilities by default, so suites that run in one do not miss them.
"""

from __future__ import annotations

import ctypes
import os
import socket
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# NET_ADMIN, NET_RAW, SYS_MODULE, SYS_RAWIO, SYS_PTRACE, SYS_ADMIN, PERFMON, BPF, CHECKPOINT_RESTORE
DROPPED_CAPABILITIES = (12, 13, 16, 17, 19, 21, 38, 39, 40)
FIRST_OTHER_FILE = 3  # after the standard streams

_VERSION_3 = 0x20080522
_HEADER = struct.Struct("=Ii")  # version, process (0: this thread)
_SETS = struct.Struct("=6I")  # effective, permitted, inheritable; twice, each 32 capabilities
_GET_DUMPABLE, _SET_DUMPABLE, _DROP_FROM_BOUNDING_SET = 3, 4, 24


def drop_capabilities(libc: ctypes.CDLL) -> None:
    """Drop them for this thread and for everything that it starts; with `no_new_privs` they do not come back.

    Raises:
        OSError: the kernel refused.
    """
    header = ctypes.create_string_buffer(_HEADER.pack(_VERSION_3, 0))
    sets = ctypes.create_string_buffer(_SETS.size)
    if libc.capget(header, sets):
        raise OSError(ctypes.get_errno(), f"capget: {os.strerror(ctypes.get_errno())}")
    words = list(_SETS.unpack(sets.raw))
    kept_words = list(words)
    for number in DROPPED_CAPABILITIES:
        for place in range(3):
            kept_words[3 * (number // 32) + place] &= ~(1 << number % 32)
        zero = ctypes.c_ulong(0)
        libc.prctl(_DROP_FROM_BOUNDING_SET, ctypes.c_ulong(number), zero, zero, zero)  # only root may, and need
    if kept_words != words and libc.capset(header, _SETS.pack(*kept_words)):
        raise OSError(ctypes.get_errno(), f"capset: {os.strerror(ctypes.get_errno())}")


def withhold_network_sockets() -> None:
    """Let no internet socket that this process was given be passed on: it may be connected already.

    Pipes, files and Unix sockets stay, such as those of a job server or of a process substitution.
    """
    for name in os.listdir("/proc/self/fd"):
        file = int(name)
        with suppress(OSError):
            if file >= FIRST_OTHER_FILE and os.get_inheritable(file) and _is_network_socket(file):
                os.set_inheritable(file, False)


@contextmanager
def hidden_memory() -> Iterator[None]:
    """Let no process of the same user read the memory or the environment of this one: it has the real keys."""
    if not sys.platform.startswith("linux"):
        yield
        return
    libc, zero = ctypes.CDLL(None, use_errno=True), ctypes.c_ulong(0)
    before = libc.prctl(_GET_DUMPABLE, zero, zero, zero, zero)
    libc.prctl(_SET_DUMPABLE, zero, zero, zero, zero)
    try:
        yield
    finally:
        libc.prctl(_SET_DUMPABLE, ctypes.c_ulong(before == 1), zero, zero, zero)


def _is_network_socket(file: int) -> bool:
    if not stat.S_ISSOCK(os.fstat(file).st_mode):
        return False
    with socket.socket(fileno=os.dup(file)) as copy:
        return copy.family != socket.AF_UNIX
