"""The tripwire: in a test, a process that was entered connects to loopback, and nowhere else.

In: what Python says before it connects, resolves a name or sends a datagram (its audit events). Out: an error that
names the host, and word of it to the parent. Never: imports what a small program would not, or is taken off again.

A program of compiled code that opens its sockets itself (uvloop, gRPC) says nothing to Python:
`unwatched_transports.py` looks at those it knows. A datagram socket may be connected anywhere: nothing is sent by
that, and it is how programs learn their own address.

    ports     which loopback ports are open: `first-last`, joined by commas; `*`: all of them
    |
    blocked   ports of loopback at which models answer, joined by commas
"""

from __future__ import annotations

import _socket
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TOLD_MAX = 1000  # Connections of one process that the parent hears of; a loop would never end.
REMOTE, PORT, MODEL = "remote", "port", "model"
WHY = {
    REMOTE: "a test has no network",
    PORT: "this run is sealed, and the port is not in test.allow_ports",
    MODEL: "a model answers there, and its calls are replayed",
}

_wires: list[Any] = []


class Tripwire:
    """What may be reached, and who is told of the rest."""

    def __init__(self, text: str, address: str, token: str) -> None:
        ports, _, blocked = text.partition("|")
        self._address = address
        self._token = token
        self._open = None if ports == "*" else [tuple(map(int, one.split("-"))) for one in ports.split(",") if one]
        self._blocked = {int(port) for port in blocked.split(",") if port}
        self._told = 0
        self._children: set[tuple[str, bool]] = set()

    def hear(self, event: str, args: Any) -> None:
        """An audit event; most are none of our business."""
        if event[:7] != "socket.":
            if event in _STARTS:
                self._started(event, args)
        elif event == "socket.connect":
            one, address = args
            if one.family in _FAMILIES and one.type != _socket.SOCK_DGRAM:
                self.check(address[0], address[1])
        elif event in ("socket.sendto", "socket.sendmsg"):
            one, address = args
            if one.family not in _FAMILIES or address is None:
                return
            if one.type != _socket.SOCK_DGRAM:
                self.check(address[0], address[1])  # a stream can be opened so, too
            elif not is_loopback(address[0]):
                self.refuse(address[0], address[1], REMOTE)
        elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
            self.check_name(args[0], args[1] if len(args) > 1 else None)

    def _started(self, event: str, args: Any) -> None:
        """A child is about to be started: its name, and whether it is a Python that will not be entered."""
        from .child_processes import MARK, isolating_flags, looks_like_python

        environ = args[_STARTS[event]] if _STARTS.get(event) else None
        words = args[1] if event != "os.system" else ["sh"]
        words = [_text(os.fspath(word)) for word in words] if isinstance(words, (list, tuple)) else ["sh"]
        program = _text(args[0] or words[0]) if event != "os.system" else "sh"
        lost = looks_like_python(program) and bool(
            isolating_flags(words) or (environ is not None and not _has(environ, MARK))
        )
        child = (os.path.basename(program), lost)
        if lost or child not in self._children:
            self._children.add(child)
            tell(self._address, self._token, {"kind": "started", "name": child[0], "lost": lost})

    def check(self, host: Any, port: Any) -> None:
        """May it be connected to?

        Raises:
            ConnectionRefusedError: no.
        """
        if not is_loopback(host):
            self.refuse(host, port, REMOTE)
        elif port in self._blocked:
            self.refuse(host, port, MODEL)
        elif self._open is not None and not any(first <= port <= last for first, last in self._open):
            self.refuse(host, port, PORT)

    def check_name(self, host: Any, port: Any) -> None:
        """May it be resolved? Numbers may: that asks nobody.

        Raises:
            ConnectionRefusedError: no.
        """
        if host and not is_loopback(host) and not _is_number(host) and _text(host) != _own_name():
            self.refuse(host, port, REMOTE)

    def refuse(self, host: Any, port: Any, why: str) -> None:
        """Say so to both sides.

        Raises:
            ConnectionRefusedError: always.
        """
        name = _text(host)
        name = f"[{name}]" if ":" in name else name
        place = f"{name}:{_text(port)}" if port else name
        if self._told < TOLD_MAX:
            self._told += 1
            tell(self._address, self._token, {"kind": "shut", "place": place, "why": why})
        raise ConnectionRefusedError(111, f"TraceForge test: a connection to {place} was refused: {WHY[why]}")


def stretch(text: str, address: str, token: str) -> None:
    """From now on, for as long as this process lives."""
    wire = Tripwire(text, address, token)
    set_up(wire)
    sys.addaudithook(wire.hear)


def set_up(wire: Any) -> None:
    """From now on this is the one that is asked."""
    _wires.insert(0, wire)


def take_down(wire: Any) -> None:
    """No longer; a second time changes nothing."""
    if wire in _wires:
        _wires.remove(wire)


def current() -> Any:
    """The tripwire of this process; None where it is no test."""
    return _wires[0] if _wires else None


def is_loopback(host: Any) -> bool:
    """Is it this machine, whatever is resolved how?"""
    name = _text(host).lower().rstrip(".")
    if name in ("", "localhost") or name.endswith(".localhost"):
        return True
    try:
        number = _socket.inet_aton(name)
        return number[0] == 127 or number == b"\0\0\0\0"
    except OSError:
        pass
    try:
        wide = _socket.inet_pton(_socket.AF_INET6, name.partition("%")[0])
    except (OSError, AttributeError):
        return False
    return (wide[:15] == b"\0" * 15 and wide[15] < 2) or (wide[:12] == _MAPPED and wide[12] == 127)


def tell(address: str, token: str, head: dict[str, object]) -> None:
    """Two frames on a connection of their own; see `bootstrap.py`."""
    import json

    from .bootstrap import send_frames

    hello = b'{"kind":"hello","pid":%d,"token":"%s"}' % (os.getpid(), token.encode())
    send_frames(address, [hello, json.dumps(head).encode()])


def _has(environ: Any, name: str) -> bool:
    try:
        return name in environ or name.encode() in environ
    except TypeError:  # a mapping of texts alone
        return False


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


_FAMILIES = (_socket.AF_INET, _socket.AF_INET6)
_STARTS = {"subprocess.Popen": 3, "os.posix_spawn": 2, "os.exec": 2, "os.system": 0}  # where its environment stands
_MAPPED = b"\0" * 10 + b"\xff\xff"
