"""The supervisor of a sealed command: decides about each connection, and reports who made one that is refused.

In: notifications of the kernel about calls that wait (`syscall_filter.py`), and the rules of the run. Out: refusals,
with the process, for the report of the run. Never: the only thing between a program and the network: what it lets
continue, Landlock checks again, because another thread of the program may change the address in the meantime. Never
waits for anything itself: a program that waits for it would wait longer.

    connect      to a TCP port: as `tripwire.py` decides; of a datagram socket: sends nothing and is how programs
                 learn their own address, so it is allowed, but the socket cannot send afterwards. QUIC's port is
                 refused, and a name server may be asked
    sendto, …    a datagram to another machine is refused; so is a query for the address of a host, by its name

If the supervisor ends, the kernel lets the calls that wait for it fail with "function not implemented". Nothing
hangs, nothing is let through, and the run is unchecked.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from traceforge.capture.hook.tripwire import REMOTE, Tripwire, is_loopback
from traceforge.capture.run.process_files import find_protocol
from traceforge.capture.run.socket_addresses import (
    ADDRESS_BYTES_MAX,
    DNS_BYTES_MAX,
    Destination,
    parse_address,
    parse_dns_query,
)
from traceforge.capture.run.socket_copies import copy_socket
from traceforge.capture.run.syscall_filter import MSG_FASTOPEN, SyscallNumbers

CALL_32_BIT = "an address that a 32-bit program has"  # The arguments of such a call are not read.
QUIC_PORT, DNS_PORT = 443, 53
MESSAGES_MAX = 1024  # of one `sendmmsg`: the kernel's own limit

_RECEIVE, _SEND, _IS_VALID, _SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082102, 0x40082104
_SYNCHRONOUS = 1
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")  # id, thread, flags, number, architecture, place, arguments
_RESPONSE = struct.Struct("=QqiI")  # id, value, error, flags
_CONTINUE = 1
_MESSAGE = struct.Struct("=QIIQQQQII")  # name, its length, parts, their number, control, its length, flags
_MESSAGE_STEP = 64  # of one message in the list of `sendmmsg`
_PART = struct.Struct("=QQ")

OnRefusal = Callable[[int, str, str], object]  # process or thread, address, why
# Process or thread, its socket and where it connects: the result of the call, or None: it continues.
OnAllowed = Callable[[int, int, Destination], int | None]
OnUnread = Callable[[int], object]  # process or thread


class SupervisedCall(NamedTuple):
    """One system call that waits for a decision."""

    id: int
    thread: int
    number: int
    architecture: int
    arguments: tuple[int, ...]


class ConnectionSupervisor:
    """Answers notifications in a thread of its own until it is closed."""

    def __init__(
        self,
        listener: int,
        calls: SyscallNumbers,
        rules: Tripwire,
        *,
        on_refusal: OnRefusal,
        on_allowed: OnAllowed,
        on_unread: OnUnread,
    ) -> None:
        self.failure = ""  # why the supervisor ended before the run did
        self._listener = listener
        self._calls = calls
        self._rules = rules
        self._on_refusal = on_refusal
        self._on_allowed = on_allowed
        self._on_unread = on_unread
        self._own_name = socket.gethostname().lower()
        self._wake_reader, self._wake_writer = os.pipe()
        self._thread = threading.Thread(target=self._supervise, name="traceforge supervisor", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it. Processes that are still there are refused every connection from now on."""
        os.close(self._wake_writer)
        self._thread.join()
        os.close(self._wake_reader)

    def _supervise(self) -> None:
        try:
            with suppress(OSError):  # Linux 6.6: who waits and who decides take turns on one processor.
                fcntl.ioctl(self._listener, _SET_FLAGS, _SYNCHRONOUS)
            poll = select.poll()
            poll.register(self._listener, select.POLLIN)
            poll.register(self._wake_reader, select.POLLIN)
            while True:
                events = dict(poll.poll())
                if self._wake_reader in events:
                    return
                if events[self._listener] & select.POLLIN:
                    self._answer_next()
                else:  # No process is left that could wait.
                    poll.unregister(self._listener)
        except BaseException as exc:  # noqa: BLE001 (a thread that ends without a word would make the run green)
            self.failure = f"{type(exc).__name__}: {exc}"
        finally:
            os.close(self._listener)

    def _answer_next(self) -> None:
        buffer = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, buffer)
        except OSError as exc:
            if exc.errno in (errno.ENOENT, errno.EINTR):  # It was interrupted, and waits no longer.
                return
            raise
        call_id, thread, _, number, architecture, _, *arguments = _NOTIFICATION.unpack(buffer)
        result = self._decide(SupervisedCall(call_id, thread, number, architecture, tuple(arguments)))
        response = (call_id, 0, 0, _CONTINUE) if result is None else (call_id, 0, -result, 0)
        try:
            fcntl.ioctl(self._listener, _SEND, bytearray(_RESPONSE.pack(*response)))
        except OSError as exc:
            if exc.errno != errno.ENOENT:  # The process has ended.
                raise

    def _is_waiting(self, call: SupervisedCall) -> bool:
        """Whether the call still waits: if not, its thread's number may be another process's already."""
        try:
            fcntl.ioctl(self._listener, _IS_VALID, struct.pack("=Q", call.id))
        except OSError:
            return False
        return True

    def _decide(self, call: SupervisedCall) -> int | None:
        """The result of the call, an error or 0; None: it continues."""
        if call.architecture != self._calls.audit:
            if self._is_waiting(call):
                self._on_refusal(call.thread, CALL_32_BIT, REMOTE)
            return errno.EACCES
        try:
            with _ProcessMemory(call.thread) as memory:
                destination, why, is_tcp = self._judge(call, memory)
        except PermissionError:  # A process that hides its memory: Landlock decides, and the run says so.
            if self._is_waiting(call):
                self._on_unread(call.thread)
            return None
        except OSError:  # A bad pointer, which the kernel will refuse; or the process has ended.
            return None
        if not self._is_waiting(call):
            return errno.EACCES
        if why:
            self._on_refusal(call.thread, str(destination), why)
            return errno.EACCES
        if not is_tcp or not isinstance(destination, Destination):
            return None
        if call.number != self._calls.connect:  # TCP Fast Open is no way in.
            return errno.EACCES
        return self._on_allowed(call.thread, call.arguments[0], destination)

    def _judge(self, call: SupervisedCall, memory: _ProcessMemory) -> tuple[Destination | str, str, bool]:
        """The destination, why it is refused ("": it is not), and whether a TCP connection would be opened."""
        calls, arguments = self._calls, call.arguments
        if call.number == calls.connect:
            destination = parse_address(memory.read(arguments[1], _limit(arguments[2])), is_connect=True)
            if destination is None:
                return "", "", False
            protocol = find_protocol(call.thread, arguments[0])
            if protocol.startswith("UDP"):
                return destination, self._judge_datagram_socket(call, destination), False
            return destination, self._rules.find_problem(destination.host, destination.port), True
        if call.number == calls.sendto:
            name, part, flags = arguments[4:6], arguments[1:3], arguments[3]
            return self._judge_datagram(call, memory, [(name, part)], flags)
        count = 1 if call.number == calls.sendmsg else min(arguments[2] & 0xFFFFFFFF, MESSAGES_MAX)
        flags = arguments[2] if call.number == calls.sendmsg else arguments[3]
        data = memory.read(arguments[1], _MESSAGE_STEP * count if count > 1 else _MESSAGE.size)
        messages = []
        for place in range(0, len(data) - _MESSAGE.size + 1, _MESSAGE_STEP):
            name_at, name_length, _, parts_at, part_count, *_ = _MESSAGE.unpack_from(data, place)
            has_part = part_count and (name_at or call.number == calls.sendmmsg)
            part = _PART.unpack(memory.read(parts_at, _PART.size)) if has_part else (0, 0)
            messages.append(((name_at, name_length), part))
        return self._judge_datagram(call, memory, messages, flags)

    def _judge_datagram_socket(self, call: SupervisedCall, destination: Destination) -> str:
        """Why a datagram socket may not be connected; one that may is connected in order to learn an address."""
        if is_loopback(destination.host) or destination.port == DNS_PORT:
            return ""
        if destination.port == QUIC_PORT:
            return REMOTE
        if self._is_waiting(call):
            _forbid_sending(call.thread, call.arguments[0])
        return ""

    def _judge_datagram(
        self,
        call: SupervisedCall,
        memory: _ProcessMemory,
        messages: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
        flags: int,
    ) -> tuple[Destination | str, str, bool]:
        """The first of several messages that is refused; each is the place and length of its address and its data."""
        protocol = ""
        for (name_at, name_length), (data_at, data_length) in messages:
            if not name_at and (call.number != self._calls.sendmmsg or not data_at):
                continue
            protocol = protocol or find_protocol(call.thread, call.arguments[0])
            if not protocol.startswith(("UDP", "TCP", "RAW", "PING")):
                return "", "", False
            if protocol.startswith("UDP") and (host := self._find_queried_host(memory, data_at, data_length)):
                return host, REMOTE, False
            destination = (
                parse_address(memory.read(name_at, _limit(name_length)), is_connect=False) if name_at else None
            )
            if destination is None:
                continue
            if protocol.startswith("TCP"):
                return destination, *self._judge_fast_open(destination, flags)
            if not is_loopback(destination.host):
                return destination, REMOTE, False
        return "", "", False

    def _judge_fast_open(self, destination: Destination, flags: int) -> tuple[str, bool]:
        """Without the flag, the kernel ignores the address of a message on a TCP socket."""
        if not flags & MSG_FASTOPEN:
            return "", False
        return self._rules.find_problem(destination.host, destination.port), True

    def _find_queried_host(self, memory: _ProcessMemory, data_at: int, data_length: int) -> str:
        """The host that a packet asks a name server for; "" for this machine's own name, as in `tripwire.py`."""
        host = parse_dns_query(memory.read(data_at, min(data_length, DNS_BYTES_MAX))) if data_at else ""
        is_own = is_loopback(host) or host.lower() == self._own_name or host.lower().startswith(f"{self._own_name}.")
        return "" if not host or is_own else host


class _ProcessMemory:
    """The memory of another process."""

    def __init__(self, thread: int) -> None:
        self._file = os.open(f"/proc/{thread}/mem", os.O_RDONLY | os.O_CLOEXEC)

    def __enter__(self) -> _ProcessMemory:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def read(self, place: int, length: int) -> bytes:
        """At most `length` bytes.

        Raises:
            OSError: nothing is there.
        """
        if place >= 1 << 63:
            raise OSError(errno.EFAULT, "no address of a program")
        return os.pread(self._file, length, place)


def _forbid_sending(thread: int, file: int) -> None:
    """Close one direction of a socket of another process; where the kernel does not allow it, nothing changes."""
    with suppress(OSError), copy_socket(thread, file) as datagram_socket:
        datagram_socket.shutdown(socket.SHUT_WR)  # works, and says that it is not connected yet


def _limit(length: int) -> int:
    return min(length & 0xFFFFFFFF, ADDRESS_BYTES_MAX)
