"""The supervisor of a sealed command: decides about each connection, and reports who made one that is refused.

In: notifications of the kernel about calls that wait (`syscall_filter.py`), and the rules of the run. Out: refusals,
with the process, for the report of the run. Never: lets a `connect` of an internet socket continue: another thread of
the program could change the address in the meantime, so the supervisor opens the connection itself, on a copy of the
program's socket. Never waits for anything itself: a program that waits for it would wait longer.

    connect      to a TCP port: as `tripwire.py` decides; of a datagram socket: sends nothing and is how programs
                 learn their own address, so it is allowed, but the socket cannot send afterwards. QUIC's port is
                 refused; so is what the C library asks a name server afterwards, by the name of the host
    sendto, …    a datagram to another machine is refused, also if its options name the machine; so is a query for
                 a host, by its name

Where the system does not allow to copy sockets (a container without `pidfd_getfd`), calls continue, Landlock checks
the ports again, and the report says it. If the supervisor ends, the kernel lets the calls that wait for it fail with
"function not implemented". Nothing hangs, nothing is let through, and the run is unchecked.
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
    CONTROL_BYTES_MAX,
    DNS_BYTES_MAX,
    Destination,
    names_other_route,
    parse_address,
    parse_dns_query,
)
from traceforge.capture.run.socket_copies import connect_socket, copy_socket
from traceforge.capture.run.syscall_filter import MSG_FASTOPEN, SyscallNumbers

CALL_32_BIT = "an address that a 32-bit program has"  # The arguments of such a call are not read.
OTHER_ROUTE = "another host or device, which a datagram names beside its address"
QUIC_PORT, DNS_PORT = 443, 53
CLOSE_S = 30.0  # How long the end of a run waits for a decision about a connection.
MESSAGES_MAX = 1024  # of one `sendmmsg`: the kernel's own limit

_RECEIVE, _SEND, _IS_VALID, _SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082102, 0x40082104
_SYNCHRONOUS = 1
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")  # id, thread, flags, number, architecture, place, arguments
_RESPONSE = struct.Struct("=QqiI")  # id, value, error, flags
_CONTINUE = 1
_MESSAGE = struct.Struct("=QIIQQQQII")  # name, its length, parts, their number, control, its length, flags
_MESSAGE_STEP = 64  # of one message in the list of `sendmmsg`
_PART = struct.Struct("=QQ")

_INTERNET_PROTOCOLS = ("TCP", "UDP", "PING", "RAW")

OnRefusal = Callable[[int, str, str], object]  # process or thread, address, why
# Process or thread, its socket and where it connects: the result of the call, or None: it is connected as it asks.
OnAllowed = Callable[[int, int, Destination], int | None]
OnUnread = Callable[[int], object]  # process or thread
Span = tuple[int, int]  # the place and the length of bytes in the memory of a process; 0, 0 where there are none


class SupervisedCall(NamedTuple):
    """One system call that waits for a decision."""

    id: int
    thread: int
    number: int
    architecture: int
    arguments: tuple[int, ...]


class Datagram(NamedTuple):
    """Where a program has one message of a call: its address, its first part, and its options."""

    name: Span
    data: Span
    control: Span = (0, 0)


class CallDecision(NamedTuple):
    """What becomes of a call; by default it continues."""

    destination: Destination | str = ""
    why: str = ""  # it is refused, one of `tripwire.REASONS`
    address: bytes = b""  # to which the supervisor connects the socket
    protocol: str = ""  # of that socket, when it was judged
    is_silent: bool = False  # The refusal is no finding.
    opens_tcp: bool = False
    may_send: bool = True  # False: a datagram socket that only learns its own address


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
        self.could_not_copy = False  # a socket: its call continued
        self._lock = threading.Lock()
        self._is_open = True  # the listener
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
        self._thread.join(CLOSE_S)
        if self._thread.is_alive():
            self.failure = f"it did not end within {CLOSE_S:.0f} seconds"
        else:
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
            with self._lock:
                self._is_open = False
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
        self._answer(SupervisedCall(call_id, thread, number, architecture, tuple(arguments)))

    def _respond(self, call: SupervisedCall, result: int | None) -> None:
        """End the call with an error or 0; None: it continues, unless it would connect: nothing checks that again."""
        if result is None and self._opens_fast(call):
            result = errno.EACCES
        response = (call.id, 0, 0, _CONTINUE) if result is None else (call.id, 0, -result, 0)
        try:
            with self._lock:
                if self._is_open:
                    fcntl.ioctl(self._listener, _SEND, bytearray(_RESPONSE.pack(*response)))
        except OSError as exc:
            if exc.errno != errno.ENOENT:  # The process has ended.
                raise

    def _opens_fast(self, call: SupervisedCall) -> bool:
        """Whether the call is TCP Fast Open, if its socket is one of TCP by the time that the kernel looks at it."""
        if call.architecture != self._calls.audit or call.number == self._calls.connect:
            return False
        return bool(call.arguments[2 if call.number == self._calls.sendmsg else 3] & MSG_FASTOPEN)

    def _is_waiting(self, call: SupervisedCall) -> bool:
        """Whether the call still waits: if not, its thread's number may be another process's already."""
        try:
            fcntl.ioctl(self._listener, _IS_VALID, struct.pack("=Q", call.id))
        except OSError:
            return False
        return True

    def _answer(self, call: SupervisedCall) -> None:
        if call.architecture != self._calls.audit:
            if self._is_waiting(call):
                self._on_refusal(call.thread, CALL_32_BIT, REMOTE)
            return self._respond(call, errno.EACCES)
        try:
            with _ProcessMemory(call.thread) as memory:
                decision = self._judge(call, memory)
        except PermissionError:  # A process that hides its memory: Landlock decides, and the run says so.
            if self._is_waiting(call):
                self._on_unread(call.thread)
            return self._respond(call, None)
        except OSError:  # A bad pointer, at least until another thread makes it a good one; or the process has ended.
            return self._respond(call, errno.EFAULT)
        if not self._is_waiting(call):
            return self._respond(call, errno.EACCES)
        if decision.why:
            return self._refuse(call, decision)
        if decision.opens_tcp and call.number != self._calls.connect:  # TCP Fast Open is no way in.
            return self._respond(call, errno.EACCES)
        if not decision.address:
            return self._respond(call, None)
        if decision.opens_tcp and isinstance(decision.destination, Destination):
            result = self._on_allowed(call.thread, call.arguments[0], decision.destination)
            if result is not None:
                return self._respond(call, result)
        return self._connect(call, decision)

    def _refuse(self, call: SupervisedCall, decision: CallDecision) -> None:
        if not decision.is_silent:
            self._on_refusal(call.thread, str(decision.destination), decision.why or REMOTE)
        self._respond(call, errno.EACCES)

    def _connect(self, call: SupervisedCall, decision: CallDecision) -> None:
        """Connect the socket of the call; one that would wait does so in a thread of its own."""
        try:
            copy = copy_socket(call.thread, call.arguments[0])
        except OSError:
            self.could_not_copy = True
            is_lookup = isinstance(decision.destination, Destination) and decision.destination.port == DNS_PORT
            if decision.may_send or is_lookup:
                return self._respond(call, None)
            return self._refuse(call, decision)
        is_judged = find_protocol(os.getpid(), copy.fileno()) == decision.protocol  # or exchanged in the meantime
        if not is_judged or not self._is_waiting(call):
            copy.close()
            return self._respond(call, errno.EACCES)
        if decision.opens_tcp and os.get_blocking(copy.fileno()):
            threading.Thread(
                target=self._wait_for_connect, args=(call, copy, decision), name="traceforge connect", daemon=True
            ).start()
            return None
        return self._finish_connect(call, copy, decision)

    def _wait_for_connect(self, call: SupervisedCall, copy: socket.socket, decision: CallDecision) -> None:
        try:
            self._finish_connect(call, copy, decision)
        except BaseException as exc:  # noqa: BLE001 (as in `_supervise`)
            self.failure = f"{type(exc).__name__}: {exc}"

    def _finish_connect(self, call: SupervisedCall, copy: socket.socket, decision: CallDecision) -> None:
        with copy:
            if not decision.may_send:
                with suppress(OSError):
                    copy.shutdown(socket.SHUT_WR)  # works, and says that it is not connected yet
            result = connect_socket(copy, decision.address)
        self._respond(call, result)

    def _judge(self, call: SupervisedCall, memory: _ProcessMemory) -> CallDecision:
        calls, arguments = self._calls, call.arguments
        if call.number == calls.connect:
            return self._judge_connect(call, memory.read(arguments[1], _limit(arguments[2])))
        if call.number == calls.sendto:
            first, length, flags, *name = arguments[1:]
            return self._judge_datagram(call, memory, [Datagram((name[0], name[1]), (first, length))], flags)
        count = 1 if call.number == calls.sendmsg else min(arguments[2] & 0xFFFFFFFF, MESSAGES_MAX)
        flags = arguments[2] if call.number == calls.sendmsg else arguments[3]
        data = memory.read(arguments[1], _MESSAGE_STEP * count if count > 1 else _MESSAGE.size)
        datagrams = []
        for place in range(0, len(data) - _MESSAGE.size + 1, _MESSAGE_STEP):
            name_at, name_length, _, parts_at, part_count, control_at, control_length, *_ = _MESSAGE.unpack_from(
                data, place
            )
            has_part = part_count and (name_at or call.number == calls.sendmmsg)
            first, length = _PART.unpack(memory.read(parts_at, _PART.size)) if has_part else (0, 0)
            control = (control_at, control_length)
            datagrams.append(Datagram((name_at, name_length), (first, length), control))
        return self._judge_datagram(call, memory, datagrams, flags)

    def _judge_connect(self, call: SupervisedCall, address: bytes) -> CallDecision:
        """On an internet socket, an address of another family disconnects or is an error: the kernel says which."""
        protocol = find_protocol(call.thread, call.arguments[0])
        destination = parse_address(address, is_connect=True)
        if destination is None:
            is_internet = protocol.startswith(_INTERNET_PROTOCOLS)
            return CallDecision(address=address if is_internet else b"", protocol=protocol)
        problem = self._rules.find_problem(destination.host, destination.port)
        if not protocol.startswith("UDP"):
            return CallDecision(destination, problem, address, protocol, opens_tcp=True)
        if destination.port == QUIC_PORT and not is_loopback(destination.host):
            return CallDecision(destination, REMOTE)
        may_send = is_loopback(destination.host) and (destination.port != DNS_PORT or not problem)
        return CallDecision(destination, address=address, protocol=protocol, may_send=may_send)

    def _judge_datagram(
        self, call: SupervisedCall, memory: _ProcessMemory, datagrams: Sequence[Datagram], flags: int
    ) -> CallDecision:
        """The first of several that is refused."""
        protocol = ""
        for (name_at, name_length), data, control in datagrams:
            has_data = call.number == self._calls.sendmmsg and data[0]
            if not (name_at or has_data or all(control)):
                continue
            protocol = protocol or find_protocol(call.thread, call.arguments[0])
            if not protocol.startswith(_INTERNET_PROTOCOLS):
                return CallDecision()
            if protocol.startswith("UDP") and (host := self._find_queried_host(memory, *data)):
                return CallDecision(host, REMOTE)
            destination = (
                parse_address(memory.read(name_at, _limit(name_length)), is_connect=False) if name_at else None
            )
            if not protocol.startswith("TCP"):
                if all(control) and _names_other_route(memory, control):
                    return CallDecision(OTHER_ROUTE, REMOTE)
                if destination is not None and not is_loopback(destination.host):
                    return CallDecision(destination, REMOTE)
                if destination is not None and destination.port == DNS_PORT:
                    # What cannot be read as a query, a name server may still understand.
                    why = self._rules.find_problem(destination.host, DNS_PORT)
                    if why:
                        return CallDecision(destination, why, is_silent=self._asks_for_own_name(memory, *data))
            elif destination is not None:
                if not flags & MSG_FASTOPEN:  # Without it, the kernel ignores the address.
                    return CallDecision()
                why = self._rules.find_problem(destination.host, destination.port)
                return CallDecision(destination, why, opens_tcp=True)
        return CallDecision()

    def _find_queried_host(self, memory: _ProcessMemory, data_at: int, data_length: int) -> str:
        """The host that a packet asks a name server for; "" for this machine's own name, as in `tripwire.py`."""
        host = self._read_query(memory, data_at, data_length)
        return "" if not host or self._is_own(host) else host

    def _asks_for_own_name(self, memory: _ProcessMemory, data_at: int, data_length: int) -> bool:
        host = self._read_query(memory, data_at, data_length)
        return bool(host) and self._is_own(host)

    def _read_query(self, memory: _ProcessMemory, data_at: int, data_length: int) -> str:
        return parse_dns_query(memory.read(data_at, min(data_length, DNS_BYTES_MAX))) if data_at else ""

    def _is_own(self, host: str) -> bool:
        return is_loopback(host) or host.lower() == self._own_name or host.lower().startswith(f"{self._own_name}.")


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


def _names_other_route(memory: _ProcessMemory, control: Span) -> bool:
    place, length = control
    return length > CONTROL_BYTES_MAX or names_other_route(memory.read(place, length))


def _limit(length: int) -> int:
    return min(length & 0xFFFFFFFF, ADDRESS_BYTES_MAX)
