"""A filter of system calls that closes ways to a TCP connection which Landlock does not cover.

In: a thread that is about to be sealed. Out: the same, in which these fail with "permission denied":

    socket(…, MPTCP | SCTP | DCCP)               transports beside TCP; the first reaches any TCP server
    socket(SMC | RDS | TIPC | VSOCK, …)          families that leave this machine, too
    sendto, sendmsg, sendmmsg with MSG_FASTOPEN  opens a connection without `connect`
    io_uring_setup                               system calls that no filter sees

Never: looks behind a pointer, which a filter cannot. On an architecture that is not listed here, nothing is filtered;
Landlock still applies.

The filter is a program of classic BPF: eight bytes an instruction, `code, jump if true, jump if false, value`.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from typing import NamedTuple


class SyscallNumbers(NamedTuple):
    """The number of an architecture, and the numbers of its system calls."""

    audit: int
    socket: int
    sendto: int
    sendmsg: int
    sendmmsg: int
    io_uring_setup: int = 425


ARCHITECTURES = {
    "x86_64": SyscallNumbers(0xC000003E, 41, 44, 46, 307),
    "aarch64": SyscallNumbers(0xC00000B7, 198, 206, 211, 269),
}
X32_BIT = 0x40000000  # Calls of a second ABI of x86-64, which hardly any program uses.

PROTOCOLS = (33, 132, 262)  # DCCP, SCTP, MPTCP
FAMILIES = (21, 30, 40, 43)  # RDS, TIPC, VSOCK, SMC
MSG_FASTOPEN = 0x20000000

_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | 13  # EACCES, as Landlock says it
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE = 0, 4  # Places in what a filter is given.
_SET_SECCOMP, _MODE_FILTER = 22, 2


def install_filter(libc: ctypes.CDLL) -> None:
    """Filter the system calls of this thread and of what it starts; `no_new_privs` must be set.

    Raises:
        OSError: the kernel refused the filter.
    """
    calls = ARCHITECTURES.get(platform.machine())
    if calls is None or ctypes.sizeof(ctypes.c_void_p) != 8:
        return
    program = make_program(calls)
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))
    zero = ctypes.c_ulong(0)
    if libc.prctl(_SET_SECCOMP, ctypes.c_ulong(_MODE_FILTER), header, zero, zero):
        raise OSError(ctypes.get_errno(), f"seccomp: {os.strerror(ctypes.get_errno())}")


def make_program(calls: SyscallNumbers) -> bytes:
    """The filter; another architecture's calls (those of 32-bit programs) are let through."""
    lines = [
        _instruction(_LOAD, value=_ARCHITECTURE),
        _instruction(_EQUAL, 1, 0, calls.audit),
        _instruction(_RETURN, value=_ALLOW),
        _instruction(_LOAD, value=_NUMBER),
        _instruction(_AT_LEAST, 0, 1, X32_BIT),
        _instruction(_RETURN, value=_REFUSE),
        _instruction(_EQUAL, 0, 1, calls.io_uring_setup),
        _instruction(_RETURN, value=_REFUSE),
        *_refused_arguments(calls.socket, 2, PROTOCOLS),
        *_refused_arguments(calls.socket, 0, FAMILIES),
    ]
    for number, place in ((calls.sendto, 3), (calls.sendmsg, 2), (calls.sendmmsg, 3)):
        lines += _refused_arguments(number, place, (MSG_FASTOPEN,), _ANY_BIT)
    return b"".join([*lines, _instruction(_RETURN, value=_ALLOW)])


def _refused_arguments(number: int, place: int, values: tuple[int, ...], test: int = _EQUAL) -> list[bytes]:
    """Refuse a call by one of its arguments; for any other call, continue after this with its number loaded again."""
    checks = [
        part for value in values for part in (_instruction(test, 0, 1, value), _instruction(_RETURN, value=_REFUSE))
    ]
    block = [_instruction(_LOAD, value=16 + 8 * place), *checks, _instruction(_LOAD, value=_NUMBER)]
    return [_instruction(_EQUAL, 0, len(block), number), *block]


def _instruction(code: int, if_true: int = 0, if_false: int = 0, value: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
