"""A filter of system calls: closes ways to the network that Landlock does not cover, and hands connections to a
supervisor.

In: a thread that is about to be sealed. Out: the same, in which these fail with "permission denied":

    socket(family, …)              except for UNIX, INET, INET6, NETLINK and ALG, which is the kernel's cryptography
    socket(INET | INET6, type, …)  except for streams and datagrams: a raw socket builds its own TCP packets, and
                                   `SOCK_PACKET` is a second name of the packet family
    socket(INET | INET6, …, protocol)
                                   except for TCP, UDP and ping: MPTCP, SMC and SCTP are transports beside TCP
    sendto, sendmsg, sendmmsg      with MSG_FASTOPEN, which opens a connection without `connect`
    setsockopt                     of a source route or a network device: with it, loopback would be elsewhere
    io_uring_setup, bpf            what they do, no filter sees
    request_key                    the kernel starts a program outside of the seal, which may look a name up

With a listener, these wait until the supervisor (`connection_supervisor.py`) has decided about them: `connect`,
`sendmsg`, `sendmmsg`, and `sendto` with an address. So do the network calls of 32-bit programs, all of them; without
a listener they fail.

Never: looks behind a pointer, which a filter cannot. On an architecture that is not listed here, nothing is filtered;
Landlock still applies.

The filter is a program of classic BPF: eight bytes an instruction, `code, jump if true, jump if false, value`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from typing import NamedTuple


class SyscallNumbers(NamedTuple):
    """The number of an architecture, and the numbers of its system calls; then those of its 32-bit programs."""

    audit: int
    socket: int
    sendto: int
    sendmsg: int
    sendmmsg: int
    connect: int
    seccomp: int
    audit_32_bit: int
    network_32_bit: tuple[int, ...]
    bpf: int
    setsockopt: int
    request_key: int
    io_uring_setup: int = 425


ARCHITECTURES = {
    "x86_64": SyscallNumbers(
        0xC000003E, 41, 44, 46, 307, 42, 317, 0x40000003,
        (102, 287, 345, 357, 359, 362, 366, 369, 370, 425), 321, 54, 249
    ),  # 102: socketcall
    "aarch64": SyscallNumbers(
        0xC00000B7, 198, 206, 211, 269, 203, 277, 0x40000028,
        (281, 283, 290, 294, 296, 310, 374, 386, 425), 280, 208, 218
    ),
}  # fmt: skip
X32_BIT = 0x40000000  # Calls of a second ABI of x86-64, which hardly any program uses.

INTERNET_FAMILIES = (2, 10)
OTHER_FAMILIES = (1, 16, 38)  # UNIX, NETLINK, ALG
TYPES, TYPE_MASK = (1, 2), 0xF  # STREAM, DGRAM
PROTOCOLS = (0, 1, 6, 17, 58, 136)  # the default of a type, ICMP, TCP, UDP, ICMPv6, UDP-Lite
MSG_FASTOPEN = 0x20000000
# IP_OPTIONS, IP_UNICAST_IF; IPV6_2292PKTOPTIONS, IPV6_PKTINFO, IPV6_RTHDR, IPV6_UNICAST_IF; SO_BINDTODEVICE,
# SO_BINDTOIFINDEX. No privilege is needed for most of them.
ROUTE_OPTIONS = {0: (4, 50), 41: (6, 50, 57, 76), 1: (25, 62)}  # by level

_ALLOW, _REFUSE, _NOTIFY = 0x7FFF0000, 0x00050000 | 13, 0x7FC00000  # EACCES, as Landlock says it
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE = 0, 4  # Places in what a filter is given.
_SET_FILTER = 1
_NEW_LISTENER = 1 << 3
_WAIT_KILLABLE = 1 << 5  # Linux 5.19: a signal does not restart a call that the supervisor has taken.


def install_filter(libc: ctypes.CDLL) -> None:
    """Filter the system calls of this thread and of what it starts; `no_new_privs` must be set.

    Raises:
        OSError: the kernel refused the filter.
    """
    calls = find_architecture()
    if calls is not None:
        _install(libc, calls, make_program(calls), 0)


def install_listening_filter(libc: ctypes.CDLL) -> int:
    """The same, with a supervisor: the file descriptor on which it is notified.

    Raises:
        OSError: the kernel has no such notifications, or a supervisor is there already.
    """
    calls = find_architecture()
    if calls is None:
        raise OSError(errno.ENOSYS, f"seccomp: not known for {platform.machine()}")
    program = make_program(calls, has_listener=True)
    try:
        return _install(libc, calls, program, _NEW_LISTENER | _WAIT_KILLABLE)
    except OSError as exc:
        if exc.errno != errno.EINVAL:
            raise
        return _install(libc, calls, program, _NEW_LISTENER)


def find_architecture() -> SyscallNumbers | None:
    """The numbers of this machine; None where they are not known."""
    return ARCHITECTURES.get(platform.machine()) if ctypes.sizeof(ctypes.c_void_p) == 8 else None


def _install(libc: ctypes.CDLL, calls: SyscallNumbers, program: bytes, flags: int) -> int:
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))
    result = libc.syscall(
        ctypes.c_long(calls.seccomp), ctypes.c_uint(_SET_FILTER), ctypes.c_uint(flags), ctypes.c_char_p(header)
    )
    if result < 0:
        raise OSError(ctypes.get_errno(), f"seccomp: {os.strerror(ctypes.get_errno())}")
    return int(result)


def make_program(calls: SyscallNumbers, *, has_listener: bool = False) -> bytes:
    """The filter. `has_listener`: connections are decided by a supervisor."""
    verdict = _NOTIFY if has_listener else _REFUSE
    calls_32_bit = [
        _instruction(_LOAD, value=_NUMBER),
        *(
            line
            for number in calls.network_32_bit
            for line in (_instruction(_EQUAL, 0, 1, number), _instruction(_RETURN, value=verdict))
        ),
        _instruction(_RETURN, value=_ALLOW),
    ]
    lines = [
        _instruction(_LOAD, value=_ARCHITECTURE),
        _instruction(_EQUAL, 0, len(calls_32_bit), calls.audit_32_bit),
        *calls_32_bit,
        _instruction(_EQUAL, 1, 0, calls.audit),
        _instruction(_RETURN, value=_ALLOW),
        _instruction(_LOAD, value=_NUMBER),
        _instruction(_AT_LEAST, 0, 1, X32_BIT),
        _instruction(_RETURN, value=_REFUSE),
        _instruction(_EQUAL, 2, 0, calls.io_uring_setup),
        _instruction(_EQUAL, 1, 0, calls.request_key),
        _instruction(_EQUAL, 0, 1, calls.bpf),
        _instruction(_RETURN, value=_REFUSE),
        *_for_call(calls.socket, _check_socket()),
        *_for_call(calls.setsockopt, _check_option()),
    ]
    if has_listener:
        for number in (calls.connect, calls.sendmsg, calls.sendmmsg):
            lines += [_instruction(_EQUAL, 0, 1, number), _instruction(_RETURN, value=_NOTIFY)]
        lines += _notify_with_address(calls.sendto, 4)
    for number, place in ((calls.sendto, 3), (calls.sendmsg, 2), (calls.sendmmsg, 3)):
        lines += _refused_arguments(number, place, (MSG_FASTOPEN,), _ANY_BIT)
    return b"".join([*lines, _instruction(_RETURN, value=_ALLOW)])


def _refused_arguments(number: int, place: int, values: tuple[int, ...], test: int = _EQUAL) -> list[bytes]:
    """Refuse a call by one of its arguments; for any other call, continue after this with its number loaded again."""
    checks = [
        part for value in values for part in (_instruction(test, 0, 1, value), _instruction(_RETURN, value=_REFUSE))
    ]
    return _for_call(number, [_load_argument(place), *checks])


def _check_socket() -> list[bytes]:
    """Allow the sockets that are known, and refuse all others."""
    internet = [
        _load_argument(1),
        _instruction(_AND, value=TYPE_MASK),
        *_refuse_unless(TYPES),
        _load_argument(2),
        *_refuse_unless(PROTOCOLS),
        _instruction(_RETURN, value=_ALLOW),
    ]
    return [
        _load_argument(0),
        _instruction(_EQUAL, 1, 0, INTERNET_FAMILIES[0]),
        _instruction(_EQUAL, 0, len(internet), INTERNET_FAMILIES[1]),
        *internet,
        *_refuse_unless(OTHER_FAMILIES),
    ]


def _check_option() -> list[bytes]:
    """Refuse the options that lead what is sent to loopback elsewhere."""
    checks = []
    for level, options in ROUTE_OPTIONS.items():
        refused = [
            part
            for option in options
            for part in (_instruction(_EQUAL, 0, 1, option), _instruction(_RETURN, value=_REFUSE))
        ]
        checks += [_load_argument(1), _instruction(_EQUAL, 0, len(refused) + 1, level), _load_argument(2), *refused]
    return checks


def _refuse_unless(values: tuple[int, ...]) -> list[bytes]:
    """Refuse the call unless what is loaded is one of these values."""
    count = len(values)
    checks = [_instruction(_EQUAL, count - place, 0, value) for place, value in enumerate(values)]
    return [*checks, _instruction(_RETURN, value=_REFUSE)]


def _notify_with_address(number: int, place: int) -> list[bytes]:
    """Notify of a call whose argument at `place` is a pointer that is not null."""
    return _for_call(
        number,
        [
            _load_argument(place),
            _instruction(_EQUAL, 1, 0, 0),
            _instruction(_RETURN, value=_NOTIFY),
            _instruction(_LOAD, value=16 + 8 * place + 4),  # its upper half
            _instruction(_EQUAL, 1, 0, 0),
            _instruction(_RETURN, value=_NOTIFY),
        ],
    )


def _for_call(number: int, lines: list[bytes]) -> list[bytes]:
    block = [*lines, _instruction(_LOAD, value=_NUMBER)]
    return [_instruction(_EQUAL, 0, len(block), number), *block]


def _load_argument(place: int) -> bytes:
    return _instruction(_LOAD, value=16 + 8 * place)


def _instruction(code: int, if_true: int = 0, if_false: int = 0, value: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
