"""Runs first in every Python process under `traceforge run`, before anything of the application.

In: the text of `TRACEFORGE_RUN`. Out: a hello to the parent; the rest of the hook, once a module is imported through
which a process makes calls or starts children. Never: imports what a small program would not: most Pythons that a
command starts never call a model, and must not start later for it.

    address of the socket            unix:/tmp/traceforge-x/run
    token of the run
    variables to hide, or nothing    NAME US ours US +original (or - where there was none), joined by RS
    what a test may reach            see `tripwire.py`; empty outside tests
    options                          one JSON object

Imports inside functions, here and in `tripwire.py`, are deferred for this reason. CPU time on Python 3.11, where an
empty program takes 10 ms: the rest of the hook 14 ms, `typing` alone 13 ms; this module 0.3 ms.
"""

from __future__ import annotations

import _socket
import os
import sys

TYPE_CHECKING = False  # Type checkers take it for that of `typing`, whose import would cost more than all the rest.
if TYPE_CHECKING:
    from typing import Any

HELLO_S = 1.0  # How long a process waits at its start until its hello is taken.
TRIGGER_MODULES = frozenset(
    {
        "_pytest.config", "_pytest.fixtures", "_pytest.main", "_pytest.runner", "aiobotocore.credentials",
        "aiohttp", "aioresponses.core", "autobahn.websocket.protocol", "betamax", "betamax.cassette.cassette",
        "botocore.credentials", "botocore.session", "botocore.stub", "cassetter.cassette", "dspy.clients.cache",
        "grpc", "httpx", "httpx2", "mcp.client.sse", "mcp.client.stdio", "mcp.client.streamable_http",
        "moto.core.botocore_stubber", "multiprocessing.util", "picows", "pycurl", "pytest_httpx._httpx_mock",
        "requests", "requests_mock.adapter", "responses", "subprocess", "tornado.websocket",
        "traceforge.tools.watched_function", "urllib3", "uvloop", "vcr.cassette", "websocket",
        "websockets.asyncio.client", "websockets.legacy.client", "websockets.sync.client", "wsproto",
    }
)  # fmt: skip


def bootstrap(settings: str) -> None:
    """Load the hook as soon as there is something for it to watch."""
    address, token, variables, offline, options = settings.split("\n", 4)
    if variables:
        hide_variables(parse_variables(variables))
    send_hello(address, token, stack_start() if offline else "")
    if offline:
        from .tripwire import install_tripwire

        install_tripwire(offline, address, token)
    finder = FirstImportFinder(address, token, variables, options)
    if TRIGGER_MODULES.isdisjoint(sys.modules):
        sys.meta_path.insert(0, finder)
    else:
        finder.load_hook()


class FirstImportFinder:
    """A finder that finds nothing itself: it loads the hook at the first import that matters."""

    def __init__(self, address: str, token: str, variables: str, options: str) -> None:
        self._settings = address, token, variables, options

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        """Called by Python for every import."""
        if name not in TRIGGER_MODULES or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        try:
            return self.load_hook().find_spec(name)
        except Exception as exc:
            if '"plays": true' in self._settings[3]:
                raise ImportError(
                    f"TraceForge replay: this Python process could not be instrumented: {exc!r}"
                ) from exc
            return None

    def load_hook(self) -> Any:
        """Load the rest; returns the finder that takes the place of this one."""
        from .child_watcher import start_watching

        address, token, variables, options = self._settings
        return start_watching(address, token, parse_variables(variables), options)


def load_hook_now() -> None:
    """Load the hook without waiting for an import: `traceforge.capture` is about to use its modules."""
    for finder in sys.meta_path[:]:
        if isinstance(finder, FirstImportFinder):
            sys.meta_path.remove(finder)
            finder.load_hook()


def send_hello(address: str, token: str, start: str = "") -> None:
    """One frame on a connection of its own, written by hand: see `frames.py`."""
    start_field = b',"start":"%s"' % start.encode() if start else b""
    send_heads(address, [b'{"kind":"hello","pid":%d,"token":"%s"%s}' % (os.getpid(), token.encode(), start_field)])


def send_heads(address: str, heads: list[bytes]) -> None:
    """Send frames without chunks to the parent; where it is gone, they are dropped."""
    kind, _, path = address.partition(":")
    host, _, port = path.rpartition(":")
    family = _socket.AF_UNIX if kind == "unix" else _socket.AF_INET
    connection = _socket.socket(family, _socket.SOCK_STREAM)
    frames = [(len(head) + 4).to_bytes(4, "big") + len(head).to_bytes(4, "big") + head for head in heads]
    try:
        connection.settimeout(HELLO_S)
        connection.connect(path if kind == "unix" else (host, int(port)))
        if is_own_peer(connection, address):
            connection.send(b"".join(frames))
    except OSError:
        pass
    finally:
        connection.close()


def is_own_peer(connection: Any, address: str) -> bool:
    """Whether this user listens at the other end. When a run has ended, anybody may take the name of its socket."""
    kind, _, path = address.partition(":")
    if kind != "unix":
        return True
    try:
        if hasattr(_socket, "SO_PEERCRED"):  # pid, uid and gid, four bytes each; and no look at the disk
            data = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
            return int.from_bytes(data[4:8], sys.byteorder) == os.geteuid()
        status = os.lstat(os.path.dirname(path))
    except OSError:
        return False
    return status.st_mode & 0o170077 == 0o040000 and status.st_uid == os.geteuid()  # a folder, closed to others


def stack_start() -> str:
    """The address at which the stack of this process begins: random for each program that is started, and shared by
    its forks. So it tells which processes run the same program.
    """
    try:
        with open("/proc/self/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[25].decode()
    except (OSError, IndexError):
        return ""


def parse_variables(text: str) -> dict[str, tuple[str, str | None]]:
    """By name, our value and the user's."""
    variables = {}
    for entry in text.split("\x1e") if text else ():
        name, ours, original = entry.split("\x1f")
        variables[name] = ours, (original[1:] if original.startswith("+") else None)
    return variables


def hide_variables(variables: dict[str, tuple[str, str | None]]) -> None:
    """Let the application see what the user had set.

    Python keeps a copy of the environment. Taking a variable out of the copy alone hides it from the application,
    while a child that is started without an environment of its own inherits the real one.
    """
    data: Any = getattr(os.environ, "_data", None)
    for name, (ours, original) in variables.items():
        if os.environ.get(name) != ours:
            continue  # a parent of this process has set another
        if data is None:  # a Python that keeps its environment in another way
            del os.environ[name]
        elif original is None:
            del data[os.environ.encodekey(name)]
        else:
            data[os.environ.encodekey(name)] = os.environ.encodevalue(original)
