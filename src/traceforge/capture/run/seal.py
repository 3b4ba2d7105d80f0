"""The seal: no process of the command can open a TCP connection, except to the ports that the test needs.

In: ports. Out: a thread whose children are sealed, by Landlock (Linux 6.7 and later, no root needed). Never: seals
this process itself: the kernel seals one thread, and what that thread starts inherits it, across fork, exec and
any environment that a child is given. Nothing takes it off again.

Landlock knows ports and no addresses, connections of TCP and nothing else. Beside it stands a filter of system calls
(`syscall_filter.py`): it closes ways around `connect`, and where the kernel allows it hands every connection to a
supervisor (`connection_supervisor.py`), which knows addresses and names who was refused. Landlock enforces even if
the supervisor ends. `no_new_privs`, which both need, also means that no program of the command gains
privileges: `sudo` does not work in it.

Landlock also keeps sealed processes from attaching to processes outside, and from Linux 6.12 on from signalling them
and from their abstract Unix sockets. What root could still do, `privileges.py` takes away.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
import threading
from collections.abc import Callable, Collection
from queue import SimpleQueue
from typing import NamedTuple, TypeVar

from traceforge.capture.run.privileges import drop_capabilities, withhold_network_sockets
from traceforge.capture.run.syscall_filter import find_architecture, install_filter, install_listening_filter

ABI_MIN = 4  # The first that knows about TCP.
ABI_WITH_SCOPES = 6

# The numbers are the same on every architecture that Landlock is likely to meet.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_CONNECT_TCP = 1 << 1
_SCOPES = 0b11  # abstract Unix sockets, and signals, of processes outside
_RULE_NET_PORT = 2
_SET_NO_NEW_PRIVS = 38

# Ways out of a test, in the words of a report.
TCP = "TCP connections"
HOSTS_AT_OPEN_PORTS = "other hosts at the ports of this run"
DATAGRAMS = "datagrams to other machines"
LOOK_UPS = "look-ups at name servers"
OTHER_SOCKETS = "packet and raw sockets, and other transports"
OTHER_PROCESSES = "memory and environment of other processes"
ABSTRACT_SOCKETS = "abstract Unix sockets and signals of other processes"
PATH_SOCKETS = "Unix sockets with a path"
KERNEL_WAYS = (TCP, OTHER_SOCKETS, OTHER_PROCESSES, ABSTRACT_SOCKETS)
SUPERVISED_WAYS = (HOSTS_AT_OPEN_PORTS, DATAGRAMS, LOOK_UPS)
ALL_WAYS = (*KERNEL_WAYS, *SUPERVISED_WAYS, PATH_SOCKETS)

Result = TypeVar("Result")
OnListener = Callable[[int, str], object]  # gets the supervisor's file descriptor, or -1 and why there is none


class SealStatus(NamedTuple):
    """Whether a run was sealed, and whether refused connections are named."""

    is_sealed: bool
    why: str = ""  # why it was not
    ports: tuple[str, ...] = ()  # that the project allows
    why_not_named: str = ""  # why nobody can tell who was refused; "" where refusals are named
    gaps: tuple[str, ...] = ()  # what a seal closes elsewhere, and this system does not allow us to close

    @property
    def word(self) -> str:
        """The word in a report."""
        if not self.is_sealed:
            return "hooks only"
        return "sealed, refusals not named" if self.why_not_named else "sealed"

    @property
    def names_refusals(self) -> bool:
        """Whether every refused connection is known, with the program that made it."""
        return self.is_sealed and not self.why_not_named

    @property
    def closed(self) -> list[str]:
        """The ways out that were closed for every program of the command, in the words of a report."""
        ways = KERNEL_WAYS + (SUPERVISED_WAYS if self.names_refusals else ()) if self.is_sealed else ()
        return [way for way in ways if way not in self.gaps]

    @property
    def not_closed(self) -> list[str]:
        """The ways out that stayed open for programs without a hook."""
        return [way for way in ALL_WAYS if way not in self.closed]


def reason_not_sealable() -> str:
    """Why this system cannot seal a run; "" where it can."""
    if not sys.platform.startswith("linux"):
        return "Landlock exists on Linux only"
    abi = _landlock_version(_libc())
    if abi < 0:
        return f"this kernel ({platform.release()}) has no Landlock, or it is switched off"
    if abi < ABI_MIN:
        return f"Landlock of this kernel ({platform.release()}) cannot restrict TCP: Linux 6.7 or later can"
    try:
        run_sealed(lambda: None, ())
    except OSError as exc:
        return f"sealing failed ({exc.strerror})"
    return ""


def find_gaps() -> tuple[str, ...]:
    """What the kernel of this system cannot close, of `KERNEL_WAYS`."""
    can_close = {
        OTHER_SOCKETS: find_architecture() is not None,
        ABSTRACT_SOCKETS: _landlock_version(_libc()) >= ABI_WITH_SCOPES,
    }
    return tuple(way for way, is_closed in can_close.items() if not is_closed)


def run_sealed(work: Callable[[], Result], ports: Collection[int], on_listener: OnListener | None = None) -> Result:
    """Call `work` in a thread that may connect to these ports only; so may the processes that it starts. Where
    `on_listener` is given, their connections wait for a supervisor, if the kernel allows one.

    Raises:
        OSError: the thread could not be sealed, and `work` was not called.
    """
    results: list[Result] = []
    errors: list[BaseException] = []
    listeners: SimpleQueue[tuple[int, str] | None] = SimpleQueue()
    is_supervised = threading.Event()

    def run() -> None:
        try:
            listeners.put(_seal_thread(ports, wants_listener=on_listener is not None))
            is_supervised.wait()
            results.append(work())
        except BaseException as exc:  # noqa: BLE001 (raised again where it belongs)
            errors.append(exc)
            listeners.put(None)

    thread = threading.Thread(target=run, name="traceforge sealed")
    thread.start()
    listener = listeners.get()
    try:
        if listener is not None and on_listener is not None:
            on_listener(*listener)  # Not in the sealed thread: a supervisor that it starts would wait for itself.
    finally:
        is_supervised.set()
        thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _seal_thread(ports: Collection[int], *, wants_listener: bool) -> tuple[int, str]:
    """The listener of the thread's connections, or -1 and the reason."""
    libc = _libc()
    withhold_network_sockets()
    drop_capabilities(libc)
    attribute = struct.pack("=QQ", 0, _CONNECT_TCP)  # nothing of files, connections of TCP
    if _landlock_version(libc) >= ABI_WITH_SCOPES:
        attribute += struct.pack("=Q", _SCOPES)
    ruleset = _call(libc, _CREATE_RULESET, attribute, ctypes.c_size_t(len(attribute)), ctypes.c_uint32(0))
    try:
        for port in ports:
            rule = struct.pack("=QQ", _CONNECT_TCP, port)
            _call(libc, _ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_RULE_NET_PORT), rule, ctypes.c_uint32(0))
        zero = ctypes.c_ulong(0)
        if libc.prctl(_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero):
            raise OSError(ctypes.get_errno(), "no_new_privs")
        _call(libc, _RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)
    why = ""
    if wants_listener:
        try:
            return install_listening_filter(libc), ""
        except OSError as exc:
            why = exc.strerror or str(exc)
    install_filter(libc)
    return -1, why


def _landlock_version(libc: ctypes.CDLL) -> int:
    """The version of Landlock that the kernel has; negative where it has none."""
    return int(libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION)))


def _call(libc: ctypes.CDLL, number: int, *args: object) -> int:
    result = int(libc.syscall(ctypes.c_long(number), *args))
    if result < 0:
        raise OSError(ctypes.get_errno(), f"Landlock: {os.strerror(ctypes.get_errno())}")
    return result


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc
