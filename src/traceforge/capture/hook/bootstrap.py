"""The door: what happens in every Python under `traceforge run`, before anything of the application runs.

In: the text of `TRACEFORGE_RUN`. Out: a hello to the parent; the rest of the hook, once a module is imported through
which a process talks or has children. Never: imports what a small program would not: most Pythons that a command
starts never call a model, and must not start later for it.

    address of the socket            unix:/tmp/traceforge-x/run
    token of the run
    variables to hide, or nothing    NAME US ours US +theirs (or - where they had none), joined by RS
    what a test may reach            see `tripwire.py`; nothing where it is no test
    everything else                  one JSON object
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # that of `typing`, whose import would cost more than all the rest
if TYPE_CHECKING:
    from typing import Any

HELLO_S = 1.0  # How long a process waits at its start for somebody to take its hello.
MODULES = frozenset(
    {
        "_pytest.main", "_pytest.runner", "aiohttp", "grpc", "httpx", "httpx2", "multiprocessing.util", "requests",
        "subprocess", "uvloop", "websockets.asyncio.client", "websockets.legacy.client", "websockets.sync.client",
    }
)  # fmt: skip


def open_door(told: str) -> None:
    """Let the hook in, as soon as there is something for it to see."""
    address, token, variables, offline, options = told.split("\n", 4)
    if variables:
        hide_variables(read_variables(variables))
    say_hello(address, token, started_as() if offline else "")
    if offline:
        from .tripwire import stretch

        stretch(offline, address, token)
    waiting = Waiting(address, token, variables, options)
    if MODULES.isdisjoint(sys.modules):
        sys.meta_path.insert(0, waiting)
    else:
        waiting.enter()


class Waiting:
    """A finder that finds nothing: it waits for the first import that matters."""

    def __init__(self, address: str, token: str, variables: str, options: str) -> None:
        self._given = address, token, variables, options

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        """Called by Python for every import."""
        if name not in MODULES or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        try:
            return self.enter().find_spec(name)
        except Exception as exc:
            if '"plays": true' in self._given[3]:
                raise ImportError(f"a replay could not enter this Python: {exc!r}") from exc
            return None

    def enter(self) -> Any:
        """Load the rest; what it returns waits for imports from now on."""
        from .child_watcher import enter

        address, token, variables, options = self._given
        return enter(address, token, read_variables(variables), options)


def enter_now() -> None:
    """Wait no longer: somebody else is about to hook the clients of this process, and must find ours."""
    for one in sys.meta_path[:]:
        if isinstance(one, Waiting):
            sys.meta_path.remove(one)
            one.enter()


def say_hello(address: str, token: str, start: str = "") -> None:
    """One frame on a connection of its own, written by hand: see `frames.py`."""
    told = b',"start":"%s"' % start.encode() if start else b""
    send_frames(address, [b'{"kind":"hello","pid":%d,"token":"%s"%s}' % (os.getpid(), token.encode(), told)])


def send_frames(address: str, heads: list[bytes]) -> None:
    """Frames without pieces, to whoever listens; where nobody does, nobody misses them."""
    import _socket

    kind, _, place = address.partition(":")
    host, _, port = place.rpartition(":")
    family = _socket.AF_UNIX if kind == "unix" else _socket.AF_INET
    one = _socket.socket(family, _socket.SOCK_STREAM)
    try:
        one.settimeout(HELLO_S)
        one.connect(place if kind == "unix" else (host, int(port)))
        one.send(b"".join((len(head) + 4).to_bytes(4, "big") + len(head).to_bytes(4, "big") + head for head in heads))
    except OSError:
        pass
    finally:
        one.close()


def started_as() -> str:
    """Where the stack of this process begins: chosen at random when a program is started, and kept by its forks."""
    try:
        with open("/proc/self/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[25].decode()
    except (OSError, IndexError):
        return ""


def read_variables(text: str) -> dict[str, tuple[str, str | None]]:
    """By name, our value and the user's."""
    found = {}
    for entry in text.split("\x1e") if text else ():
        name, ours, users = entry.split("\x1f")
        found[name] = ours, (users[1:] if users.startswith("+") else None)
    return found


def hide_variables(variables: dict[str, tuple[str, str | None]]) -> None:
    """Let the application see what the user had set.

    Python keeps a copy of the environment. Taking a variable out of the copy alone hides it from the application,
    while a child that is started without an environment of its own inherits the real one.
    """
    data: Any = getattr(os.environ, "_data", None)
    for name, (ours, users) in variables.items():
        if os.environ.get(name) != ours:
            continue  # the application's own parent has set another
        if data is None:  # a Python that keeps its environment otherwise
            del os.environ[name]
        elif users is None:
            del data[os.environ.encodekey(name)]
        else:
            data[os.environ.encodekey(name)] = os.environ.encodevalue(users)
