"""The chat on its socket, from listening to its end.

In: a chat, and a socket on loopback. Out: answers to `POST /chat`, the page at `/`. Never: listens anywhere else,
writes a log, or says anything of a request but to the one who sent it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from traceforge.chat.chat_connection import Connection
from traceforge.chat.chat_errors import Code, Refusal
from traceforge.chat.conversation import Chat
from traceforge.http.access import AccessPolicy
from traceforge.http.plain_response import JSON_TYPE, PlainResponse
from traceforge.http.serving import run_event_loop, set_on_signals

HOST = "127.0.0.1"
BACKLOG = 256
CONNECTIONS_MAX = 512  # Each may hold a body: 128 MiB. Beyond it a client is told to come back.
DRAIN_SECONDS = 10.0

_FRONTEND = Path(__file__).parent / "frontend"
_PAGES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/chat.css": ("chat.css", "text/css; charset=utf-8"),
    "/chat.js": ("chat.js", "text/javascript; charset=utf-8"),
}
# The page loads its own script and style and speaks to its own server; nobody may put it into a frame.
_PAGE_HEADERS = (
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options: nosniff",
    "Referrer-Policy: no-referrer",
    "Cross-Origin-Resource-Policy: same-origin",
)


class Site:
    """What all connections share."""

    def __init__(self, chat: Chat, say: Callable[[str], None]) -> None:
        self._chat = chat
        self._say = say
        self._guard = AccessPolicy(HOST)
        self._pages = {path: ((_FRONTEND / name).read_bytes(), kind) for path, (name, kind) in _PAGES.items()}
        self.connections: set[Connection] = set()

    def connect(self) -> asyncio.Protocol:
        """What speaks to the next client."""
        if len(self.connections) >= CONNECTIONS_MAX:
            return _Turned()
        return Connection(self._serve, self._guard, self.connections, self._failed)

    async def _serve(self, path: str, body: bytes) -> PlainResponse:
        if path == "/chat":
            return PlainResponse(200, JSON_TYPE, await self._chat.answer(body))
        if path == "/healthz":
            return PlainResponse(200, JSON_TYPE, b'{"status":"ok"}')
        page, kind = self._pages[path]
        return PlainResponse(200, kind, page, _PAGE_HEADERS)

    def _failed(self, exc: Exception) -> None:
        self._say(f"internal error: {type(exc).__name__}")  # Its text may hold what somebody said.

    def quiet(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What the loop would log, without what it would quote."""
        self._say(f"internal error: {type(context.get('exception')).__name__}")


class _Turned(asyncio.Protocol):
    """A client too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say no."""
        full = Refusal(Code.TOO_BUSY, "there are too many connections", hint="Try again later.")
        cast("asyncio.Transport", transport).write(
            PlainResponse(full.status, JSON_TYPE, full.body()).to_bytes(close=True)
        )
        transport.close()


def serve(chat: Chat, sock: socket.socket, ready: Callable[[], None], say: Callable[[str], None]) -> None:
    """Serve until a signal comes; turns in flight may end, a second signal stops at once."""
    run_event_loop(_serve(chat, sock, ready, say))


async def _serve(chat: Chat, sock: socket.socket, ready: Callable[[], None], say: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()
    stop, hurry = asyncio.Event(), asyncio.Event()
    set_on_signals(stop, hurry)
    site = Site(chat, say)
    loop.set_exception_handler(site.quiet)
    server = await loop.create_server(site.connect, sock=sock, backlog=BACKLOG)
    ready()
    with suppress(asyncio.CancelledError):  # Ctrl-C, where a loop knows no signals.
        await stop.wait()
    server.close()
    for connection in list(site.connections):
        connection.close_after()
    deadline = loop.time() + DRAIN_SECONDS
    while site.connections and loop.time() < deadline and not hurry.is_set():
        await asyncio.sleep(0.01)
    for connection in list(site.connections):
        connection.transport.abort()
    await asyncio.sleep(0)
