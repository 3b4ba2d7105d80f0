"""The tripwire: in a test, an instrumented process connects to loopback, and nowhere else.

In: Python's audit events before it connects, resolves a name, sends a datagram or an HTTP request. Out: an error that
names the host, and a report to the parent. Never: imports what a small program would not (see `bootstrap.py`), or is
removed again.

Compiled code that opens its sockets itself raises no audit events: `client_uvloop.py`, `client_grpc.py` and
`client_pycurl.py` look at what they know. A datagram socket may be connected anywhere: nothing is sent by that, and
it is how programs learn their own address.

    ports     which loopback ports are open: `first-last`, joined by commas; `*`: all of them
    |
    blocked   ports of loopback at which models answer, joined by commas
    |
    proxy     the port of the proxy that replays, where there is one: models answer there, too
    |
    own       ports of the run itself, joined by commas: open at 127.0.0.1, and at no other address of loopback
"""

from __future__ import annotations

import _socket
import os
import sys

from .bootstrap import send_heads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

REPORTS_MAX = 1000  # Refused connections that one process reports to its parent; a loop would never end.
REQUEST_EVENT = "http.client.send"
REMOTE, PORT, MODEL = "remote", "port", "model"
REASONS = {
    REMOTE: "a test has no network",
    PORT: "this run is sealed, and the port is not in test.allow_ports",
    MODEL: "a model answers there, and its calls are replayed",
}

_active: list[Any] = []


class Tripwire:
    """What may be reached; every other connection is refused and reported."""

    def __init__(self, text: str, address: str, token: str) -> None:
        ports, blocked, proxy_port, own_ports = [*text.split("|"), "", ""][:4]
        self._address = address
        self._token = token
        self._open_ports = (
            None if ports == "*" else [tuple(map(int, item.split("-"))) for item in ports.split(",") if item]
        )
        self._model_ports = {int(port) for port in blocked.split(",") if port}
        self._proxy_port = int(proxy_port) if proxy_port else None
        self._own_ports = {int(port) for port in own_ports.split(",") if port}
        self._report_count = 0
        self._children: set[tuple[str, bool]] = set()

    def audit(self, event: str, args: Any) -> None:
        """Called by Python for every audit event; most have nothing to do with the network.

        Raises:
            ConnectionRefusedError: the connection is not allowed.
        """
        if event[:7] != "socket.":
            if event in _START_EVENTS:
                self._report_child(event, args)
            elif event == REQUEST_EVENT:
                self.check_request(*args)
        elif event == "socket.connect":
            connection, address = args
            if connection.family in _FAMILIES and connection.type != _socket.SOCK_DGRAM:
                self.check(address[0], address[1])
        elif event in ("socket.sendto", "socket.sendmsg"):
            connection, address = args
            if connection.family not in _FAMILIES or address is None:
                return
            if connection.type != _socket.SOCK_DGRAM:
                self.check(address[0], address[1])  # a stream can be opened so, too
            elif not is_loopback(address[0]):
                self.refuse(address[0], address[1], REMOTE)
        elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
            self.check_name(args[0], args[1] if len(args) > 1 else None)

    def _report_child(self, event: str, args: Any) -> None:
        """A child is about to be started: report its name, and whether it is a Python that cannot be instrumented."""
        child = _details().describe_child(event, args, _START_EVENTS[event])
        if child[1] or child not in self._children:
            self._children.add(child)
            send_report(self._address, self._token, {"kind": "started", "name": child[0], "lost": child[1]})

    def check_request(self, connection: Any, data: Any) -> None:
        """Allow what `http.client` sends, or refuse it: urllib and others are not replayed.

        Raises:
            ConnectionRefusedError: it is a request to a model.
        """
        host, port = connection.host, connection.port
        if port != self._proxy_port and _details().is_model_request(data, host, port):
            self.refuse(host, port, MODEL)

    def check(self, host: Any, port: Any) -> None:
        """Allow a connection, or refuse it.

        Raises:
            ConnectionRefusedError: it is refused.
        """
        why = self.find_problem(host, port)
        if why:
            self.refuse(host, port, why)

    def find_problem(self, host: Any, port: Any) -> str:
        """Why a connection is not allowed, one of `REASONS`; "" where it is."""
        if not is_loopback(host):
            return REMOTE
        if port in self._model_ports:
            return MODEL
        if port in self._own_ports and _text(host).lower() in _OWN_HOSTS:
            return ""
        if self._open_ports is not None and not any(first <= port <= last for first, last in self._open_ports):
            return PORT
        return ""

    def check_name(self, host: Any, port: Any) -> None:
        """Allow a name to be resolved, or refuse it. Numbers are allowed: nothing is sent for them.

        Raises:
            ConnectionRefusedError: it is refused.
        """
        if host and not is_loopback(host) and not _is_number(host) and _text(host) != _own_name():
            self.refuse(host, port, REMOTE)

    def refuse(self, host: Any, port: Any, why: str) -> None:
        """Report a refused connection to the parent, and to the application.

        Raises:
            ConnectionRefusedError: always.
        """
        name = _text(host)
        name = f"[{name}]" if ":" in name else name
        address = f"{name}:{_text(port)}" if port else name
        if self._report_count < REPORTS_MAX:
            self._report_count += 1
            test = os.environ.get("PYTEST_CURRENT_TEST", "")
            send_report(self._address, self._token, {"kind": "shut", "place": address, "why": why, "test": test})
        raise ConnectionRefusedError(111, f"TraceForge test: a connection to {address} was refused: {REASONS[why]}")


def install_tripwire(text: str, address: str, token: str) -> None:
    """Check every connection of this process from now on, for as long as it lives."""
    tripwire = Tripwire(text, address, token)
    activate(tripwire)
    sys.addaudithook(tripwire.audit)


def activate(tripwire: Any) -> None:
    """Make this the tripwire of the process, until it is deactivated."""
    _active.insert(0, tripwire)


def deactivate(tripwire: Any) -> None:
    """A second time changes nothing."""
    if tripwire in _active:
        _active.remove(tripwire)


def current() -> Any:
    """The tripwire of this process; None outside tests."""
    return _active[0] if _active else None


def is_loopback(host: Any) -> bool:
    """Whether a host is this machine, in any spelling."""
    name = _text(host).lower().rstrip(".")
    if name in ("", "localhost") or name.endswith(".localhost"):
        return True
    try:
        ipv4 = _socket.inet_aton(name)
        return ipv4[0] == 127 or ipv4 == b"\0\0\0\0"
    except OSError:
        pass
    try:
        ipv6 = _socket.inet_pton(_socket.AF_INET6, name.partition("%")[0])
    except (OSError, AttributeError):
        return False
    return (ipv6[:15] == b"\0" * 15 and ipv6[15] < 2) or (ipv6[:12] == _IPV4_MAPPED and ipv6[12] == 127)


def send_report(address: str, token: str, head: dict[str, object]) -> None:
    """Two frames on a connection of their own; see `bootstrap.py`."""
    hello = b'{"kind":"hello","pid":%d,"token":"%s"}' % (os.getpid(), token.encode())
    send_heads(address, [hello, _details().encode_report(head)])


def _details() -> Any:
    from . import tripwire_details

    return tripwire_details


def _is_number(host: Any) -> bool:
    name = _text(host)
    for family in _FAMILIES:
        try:
            _socket.inet_pton(family, name.partition("%")[0])
            return True
        except (OSError, ValueError):
            continue
    return False


def _own_name() -> str:
    return _socket.gethostname()


def _text(value: Any) -> str:
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("latin-1")
    return str(value)


_OWN_HOSTS = ("127.0.0.1", "::ffff:127.0.0.1", "localhost")
_FAMILIES = (_socket.AF_INET, _socket.AF_INET6)
_START_EVENTS = {
    "subprocess.Popen": 3,
    "os.posix_spawn": 2,
    "os.exec": 2,
    "os.system": 0,
}  # the position of the environment
_IPV4_MAPPED = b"\0" * 10 + b"\xff\xff"
